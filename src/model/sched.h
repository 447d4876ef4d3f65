/*
 * sched.h: which block next. One bounded priority queue per link: a higher
 * priority first, among equals the one that came first. One thread.
 */
#ifndef PSD_MODEL_SCHED_H
#define PSD_MODEL_SCHED_H

#include <stdint.h>

#include "poseidon.h"

struct sched_item {
    int32_t priority;
    uint32_t block;
    uint64_t order;
};

struct sched {
    struct sched_item *items; /* a binary heap */
    uint32_t count;
    uint32_t capacity;
    uint64_t next_order;
};

/* Room for `capacity` blocks; each block is in the queue at most once, so
 * that is the number of blocks of the link. Keeps what is queued. */
psd_status sched_reserve(struct sched *sched, uint32_t capacity);
void sched_fini(struct sched *sched);
void sched_put(struct sched *sched, uint32_t block, int32_t priority);
/* The next block, UINT32_MAX when there is none. */
uint32_t sched_peek(const struct sched *sched);
void sched_pop(struct sched *sched);

#endif
