/*
 * hogwild.c: every rank on its own clock (Niu et al. 2011). A push counts when
 * it is the next one of its rank, and closes a round of that rank alone, so
 * nobody waits for anybody. Unlike the paper's, no update is lost: whoever
 * holds the value adds one push at a time.
 */
#include "policy/policy.h"

static bool hogwild_accept(struct psd_tally *tally, uint32_t rank,
                           uint64_t step)
{
    return step == tally->turn[rank] && rankset_add(&tally->arrived, rank);
}

static bool hogwild_complete(const struct psd_tally *tally)
{
    static const struct rankset nobody;

    return !rankset_includes(&nobody, &tally->arrived);
}

const struct psd_policy psd_policy_hogwild = {
    .name = "hogwild",
    .summary = "an update per push, without waiting for another worker",
    .apart = true,
    .accept = hogwild_accept,
    .complete = hogwild_complete,
};
