/*
 * run.h: a job as psd_run sees it: the processes, what has become of them, and
 * why it ends. Shared by supervise.c, which decides, and report.c, which
 * tells. One thread.
 */
#ifndef PSD_REPORT_RUN_H
#define PSD_REPORT_RUN_H

#include <stdbool.h>
#include <sys/types.h>
#include <time.h>

#include "launch/stall_message.h"

#define RUN_STALLS_MAX 64 /* that are remembered */
#define RUN_LOOKS_MAX  4  /* processes of a stall that are looked at */

struct run_process {
    bool is_server;
    uint32_t rank;
    const char *host; /* its name */
    uint32_t host_index;
    uint32_t pid;
    bool started;
    bool entered; /* its session is a member */
    bool said_bye;
    bool hung_up; /* its session ended without */
    bool exited;
    bool lost;   /* with its host: nobody knows how it ended */
    bool victim; /* ended after the job was over */
    uint8_t code;
    uint8_t signal;
    uint8_t memory; /* enum launch_memory */
    uint64_t memory_size;
    uint8_t stream; /* LAUNCH_STREAM_*, of the tail */
    char *tail;     /* last lines of its output; NULL: none */
};

/* A stall as the master told it, with what the agents saw. */
struct run_stall {
    struct launch_stall what;
    bool over;
    uint64_t waited_ms; /* in all, once it is over */
    bool seen[RUN_LOOKS_MAX];
    struct launch_look looks[RUN_LOOKS_MAX];
};

struct run {
    uint32_t workers;
    uint32_t servers;
    bool roles;  /* servers run the user's command, as ps */
    uint32_t hosts;
    struct run_process *processes; /* workers, then servers */
    const char *logs;              /* log folder */
    const char *name;              /* of the job */
    char *line;                    /* psd_run's own, to type again */
    bool over;                     /* the reason is known */
    int code;                      /* to exit with; 0: all is well */
    struct run_process *culprit;   /* NULL: nobody in particular */
    char reason[WIRE_TEXT_MAX];
    bool stalled;    /* that is the reason: --on-stall stop */
    int interrupted; /* the signal that psd_run got */
    struct run_stall *stalls[RUN_STALLS_MAX];
    uint32_t stall_count;
    struct timespec began; /* wall clock */
    struct timespec ended;
    bool has_view;
    struct launch_view view; /* the latest */
};

/* "worker", "server". */
const char *run_role(const struct run_process *process);
struct run_process *run_find(struct run *run, bool is_server, uint32_t rank);
bool run_failed(const struct run_process *process);
/* As a shell gives it: 128 and the signal, or the exit code. */
int run_code(const struct run_process *process);

#endif
