/*
 * transport.h: moves frames between two members. A payload is a span: inline
 * bytes, or (region, offset, size) where the link maps memory, and then
 * nothing moves. Never looks inside, never reorders, never retries: that is
 * wire/, worker/ and server/.
 *
 * Life of a link: link_open (or link_accept through a listener) -> `up` ->
 * send and deliver -> `down`, once, when it is lost -> link_close. Everything
 * runs on the thread that drives the loop, under its owner's lock. Events are
 * called from loop_dispatch only, never from inside link_send or link_open,
 * and a handler may close its link.
 */
#ifndef PSD_TRANSPORT_TRANSPORT_H
#define PSD_TRANSPORT_TRANSPORT_H

#include "base/option.h"
#include "transport/loop.h"
#include "wire/auth.h"
#include "wire/wire.h"

#define LINK_FRAMES_MAX 256        /* frames queued to send on one link */
#define LINK_WINDOW (8u << 20)     /* data bytes in flight on one link: enough
                                    * for 25 Gbit/s over 2 ms */
#define LINK_WINDOW_LOCAL (384u << 10) /* over loopback, where more in flight
                                        * only means more that has left the
                                        * cache before it is read */
#define LINK_ADOPTED_FRAMES_MAX 65536     /* the same, adopted links */
#define LINK_ADOPTED_BYTES_MAX (512u << 20) /* and their bytes */
#define LINK_FLUSH (64u << 10)     /* queued bytes worth a system call now,
                                    * while more may follow */
#define LINK_REGIONS_MAX (WIRE_RANKS_MAX + 1)
#define LINK_OPEN_MS 5000          /* connect and handshake */
#define LISTEN_HALF_OPEN_MAX 64    /* peers that have not proved themselves */

struct psd_link;

struct link_events {
    /* A header has come whose payload is inline: where shall it go? The
     * handler has checked header->size against what it expects and sets
     * *to_p to at least that much memory, kept until deliver; NULL: read it
     * and throw it away (deliver is still called, payload NULL). An error
     * takes the link down. Control links: NULL `place`; the transport then
     * gathers the payload itself. */
    psd_status (*place)(void *user, struct psd_link *link,
                        const struct frame_header *header, void **to_p);
    /* The frame is complete. `payload` is where place put it, or the span,
     * valid until the answer for it is sent (push) or the call returns. An
     * error takes the link down. */
    psd_status (*deliver)(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload);
    /* link_send said PSD_AGAIN; now there is room. */
    void (*ready)(void *user, struct psd_link *link);
    /* Open and proven. */
    void (*up)(void *user, struct psd_link *link);
    /* The link is dead; queued frames are gone. Close it when convenient. */
    void (*down)(void *user, struct psd_link *link, psd_status why);
};

/* Memory both ends can see. */
struct psd_region {
    uint16_t id;   /* 1..LINK_REGIONS_MAX - 1 */
    void *base;
    size_t size;
};

struct psd_transport {
    const char *name;    /* URL scheme: "tcp" */
    const char *summary; /* one line for --help */
    size_t link_size;    /* of its state; the core allocates it, zeroed */

    /* Begin; `up` or `down` tells how it ended. After an error no close. */
    psd_status (*open)(struct psd_link *link, const char *url);
    /* Queue one frame. Copies the header and, for control frames, the
     * payload; a data payload is kept until it is sent, which is before its
     * answer can arrive. PSD_AGAIN: no credit, nothing was taken, `ready`
     * follows. */
    psd_status (*send)(struct psd_link *link,
                       const struct frame_header *header,
                       const void *payload);
    /* Hand what is queued to the system, as far as it goes. */
    void (*flush)(struct psd_link *link);
    /* (optional) Share `region`: payloads inside it travel as spans.
     * Default: PSD_ENOSUP, everything is inline. */
    psd_status (*map)(struct psd_link *link, const struct psd_region *region);
    /* Bytes queued and not yet handed over. */
    size_t (*pending)(const struct psd_link *link);
    /* Idempotent; no event after it. */
    void (*close)(struct psd_link *link);
};

