/*
 * helper.h: a process of psd_run's own (the master, the guard) with a control
 * stream as its input and output. The loop's thread.
 */
#ifndef PSD_LAUNCH_HELPER_H
#define PSD_LAUNCH_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "transport/transport.h"

struct helper {
    pid_t pid; /* 0: none, or reaped */
    struct psd_link *link;
};

/* Start `argv`. PSD_ESYSTEM with a log line. */
psd_status helper_start(struct helper *helper, struct psd_loop *loop,
                        const char *const *argv,
                        const struct link_events *events, void *user);
/* Has it ended? Then `*status_p` is waitpid's, and it is reaped. */
bool helper_reap(struct helper *helper, int *status_p);
/* Close its stream and wait until it is gone; SIGKILL after `limit_ms`. */
void helper_stop(struct helper *helper, unsigned limit_ms);

#endif
