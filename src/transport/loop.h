/*
 * loop.h: one thread's waiting point: file descriptors by epoll, timers,
 * links with something to deliver, and a wake-up from other threads.
 *
 * A loop belongs to whoever drives it. loop_wait may run without the owner's
 * lock (it touches nothing but the epoll descriptor); loop_dispatch and every
 * other call run under it. An event whose watch has gone meanwhile is dropped.
 */
#ifndef PSD_TRANSPORT_LOOP_H
#define PSD_TRANSPORT_LOOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/list.h"
#include "poseidon.h"

#define LOOP_EVENTS_MAX 64

struct psd_loop;

struct loop_events {
    struct epoll_event events[LOOP_EVENTS_MAX];
    int count;
};

/* A descriptor under watch; memory of the caller. */
struct loop_watch {
    int fd;
    uint32_t mask;  /* EPOLLIN | EPOLLOUT */
    uint32_t slot;  /* in the loop's table */
    void (*call)(struct loop_watch *watch, uint32_t mask);
};

/* A timer; memory of the caller. `due_ns` 0: not armed. */
struct loop_timer {
    struct list node;
    uint64_t due_ns;
    void (*call)(struct loop_timer *timer);
};

/* Work for the next dispatch; memory of the caller. */
struct loop_task {
    struct list node;
    void (*call)(struct loop_task *task);
};

/* Looked at in every dispatch, because no descriptor tells of its work: rings
 * in shared memory. Memory of the caller; `call` returns frames delivered. */
struct loop_poller {
    struct list node;
    unsigned (*call)(struct loop_poller *poller);
};

/* Something that has to be finished before its loop goes. */
struct loop_ending {
    struct list node;
    void (*call)(struct loop_ending *ending); /* removes itself */
};

psd_status loop_create(struct psd_loop **loop_p);
/* Calls the endings; may wait a little for sockets whose last bytes are still
 * under way (linger.h). NULL is allowed. */
void loop_destroy(struct psd_loop *loop);

psd_status loop_watch(struct psd_loop *loop, struct loop_watch *watch, int fd,
                      uint32_t mask,
                      void (*call)(struct loop_watch *watch, uint32_t mask));
/* Change the mask; no system call when it stays the same. */
psd_status loop_rewatch(struct psd_loop *loop, struct loop_watch *watch,
                        uint32_t mask);
/* Idempotent; a zeroed watch is allowed. */
void loop_unwatch(struct psd_loop *loop, struct loop_watch *watch);
/* Watches that wait until they can write. */
unsigned loop_writers(const struct psd_loop *loop);

void loop_timer_start(struct psd_loop *loop, struct loop_timer *timer,
                      uint64_t after_ns,
                      void (*call)(struct loop_timer *timer));
void loop_timer_stop(struct loop_timer *timer);

void loop_task_init(struct loop_task *task,
                    void (*call)(struct loop_task *task));
/* Idempotent until it has run. */
void loop_task_post(struct psd_loop *loop, struct loop_task *task);
/* The same, but it runs at the very end of a dispatch, after everything that
 * may have made work for it. Does not end a loop_wait of another thread. */
void loop_task_post_late(struct psd_loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop_task *task);
/* Cancel what is done already, so that loop_wait does not look for it. */
void loop_task_done(struct psd_loop *loop, struct loop_task *task);

void loop_poller_add(struct psd_loop *loop, struct loop_poller *poller,
                     unsigned (*call)(struct loop_poller *poller));
/* Idempotent; a zeroed poller is allowed. */
void loop_poller_remove(struct loop_poller *poller);
/* Call every poller once. Returns the sum of what they returned. */
unsigned loop_poll(struct psd_loop *loop);

void loop_ending_add(struct psd_loop *loop, struct loop_ending *ending,
                     void (*call)(struct loop_ending *ending));
void loop_ending_remove(struct loop_ending *ending);

/* Who writes next, see turns.h. */
struct turns *loop_turns(struct psd_loop *loop);
/* From now on every link writes when it can. */
void loop_turns_off(struct psd_loop *loop);

/* The hub of inproc links that was created on this loop; NULL: none. */
void loop_hub_set(struct psd_loop *loop, void *hub);
void *loop_hub(const struct psd_loop *loop);

/* Wait for descriptors, the next timer, a posted task or a wake-up; at most
 * `timeout_ms` (0: look only, -1: no limit). */
void loop_wait(struct psd_loop *loop, struct loop_events *events,
               int timeout_ms);
/* Run what loop_wait found (NULL: nothing), due timers, pollers, posted tasks
 * and late ones, in this order. A task posted by a task runs in the next
 * dispatch. Returns how many calls were made, and frames polled. */
unsigned loop_dispatch(struct psd_loop *loop,
                       const struct loop_events *events);
/* End a loop_wait of another thread (any thread, no lock). */
void loop_wake(struct psd_loop *loop);

#endif
