/*
 * listen.c: the server's end of a TCP handshake. A peer has a place in a
 * fixed table, and nothing else, until it has proved that it holds the job's
 * secret; then it becomes a link. When the table is full, further peers wait
 * in the kernel's queue.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/tcp.h"

#define LISTEN_BACKLOG 1024
#define LISTEN_PAUSE_MS 100 /* when the system has no descriptor left */

/* A peer that has not proved itself yet. */
struct half {
    struct psd_listener *listener;
    int fd; /* -1: free */
    struct loop_watch watch;
    struct loop_timer timer;
    bool challenged;
    size_t got;
    struct auth_identity identity;
    uint8_t hello[AUTH_HELLO_SIZE];
    uint8_t challenge[AUTH_CHALLENGE_SIZE];
    uint8_t proof[AUTH_PROOF_SIZE];
};

struct psd_listener {
    struct psd_loop *loop;
    const struct auth_job *job;
    const struct listen_events *events;
    void *user;
    int fd;
    struct loop_watch watch;
    struct loop_timer pause;
    unsigned half_count;
    unsigned busy;
    bool closed;
    struct half halves[LISTEN_HALF_OPEN_MAX];
};

static void on_peer(struct loop_watch *watch, uint32_t mask);

static void listen_resume(struct psd_listener *listener)
{
    if (listener->watch.slot == 0 && listener->fd >= 0 &&
        loop_watch(listener->loop, &listener->watch, listener->fd, EPOLLIN,
                   on_peer) != PSD_OK) {
        log_error("tcp: no longer listening");
    }
}

static void half_drop(struct half *half)
{
    struct psd_listener *listener = half->listener;

    loop_timer_stop(&half->timer);
    loop_unwatch(listener->loop, &half->watch);
    if (half->fd >= 0) {
        close(half->fd);
    }
    half->fd = -1;
    listener->half_count--;
    if (!listener->closed) {
        listen_resume(listener);
    }
}

/* The proof is good: is the peer wanted? */
static psd_status half_promote(struct half *half)
{
    struct psd_listener *listener = half->listener;
    enum auth_verdict verdict;
    struct psd_link *link;
    psd_status status;
    uint8_t byte;

    status = tcp_link_create(listener->loop, listener->job, &half->identity,
                             &link);
    if (status != PSD_OK) {
        return status;
    }
    listener->busy++;
    link_enter(link);
    verdict = listener->events->accept(listener->user, link);
    listener->busy--;
    if (verdict == AUTH_WELCOME && (link->events == NULL || link->closed)) {
        verdict = AUTH_REFUSED_SHARD;
    }
    byte = (uint8_t)verdict;
    if (tcp_write_small(half->fd, &byte, 1) == PSD_OK &&
        verdict == AUTH_WELCOME) {
        loop_unwatch(listener->loop, &half->watch);
        tcp_link_start(link, half->fd);
        half->fd = -1;
    } else if (verdict == AUTH_WELCOME) {
        struct tcp_link *tcp = link->state;

        stream_fail(&tcp->stream, PSD_ELOST); /* it has an owner: tell */
    } else {
        link->closed = true;
    }
    link_leave(link);
    return PSD_ELOST; /* either way the place is free */
}

static psd_status half_step(struct half *half)
{
    struct psd_listener *listener = half->listener;
    psd_status status;

    if (!half->challenged) {
        status = tcp_read_small(half->fd, half->hello, AUTH_HELLO_SIZE,
                                &half->got);
        if (status != PSD_OK) {
            return status;
        }
        status = auth_challenge(listener->job, half->hello, &half->identity,
                                half->challenge);
        if (status != PSD_OK) {
            return status;
        }
        half->challenged = true;
        half->got = 0;
        return tcp_write_small(half->fd, half->challenge,
                               AUTH_CHALLENGE_SIZE);
    }
    status = tcp_read_small(half->fd, half->proof, AUTH_PROOF_SIZE,
                            &half->got);
    if (status != PSD_OK) {
        return status;
    }
    status = auth_verify(listener->job, half->hello, half->challenge,
                         half->proof);
    if (status != PSD_OK) {
        uint8_t byte = AUTH_REFUSED_PROOF;

        (void)tcp_write_small(half->fd, &byte, 1);
        return status;
    }
    return half_promote(half);
}

static void on_half(struct loop_watch *watch, uint32_t mask)
{
    struct half *half = list_entry(watch, struct half, watch);
    struct psd_listener *listener = half->listener;

    (void)mask;
    if (half_step(half) < 0) {
        half_drop(half);
    }
    if (listener->closed) {
        listener->closed = false;
        listener_close(listener);
    }
}

static void on_half_timeout(struct loop_timer *timer)
{
    struct half *half = list_entry(timer, struct half, timer);

    log_warn("tcp: dropped a peer that did not prove itself in time");
    half_drop(half);
}

