/*
 * worker.h: the worker's half of the path, over links: schedule, encode,
 * send; place the answer, finish. A state machine without I/O of its own and
 * without threads: the session drives it, and so does the simulator.
 *
 * A block is idle -> queued (in its shard's sched) when it is released -> sent
 * -> idle when its answer is in. A lost link puts what was sent back into the
 * queue; the shard counts it once.
 *
 * Everything runs under the owner's lock.
 */
#ifndef PSD_WORKER_WORKER_H
#define PSD_WORKER_WORKER_H

#include "model/model.h"
#include "model/sched.h"
#include "transport/transport.h"

/* Paced: blocks of one tensor that are queued or sent and not answered, so
 * many per shard, or this part of what is left. See pump.c. */
#define WORKER_AHEAD 8
#define WORKER_AHEAD_PART 3

/* One exchange of one tensor. */
struct flight {
    uint64_t step;        /* of the push in flight, or of the next one */
    const char *data;     /* NULL: absent, or zeros if weight is above 0 */
    char *out;            /* where the answer goes */
    char *base;           /* SHARED: subtracted from data, takes the answer,
                           * too; NULL: none */
    char *staged;         /* memory that the path reads and writes instead of
                           * data and out; NULL: none */
    uint64_t *counts;     /* GATHER: the caller's */
    double weight;
    uint32_t length;      /* GATHER: bytes contributed */
    uint32_t blocks_left; /* not answered */
    uint32_t blocks_next; /* the first that is not released */
    uint32_t contributors;
    uint32_t bad;         /* as in psd_result, of the blocks so far */
    uint16_t flags;       /* FRAME_FLAG_NOBODY ... of the answer */
    uint8_t op;
    bool in_flight;       /* not answered yet */
    uint64_t ticket;      /* the owner's: whose turn to wait it is */
    uint64_t traced_ns;   /* the owner's: when it was pushed, with --trace */
};

enum worker_block_state {
    WORKER_IDLE,
    WORKER_QUEUED,
    WORKER_SENT,
};

struct worker_shard {
    struct psd_link *link; /* NULL: not there */
    bool up;
    bool joined;           /* FRAME_JOINED has come */
    bool join_sent;
    struct sched sched;
};

struct worker {
    const struct model *model;
    uint32_t rank;
    uint32_t ranks;
    uint32_t incarnation;
    uint32_t epoch;
    uint32_t shard_count;
    struct worker_shard *shards;
    struct flight *flights; /* by tensor; the owner's array */
    uint8_t *state;         /* by block */
    uint32_t state_count;
    uint32_t generation;    /* of join */
    bool paced;             /* between hosts; the owner's to set */
    bool joining;
    uint64_t past_sent;     /* bytes over links that are gone */
    uint64_t past_received;
    void *user;
    /* All blocks of a tensor are answered. */
    void (*done)(void *user, uint32_t tensor);
    /* A link went down; open another and call worker_link. */
    void (*lost)(void *user, uint32_t shard, psd_status why);
};

psd_status worker_init(struct worker *worker, const struct model *model,
                       uint32_t rank, uint32_t ranks, uint32_t shard_count);
void worker_fini(struct worker *worker); /* closes the links */

/* After model_add: room for its new blocks. `flights` is the owner's array,
 * of model->tensor_count. */
psd_status worker_add(struct worker *worker, struct flight *flights);

/* What links to shards are opened with; `user` is the worker. */
extern const struct link_events worker_link_events;
/* This link leads to `shard`; `up` tells when it carries frames. */
void worker_link(struct worker *worker, uint32_t shard,
                 struct psd_link *link);
/* For links that are up from the start (shm). */
void worker_link_up(struct worker *worker, struct psd_link *link);

/* The flight of `tensor` is filled in: release its first blocks. */
void worker_post(struct worker *worker, uint32_t tensor);
/* A block of `tensor` is answered: release and send what may follow. */
void worker_release(struct worker *worker, uint32_t tensor);
/* Queue what can be sent; small things are kept together until the end of the
 * dispatch, or worker_flush. */
void worker_pump(struct worker *worker);
void worker_flush(struct worker *worker);

/* Out of data. worker_joined is true when every rank is, at every shard; the
 * flights' steps are then those of the others. */
void worker_join(struct worker *worker);
bool worker_joined(struct worker *worker);

#endif
