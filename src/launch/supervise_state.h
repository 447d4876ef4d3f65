/*
 * supervise_state.h: what the files of the supervisor share; nobody else
 * includes it. supervise.c starts and ends, blame.c judges; reach.c reaches
 * the hosts and notices when one is lost; hub.c passes frames between agents
 * and master and takes those that are for psd_run; inquiry.c looks into
 * stalls.
 */
#ifndef PSD_LAUNCH_SUPERVISE_STATE_H
#define PSD_LAUNCH_SUPERVISE_STATE_H

#include "launch/desk.h"
#include "launch/folder.h"
#include "launch/helper.h"
#include "report/run.h"
#include "screen/screen.h"
#include "launch/supervise.h"
#include "launch/tensorboard.h"

#define SUPERVISE_HANG_UP_MS 500 /* one that hung up is about to exit */

enum host_state {
    HOST_WAITING,    /* not tried yet, or to be tried again */
    HOST_CONNECTING, /* ssh is under way */
    HOST_PREPARING,  /* its agent has its START */
    HOST_READY,      /* and said READY */
    HOST_RUNNING,    /* and was told to GO */
    HOST_GONE,
};

struct host {
    struct supervise *supervise;
    const struct cluster_host *where;
    struct launch_start *start;
    enum host_state state;
    struct helper helper;
    pid_t guard_pid; /* local: also once it is reaped */
    bool reaped;
    int status; /* of waitpid, once it is */
    unsigned tries;
    struct loop_timer timer; /* while connecting: limit; waiting: retry */
    uint64_t heard_ns;
    char failure[1024];           /* why the stream failed; "" */
    char said[4096];              /* last lines of its stderr */
    char note[WIRE_TEXT_MAX];     /* of its READY */
    char folder[FOLDER_PATH_MAX]; /* local: the agent's; "": not known */
    size_t owed[2];               /* output that the screen has not shown */
};

struct supervise {
    const struct supervise_plan *plan;
    struct psd_loop *loop;
    struct run run;
    struct screen *screen;
    struct desk *desk; /* NULL: nobody can ask */
    struct helper master;
    char master_said[4096]; /* last lines of its stderr */
    uint64_t master_heard_ns;
    struct host *hosts;
    uint32_t host_count;
    uint32_t hosts_trying; /* connecting now */
    uint32_t hosts_ready;
    uint32_t hosts_gone;
    struct tensorboard tensorboard;
    int signal_fd;
    struct loop_watch signals;
    struct loop_timer grace;
    struct loop_timer hang_up;
    struct loop_timer beat;
    uint64_t beat_ns;          /* when it came last */
    struct loop_timer inquiry; /* limit for what agents see */
    struct run_stall *stall;   /* looked into, or told and not over */
    bool stall_told;
    bool started;     /* workers run: a fault is no longer one of the set-up */
    bool judging;     /* a loss was told to the master; its verdict counts,
                       * though a signal came in between */
    bool stopping;    /* agents and master were told to end */
    bool master_done; /* its last view is in, or it is gone */
};

/* The reason is known. Members have been told; the rest is waited for. */
void supervise_over(struct supervise *supervise, int code,
                    struct run_process *culprit, const char *reason);
/* Everything below the agents goes; the master says its last. */
void supervise_stop(struct supervise *supervise, uint32_t grace_ms);
/* Ctrl-C, or what is as good; `by` is said. The second one ends it at once. */
void supervise_interrupt(struct supervise *supervise, int signo,
                         const char *by);
/* A process has exited; decide what that means. */
void supervise_exited(struct supervise *supervise, struct run_process *process);
/* A process hung up or entered: somebody may be missing now. */
void supervise_hung_up(struct supervise *supervise);
void supervise_check_deserters(struct supervise *supervise);
/* A host is prepared; the last one lets all start. */
void supervise_ready(struct supervise *supervise);
/* A host cannot be used; nothing has been started. */
void supervise_unfit(struct supervise *supervise, int code,
                     const char *sentence);
/* A host that ran processes is lost. */
void supervise_host_lost(struct supervise *supervise, struct host *host,
                         const char *sentence);
void supervise_send(struct psd_link *link, const struct run_process *process,
                    unsigned type, const struct pack *pack);

/* A stall that --on-stall stop does not bear; `culprit` may be NULL. */
void supervise_stalled(struct supervise *supervise, struct run_process *culprit,
                       const char *reason);

/* conclude.c: everything has ended, or (`ran` false) could not begin. Returns
 * the exit code. */
int conclude(struct supervise *supervise, bool ran);

/* inquiry.c: the master tells of a stall, or that one is over. */
void inquiry_take(struct supervise *supervise,
                  const struct launch_stall *stall);
/* An agent has looked at a process. */
void inquiry_seen(struct supervise *supervise,
                  const struct run_process *process,
                  const struct launch_look *look);

/* reach.c: reach as many hosts as may be tried at once. */
void host_try_all(struct supervise *supervise);
/* Its process was reaped. */
void host_reaped(struct host *host, int status);
/* READY has come. */
void host_ready(struct host *host, const struct launch_ready *ready);
/* What the hosts would like to be known, before they start. */
void host_say_notes(struct supervise *supervise);
/* Its stream has ended. */
void host_down(struct host *host);
/* Give it up: no more frames, its process ends. Idempotent. */
void host_drop(struct host *host);
/* Once a beat: tell master and remote agents that we are here, and look
 * whether they are. */
void host_beat_all(struct supervise *supervise);

/* "the master", "the master on b". */
void host_master_text(const struct supervise *supervise, char *text,
                      size_t size);
/* It is gone: nothing can go on. `how` says what is known of it. */
void host_master_lost(struct supervise *supervise, const char *how);
/* One more line of stderr; the oldest make room. */
void host_keep_line(char *said, size_t size, const char *line);

/* hub.c. */
extern const struct link_events hub_agent_events;
extern const struct link_events hub_master_events;

#endif
