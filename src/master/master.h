/*
 * master.h: membership, registration, digests: what one place has to decide
 * for a job. A state machine without I/O: frames go in by master_deliver, and
 * out by `send`; the process (bin/psd_master.c) and the simulator move them.
 * Time is clock_ns, which a simulator replaces. One thread.
 *
 *     ENTER of everybody       -> SHAPE to the servers: how many shards each
 *                                 opens, what tensors are cut into
 *     SHARDS of every server   -> epoch 1, MEMBERS to everybody; without
 *                                 servers at once
 *     REGISTER of every worker -> equal: TABLE to the servers, their TABLE_OK,
 *                                 REGISTERED to the workers
 *                                 different: the job ends, the text says how
 *     DIGEST                   -> compared; a difference ends the job
 *     ABORT, a lost member     -> END to all who are left
 *     BYE                      -> LEFT to the workers who stay (header.block
 *                                 is the rank that left)
 *     METRICS                  -> VIEW, at most ten a second
 *     STUCK, then time         -> WHO to everybody, their WHO back, STALL to
 *                                 psd_run: who holds the others up
 *
 * The job ends once: after the first END to all, and its VERDICT to psd_run,
 * whatever comes is answered by the same END.
 */
#ifndef PSD_MASTER_MASTER_H
#define PSD_MASTER_MASTER_H

#include <stdbool.h>

#include "wire/wire.h"

#define MASTER_EXIT_DIFFER      65 /* verdict: the workers' models differ */
#define MASTER_EXIT_UNAVAILABLE 69 /* verdict: somebody is missing */
#define MASTER_EXIT_PROTOCOL    76 /* verdict: a member broke the protocol */

#define MASTER_BLOCK_SIZE (256u << 10) /* when no worker wants another */

#define MASTER_STALL_S     60
#define MASTER_STALL_STEPS 10

struct master;

struct master_events {
    void *user;
    /* One frame for the member that header->rank (with FRAME_FLAG_SERVER)
     * names; FRAME_VERDICT and FRAME_VIEW are for psd_run. Borrows both. */
    void (*send)(void *user, const struct frame_header *header,
                 const void *payload);
};

/* How many there are. The shards of each server are as many as the worker that
 * wants most of them wants, but `threads` at least and `threads_max` at
 * most. */
struct master_size {
    uint32_t workers;
    uint32_t servers;
    uint32_t threads;
    uint32_t threads_max;
};

/* Copies `events`. PSD_EINVAL: no job is of that size. */
psd_status master_create(const struct master_size *size,
                         const struct master_events *events,
                         struct master **master_p);
void master_destroy(struct master *master); /* NULL allowed */

/* One frame of the member that header->rank names, or of psd_run (LOST,
 * STOP). A member's bad bytes end the job; PSD_EPROTO is for a frame that no
 * member can have sent. */
psd_status master_deliver(struct master *master,
                          const struct frame_header *header,
                          const void *payload);

/* After how long a wait is a stall; 0, as from the start: MASTER_STALL_S, or
 * MASTER_STALL_STEPS times the median step when that is more. */
void master_stall_after(struct master *master, uint64_t after_ns);
/* Time has passed: look for stalls. Several times a second, when everything
 * that had come was delivered. After a pause of more than a second, in which
 * nothing was heard, the next look begins anew. */
void master_tick(struct master *master);

/* A member is gone; `sentence` names it and how. */
void master_lost(struct master *master, bool is_server, uint32_t rank,
                 const char *sentence);

#endif
