/*
 * tensorboard.h: --tensorboard: TensorBoard on the output folder while the job
 * runs, when it is installed. It ends with psd_run, however that ends. The
 * loop's thread.
 */
#ifndef PSD_LAUNCH_TENSORBOARD_H
#define PSD_LAUNCH_TENSORBOARD_H

#include <sys/types.h>

#include "transport/loop.h"

struct tensorboard {
    struct psd_loop *loop;
    pid_t pid; /* 0: none */
    int fd;    /* what it says */
    struct loop_watch watch;
    char line[1024];
    size_t used;
    void *user;
    /* It listens there ("http://localhost:6006/"), or why it does not. */
    void (*say)(void *user, const char *sentence);
};

/* Start it on `folder`, from `virtualenv` (NULL: none) or PATH. Failure is a
 * sentence, not an error: the job goes on. */
void tensorboard_start(struct tensorboard *board, struct psd_loop *loop,
                       const char *folder, const char *virtualenv);
/* Idempotent; a zeroed one is allowed. */
void tensorboard_stop(struct tensorboard *board);

#endif
