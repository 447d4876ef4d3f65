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
#define LAUNCH_TASKS_MAX (WIRE_RANKS_MAX + WIRE_SHARDS_MAX) /* of a host */
#define LAUNCH_TASK_LEAST 14 /* bytes of the shortest */

#define LAUNCH_DISABLE "PSD_DISABLE" /* variable: 1 lets scripts alone */

#define LAUNCH_STREAM_STDOUT 1u
#define LAUNCH_STREAM_STDERR 2u

/* Strings in order; `words` ends with a NULL beyond count, as execv wants. */
struct launch_words {
    uint32_t count;
    char **words;
};

/* One process that an agent starts. */
struct launch_task {
    uint8_t is_server;
    uint32_t rank;                 /* worker's rank, or server's index */
    uint8_t shell;                 /* 1: command is one word, for sh -c */
    struct launch_words command;   /* none: `psd server` */
    struct launch_words variables; /* NAME=value, for it alone */
};

enum launch_tee { LAUNCH_TEE_FIRST, LAUNCH_TEE_ALL, LAUNCH_TEE_NONE };

/* FRAME_START, psd_run -> agent: what to prepare on that host. Nothing runs
 * before FRAME_GO. */
struct launch_start {
    struct auth_job job;
    uint32_t workers; /* of the job */
    uint32_t servers; /* of the job that hold shards */
    uint32_t threads; /* of each server, at least */
    uint32_t threads_max;
    uint32_t hosts;   /* of the job; 1: loopback will do */
    uint8_t tee;      /* enum launch_tee */
    uint8_t here;     /* 1: psd_run is on this machine */
    uint32_t silence_ms; /* psd_run is lost after so long; 0: at EOF only */
    char name[LAUNCH_NAME_MAX];
    char host[MESSAGE_URL_MAX];      /* this one, as the user calls it */
    char peer[MESSAGE_URL_MAX];      /* another one; "": none */
    char interface[LAUNCH_NAME_MAX]; /* for data links; "": routed */
    char ports[32];
    char folder[LAUNCH_PATH_MAX];     /* working directory */
    char logs[LAUNCH_PATH_MAX];       /* log folder, from there; made */
    char virtualenv[LAUNCH_PATH_MAX]; /* "": none */
    struct launch_words variables;    /* NAME=value, over what is inherited */
    uint32_t task_count;
    struct launch_task *tasks; /* servers, then workers, by rank */
};

/* FRAME_READY, agent -> psd_run: everything is there, or what is not: a code
 * other than 0 is for psd_run to exit with, and `reason` the sentence. `note`
 * is something to know, "" for nothing. */
struct launch_ready {
    int32_t code;
    char reason[WIRE_TEXT_MAX];
    char note[WIRE_TEXT_MAX];
    char address[MESSAGE_URL_MAX]; /* of its data links */
    char folder[LAUNCH_PATH_MAX];  /* the agent's private one */
    char logs[LAUNCH_PATH_MAX];    /* absolute */
};

/* FRAME_STARTED, agent -> psd_run; header.rank is the process. A code other
 * than 0 (71, 126, 127 ...) means: it could not be started, the agent has
 * ended the others and `reason` says why. */
struct launch_started {
    int32_t code;
    uint32_t pid;
    char reason[WIRE_TEXT_MAX];
};

/* Was it want of memory? */
enum launch_memory {
    LAUNCH_MEMORY_FINE,
    LAUNCH_MEMORY_KILLED, /* the kernel killed it */
    LAUNCH_MEMORY_BELOW,  /* the kernel killed a process below it, or of
                           * this group: that may be why */
};

/* FRAME_EXITED, agent -> psd_run; header.rank is the process. */
struct launch_exited {
    uint32_t pid;
    uint8_t code;               /* exit code, when signal is 0 */
    uint8_t signal;             /* that killed it */
    uint8_t memory;             /* enum launch_memory */
    uint64_t memory_size;       /* resident then, or its most; 0: unknown */
    uint8_t stream;             /* LAUNCH_STREAM_*, of the tail */
    char tail[LAUNCH_TAIL_MAX]; /* of its output, when it failed: stderr, or
                                 * stdout when that is empty */
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

enum launch_cell_state {
    LAUNCH_CELL_WAITING, /* has not joined */
    LAUNCH_CELL_IN,
    LAUNCH_CELL_DONE, /* has said goodbye */
    LAUNCH_CELL_LOST,
};

/* One worker in a view. */
struct launch_cell {
    uint8_t state;       /* LAUNCH_CELL_* */
    uint16_t slow;       /* 0: no; else its compute time in % of the median */
    uint32_t lag;        /* steps behind the front, beyond what is noise */
    uint64_t step;       /* the last that it reported */
    uint64_t compute_ns; /* of a step, lately; 0: unknown */
    uint64_t wait_ns;    /* of a step, lately, inside psd_wait */
    uint64_t sent_bytes; /* over sockets, since the start */
    uint64_t received_bytes;
};

/* FRAME_VIEW, master -> psd_run: how training goes. The cells come along at
 * most once a second: a view without them says nothing about them. */
struct launch_view {
    uint8_t final;       /* 1: the answer to FRAME_STOP */
    uint32_t workers_in; /* entered and not left */
    uint64_t step;       /* of the slowest worker */
    double loss;         /* NaN: unknown */
    uint64_t samples;    /* of all workers */
    double rate;         /* samples per second, lately */
    double mean_rate;    /* and since everybody entered */
    uint64_t exchanged_bytes;
    uint64_t wire_bytes;   /* sent and received */
    double exchanged_rate; /* bytes per second, lately, of all workers */
    double sent_rate;
    double received_rate;
    uint64_t compute_ns; /* of a step, lately, mean of the workers */
    uint64_t wait_ns;    /* and inside psd_wait; the sum is the step's time */
    double wait_share;   /* of the workers' time since the start */
    uint64_t compared;   /* proofs that a second worker confirmed */
    uint64_t differences;
    uint32_t cell_count;                       /* workers, or 0 */
    struct launch_cell cells[WIRE_RANKS_MAX]; /* by rank */
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
/* Workers among the tasks. */
uint32_t launch_start_local(const struct launch_start *start);
void launch_ready_pack(struct pack *pack, const struct launch_ready *ready);
psd_status launch_ready_unpack(struct launch_ready *ready, const void *data,
                               size_t size);
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
