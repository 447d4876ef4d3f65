/*
 * supervise_state.h: what the files of the supervisor share; nobody else
 * includes it. supervise.c starts, judges and ends; hub.c passes frames
 * between agent and master and takes those that are for psd_run.
 */
#ifndef PSD_LAUNCH_SUPERVISE_STATE_H
#define PSD_LAUNCH_SUPERVISE_STATE_H

#include "launch/folder.h"
#include "launch/helper.h"
#include "launch/run.h"
#include "launch/screen.h"
#include "launch/supervise.h"

#define SUPERVISE_HANG_UP_MS 500 /* one that hung up is about to exit */

struct supervise {
    const struct supervise_plan *plan;
    struct psd_loop *loop;
    struct run run;
    struct screen *screen;
    struct helper master;
    struct helper guard;          /* its stream is the agent's */
    pid_t guard_pid;              /* also once it is reaped */
    char folder[FOLDER_PATH_MAX]; /* the agent's; "": not known */
    int signal_fd;
    struct loop_watch signals;
    struct loop_timer grace;
    struct loop_timer hang_up;
    bool stopping; /* agent and master were told to end */
    bool agent_gone;
    bool master_done; /* its last view is in, or it is gone */
};

/* The reason is known. Members have been told; the rest is waited for. */
void supervise_over(struct supervise *supervise, int code,
                    struct run_process *culprit, const char *reason);
/* Everything below the agent goes; the master says its last. */
void supervise_stop(struct supervise *supervise, uint32_t grace_ms);
/* A process has exited; decide what that means. */
void supervise_exited(struct supervise *supervise, struct run_process *process);
/* A process hung up or entered: somebody may be missing now. */
void supervise_hung_up(struct supervise *supervise);
void supervise_check_deserters(struct supervise *supervise);

/* hub.c. */
extern const struct link_events hub_agent_events;
extern const struct link_events hub_master_events;

#endif
