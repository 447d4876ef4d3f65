/*
 * region.h: shared memory without a name: sparse memfds that the agent makes
 * and hands to the members, so that nothing lies in /dev/shm. One thread.
 */
#ifndef PSD_LAUNCH_REGION_H
#define PSD_LAUNCH_REGION_H

#include "poseidon.h"

struct region_set {
    int *fds; /* the board, then one arena per local worker */
    uint32_t count;
    uint64_t board_size;
    uint64_t arena_size;
};

/* Make them, sealed against resizing, and format the board. `shards` is 0
 * when the workers play the role. PSD_ESYSTEM with a log line. */
psd_status region_set_init(struct region_set *set, uint32_t workers,
                           uint32_t shards, uint32_t local_workers);
void region_set_fini(struct region_set *set);

#endif
