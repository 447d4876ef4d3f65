/*
 * stream.h: framed links over byte streams: TCP after its handshake, Unix
 * sockets, pipes. Private to this room; the loop's thread.
 *
 * Sending: frames wait in an outbox and leave many at a time, much for another
 * host in turns with other links. A peer grants credit for data payloads, so
 * that a slow one holds back only its own link.
 * Receiving: many small frames per read; what a big payload still lacks is
 * read straight to its place.
 */
#ifndef PSD_TRANSPORT_STREAM_H
#define PSD_TRANSPORT_STREAM_H

#include "transport/link.h"
#include "transport/outbox.h"
#include "transport/tune.h"
#include "transport/turns.h"

#define STREAM_BUFFER (256u << 10) /* small frames of one read */
#define STREAM_BULK (64u << 10)    /* payloads from here on are bulk */
#define STREAM_PEEK 4096u          /* read ahead between bulk payloads */
#define STREAM_TURN (4u << 20)     /* bytes read before others have a turn */
#define STREAM_LOW (64 << 10)      /* of a bulk payload between hosts, worth a
                                    * look; see tune_low_mark */
#define STREAM_MUCH (128u << 10)   /* queued bytes that wait for a turn */
#define STREAM_CREDIT_PART 4 /* of the window: owed bytes worth a frame */
#define STREAM_GATHER_KEEP (1u << 20)   /* a larger gather buffer is freed */

struct stream {
    struct psd_link *link;
    int fd_in;
    int fd_out;
    bool socket;  /* sendmsg works */
    bool adopted; /* no credit; the outbox grows */
    bool up;      /* frames flow */
    bool mute;    /* writing failed; what has come is still delivered */
    bool dead;
    bool tell_up;
    bool told_down;
    psd_status why;
    struct loop_watch in;
    struct loop_watch out; /* only when fd_out is another descriptor */
    struct loop_task task; /* tells up, down and ready */
    struct loop_task flusher;

    struct outbox outbox;
    struct tune_depth depth;
    struct turn turn;
    bool starved;         /* PSD_AGAIN was said */
    uint32_t starved_size;
    uint64_t window;      /* data bytes that may be without credit */
    uint64_t flying;      /* data bytes without credit */
    uint32_t owed;        /* data bytes consumed, not yet credited */

    uint8_t *buffer;      /* STREAM_BUFFER */
    size_t start;
    size_t end;
    int low;              /* the socket's low mark; 0: left alone */
    bool bulk;            /* the last payload was */
    bool inside;          /* header read, payload on its way */
    struct frame_header header;
    uint8_t *to;          /* NULL: thrown away */
    size_t got;
    uint8_t *gather;      /* control payloads that span reads */
    size_t gather_size;
};

/* Prepare for `link`; nothing is allocated. */
void stream_init(struct stream *stream, struct psd_link *link);
/* Frames flow over the descriptors from now on. Takes them, also on error;
 * stream_fail or stream_close has to follow then. */
psd_status stream_start(struct stream *stream, int fd_in, int fd_out,
                        bool adopted);
/* The link is lost: `down` follows in a dispatch. Idempotent. */
void stream_fail(struct stream *stream, psd_status why);
/* Tell `up` in the next dispatch. */
void stream_tell_up(struct stream *stream);

/* The rows' calls. */
psd_status stream_send(struct stream *stream,
                       const struct frame_header *header,
                       const void *payload);
void stream_flush(struct stream *stream);
/* Idempotent. */
void stream_close(struct stream *stream);

#endif
