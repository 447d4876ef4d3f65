/*
 * supervise.h: psd_run once its command line is understood: it starts the
 * master and an agent per host, passes frames between them, decides who is to
 * blame when something ends, and sees to it that everything does. One thread.
 */
#ifndef PSD_LAUNCH_SUPERVISE_H
#define PSD_LAUNCH_SUPERVISE_H

#include "config/cluster.h"
#include "launch/desk_place.h"
#include "launch/launch_message.h"
#include "screen/screen.h"
#include "launch/ssh.h"

/* An agent waits so much longer for psd_run (Ctrl-Z, a closed lid) than
 * psd_run for an agent. */
#define SUPERVISE_SILENCE 10

struct supervise_plan {
    const struct cluster *cluster;
    struct ssh_way way;
    struct launch_start *starts; /* one for the agent of each host */
    uint32_t grace_ms;           /* from Ctrl-C's SIGTERM to SIGKILL */
    uint32_t dead_after_ms;      /* a host is lost when silent so long */
    struct screen_options screen;
    const char *logs;         /* log folder here */
    const char *tensorboard;  /* folder to show; NULL: no */
    struct desk_place *place; /* where it answers; takes it; NULL: no */
    int ready_fd;             /* told when all run; takes it; -1: none */
    uint32_t stall_after_ms;  /* 0: the master's own rule */
    bool stall_stop;          /* a stall ends the job */
    bool native;              /* --tf-native: nobody is to enter */
    int argc;                 /* psd_run's own command line */
    char *const *argv;
};

/* The words that start the master. */
psd_status supervise_master_words(const struct supervise_plan *plan,
                                  struct launch_words *argv_p);

/* Run the job; returns psd_run's exit code. */
int supervise_run(const struct supervise_plan *plan);

#endif
