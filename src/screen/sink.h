/*
 * sink.h: a descriptor that somebody else gave us (stdout, stderr) and that
 * may be slow: written without blocking, what does not fit waits. The
 * descriptor's own flags are shared with others and stay as they are. The
 * loop's thread.
 */
#ifndef PSD_SCREEN_SINK_H
#define PSD_SCREEN_SINK_H

#include <stdbool.h>
#include <stddef.h>

#include "transport/loop.h"

struct sink {
    struct psd_loop *loop;
    int fd;
    bool own;    /* fd is a reopened, non-blocking one */
    bool socket; /* sent with MSG_DONTWAIT */
    bool broken; /* the reader is gone: bytes are dropped */
    struct loop_watch watch;
    bool watched;
    char *data;
    size_t start;
    size_t end;
    size_t capacity;
    void *user;
    void (*empty)(void *user); /* everything is out */
};

psd_status sink_init(struct sink *sink, struct psd_loop *loop, int fd,
                     void *user, void (*empty)(void *user));
/* Copies; the bytes go with the next sink_flush, in one write(2) with what
 * else has gathered. */
void sink_add(struct sink *sink, const void *data, size_t size);
/* Never blocks, unless `fd` is a file. Calls `empty` when everything is out,
 * also when there was nothing. */
void sink_flush(struct sink *sink);
/* Both. */
void sink_write(struct sink *sink, const void *data, size_t size);
/* Bytes that are not out. */
size_t sink_size(const struct sink *sink);
/* The reader does not keep up: bytes that were flushed are still here. */
bool sink_blocked(const struct sink *sink);
/* Writes what is left, waiting for the reader. */
void sink_fini(struct sink *sink);

#endif
