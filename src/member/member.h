/*
 * member.h: a process's place in the job: its link to the agent of its host,
 * from which it has the secret and the shared memory, and through which it
 * speaks with the master. Used by sessions and by `psd server`.
 *
 * member_open blocks (at most MEMBER_OPEN_MS); then one control thread reads
 * what comes and ticks once a second. member_send may be called by any
 * thread.
 */
#ifndef PSD_MEMBER_MEMBER_H
#define PSD_MEMBER_MEMBER_H

#include <pthread.h>
#include <stdatomic.h>

#include "transport/transport.h"
#include "wire/message.h"

#define MEMBER_OPEN_MS 10000
#define MEMBER_TICK_MS 1000
#define MEMBER_FDS_MAX (WIRE_RANKS_MAX + 1)

struct member_events {
    void *user;
    /* A frame from the master. Control thread. */
    void (*frame)(void *user, const struct frame_header *header,
                  const void *payload);
    /* The agent is gone. Control thread; nothing follows. */
    void (*gone)(void *user);
    /* About once a second. Control thread. */
    void (*tick)(void *user);
};

struct member {
    int fd;
    bool is_server;
    uint32_t rank;
    struct message_welcome welcome;
    int fds[MEMBER_FDS_MAX]; /* board, arenas by local rank */
    uint32_t fd_count;
    struct member_events events;
    pthread_t thread;
    pthread_mutex_t send_lock;
    bool started;
    _Atomic bool stopping;
};

/* Connect to the agent at `path` (PSD_AGENT), say who we are, be welcomed.
 * On failure `error` has the sentence. */
psd_status member_open(struct member *member, const char *path,
                       bool is_server, uint32_t rank, uint32_t incarnation,
                       char *error, size_t error_size);
/* Map descriptor `index` of the welcome, `size` bytes, and close it. NULL
 * with a log line. */
void *member_map(struct member *member, uint32_t index, size_t size);
psd_status member_start(struct member *member,
                        const struct member_events *events);
/* Send one control frame; `pack` may be NULL. */
psd_status member_send(struct member *member, unsigned type, uint32_t block,
                       const struct pack *pack);
/* Listen for data links where the welcome says (host, one of its ports);
 * `url` is how others reach it. */
psd_status member_listen(const struct member *member, struct psd_loop *loop,
                         const struct listen_events *events, void *user,
                         struct psd_listener **listener_p,
                         char url[MESSAGE_URL_MAX]);
/* Ends the thread and the link; idempotent. */
void member_close(struct member *member);

#endif
