/*
 * tcp.h: what the two ends of a TCP handshake share; private to this room
 * and its tests.
 */
#ifndef PSD_TRANSPORT_TCP_H
#define PSD_TRANSPORT_TCP_H

#include <netdb.h>

#include "transport/stream.h"

#define TCP_ADDRESS_MAX 300 /* "host:port" in log lines */

/* State of a TCP link, and of an adopted one (the stream alone). */
struct tcp_link {
    struct stream stream;
    struct addrinfo *addresses; /* that the name stands for */
    struct addrinfo *address;   /* being tried */
    int fd;                     /* until the handshake is done */
    struct loop_watch watch;
    struct loop_timer timer;
    unsigned phase;
    size_t got;
    uint8_t hello[AUTH_HELLO_SIZE];
    uint8_t input[AUTH_CHALLENGE_SIZE];
    char name[TCP_ADDRESS_MAX];
};

/* A link for a proven peer; its events are still unset. */
psd_status tcp_link_create(struct psd_loop *loop,
                           const struct auth_job *job,
                           const struct auth_identity *identity,
                           struct psd_link **link_p);
/* Takes `fd`. `up` follows, or `down` when there is no memory. */
void tcp_link_start(struct psd_link *link, int fd);

/* Write a few bytes to a fresh socket; anything but all of them is a loss. */
psd_status tcp_write_small(int fd, const void *bytes, size_t size);
/* Read up to `*got_p` = `size` bytes, never beyond. PSD_AGAIN: more needed;
 * PSD_ELOST: the peer has gone. */
psd_status tcp_read_small(int fd, void *bytes, size_t size, size_t *got_p);

/* Resolve `host`; a name that is none is PSD_ESYSTEM with a log line. */
psd_status tcp_resolve(const char *host, const char *port, int flags,
                       struct addrinfo **list_p);

/* How long connecting and proving may take: LINK_OPEN_MS unless a test says
 * otherwise. */
void tcp_open_limit_set(unsigned limit_ms);
uint64_t tcp_open_limit_ns(void);

#endif
