/*
 * stall_message.h: the payloads by which a stall is told and looked into.
 * FRAME_STALL, master -> psd_run: somebody holds the others up, or no longer.
 * FRAME_LOOK, psd_run -> agent, without a payload: look at the process that
 * header.rank names; agent -> psd_run: what was seen. Decoders check
 * everything; PSD_EPROTO with a log line.
 */
#ifndef PSD_LAUNCH_STALL_MESSAGE_H
#define PSD_LAUNCH_STALL_MESSAGE_H

#include "launch/launch_message.h"

#define LAUNCH_STALL_MAX 16   /* that are named; `more` counts the others */
#define LAUNCH_WHERE_MAX 64   /* name of a kernel function, of a program */

/* What the others wait for. */
enum launch_stall_kind {
    LAUNCH_STALL_OVER,     /* it moves again */
    LAUNCH_STALL_ENTER,    /* psd_open: not everybody is in */
    LAUNCH_STALL_REGISTER, /* psd_register */
    LAUNCH_STALL_PLACE,    /* servers that make room for tensors */
    LAUNCH_STALL_TENSOR,
    LAUNCH_STALL_JOIN,   /* psd_join */
    LAUNCH_STALL_SILENT, /* nobody waits, but nothing is heard of it */
};

/* What is wrong with one that holds up. */
enum launch_stall_how {
    LAUNCH_STALL_SAYS_NOTHING, /* it does not even answer the master */
    LAUNCH_STALL_MISSING,      /* it has not done its part */
    LAUNCH_STALL_WAITS,        /* nor can it: it waits itself */
    LAUNCH_STALL_IDLE,         /* it has, but does not wait with the others */
    LAUNCH_STALL_SUSPECT,      /* everybody has; its shard has no answer */
};

struct launch_stalled {
    uint8_t is_server;
    uint32_t rank;
    uint8_t how; /* enum launch_stall_how */
};

struct launch_stall {
    uint8_t kind;       /* enum launch_stall_kind */
    uint64_t waited_ms; /* so far; OVER: in all */
    uint32_t waiters;   /* workers that wait */
    uint64_t step;      /* TENSOR */
    uint32_t tensors;   /* TENSOR: that the one who waits longest waits for */
    char tensor[WIRE_NAME_MAX + 1];
    uint32_t more;
    uint32_t count; /* 0: the master cannot tell who it is */
    struct launch_stalled stalled[LAUNCH_STALL_MAX];
};

/* Did the process show its stack? */
enum launch_stack {
    LAUNCH_STACK_NONE,   /* it has no handler for PSD_STACK_SIGNAL */
    LAUNCH_STACK_SHOWN,  /* `stack` has it */
    LAUNCH_STACK_SILENT, /* it was asked, nothing came */
};

struct launch_look {
    uint32_t pid;  /* that was looked at: the process or one below it */
    uint8_t state; /* as ps says it: R S D T t Z; 0: it is gone */
    uint8_t stack_is; /* enum launch_stack */
    char name[LAUNCH_WHERE_MAX];  /* of the program */
    char where[LAUNCH_WHERE_MAX]; /* kernel function; "": not known */
    char stack[LAUNCH_TAIL_MAX];  /* what it wrote to stderr when asked */
};

void launch_stall_pack(struct pack *pack, const struct launch_stall *stall);
psd_status launch_stall_unpack(struct launch_stall *stall, const void *data,
                               size_t size);
void launch_look_pack(struct pack *pack, const struct launch_look *look);
psd_status launch_look_unpack(struct launch_look *look, const void *data,
                              size_t size);

#endif
