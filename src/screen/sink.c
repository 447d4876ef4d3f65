/* sink.c: see sink.h. */
#define _GNU_SOURCE
#include "screen/sink.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define SINK_FIRST 4096

psd_status sink_init(struct sink *sink, struct psd_loop *loop, int fd,
                     void *user, void (*empty)(void *user))
{
    struct stat about;
    char path[32];
    int own;

    *sink = (struct sink){.loop = loop, .fd = fd, .user = user, .empty = empty};
    if (fstat(fd, &about) != 0) {
        sink->broken = true; /* closed */
        return PSD_OK;
    }
    sink->socket = S_ISSOCK(about.st_mode);
    if (S_ISFIFO(about.st_mode) || isatty(fd)) {
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
        own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (own >= 0) {
            sink->fd = own;
            sink->own = true;
        }
    }
    return PSD_OK;
}

size_t sink_size(const struct sink *sink)
{
    return sink->end - sink->start;
}

bool sink_blocked(const struct sink *sink)
{
    return sink->watched;
}

static void on_writable(struct loop_watch *watch, uint32_t mask);

/* Write as much as goes; false when the rest has to wait. */
static bool push(struct sink *sink)
{
    while (sink->start < sink->end) {
        const char *at = sink->data + sink->start;
        size_t size = sink->end - sink->start;
        ssize_t n = sink->socket
                        ? send(sink->fd, at, size, MSG_DONTWAIT | MSG_NOSIGNAL)
                        : write(sink->fd, at, size);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return false;
        }
        if (n < 0) {
            sink->broken = true;
            sink->start = sink->end;
            break;
        }
        sink->start += (size_t)n;
    }
    sink->start = 0;
    sink->end = 0;
    return true;
}

void sink_flush(struct sink *sink)
{
    if (!push(sink)) {
        if (!sink->watched) {
            sink->watched = loop_watch(sink->loop, &sink->watch, sink->fd,
                                       EPOLLOUT, on_writable) == PSD_OK;
        }
        return;
    }
    if (sink->watched) {
        loop_unwatch(sink->loop, &sink->watch);
        sink->watched = false;
    }
    if (sink->empty != NULL) {
        sink->empty(sink->user);
    }
}

static void on_writable(struct loop_watch *watch, uint32_t mask)
{
    (void)mask;
    sink_flush(list_entry(watch, struct sink, watch));
}

void sink_add(struct sink *sink, const void *data, size_t size)
{
    if (sink->broken || size == 0) {
        return;
    }
    if (sink->capacity - sink->end < size) {
        size_t capacity = sink->capacity == 0 ? SINK_FIRST : sink->capacity;
        void *grown = sink->data;

        while (capacity - sink->end < size) {
            capacity *= 2;
        }
        if (mem_grow(&grown, sink->end, capacity, 1) != PSD_OK) {
            return; /* mem.c has said so; the log files have the bytes */
        }
        sink->data = grown;
        sink->capacity = capacity;
    }
    memcpy(sink->data + sink->end, data, size);
    sink->end += size;
}

void sink_write(struct sink *sink, const void *data, size_t size)
{
    sink_add(sink, data, size);
    sink_flush(sink);
}

void sink_fini(struct sink *sink)
{
    while (!push(sink)) {
        struct pollfd poll_fd = {.fd = sink->fd, .events = POLLOUT};

        (void)poll(&poll_fd, 1, -1);
    }
    if (sink->watched) {
        loop_unwatch(sink->loop, &sink->watch);
    }
    if (sink->own) {
        close(sink->fd);
    }
    mem_free(sink->data);
    *sink = (struct sink){.fd = -1};
}
