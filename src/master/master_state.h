/*
 * master_state.h: what the files of the master share; nobody else includes it.
 * master.c dispatches, sends and ends; roll.c keeps who is in.
 */
#ifndef PSD_MASTER_MASTER_STATE_H
#define PSD_MASTER_MASTER_STATE_H

#include "launch/launch_message.h"
#include "master/batch.h"
#include "master/master.h"
#include "master/proof.h"
#include "master/stall.h"
#include "master/view.h"
#include "model/model.h"

#define MASTER_FIRST_EPOCH 1u

struct master_seat {
    bool entered;
    bool left; /* by BYE */
    bool lost;
    bool placed; /* server: TABLE_OK of this batch is in */
    uint32_t pid;
    uint32_t url_count;
    char (*urls)[MESSAGE_URL_MAX];
};

struct master {
    uint32_t workers;
    uint32_t servers;
    uint32_t threads;     /* of each server; once all have entered, that is
                           * it */
    uint32_t threads_max;
    uint32_t block_size;  /* the largest wanted so far; 0: none */
    struct master_events events;
    struct master_seat *seats; /* workers, then servers */
    uint32_t entered;
    uint32_t open;  /* servers that have opened their shards */
    uint32_t epoch; /* 0: not everybody is in yet */
    struct batch batch;
    uint32_t placing;   /* servers whose TABLE_OK is awaited */
    struct model model; /* for names and ids; one shard */
    struct proof_table *proofs;
    uint64_t compared;
    uint64_t differences;
    struct view view;
    struct stall stall;
    bool over;
    struct message_end end; /* once over */
};

/* Whom a frame is from: a seat with its name. */
struct master_member {
    struct master_seat *seat;
    bool is_server;
    uint32_t rank;
    const char *role; /* "worker", "server" */
};

struct master_member master_member(const struct master *master, uint32_t index);
uint32_t master_member_count(const struct master *master);
bool master_all_entered(const struct master *master);

/* A frame to a member, or to psd_run when `to` is NULL. */
void master_send(struct master *master, const struct master_member *to,
                 unsigned type, uint32_t block, const void *payload,
                 size_t size);
void master_send_pack(struct master *master, const struct master_member *to,
                      unsigned type, uint32_t block, const struct pack *pack);
void master_send_end(struct master *master, const struct master_member *to,
                     const struct message_end *end);

/* Tell psd_run why, then everybody who is left. `culprit` may be NULL. */
void master_end(struct master *master, psd_status status, int code,
                const struct master_member *culprit, const char *reason);
/* The same for bytes that make no sense: `what` was sent. */
void master_end_protocol(struct master *master,
                         const struct master_member *culprit, const char *what);
/* Somebody registers and somebody has gone home: nobody can go on. */
void master_check_leavers(struct master *master);

/* roll.c: handlers of their frames. */
void roll_enter(struct master *master, const struct master_member *from,
                const struct frame_header *header, const void *payload);
void roll_shards(struct master *master, const struct master_member *from,
                 const struct frame_header *header, const void *payload);
void roll_bye(struct master *master, const struct master_member *from,
              const struct frame_header *header, const void *payload);

/* stall.c: likewise; and, before the last view, what is over by then. */
void stall_last(struct master *master);
void stall_stuck(struct master *master, const struct master_member *from,
                 const struct frame_header *header, const void *payload);
void stall_who(struct master *master, const struct master_member *from,
               const struct frame_header *header, const void *payload);

#endif
