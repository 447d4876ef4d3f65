/* sync.c: synchronous SGD. A round closes when every live rank is in. */
#include "policy/policy.h"

static bool sync_accept(struct psd_tally *tally, uint32_t rank, uint64_t step)
{
    return step == tally->step && rankset_add(&tally->arrived, rank);
}

static bool sync_complete(const struct psd_tally *tally)
{
    static const struct rankset nobody;

    return rankset_includes(&tally->arrived, tally->live) &&
           !rankset_includes(&nobody, &tally->arrived);
}

const struct psd_policy psd_policy_sync = {
    .name = "sync",
    .summary = "one update per round, from every live worker",
    .accept = sync_accept,
    .complete = sync_complete,
};
