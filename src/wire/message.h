/*
 * message.h: the payloads of the member frames, as structs. Encoders write
 * into a pack; decoders check everything and return PSD_EPROTO with a log
 * line. What a decoder allocates, the matching _fini frees.
 */
#ifndef PSD_WIRE_MESSAGE_H
#define PSD_WIRE_MESSAGE_H

#include "wire/auth.h"
#include "wire/pack.h"
#include "wire/wire.h"

#define MESSAGE_URL_MAX 256
#define MESSAGE_BUILD_MAX 64

/* FRAME_HELLO, member -> its agent. The agent checks pid by SO_PEERCRED and
 * answers FRAME_WELCOME, or FRAME_END with the reason. */
struct message_hello {
    uint8_t is_server;
    uint32_t rank;        /* worker's rank, or server's index */
    uint32_t incarnation;
    uint32_t pid;
    char build[MESSAGE_BUILD_MAX]; /* psd_version(), must be equal */
};

/* FRAME_WELCOME, agent -> member; over the Unix socket with SCM_RIGHTS: the
 * board region, then one arena per local worker, in local rank order. */
struct message_welcome {
    struct auth_job job;
    uint32_t workers;         /* of the job */
    uint32_t shards;          /* servers': what the board has room for; 0: the
                               * workers play the role themselves */
    uint32_t local_workers;   /* sharing this host's board */
    uint32_t local_rank;      /* workers: mine */
    uint32_t server_threads;  /* of each server, at most */
    uint64_t board_size;
    uint64_t arena_size;      /* of each arena */
    char host[MESSAGE_URL_MAX]; /* address to listen on */
    char ports[32];           /* "0", or "7000-7100" */
};

/* FRAME_ENTER, member -> master: here, and ready for links. One URL for the
 * shard that a worker plays ("tcp:HOST:PORT"); none where it plays none, and
 * none of a server, which has no shards yet. */
struct message_enter {
    uint32_t pid;
    uint32_t threads;    /* wanted of each server; 0: any */
    uint32_t block_size; /* wanted; 0: any */
    uint32_t url_count;
    char (*urls)[MESSAGE_URL_MAX];
};

/* FRAME_SHAPE, master -> server: everybody has entered, open your shards. */
struct message_shape {
    uint32_t threads; /* shards of each server */
    uint32_t block_size;
};

/* FRAME_SHARDS, server -> master: one URL per shard of it ("tcp:HOST:PORT";
 * "shm:INDEX" when it is reached through the board). */
struct message_shards {
    uint32_t url_count;
    char (*urls)[MESSAGE_URL_MAX];
};

/* FRAME_MEMBERS, master -> members: everybody is here. */
struct message_members {
    uint32_t epoch;
    uint32_t workers;
    uint32_t block_size;
    uint32_t shard_count;
    char (*urls)[MESSAGE_URL_MAX]; /* by shard */
};

/* FRAME_REGISTER and FRAME_TABLE; header.block is the batch number. */
struct message_spec {
    char name[WIRE_NAME_MAX + 1];
    uint8_t dtype;
    uint8_t kind;
    uint64_t count;
    int32_t priority;
    char optim[32];
    double rate;
    double momentum;
};

struct message_table {
    uint32_t count;
    struct message_spec *specs;
};

/* FRAME_DIGEST: proofs of replicas. */
struct message_proof {
    uint32_t tensor;
    uint32_t kind; /* 0: an answer; 1: a parameter (psd_audit) */
    uint64_t step;
    uint32_t crc;
};

struct message_digest {
    uint32_t count;
    struct message_proof *proofs;
};

/* FRAME_METRICS, about once a second and at the end. Totals since the start,
 * except step and loss. The two times are those of the moment when `step` was
 * reached, so that two reports give the time of the steps between them
 * exactly, however long a step is. */
struct message_metrics {
    uint64_t step;
    double loss;          /* NaN: unknown */
    uint64_t samples;
    uint64_t exchanged_bytes; /* payload of answered pushes */
    uint64_t sent_bytes;      /* over sockets */
    uint64_t received_bytes;
    uint64_t elapsed_ns;      /* since everybody was in, up to `step` */
    uint64_t wait_ns;         /* of these, inside psd_wait; never more */
    uint64_t proofs;          /* digests handed in */
};

/* FRAME_ABORT (code, reason), FRAME_END (status, reason). */
struct message_end {
    int32_t status; /* END: psd_status for the member; ABORT: exit code */
    char reason[WIRE_TEXT_MAX];
};

void message_hello_pack(struct pack *pack, const struct message_hello *hello);
psd_status message_hello_unpack(struct message_hello *hello, const void *data,
                                size_t size);
void message_welcome_pack(struct pack *pack,
                          const struct message_welcome *welcome);
psd_status message_welcome_unpack(struct message_welcome *welcome,
                                  const void *data, size_t size);
void message_enter_pack(struct pack *pack, const struct message_enter *enter);
psd_status message_enter_unpack(struct message_enter *enter, const void *data,
                                size_t size);
void message_enter_fini(struct message_enter *enter);
void message_shape_pack(struct pack *pack, const struct message_shape *shape);
psd_status message_shape_unpack(struct message_shape *shape, const void *data,
                                size_t size);
void message_shards_pack(struct pack *pack,
                         const struct message_shards *shards);
psd_status message_shards_unpack(struct message_shards *shards,
                                 const void *data, size_t size);
void message_shards_fini(struct message_shards *shards);
void message_members_pack(struct pack *pack,
                          const struct message_members *members);
psd_status message_members_unpack(struct message_members *members,
                                  const void *data, size_t size);
void message_members_fini(struct message_members *members);
void message_table_pack(struct pack *pack, const struct message_table *table);
psd_status message_table_unpack(struct message_table *table, const void *data,
                                size_t size);
void message_table_fini(struct message_table *table);
void message_digest_pack(struct pack *pack,
                         const struct message_digest *digest);
psd_status message_digest_unpack(struct message_digest *digest,
                                 const void *data, size_t size);
void message_digest_fini(struct message_digest *digest);
void message_metrics_pack(struct pack *pack,
                          const struct message_metrics *metrics);
psd_status message_metrics_unpack(struct message_metrics *metrics,
                                  const void *data, size_t size);
void message_end_pack(struct pack *pack, const struct message_end *end);
psd_status message_end_unpack(struct message_end *end, const void *data,
                              size_t size);

#endif
