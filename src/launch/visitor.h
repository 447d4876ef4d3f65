/*
 * visitor.h: one who has come to a running psd_run with a question: a Unix
 * socket, one FRAME_ASK in, answers out. Nothing here can hold up the job: an
 * ask is small and has to come soon, answers wait in a queue with a bound, and
 * who breaks a rule is shown the door. The loop's thread.
 */
#ifndef PSD_LAUNCH_VISITOR_H
#define PSD_LAUNCH_VISITOR_H

#include <sys/types.h>

#include "launch/desk_message.h"
#include "transport/loop.h"

#define VISITOR_ASK_MS    5000       /* until the ask is there */
#define VISITOR_LAST_MS   5000       /* for the last bytes to be taken */
#define VISITOR_QUEUE_MAX (1u << 20) /* bytes that wait for one */

struct visitor;

struct visitor_events {
    /* The ask is there and well formed. */
    void (*asked)(void *user, struct visitor *visitor);
    /* Everything that was queued is with the kernel. */
    void (*drained)(void *user, struct visitor *visitor);
    /* It is about to be forgotten. */
    void (*gone)(void *user, struct visitor *visitor);
};

struct visitor {
    const struct visitor_events *events; /* NULL: this one is free */
    void *user;
    struct psd_loop *loop;
    int fd;
    pid_t pid;
    uint32_t id;
    struct loop_watch watch;
    struct loop_timer timer;
    uint8_t bytes[FRAME_HEADER_SIZE + DESK_ASK_MAX];
    size_t used;
    bool has_asked;
    struct desk_ask ask;
    char *out; /* from start to end is not sent */
    size_t start;
    size_t end;
    size_t capacity;
    bool is_last; /* leaves when everything is out */
    bool broken;  /* writing failed; the loop tells the rest */
    /* The desk's: */
    bool attached;
    bool waits;         /* for the end of the job */
    bool tailing;       /* a log comes from its host */
    uint32_t host;      /* index */
    uint64_t owed;      /* bytes of the log without credit */
    uint64_t left_out;  /* bytes that found no room */
    uint64_t waited_ns; /* since when something waits to be taken */
};

/* Takes `fd`, which does not block; keeps `events`. False: no. */
bool visitor_enter(struct visitor *visitor, struct psd_loop *loop, int fd,
                   pid_t pid, uint32_t id, const struct visitor_events *events,
                   void *user);
/* Queue one frame; false when it does not fit, and nothing of it goes. */
bool visitor_send(struct visitor *visitor, const struct frame_header *header,
                  const void *payload);
/* The last frame; then it leaves. */
void visitor_done(struct visitor *visitor, int code, const char *reason);
size_t visitor_pending(const struct visitor *visitor);
/* Wait for it to take what is queued, until `due_ns`. */
void visitor_drain(struct visitor *visitor, uint64_t due_ns);
/* Forget it at once. Idempotent. */
void visitor_leave(struct visitor *visitor);

#endif
