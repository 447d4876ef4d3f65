/*
 * tcp.c: the client's end of a TCP link, and adopted descriptors. Connects
 * to each address of the name in turn, proves itself (wire/auth.h), and hands
 * the socket to stream.c. The server's end is listen.c.
 */
#define _GNU_SOURCE
#include "transport/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

enum phase { PHASE_CONNECT, PHASE_CHALLENGE, PHASE_VERDICT, PHASE_DONE };

static _Atomic unsigned open_limit_ms = LINK_OPEN_MS;

void tcp_open_limit_set(unsigned limit_ms)
{
    atomic_store(&open_limit_ms, limit_ms);
}

uint64_t tcp_open_limit_ns(void)
{
    return atomic_load(&open_limit_ms) * CLOCK_NS_PER_MS;
}

/* ---- shared with listen.c ---------------------------------------------- */

psd_status tcp_write_small(int fd, const void *bytes, size_t size)
{
    ssize_t written = send(fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT);

    return written == (ssize_t)size ? PSD_OK : PSD_ELOST;
}

psd_status tcp_read_small(int fd, void *bytes, size_t size, size_t *got_p)
{
    ssize_t got;

    do {
        got = recv(fd, (uint8_t *)bytes + *got_p, size - *got_p,
                   MSG_DONTWAIT);
    } while (got < 0 && errno == EINTR);
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
        return PSD_AGAIN;
    }
    if (got <= 0) {
        return PSD_ELOST;
    }
    *got_p += (size_t)got;
    return *got_p == size ? PSD_OK : PSD_AGAIN;
}

psd_status tcp_resolve(const char *host, const char *port, int flags,
                       struct addrinfo **list_p)
{
    struct addrinfo hints = {
        .ai_family = AF_UNSPEC,
        .ai_socktype = SOCK_STREAM,
        .ai_flags = flags | AI_NUMERICSERV,
    };
    int error = getaddrinfo(host, port, &hints, list_p);

