/*
 * recorder.h: a transport for the tests of worker/ and server/: what is sent
 * is written down, and nothing else happens. The test delivers by hand.
 */
#ifndef PSD_TRANSPORT_RECORDER_H
#define PSD_TRANSPORT_RECORDER_H

#include "base/log.h"
#include "transport/link.h"

#define RECORDER_FRAMES 64
#define RECORDER_PAYLOAD 16384

struct recorder_frame {
    struct psd_link *link;
    struct frame_header header;
    const void *span; /* where the payload lay */
    char payload[RECORDER_PAYLOAD];
};

struct recorder {
    unsigned count;   /* frames sent */
    unsigned room;    /* frames until link_send says PSD_AGAIN */
    unsigned closes;
    unsigned flushes;
    struct recorder_frame frames[RECORDER_FRAMES];
};

static inline psd_status recorder_send(struct psd_link *link,
                                       const struct frame_header *header,
                                       const void *payload)
{
    struct recorder *recorder = *(struct recorder **)link->state;
    struct recorder_frame *frame;

    if (recorder->room == 0) {
        return PSD_AGAIN;
    }
    recorder->room--;
    PSD_ASSERT(recorder->count < RECORDER_FRAMES);
    PSD_ASSERT(header->size <= RECORDER_PAYLOAD);
    frame = &recorder->frames[recorder->count++];
    frame->link = link;
    frame->header = *header;
    frame->span = payload;
    if (header->size > 0) {
        memcpy(frame->payload, payload, header->size);
    }
    return PSD_OK;
}

static inline void recorder_flush(struct psd_link *link)
{
    (*(struct recorder **)link->state)->flushes++;
}

static inline size_t recorder_pending(const struct psd_link *link)
{
    (void)link;
    return 0;
}

static inline void recorder_close(struct psd_link *link)
{
    (*(struct recorder **)link->state)->closes++;
}

static const struct psd_transport recorder_transport = {
    .name = "recorder",
    .summary = "writes down what is sent",
    .link_size = sizeof(struct recorder *),
    .send = recorder_send,
    .flush = recorder_flush,
    .pending = recorder_pending,
    .close = recorder_close,
};

/* A link that is up; `recorder` has to outlive it. */
static inline struct psd_link *recorder_link(struct recorder *recorder,
                                             const struct link_events *events,
                                             void *user)
{
    struct psd_link *link;

    PSD_ASSERT(link_create(&recorder_transport, NULL, events, user, &link) ==
               PSD_OK);
    *(struct recorder **)link->state = recorder;
    return link;
}

#endif