static void half_start(struct psd_listener *listener, int fd)
{
    struct half *half = listener->halves;
    int one = 1;

    while (half->fd >= 0) {
        half++;
    }
    half->fd = fd;
    half->got = 0;
    half->challenged = false;
    listener->half_count++;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    loop_timer_start(listener->loop, &half->timer, tcp_open_limit_ns(),
                     on_half_timeout);
    if (loop_watch(listener->loop, &half->watch, fd, EPOLLIN, on_half) !=
        PSD_OK) {
        half_drop(half);
    }
}

static void on_pause_over(struct loop_timer *timer)
{
    listen_resume(list_entry(timer, struct psd_listener, pause));
}

static void on_peer(struct loop_watch *watch, uint32_t mask)
{
    struct psd_listener *listener =
        list_entry(watch, struct psd_listener, watch);

    (void)mask;
    while (listener->half_count < LISTEN_HALF_OPEN_MAX) {
        int fd = accept4(listener->fd, NULL, NULL,
                         SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd >= 0) {
            half_start(listener, fd);
        } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
            return;
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS ||
                   errno == ENOMEM) {
            log_error("tcp: cannot accept a peer: %m");
            loop_unwatch(listener->loop, &listener->watch);
            loop_timer_start(listener->loop, &listener->pause,
                             LISTEN_PAUSE_MS * CLOCK_NS_PER_MS,
                             on_pause_over);
            return;
        } /* else: that peer has gone again */
    }
    loop_unwatch(listener->loop, &listener->watch);
}

static int listen_on(const struct addrinfo *at)
{
    int one = 1;
    int error;
    int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    0);

    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        bind(fd, at->ai_addr, at->ai_addrlen) == 0 &&
        listen(fd, LISTEN_BACKLOG) == 0) {
        return fd;
    }
    error = errno;
    close(fd);
    errno = error;
    return -1;
}

static uint16_t port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } address;
    socklen_t size = sizeof(address);

    memset(&address, 0, sizeof(address));
    (void)getsockname(fd, &address.any, &size);
    return ntohs(address.any.sa_family == AF_INET6 ? address.v6.sin6_port
                                                   : address.v4.sin_port);
}

static psd_status open_socket(const char *host, uint16_t port, int *fd_p)
{
    struct addrinfo *addresses;
    char text[8];
    psd_status status;

    snprintf(text, sizeof(text), "%u", port);
    status = tcp_resolve(host, text, AI_PASSIVE, &addresses);
    if (status != PSD_OK) {
        return status;
    }
    *fd_p = -1;
    for (struct addrinfo *at = addresses; at != NULL && *fd_p < 0;
         at = at->ai_next) {
        *fd_p = listen_on(at);
    }
    if (*fd_p < 0) {
        log_error("tcp: cannot listen on %s port %u: %m", host, port);
        status = PSD_ESYSTEM;
    }
    freeaddrinfo(addresses);
    return status;
}

psd_status listener_open(struct psd_loop *loop, const char *host,
                         uint16_t port, const struct auth_job *job,
                         const struct listen_events *events, void *user,
                         uint16_t *port_p, struct psd_listener **listener_p)
{
    struct psd_listener *listener = mem_zalloc(sizeof(*listener));
    psd_status status;

    if (listener == NULL) {
        return PSD_ENOMEM;
    }
    listener->loop = loop;
    listener->job = job;
    listener->events = events;
    listener->user = user;
    for (unsigned i = 0; i < LISTEN_HALF_OPEN_MAX; i++) {
        listener->halves[i].listener = listener;
        listener->halves[i].fd = -1;
    }
    status = open_socket(host, port, &listener->fd);
    if (status != PSD_OK) {
        goto undo_alloc;
    }
    status = loop_watch(loop, &listener->watch, listener->fd, EPOLLIN,
                        on_peer);
    if (status != PSD_OK) {
        goto undo_socket;
    }
    if (port_p != NULL) {
        *port_p = port_of(listener->fd);
    }
    *listener_p = listener;
    return PSD_OK;

undo_socket:
    close(listener->fd);
undo_alloc:
    mem_free(listener);
    return status;
}

void listener_close(struct psd_listener *listener)
{
    if (listener == NULL || listener->closed) {
        return;
    }
    listener->closed = true;
    if (listener->busy > 0) {
        return; /* from inside accept: on_half finishes it */
    }
    for (unsigned i = 0; i < LISTEN_HALF_OPEN_MAX; i++) {
        if (listener->halves[i].fd >= 0) {
            half_drop(&listener->halves[i]);
        }
    }
    loop_timer_stop(&listener->pause);
    loop_unwatch(listener->loop, &listener->watch);
    close(listener->fd);
    mem_free(listener);
}
