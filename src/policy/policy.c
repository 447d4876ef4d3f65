/* policy.c: the table; see policy.h. */
#include "policy/policy.h"

#include <stddef.h>

const struct psd_policy *const psd_policies[] = {
    &psd_policy_sync,
    &psd_policy_hogwild,
    NULL,
};
