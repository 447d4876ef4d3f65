/*
 * lane.h: frames on their way to one end of an inproc link, in order, and at
 * most one duplicate that comes later. Private to this room; the loop's
 * thread.
 */
#ifndef PSD_TRANSPORT_LANE_H
#define PSD_TRANSPORT_LANE_H

#include "transport/transport.h"

struct lane_frame {
    struct frame_header header; /* size: bytes of `payload` */
    const void *payload;
    bool owned; /* the payload is a copy on the heap */
    uint64_t due_ns;
    uint64_t turn; /* of the hub when it was sent */
};

struct lane {
    uint32_t head;
    uint32_t count;
    struct lane_frame frames[LINK_FRAMES_MAX];
    bool has_echo;       /* a duplicate waits */
    uint32_t echo_after; /* for that many frames to go first */
    struct lane_frame echo;
};

/* Queue a frame; `copy`: with its payload, which is otherwise kept by
 * pointer. PSD_AGAIN when the lane is full. */
psd_status lane_push(struct lane *lane, const struct frame_header *header,
                     const void *payload, bool copy, uint64_t due_ns,
                     uint64_t turn);
/* Duplicate the frame pushed last; it comes after `later` frames that follow
 * it, or when there are none. Does nothing while another waits. */
void lane_echo(struct lane *lane, uint32_t later);

/* Take the next frame that was sent before `turn` and is due; false: none.
 * `idle`: nothing was taken before in this turn, so that a duplicate with no
 * frame left to wait for may come. The caller frees it by lane_frame_free. */
bool lane_take(struct lane *lane, uint64_t turn, uint64_t now_ns, bool idle,
               struct lane_frame *frame_p);
void lane_frame_free(struct lane_frame *frame);

/* When the next frame is due, UINT64_MAX: never. */
uint64_t lane_next_ns(const struct lane *lane);
void lane_clear(struct lane *lane);
/* The sender's memory may be gone: forget the duplicate, the first span, and
 * what follows it. */
void lane_forget_spans(struct lane *lane);

#endif
