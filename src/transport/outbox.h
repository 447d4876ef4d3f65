/*
 * outbox.h: frames waiting to be written to a stream, a bounded ring. Headers
 * and control payloads are copied, data payloads are kept by pointer. Many
 * frames leave by one system call. Private to this room; the loop's thread.
 */
#ifndef PSD_TRANSPORT_OUTBOX_H
#define PSD_TRANSPORT_OUTBOX_H

#include <sys/types.h>

#include "wire/wire.h"

#define OUTBOX_IOV 256

struct outbox_entry {
    struct frame_header header;
    const uint8_t *payload;
    bool owned; /* the payload is a copy on the heap */
};

struct outbox {
    struct outbox_entry *entries;
    uint32_t capacity;
    uint32_t head;
    uint32_t count;
    uint32_t limit;  /* it grows up to that many; capacity: it does not */
    size_t offset;   /* bytes of the first frame that are written */
    size_t pending;  /* bytes not yet written */
};

psd_status outbox_init(struct outbox *outbox, uint32_t capacity,
                       uint32_t limit);
/* Idempotent. */
void outbox_fini(struct outbox *outbox);
/* Forget every frame. */
void outbox_clear(struct outbox *outbox);

/* PSD_AGAIN when the ring is full, PSD_ENOMEM when a copy fails; nothing is
 * taken then. */
psd_status outbox_push(struct outbox *outbox,
                       const struct frame_header *header,
                       const void *payload);
/* Write as much as goes, with one call. Returns what the system did;
 * `*offered_p` is what it was offered. Below SIZE_MAX, `most` bytes are the
 * limit and a packet ends behind them, also if it waits in the kernel. */
ssize_t outbox_write(struct outbox *outbox, int fd, bool is_socket,
                     size_t most, size_t *offered_p);

#endif
