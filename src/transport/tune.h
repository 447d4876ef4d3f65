/*
 * tune.h: what is asked of the kernel about a TCP socket, and what the kernel
 * is told. Private to this room.
 */
#ifndef PSD_TRANSPORT_TUNE_H
#define PSD_TRANSPORT_TUNE_H

#include <stdbool.h>
#include <stdint.h>

/* Does the connection stay on this host? Both ends see the same, so that they
 * agree on the window. False for what is no connection. */
bool tune_is_loopback(int fd);

/* How much the kernel may hold of what a link has sent. A link that may hold
 * much fills the line's queue: what is urgent waits behind it, packets are
 * lost, and the links of a host share its line by chance, so that one receiver
 * starves until all others are done. A link that may hold too little leaves
 * the line idle. Hence a row of depths: it goes on while the line has no queue
 * and back when the queue is long. */
#define TUNE_DEPTH_LOOK (512u << 10) /* bytes sent in a row between looks */

/* Take the first depth. Says where in the row the socket is. */
unsigned tune_depth_first(int fd);
/* The kernel was full: look at the line and take the depth that fits it. */
unsigned tune_depth_look(int fd, unsigned depth);
/* The rule: what follows `depth` when a byte takes this long and took that at
 * least, in microseconds. */
unsigned tune_depth_next(unsigned depth, uint32_t rtt_us, uint32_t min_rtt_us);

/* Tell of input only when `size` bytes are there, or the end. */
void tune_low_mark(int fd, int size);

#endif
