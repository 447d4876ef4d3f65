/*
 * desk_message.h: the payloads of the frames between a running psd_run and
 * those who ask it something (psd status, stop, logs, attach), and of
 * FRAME_TAIL between psd_run and an agent. Encoders write into a pack;
 * decoders check everything and return PSD_EPROTO with a log line.
 *
 * One FRAME_ASK opens a visit; what follows depends on its verb and ends with
 * FRAME_DONE. FRAME_SAY has no struct: its payload is the text. FRAME_OUTPUT
 * and FRAME_VIEW are as between agent, master and psd_run.
 *
 * FRAME_TAIL to the agent carries a struct desk_tail. Back come the bytes of
 * the log: header.step is the id, header.block the stream (LAUNCH_STREAM_*);
 * block 0 ends it, and the payload is then a sentence, empty when all is well.
 */
#ifndef PSD_LAUNCH_DESK_MESSAGE_H
#define PSD_LAUNCH_DESK_MESSAGE_H

#include "launch/launch_message.h"

#define DESK_ASK_MAX     256         /* bytes of an ask's payload */
#define DESK_ANSWER_MAX  (2u << 20)  /* bytes of any answer's payload */
#define DESK_COMMAND_MAX 1024        /* a longer command is cut for show */
#define DESK_LINES_ALL   UINT64_MAX
#define DESK_LINES_MAX   1000000

/* What a visitor wants. */
enum desk_verb {
    DESK_STATUS = 1, /* STATUS, DONE */
    DESK_STOP,       /* DONE when the job is over */
    DESK_LOGS,       /* OUTPUT..., DONE */
    DESK_ATTACH,     /* STATUS, then SAY, VIEW, OUTPUT..., DONE with the job's
                      * exit code when it is over */
};

struct desk_ask {
    uint8_t verb;
    uint8_t now;       /* stop: without grace */
    uint8_t follow;    /* logs: until the process has ended */
    uint8_t is_server; /* logs: of whom */
    uint32_t rank;
    uint64_t lines;    /* logs: the last ones, or DESK_LINES_ALL */
    char build[MESSAGE_BUILD_MAX]; /* psd_version(), must be equal */
};

enum desk_state { DESK_STARTING, DESK_RUNNING, DESK_ENDING, DESK_STATES };

enum desk_process_state {
    DESK_PROCESS_WAITING, /* not started */
    DESK_PROCESS_RUNNING,
    DESK_PROCESS_TRAINING, /* its session is a member of the job */
    DESK_PROCESS_LEFT,     /* and has said goodbye */
    DESK_PROCESS_EXITED,
    DESK_PROCESS_LOST, /* with its host */
    DESK_PROCESS_STATES,
};

struct desk_process {
    uint8_t is_server;
    uint8_t state;
    uint8_t code; /* EXITED */
    uint8_t signal;
    uint32_t rank;
    uint32_t pid; /* 0: none yet */
    char host[MESSAGE_URL_MAX];
};

struct desk_status {
    char name[LAUNCH_NAME_MAX];
    char command[DESK_COMMAND_MAX];
    char logs[LAUNCH_PATH_MAX];
    uint32_t pid;     /* of psd_run */
    uint64_t started; /* seconds since 1970 */
    uint8_t state;
    uint8_t tee; /* enum launch_tee */
    uint32_t hosts;
    uint32_t workers;
    uint32_t servers;
    uint8_t has_view; /* the next three mean something */
    uint64_t step;
    double loss; /* NaN: unknown */
    double rate; /* samples per second */
    uint32_t process_count;
    struct desk_process *processes; /* workers, then servers */
};

struct desk_done {
    int32_t code; /* for the visitor to exit with */
    char reason[WIRE_TEXT_MAX];
};

enum desk_tail_action { DESK_TAIL_OPEN = 1, DESK_TAIL_CREDIT, DESK_TAIL_CLOSE };

struct desk_tail {
    uint8_t action;
    uint32_t id;
    uint8_t is_server; /* OPEN: whose, how */
    uint32_t rank;
    uint8_t follow;
    uint64_t lines;
    uint64_t credit; /* OPEN, CREDIT: bytes that may come */
};

void desk_ask_pack(struct pack *pack, const struct desk_ask *ask);
psd_status desk_ask_unpack(struct desk_ask *ask, const void *data,
                           size_t size);
void desk_status_pack(struct pack *pack, const struct desk_status *status);
psd_status desk_status_unpack(struct desk_status *status, const void *data,
                              size_t size);
void desk_status_fini(struct desk_status *status);
void desk_done_pack(struct pack *pack, const struct desk_done *done);
psd_status desk_done_unpack(struct desk_done *done, const void *data,
                            size_t size);
void desk_tail_pack(struct pack *pack, const struct desk_tail *tail);
psd_status desk_tail_unpack(struct desk_tail *tail, const void *data,
                            size_t size);

/* "starting", "running", "ending"; "?" for what is none. */
const char *desk_state_name(unsigned state);
/* "waiting", "running", "training", "left", "exited", "lost". */
const char *desk_process_state_name(unsigned state);

#endif
