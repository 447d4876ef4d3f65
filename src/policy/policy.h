/*
 * policy.h: whether a push counts and when a round closes. Rows answer
 * questions about one block's tally; the core (server/shard.c) acts. No I/O,
 * lock, clock or allocation; any thread.
 */
#ifndef PSD_POLICY_POLICY_H
#define PSD_POLICY_POLICY_H

#include <stdbool.h>
#include <stdint.h>

#include "wire/wire.h"

struct rankset {
    uint64_t bits[WIRE_RANKS_MAX / 64];
};

static inline bool rankset_has(const struct rankset *set, uint32_t rank)
{
    return (set->bits[rank / 64] >> (rank % 64) & 1) != 0;
}

/* False when it was there already. */
static inline bool rankset_add(struct rankset *set, uint32_t rank)
{
    bool had = rankset_has(set, rank);

    set->bits[rank / 64] |= UINT64_C(1) << (rank % 64);
    return !had;
}

static inline void rankset_remove(struct rankset *set, uint32_t rank)
{
    set->bits[rank / 64] &= ~(UINT64_C(1) << (rank % 64));
}

static inline bool rankset_includes(const struct rankset *set,
                                    const struct rankset *part)
{
    for (unsigned i = 0; i < WIRE_RANKS_MAX / 64; i++) {
        if ((part->bits[i] & ~set->bits[i]) != 0) {
            return false;
        }
    }
    return true;
}

struct psd_tally {
    uint64_t step;                /* the round that is open */
    struct rankset arrived;       /* in this round */
    const struct rankset *live;   /* ranks that take part: not joined */
    uint64_t *turn;               /* rows that step apart: the step that each
                                   * rank pushes next; else NULL */
};

/* The step that `rank` pushes next. */
static inline uint64_t tally_step(const struct psd_tally *tally,
                                  uint32_t rank)
{
    return tally->turn != NULL ? tally->turn[rank] : tally->step;
}

struct psd_policy {
    const char *name;
    const char *summary;
    bool apart; /* each rank counts its own steps; a round is of one rank */
    /* Does this push count? Records it in the tally if so. */
    bool (*accept)(struct psd_tally *tally, uint32_t rank, uint64_t step);
    /* Close the round now? Asked after each accepted push and each
     * departure. */
    bool (*complete)(const struct psd_tally *tally);
};

extern const struct psd_policy psd_policy_sync;
extern const struct psd_policy psd_policy_hogwild;

/* Every row there is; ends with NULL. */
extern const struct psd_policy *const psd_policies[];

#endif