struct psd_link {
    const struct psd_transport *transport;
    struct psd_loop *loop;
    const struct link_events *events;
    void *user;
    struct auth_identity identity; /* client: mine; server: the peer's */
    const struct auth_job *job;    /* tcp; kept while the link lives */
    bool mapped;                   /* payloads are spans */
    bool crc;                      /* data frames carry checksums */
    uint32_t turn;                 /* see link_turn; 0: it takes none */
    uint64_t sent_bytes;           /* inline payload, both counters */
    uint64_t received_bytes;
    void *state;                   /* of the transport */
    unsigned busy;                 /* handlers of it on the stack */
    bool closed;                   /* freed when the last one returns */
};

/* Every transport there is; ends with NULL. */
extern const struct psd_transport *const psd_transports[];
const struct psd_transport *transport_find(const char *url);

/* Much for other hosts is written in turns (turns.h). The place of the link to
 * `peer`, one of `count`, in the order of `own`: those behind it come first. */
static inline uint32_t link_turn(uint32_t own, uint32_t peer, uint32_t count)
{
    return 1 + (peer + count - own % count) % count;
}

/* Open a link as a client. URLs:
 *   tcp:HOST:PORT  tcp:[V6]:PORT       needs job
 *   shm:INDEX                          through `shm_board`, see shm.h
 *   inproc:NAME                        through a hub, see inproc.h
 * `identity` and `job` are copied and kept, in that order. */
psd_status link_open(struct psd_loop *loop, const char *url,
                     const struct auth_job *job,
                     const struct auth_identity *identity,
                     const struct link_events *events, void *user,
                     struct psd_link **link_p);

/* A link over a connected stream descriptor that needs no proof (a Unix
 * socket, a pipe pair's socket, ssh's stdio). Takes `fd_in` and `fd_out`
 * (which may be the same). `up` is not called: it is up. */
psd_status link_adopt(struct psd_loop *loop, int fd_in, int fd_out,
                      const struct link_events *events, void *user,
                      struct psd_link **link_p);

/* Seals a copy of the header and queues it; see struct psd_transport.
 * The payload has header->size bytes, or header->length where size is 0; the
 * transport sets version, crc, size, region, offset, length and credit. At
 * the other end length is the bytes of the payload, and size too unless it is
 * a span (then 0). A mapped link also carries the place of an empty payload.
 * Before `up` it is PSD_AGAIN; on a dead link, why it is dead. What is queued
 * goes at the end of a dispatch or by link_flush; a thread that sends while
 * another waits in loop_wait has to flush. */
psd_status link_send(struct psd_link *link, const struct frame_header *header,
                     const void *payload);
void link_flush(struct psd_link *link);
/* Flush if LINK_FLUSH bytes are queued; the rest goes at the end of the
 * dispatch, or by link_flush. */
void link_flush_large(struct psd_link *link);
size_t link_pending(const struct psd_link *link);
psd_status link_map(struct psd_link *link, const struct psd_region *region);
/* Frees it; NULL is allowed. */
void link_close(struct psd_link *link);

/* ---- listening (tcp) --------------------------------------------------- */

struct psd_listener;

struct listen_events {
    /* A proven peer. Say yes by setting the link's events and user; anything
     * else closes it with the verdict returned. */
    enum auth_verdict (*accept)(void *user, struct psd_link *link);
};

/* Listen on `host` (name or address) and `port` (0: any). `*port_p` is the
 * one taken. Keeps `job`. PSD_ESYSTEM with a log line that names the address
 * when the port is taken. */
psd_status listener_open(struct psd_loop *loop, const char *host,
                         uint16_t port, const struct auth_job *job,
                         const struct listen_events *events, void *user,
                         uint16_t *port_p, struct psd_listener **listener_p);
void listener_close(struct psd_listener *listener); /* NULL allowed */

#endif
