/*
 * host.h: the worker's half of the path on one host, over the board of
 * shared memory (reduce/board.h): publish where a block lies, sum whatever is
 * complete, copy out what had to be staged.
 *
 * A block in flight is unsent (its memory is private and not staged yet) ->
 * posted -> gone. Private memory is staged a little ahead only, in memory
 * that was just used, so that it stays in the cache; when that could stop
 * everybody (ranks push in different orders) more is staged.
 *
 * Everything runs under the owner's lock.
 */
#ifndef PSD_WORKER_HOST_H
#define PSD_WORKER_HOST_H

#include "base/list.h"
#include "memory/arena.h"
#include "reduce/board.h"
#include "worker/worker.h"

#define HOST_STAGE_AHEAD (1u << 20) /* bytes staged before others catch up */
#define HOST_STAGE_MORE (256u << 10) /* beyond that while all are stuck */
#define HOST_HELP_MIN (512u << 10)  /* worth waking a sleeper for */
#define HOST_KEEP_MIN (4u << 20)    /* keep_min where cores are short */

#define HOST_LOOK_BACK 16           /* older blocks finished in a push */

struct host_block {
    struct list node; /* in pending */
    char *stage;      /* the arena's memory for it; NULL: the caller's */
    uint64_t step;
    bool posted;
};

struct host {
    struct board board;
    struct arena *arena;
    struct flight *flights;    /* by tensor; the owner's array */
    struct host_block *blocks; /* by block */
    uint32_t block_count;
    struct list pending;       /* blocks in flight, in order of push */
    size_t staged;             /* bytes */
    size_t spare;              /* beyond HOST_STAGE_AHEAD, in this pass */
    size_t burst;              /* what an urgent pass may; doubles until some
                                * block is done */
    uint64_t keep_min;         /* private tensors from this size on are kept
                                * by the owners of their blocks: less to copy,
                                * but every rank has to run once more */
    unsigned helpers;          /* sleepers worth waking for a large tensor */
    void *user;
    void (*done)(void *user, uint32_t tensor);
};

psd_status host_init(struct host *host, const struct shm_board *shm,
                     const struct model *model, uint32_t rank, uint32_t ranks,
                     char **arenas, struct arena *arena);
void host_fini(struct host *host);

/* After model_add, before anybody publishes the new blocks. */
psd_status host_add(struct host *host, struct flight *flights);

/* The flight of `tensor` is filled in: publish it, and sum what thereby
 * became complete. */
void host_post(struct host *host, uint32_t tensor);

/* Bring everything in flight forward. `urgent`: nothing moved for a while, so
 * more may be staged. Returns how many blocks moved. */
unsigned host_progress(struct host *host, bool urgent);

/* A block of `tensor` (UINT32_MAX: of any) that is still in flight; sleep
 * until it is done. UINT32_MAX: none. */
uint32_t host_pending(const struct host *host, uint32_t tensor);

#endif
