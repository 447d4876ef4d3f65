/*
 * gate.h: where the members of a host come in: a Unix socket in a folder of
 * this user. A guest has GATE_HELLO_MS to say who it is; who may have the
 * seat gets the secret and the shared memory, everybody else a sentence. The
 * loop's thread.
 */
#ifndef PSD_LAUNCH_GATE_H
#define PSD_LAUNCH_GATE_H

#include "launch/region.h"
#include "transport/transport.h"
#include "wire/message.h"

#define GATE_GUESTS_MAX 64 /* at a time; the others wait in the backlog */
#define GATE_HELLO_MS   5000
#define GATE_HELLO_MAX  512 /* bytes of a hello's payload */

struct gate;

struct gate_events {
    void *user;
    /* May this peer have the seat? PSD_OK, with the welcome filled in; or the
     * status for it, with the sentence in `reason`. */
    psd_status (*judge)(void *user, const struct message_hello *hello,
                        pid_t pid, struct message_welcome *welcome,
                        char *reason, size_t reason_size);
    /* It has been welcomed: take `fd`. */
    void (*seat)(void *user, const struct message_hello *hello, pid_t pid,
                 int fd);
    /* It was judged well and went away before it was welcomed. */
    void (*forget)(void *user, const struct message_hello *hello);
};

/* Listen at `path`. Keeps `regions`; copies `events`. */
psd_status gate_open(struct psd_loop *loop, const char *path,
                     const struct region_set *regions,
                     const struct gate_events *events, struct gate **gate_p);
void gate_close(struct gate *gate); /* NULL allowed */

#endif
