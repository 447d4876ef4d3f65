/*
 * shard.h: the server's half of the path: a push goes into the slot of its
 * rank; when the policy says that the round is complete the block is summed
 * and every rank is answered. A shard owns the blocks that the model placed
 * on it. A state machine without I/O or threads of its own: it runs in a
 * thread of `psd server`, inside a worker that plays the role, and in the
 * simulator.
 *
 * Exactly once: a push is (rank, incarnation, step, block) in an epoch. One
 * that is there already, or older, is not counted again; if its round is over
 * the answer is sent again (the result stays until every rank has pushed the
 * next step, which it does only after it has the answer). Where ranks step
 * apart (SHARED) the answer of a rank is in its own slot, for the same reason.
 *
 * Everything runs under the owner's lock.
 */
#ifndef PSD_SERVER_SHARD_H
#define PSD_SERVER_SHARD_H

#include "model/model.h"
#include "model/sched.h"
#include "policy/policy.h"
#include "reduce/reduce.h"
#include "transport/transport.h"

/* What one rank has said about one block in the open round. */
struct shard_slot {
    char *data;       /* the span, or this shard's own copy */
    char *answer;     /* in place: where the answer goes; NULL: by frame */
    double weight;
    uint32_t length;
    uint16_t flags;
    uint8_t op;
    uint32_t bad;     /* SHARED: of its last push, as in reduce_round */
};

struct shard_block {
    const struct psd_policy *policy;
    struct psd_tally tally;
    char *buffer;             /* ranks x size, then the result; untouched
                               * pages cost nothing */
    char *result;
    float *value;             /* STORE: value and slots; SHARED: value */
    uint32_t result_length;
    uint16_t result_flags;
    uint32_t contributors;
    uint32_t bad;             /* as in reduce_round */
    struct shard_slot *slots; /* by rank */
};

struct shard_rank {
    struct psd_link *link; /* NULL: not connected */
    uint32_t incarnation;
    struct sched sched;    /* answers to send */
    uint8_t *queued;       /* by local block: it is in the sched */
    uint64_t past_sent;    /* bytes over links of it that are gone */
    uint64_t past_received;
    uint32_t joined;       /* generation + 1 in which it joined last */
    bool joined_sent;
};

struct shard {
    const struct model *model;
    uint32_t index;
    uint32_t ranks;
    uint32_t epoch;
    uint32_t generation;       /* of join */
    struct rankset live;       /* ranks that have not joined */
    struct shard_rank *rank;
    uint32_t *local;           /* by block id: index + 1 in blocks; 0: not
                                * ours */
    uint32_t local_count;      /* length of `local` */
    struct shard_block *blocks;
    uint32_t block_count;
    struct reduce_round round;
    struct shard_memory *memory; /* what was mapped, batch by batch */
    /* A worker sent what makes no sense here: no link that is opened again
     * would mend it. NULL: nobody wants to know. */
    void (*wrong)(void *user, uint32_t rank);
    void *user;
};

psd_status shard_init(struct shard *shard, const struct model *model,
                      uint32_t index, uint32_t ranks);
void shard_fini(struct shard *shard); /* closes the links */

/* After model_add: slots for the new blocks of this shard. */
psd_status shard_add(struct shard *shard);

/* What links from workers get; `user` is the shard. */
extern const struct link_events shard_link_events;

/* A proven link of `link->identity`; an older one of the same rank is closed
 * (the worker has lost it). Refuses a rank outside the job, and an
 * incarnation older than the one it knows. */
enum auth_verdict shard_accept(struct shard *shard, struct psd_link *link);

/* Something is still to be sent. */
bool shard_busy(const struct shard *shard);
/* Adds the payload that has gone over sockets. */
void shard_traffic(const struct shard *shard, uint64_t *sent_p,
                   uint64_t *received_p);
/* Every rank has its link here. */
bool shard_complete(const struct shard *shard);

#endif