    if (error != 0) {
        log_error("tcp: cannot resolve %s: %s", host,
                  error == EAI_SYSTEM ? strerror(errno)
                                      : gai_strerror(error));
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

psd_status tcp_link_create(struct psd_loop *loop, const struct auth_job *job,
                           const struct auth_identity *identity,
                           struct psd_link **link_p)
{
    struct psd_link *link;
    struct tcp_link *tcp;
    psd_status status;

    status = link_create(&psd_transport_tcp, loop, NULL, NULL, &link);
    if (status != PSD_OK) {
        return status;
    }
    tcp = link->state;
    tcp->fd = -1;
    tcp->phase = PHASE_DONE;
    link->job = job;
    if (identity != NULL) {
        link->identity = *identity;
    }
    stream_init(&tcp->stream, link);
    *link_p = link;
    return PSD_OK;
}

void tcp_link_start(struct psd_link *link, int fd)
{
    struct tcp_link *tcp = link->state;
    psd_status status = stream_start(&tcp->stream, fd, fd, false);

    if (status == PSD_OK) {
        stream_tell_up(&tcp->stream);
    } else {
        stream_fail(&tcp->stream, status);
    }
}

/* ---- the client's handshake -------------------------------------------- */

static void drop_socket(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;

    loop_unwatch(link->loop, &tcp->watch);
    if (tcp->fd >= 0) {
        close(tcp->fd);
        tcp->fd = -1;
    }
}

static void drop_handshake(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;

    loop_timer_stop(&tcp->timer);
    drop_socket(link);
    if (tcp->addresses != NULL) {
        freeaddrinfo(tcp->addresses);
        tcp->addresses = NULL;
    }
    tcp->phase = PHASE_DONE;
}

static void give_up(struct psd_link *link, psd_status why)
{
    struct tcp_link *tcp = link->state;

    drop_handshake(link);
    stream_fail(&tcp->stream, why);
}

static void on_handshake(struct loop_watch *watch, uint32_t mask);

/* Begin to connect to the next address that lets us. */
static psd_status connect_next(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;
    int one = 1;

    while (tcp->address != NULL) {
        const struct addrinfo *to = tcp->address;

        tcp->address = to->ai_next;
        tcp->fd = socket(to->ai_family,
                         SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (tcp->fd < 0) {
            continue;
        }
        (void)setsockopt(tcp->fd, IPPROTO_TCP, TCP_NODELAY, &one,
                         sizeof(one));
        if ((connect(tcp->fd, to->ai_addr, to->ai_addrlen) == 0 ||
             errno == EINPROGRESS) &&
            loop_watch(link->loop, &tcp->watch, tcp->fd, EPOLLOUT,
                       on_handshake) == PSD_OK) {
            tcp->phase = PHASE_CONNECT;
            return PSD_OK;
        }
        drop_socket(link);
    }
    log_error("tcp: cannot connect to %s: %m", tcp->name);
    return PSD_ELOST;
}

static psd_status connected(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;
    int error = 0;
    socklen_t size = sizeof(error);
    psd_status status;

    (void)getsockopt(tcp->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        drop_socket(link);
        errno = error;
        return connect_next(link);
    }
    status = auth_hello(link->job, &link->identity, tcp->hello);
    if (status == PSD_OK) {
        status = tcp_write_small(tcp->fd, tcp->hello, AUTH_HELLO_SIZE);
    }
    if (status == PSD_OK) {
        status = loop_rewatch(link->loop, &tcp->watch, EPOLLIN);
    }
    tcp->phase = PHASE_CHALLENGE;
    tcp->got = 0;
    return status;
}

static psd_status challenged(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;
    uint8_t proof[AUTH_PROOF_SIZE];
    psd_status status;

    status = tcp_read_small(tcp->fd, tcp->input, AUTH_CHALLENGE_SIZE,
                            &tcp->got);
    if (status == PSD_ELOST) {
        log_error("tcp: %s ended the handshake", tcp->name);
    }
    if (status != PSD_OK) {
        return status;
    }
    status = auth_prove(link->job, tcp->hello, tcp->input, proof);
    if (status == PSD_OK) {
        status = tcp_write_small(tcp->fd, proof, sizeof(proof));
    }
    tcp->phase = PHASE_VERDICT;
    tcp->got = 0;
    return status;
}

static psd_status judged(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;
    psd_status status;
    int fd;

    status = tcp_read_small(tcp->fd, tcp->input, 1, &tcp->got);
    if (status != PSD_OK) {
        return status;
    }
    if (tcp->input[0] != AUTH_WELCOME) {
        log_error("tcp: %s refused rank %u, shard %u (verdict %u)", tcp->name,
                  link->identity.rank, link->identity.shard, tcp->input[0]);
        return tcp->input[0] == AUTH_REFUSED_SHARD ? PSD_ELOST : PSD_EAUTH;
    }
    loop_unwatch(link->loop, &tcp->watch);
    fd = tcp->fd;
    tcp->fd = -1;
    drop_handshake(link);
    tcp_link_start(link, fd);
    return PSD_OK;
}

static void on_handshake(struct loop_watch *watch, uint32_t mask)
{
    struct tcp_link *tcp = list_entry(watch, struct tcp_link, watch);
    struct psd_link *link = tcp->stream.link;
    psd_status status = PSD_OK;

    (void)mask;
    switch ((enum phase)tcp->phase) {
    case PHASE_CONNECT:
        status = connected(link);
        break;
    case PHASE_CHALLENGE:
        status = challenged(link);
        break;
    case PHASE_VERDICT:
        status = judged(link);
        break;
    case PHASE_DONE:
        break;
    }
    if (status < 0) {
        give_up(link, status);
    }
}

static void on_timeout(struct loop_timer *timer)
{
    struct tcp_link *tcp = list_entry(timer, struct tcp_link, timer);

    log_error("tcp: %s did not answer in time", tcp->name);
    give_up(tcp->stream.link, PSD_ETIME);
}

/* ---- the row ----------------------------------------------------------- */

/* "tcp:HOST:PORT" or "tcp:[V6]:PORT" into its parts, in `name`, which keeps
 * both: "HOST\0PORT". */
static psd_status split_url(const char *url, char *name, size_t size,
                            const char **host_p, const char **port_p)
{
    char *host = name;
    char *colon;
    size_t length = strlen(url + 4);

    if (length >= size) {
        return PSD_EINVAL;
    }
    memcpy(name, url + 4, length + 1);
    colon = strrchr(name, ':');
    if (colon == NULL || colon == name || colon[1] == '\0' ||
        strspn(colon + 1, "0123456789") != strlen(colon + 1)) {
        return PSD_EINVAL;
    }
    *colon = '\0';
    if (host[0] == '[') {
        if (colon[-1] != ']') {
            return PSD_EINVAL;
        }
        colon[-1] = '\0';
        host++;
    }
    *host_p = host;
    *port_p = colon + 1;
    return PSD_OK;
}

static psd_status tcp_open(struct psd_link *link, const char *url)
{
    struct tcp_link *tcp = link->state;
    const char *host = NULL;
    const char *port = NULL;
    psd_status status;

    tcp->fd = -1;
    stream_init(&tcp->stream, link);
    if (link->job == NULL ||
        split_url(url, tcp->name, sizeof(tcp->name), &host, &port) !=
            PSD_OK) {
        log_error("tcp: %s is not tcp:HOST:PORT of a job", url);
        return PSD_EINVAL;
    }
    status = tcp_resolve(host, port, 0, &tcp->addresses);
    if (status != PSD_OK) {
        return status;
    }
    snprintf(tcp->name, sizeof(tcp->name), "%s", url + 4);
    tcp->address = tcp->addresses;
    status = connect_next(link);
    if (status != PSD_OK) {
        drop_handshake(link);
        return status;
    }
    loop_timer_start(link->loop, &tcp->timer, tcp_open_limit_ns(),
                     on_timeout);
    return PSD_OK;
}

static psd_status tcp_send(struct psd_link *link,
                           const struct frame_header *header,
                           const void *payload)
{
    struct tcp_link *tcp = link->state;

    return stream_send(&tcp->stream, header, payload);
}

static void tcp_flush(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;

    stream_flush(&tcp->stream);
}

static size_t tcp_pending(const struct psd_link *link)
{
    const struct tcp_link *tcp = link->state;

    return tcp->stream.outbox.pending;
}

static void tcp_close(struct psd_link *link)
{
    struct tcp_link *tcp = link->state;

    drop_handshake(link);
    stream_close(&tcp->stream);
}

const struct psd_transport psd_transport_tcp = {
    .name = "tcp",
    .summary = "sockets between hosts, and adopted descriptors",
    .link_size = sizeof(struct tcp_link),
    .open = tcp_open,
    .send = tcp_send,
    .flush = tcp_flush,
    .pending = tcp_pending,
    .close = tcp_close,
};

static psd_status set_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);

    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0) {
        log_error("link: cannot make descriptor %d non-blocking: %m", fd);
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

psd_status link_adopt(struct psd_loop *loop, int fd_in, int fd_out,
                      const struct link_events *events, void *user,
                      struct psd_link **link_p)
{
    struct psd_link *link = NULL;
    struct tcp_link *tcp;
    psd_status status;

    status = set_nonblocking(fd_in);
    if (status == PSD_OK) {
        status = set_nonblocking(fd_out);
    }
    if (status == PSD_OK) {
        status = tcp_link_create(loop, NULL, NULL, &link);
    }
    if (status != PSD_OK) {
        close(fd_in);
        if (fd_out != fd_in) {
            close(fd_out);
        }
        return status;
    }
    tcp = link->state;
    link->events = events;
    link->user = user;
    status = stream_start(&tcp->stream, fd_in, fd_out, true);
    if (status != PSD_OK) {
        link_close(link);
        return status;
    }
    *link_p = link;
    return PSD_OK;
}
