/*
 * run.h: a job as psd_run sees it: the processes, what has become of them, and
 * why it ends. Shared by supervise.c, which decides, and report.c, which
 * tells. One thread.
 */
#ifndef PSD_LAUNCH_RUN_H
#define PSD_LAUNCH_RUN_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/launch_message.h"

struct run_process {
    bool is_server;
    uint32_t rank;
    uint32_t pid;
    bool started;
    bool entered; /* its session is a member */
    bool said_bye;
    bool hung_up; /* its session ended without */
    bool exited;
    bool victim; /* ended after the job was over */
    uint8_t code;
    uint8_t signal;
    char *tail; /* last lines of its stderr; NULL: none */
};

struct run {
    uint32_t workers;
    uint32_t servers;
    struct run_process *processes; /* workers, then servers */
    const char *logs;              /* log folder */
    bool over;                     /* the reason is known */
    int code;                      /* to exit with; 0: all is well */
    struct run_process *culprit;   /* NULL: nobody in particular */
    char reason[WIRE_TEXT_MAX];
    int interrupted; /* the signal that psd_run got */
    bool has_view;
    struct launch_view view; /* the latest */
};

/* "worker", "server". */
const char *run_role(const struct run_process *process);
struct run_process *run_find(struct run *run, bool is_server, uint32_t rank);
bool run_failed(const struct run_process *process);

#endif
