/*
 * tune.h: what is asked of the kernel about a TCP socket, and what the kernel
 * is told. Private to this room.
 */
#ifndef PSD_TRANSPORT_TUNE_H
#define PSD_TRANSPORT_TUNE_H

#include <stdbool.h>

/* Does the connection stay on this host? Both ends see the same, so that they
 * agree on the window. False for what is no connection. */
bool tune_is_loopback(int fd);

/* Tell of input only when `size` bytes are there, or the end. */
void tune_low_mark(int fd, int size);

#endif
