/*
 * helper.h: a process that psd_run starts for itself (the master, a guard with
 * its agent), here or through ssh. Its input and output are one control
 * stream, which begins with a line of text: who it is and which version, so
 * that what a login shell prints before is passed over and another version is
 * named, not misread. Its stderr is read line by line. The loop's thread.
 */
#ifndef PSD_LAUNCH_HELPER_H
#define PSD_LAUNCH_HELPER_H

#include <stdbool.h>
#include <sys/types.h>

#include "transport/transport.h"

#define HELPER_LINE_MAX 1024

struct helper;

struct helper_events {
    const struct link_events *link; /* of the stream, after the greeting */
    /* It has greeted, in our version: `link` is there. */
    void (*greeted)(void *user);
    /* It will not: another version, or its stream has ended. The sentence is
     * "" when nothing but the exit code and stderr can say why. */
    void (*failed)(void *user, const char *sentence);
    /* One line of its stderr. */
    void (*said)(void *user, const char *line);
    /* (optional) It asks for the program: see helper_give. */
    void (*wants)(void *user);
};

struct helper {
    struct psd_loop *loop;
    const struct helper_events *events;
    void *user;
    pid_t pid; /* 0: none, or reaped */
    int fd;    /* stream before the greeting; -1 */
    struct loop_watch stream;
    char greeting[HELPER_LINE_MAX]; /* as far as it has come */
    size_t greeting_size;
    size_t skipped; /* bytes up to it */
    int error_fd;   /* its stderr; -1 */
    struct loop_watch errors;
    char line[HELPER_LINE_MAX];
    size_t line_size;
    const char *gift; /* bytes to write before the greeting */
    size_t gift_size;
    struct psd_link *link; /* NULL: not yet, or gone */
};

/* Start `argv`, looked for in PATH. PSD_ESYSTEM with a log line. Keeps
 * `events`. */
psd_status helper_start(struct helper *helper, struct psd_loop *loop,
                        char *const *argv, const struct helper_events *events,
                        void *user);
/* In `wants`: send these bytes. Keeps them until the greeting. */
void helper_give(struct helper *helper, const void *data, size_t size);
/* Has it ended? Then `*status_p` is waitpid's, and it is reaped. */
bool helper_reap(struct helper *helper, int *status_p);
/* Read what is left of its stderr. */
void helper_drain(struct helper *helper);
/* Close its stream; it ends by itself. Idempotent. */
void helper_close(struct helper *helper);
/* Close, and wait until it is gone; SIGKILL at `due_ns`. */
void helper_stop(struct helper *helper, uint64_t due_ns);

/* The other side: write the line that helper_start waits for. */
psd_status helper_greet(int fd, const char *role);

#endif
