/*
 * tune.h: what is asked of the kernel about a TCP socket, and what the kernel
 * is told. Private to this room.
 */
#ifndef PSD_TRANSPORT_TUNE_H
#define PSD_TRANSPORT_TUNE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Does the connection stay on this host? Both ends see the same, so that they
 * agree on the window. False for what is no connection. */
bool tune_is_loopback(int fd);

/* How much the kernel may hold of what a link has sent. A link that may hold
 * much fills the line's queue: what is urgent waits behind it, and once the
 * queue is full packets are lost, the kernel halves the rate of that link and
 * does not raise it again, and everybody waits for the slowest. A link that
 * may hold less than others gets less of the line. One that may hold too little
 * leaves it idle. Hence the links of a process that push against the line have
 * equal parts of what fits into a queue. A row of depths follows: a link goes
 * on while the line has no queue and back when the queue is long. */
struct tune_depth {
    int fd;      /* -1: left alone */
    unsigned row;
    int size;    /* what the kernel was told */
    bool shares; /* the line with others; counted */
    bool turns;  /* it writes in turns */
    size_t sent; /* since the last look at the line, without a pause; the
                  * owner counts */
};

void tune_depth_init(struct tune_depth *depth, int fd);
/* The kernel is full: take the depth that fits the line. */
void tune_depth_full(struct tune_depth *depth);
/* The link writes in turns (turns.h), which need a depth of their own: three
 * may be under way. Bytes of a turn; 0: the line has no queue worth it. */
size_t tune_depth_turn(struct tune_depth *depth);
/* May another turn be handed over? */
bool tune_depth_has_room(const struct tune_depth *depth);
/* The link is gone. Idempotent. */
void tune_depth_fini(struct tune_depth *depth);

/* The rules: what follows `row` when a byte takes this long and took that at
 * least, in microseconds; and when so many links share the line, bytes of a
 * row, 0: as the kernel likes, and bytes of a turn. */
unsigned tune_depth_next(unsigned row, uint32_t rtt_us, uint32_t min_rtt_us);
uint32_t tune_depth_size(unsigned row, uint32_t links);
uint32_t tune_turn_size(uint32_t links);

/* Tell of input only when `size` bytes are there, or the end. */
void tune_low_mark(int fd, int size);

#endif
