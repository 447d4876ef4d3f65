/*
 * supervise.h: psd_run once its command line is understood: it starts the
 * master and the guard with its agent, passes frames between them, decides
 * who is to blame when something ends, and sees to it that everything does.
 * One thread.
 */
#ifndef PSD_LAUNCH_SUPERVISE_H
#define PSD_LAUNCH_SUPERVISE_H

#include "launch/launch_message.h"

struct supervise_plan {
    const char *psd;           /* path of the program */
    struct launch_start start; /* for the agent */
    uint32_t grace_ms;         /* from an END to SIGTERM; from Ctrl-C's
                                 * SIGTERM to SIGKILL */
    const char *note;          /* a line to say first; "" for none */
};

/* Run the job; returns psd_run's exit code. */
int supervise_run(const struct supervise_plan *plan);

#endif
