/*
 * cluster.h: a whole job in one thread: workers, shards and the master, over
 * inproc links with a virtual clock. A seed decides sizes, weights, orders
 * and faults; the same seed gives the same run.
 */
#ifndef PSD_TESTS_SIM_CLUSTER_H
#define PSD_TESTS_SIM_CLUSTER_H

#include "master/master.h"
#include "server/shard.h"
#include "transport/inproc.h"
#include "worker/worker.h"

struct cluster_plan {
    uint64_t seed;
    uint32_t workers;
    uint32_t shards;
    uint32_t tensors;
    uint32_t tensor_max;      /* elements of the largest tensor */
    uint32_t steps;           /* rank r makes steps - r % (spread + 1) */
    uint32_t spread;          /* uneven data: ranks join early */
    bool differ;              /* the last worker registers another model */
    uint32_t dies_at;         /* a worker dies when so many answers have come
                               * in all; 0: nobody */
    bool shard_dies;          /* that one is a shard instead */
    struct inproc_faults faults;
};

struct cluster_result {
    uint64_t answers;         /* tensors answered, over all workers */
    uint64_t wrong;           /* of those, not the reference to the bit */
    uint32_t finished;        /* workers that made all their steps */
    uint32_t told;            /* workers that got END */
    uint32_t links_lost;
    bool hung;                /* nothing could move any more */
    uint32_t digest;          /* crc over all answers in order of (rank,
                               * tensor, step): equal runs, equal digest */
    char reason[512];         /* of the first END */
};

void cluster_run(const struct cluster_plan *plan,
                 struct cluster_result *result);

#endif
