/*
 * fuzz_frame.c: any bytes, as what a peer sends over a stream. The first byte
 * chooses: bit 0, a control link (the transport gathers payloads) or a data
 * link; bit 1, headers are sealed here so that the parser gets past the
 * checksum; bit 2, the bytes come in two writes.
 */
#define _GNU_SOURCE
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "fuzz.h"
#include "transport/transport.h"

#define INPUT_MAX 65536
#define PLACE_MAX 65536

struct peer {
    struct psd_link *link;
    bool down;
    uint8_t place[PLACE_MAX];
};

static psd_status on_place(void *user, struct psd_link *link,
                           const struct frame_header *header, void **to_p)
{
    struct peer *peer = user;

    (void)link;
    PSD_ASSERT(header->size > 0 && header->size <= WIRE_DATA_MAX);
    *to_p = header->size <= PLACE_MAX ? peer->place : NULL;
    return PSD_OK;
}

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct peer *peer = user;
    const volatile uint8_t *bytes = payload;

    PSD_ASSERT(!peer->down);
    PSD_ASSERT(header->version == WIRE_VERSION);
    PSD_ASSERT(header->type != FRAME_CREDIT);
    if (bytes != NULL && header->length > 0) {
        (void)bytes[0];
        (void)bytes[header->length - 1];
    }
    if (header->type == FRAME_BYE) {
        link_close(link);
        peer->link = NULL;
    }
    return PSD_OK;
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct peer *peer = user;

    (void)link;
    PSD_ASSERT(!peer->down);
    PSD_ASSERT(why < 0);
    peer->down = true;
}

static const struct link_events data_events = {
    .place = on_place, .deliver = on_deliver, .down = on_down
};
static const struct link_events control_events = {
    .deliver = on_deliver, .down = on_down
};

static void seal_all(uint8_t *bytes, size_t size)
{
    size_t at = 0;

    while (size - at >= FRAME_HEADER_SIZE) {
        struct frame_header header;
        size_t left = size - at - FRAME_HEADER_SIZE;

        memcpy(&header, bytes + at, sizeof(header));
        if (header.size <= left) {
            frame_seal(&header, bytes + at + FRAME_HEADER_SIZE);
        } else {
            header.version = WIRE_VERSION;
        }
        memcpy(bytes + at, &header, sizeof(header));
        at += FRAME_HEADER_SIZE +
              (header.size <= left ? header.size : left);
    }
}

static void turn(struct psd_loop *loop)
{
    struct loop_events events;

    do {
        loop_wait(loop, &events, 0);
    } while (loop_dispatch(loop, &events) > 0);
}

static void feed(struct psd_loop *loop, int fd, const uint8_t *bytes,
                 size_t size)
{
    PSD_ASSERT(send(fd, bytes, size, MSG_NOSIGNAL) == (ssize_t)size ||
               size == 0);
    turn(loop);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static uint8_t bytes[INPUT_MAX];
    static struct peer peer;
    struct psd_loop *loop;
    int fds[2];
    size_t half;

    if (size < 1 || size - 1 > INPUT_MAX) {
        return 0;
    }
    peer.link = NULL;
    peer.down = false;
    memcpy(bytes, data + 1, size - 1);
    size--;
    if ((data[0] & 2) != 0) {
        seal_all(bytes, size);
    }
    half = (data[0] & 4) != 0 ? size / 2 : size;
    PSD_ASSERT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) == 0);
    PSD_ASSERT(loop_create(&loop) == PSD_OK);
    PSD_ASSERT(link_adopt(loop, fds[0], fds[0],
                          (data[0] & 1) != 0 ? &control_events : &data_events,
                          &peer, &peer.link) == PSD_OK);
    feed(loop, fds[1], bytes, half);
    if (peer.link != NULL && !peer.down) {
        feed(loop, fds[1], bytes + half, size - half);
    }
    close(fds[1]);
    turn(loop);
    PSD_ASSERT(peer.link == NULL || peer.down);
    link_close(peer.link);
    loop_destroy(loop);
    return 0;
}
