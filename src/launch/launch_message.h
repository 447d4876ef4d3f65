/*
 * launch_message.h: the payloads of the launch frames, between psd_run, its
 * agents and its master. Encoders write into a pack; decoders check everything
 * and return PSD_EPROTO with a log line. What a decoder allocates, the
 * matching _fini frees.
 *
 * FRAME_OUTPUT has no struct: its payload is the bytes, header.rank the
 * process, header.block the stream (LAUNCH_STREAM_*). The same type without a
 * payload runs back to the agent with header.credit: bytes that have reached
 * the screen.
 */
#ifndef PSD_LAUNCH_LAUNCH_MESSAGE_H
#define PSD_LAUNCH_LAUNCH_MESSAGE_H

#include "wire/message.h"

#define LAUNCH_PATH_MAX  4096
#define LAUNCH_WORDS_MAX 65536u       /* words of a command, variables */
#define LAUNCH_WORD_MAX  (128u << 10) /* the kernel's own limit for one */
#define LAUNCH_TAIL_MAX  8192         /* end of a dead process's output */
#define LAUNCH_NAME_MAX  128

#define LAUNCH_STREAM_STDOUT 1u
#define LAUNCH_STREAM_STDERR 2u

/* Strings in order; `words` ends with a NULL beyond count, as execv wants. */
struct launch_words {
    uint32_t count;
    char **words;
};

/* FRAME_START, psd_run -> agent: what to run on that host. */
struct launch_start {
    struct auth_job job;
    uint32_t workers; /* of the job */
    uint32_t servers; /* of the job */
    uint32_t threads; /* of each server */
    uint8_t shell;    /* 1: command has one word, for sh -c */
    uint8_t tee_all;  /* 1: forward the output of every worker */
    char name[LAUNCH_NAME_MAX];
    char host[MESSAGE_URL_MAX]; /* address to listen on */
    char ports[32];
    char folder[LAUNCH_PATH_MAX]; /* working directory */
    char logs[LAUNCH_PATH_MAX];   /* log folder, exists */
    uint32_t local_workers;       /* ranks that this agent starts */
    uint32_t *worker_ranks;
    uint32_t local_servers;
    uint32_t *server_ranks;
    struct launch_words command;
    struct launch_words variables; /* NAME=value, over what is inherited */
};

/* FRAME_STARTED, agent -> psd_run; header.rank is the process. A code other
 * than 0 (71, 126, 127 ...) means: it could not be started, the agent has
 * ended the others and `reason` says why. With code 0 `reason` is the agent's
 * private folder. */
struct launch_started {
    int32_t code;
    uint32_t pid;
    char reason[WIRE_TEXT_MAX];
};

/* FRAME_EXITED, agent -> psd_run; header.rank is the process. */
struct launch_exited {
    uint32_t pid;
    uint8_t code;               /* exit code, when signal is 0 */
    uint8_t signal;             /* that killed it */
    char tail[LAUNCH_TAIL_MAX]; /* of its stderr, when it failed */
};

/* FRAME_STOP, psd_run -> agent: SIGTERM to everything, SIGKILL `grace_ms`
 * later (0: at once), then end. psd_run -> master: one last view, then end
 * (the payload is the same and not looked at). */
struct launch_stop {
    uint32_t grace_ms;
};

/* FRAME_LOST, psd_run -> master: header.rank is gone, `reason` names it.
 * agent -> psd_run: the session of header.rank ended without a goodbye. */
struct launch_lost {
    uint32_t pid;
    char reason[WIRE_TEXT_MAX];
};

/* FRAME_VERDICT, master -> psd_run: why the job ends. */
struct launch_verdict {
    int32_t status;      /* psd_status that the members were told */
    int32_t code;        /* for psd_run to exit with; 0: the culprit's own */
    uint8_t has_culprit; /* the next two mean something */
    uint8_t is_server;
    uint32_t rank;
    char reason[WIRE_TEXT_MAX];
};

/* FRAME_VIEW, master -> psd_run: how training goes. */
struct launch_view {
    uint8_t final;       /* 1: the answer to FRAME_STOP */
    uint32_t workers_in; /* entered and not left */
    uint64_t step;       /* of the slowest worker */
    double loss;         /* NaN: unknown */
    uint64_t samples;    /* of all workers */
    double rate;         /* samples per second, lately */
    double mean_rate;    /* and since everybody entered */
    uint64_t exchanged_bytes;
    uint64_t wire_bytes;
    double wait_share; /* of the workers' time, inside psd_wait */
    uint64_t compared; /* proofs that a second worker confirmed */
    uint64_t differences;
};

/* Copies `count` strings. PSD_ENOMEM. */
psd_status launch_words_set(struct launch_words *words, uint32_t count,
                            char *const *from);
/* Appends a copy of "name=value". */
psd_status launch_words_add(struct launch_words *words, const char *name,
                            const char *value);
void launch_words_fini(struct launch_words *words);

void launch_start_pack(struct pack *pack, const struct launch_start *start);
psd_status launch_start_unpack(struct launch_start *start, const void *data,
                               size_t size);
void launch_start_fini(struct launch_start *start); /* wipes the secret */
void launch_started_pack(struct pack *pack,
                         const struct launch_started *started);
psd_status launch_started_unpack(struct launch_started *started,
                                 const void *data, size_t size);
void launch_exited_pack(struct pack *pack, const struct launch_exited *exited);
psd_status launch_exited_unpack(struct launch_exited *exited, const void *data,
                                size_t size);
void launch_stop_pack(struct pack *pack, const struct launch_stop *stop);
psd_status launch_stop_unpack(struct launch_stop *stop, const void *data,
                              size_t size);
void launch_lost_pack(struct pack *pack, const struct launch_lost *lost);
psd_status launch_lost_unpack(struct launch_lost *lost, const void *data,
                              size_t size);
void launch_verdict_pack(struct pack *pack,
                         const struct launch_verdict *verdict);
psd_status launch_verdict_unpack(struct launch_verdict *verdict,
                                 const void *data, size_t size);
void launch_view_pack(struct pack *pack, const struct launch_view *view);
psd_status launch_view_unpack(struct launch_view *view, const void *data,
                              size_t size);

#endif
