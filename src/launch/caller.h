/*
 * caller.h: the other side of the desk: what psd status, stop, logs and attach
 * have in common. Finds a running job of this user, asks it, reads its
 * answers, checked. One thread.
 */
#ifndef PSD_LAUNCH_CALLER_H
#define PSD_LAUNCH_CALLER_H

#include "launch/desk_message.h"
#include "launch/desk_place.h"

struct caller {
    int fd;    /* -1: closed */
    pid_t pid; /* of psd_run */
    char file[DESK_FILE_MAX];
    /* The last answer; its payload is there until the next call. */
    struct frame_header header;
    uint8_t *payload;
    size_t used; /* bytes of header and payload that are here */
    size_t capacity;
};

/* Every running job, connected. Returns how many; each has to be closed. */
size_t caller_list(struct caller *callers, size_t count);
/* The job with that name or pid; NULL: the only one. PSD_EINVAL: there are
 * several; PSD_ELOST: there is none. `error` has the sentence. */
psd_status caller_choose(const char *job, struct caller *caller, char *error,
                         size_t error_size);
void caller_close(struct caller *caller);

/* Send the question; sets its build. PSD_ELOST. */
psd_status caller_ask(struct caller *caller, struct desk_ask *ask);
/* Has the next answer come? PSD_AGAIN: not all of it. PSD_ELOST: psd_run is
 * gone. PSD_EPROTO with a log line. */
psd_status caller_read(struct caller *caller);
/* The same, waiting; PSD_ETIME after `timeout_ms` (-1: never). */
psd_status caller_next(struct caller *caller, int timeout_ms);
/* Wait until psd_run itself is gone, some seconds at most. */
void caller_wait(const struct caller *caller);

#endif
