/* visitor.c: see visitor.h. */
#define _GNU_SOURCE
#include "launch/visitor.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/exit_code.h"

#define VISITOR_FIRST 4096 /* of the queue */

static void on_event(struct loop_watch *watch, uint32_t mask);

static void on_late(struct loop_timer *timer)
{
    struct visitor *visitor = list_entry(timer, struct visitor, timer);

    log_info("desk: pid %d was too slow and is shown the door",
             (int)visitor->pid);
    visitor_leave(visitor);
}

static void on_done(struct loop_timer *timer)
{
    visitor_leave(list_entry(timer, struct visitor, timer));
}

bool visitor_enter(struct visitor *visitor, struct psd_loop *loop, int fd,
                   pid_t pid, uint32_t id, const struct visitor_events *events,
                   void *user)
{
    *visitor = (struct visitor){ .events = events,
                                 .user = user,
                                 .loop = loop,
                                 .fd = fd,
                                 .pid = pid,
                                 .id = id };
    if (loop_watch(loop, &visitor->watch, fd, EPOLLIN, on_event) != PSD_OK) {
        close(fd);
        visitor->events = NULL;
        return false;
    }
    loop_timer_start(loop, &visitor->timer, VISITOR_ASK_MS * CLOCK_NS_PER_MS,
                     on_late);
    return true;
}

void visitor_leave(struct visitor *visitor)
{
    const struct visitor_events *events = visitor->events;

    if (events == NULL) {
        return;
    }
    visitor->broken = true; /* nothing goes any more */
    events->gone(visitor->user, visitor);
    loop_unwatch(visitor->loop, &visitor->watch);
    loop_timer_stop(&visitor->timer);
    close(visitor->fd);
    mem_free(visitor->out);
    *visitor = (struct visitor){ .fd = -1 };
}

/* ---- out ---------------------------------------------------------------- */

size_t visitor_pending(const struct visitor *visitor)
{
    return visitor->end - visitor->start;
}

/* As much as goes. */
static void push(struct visitor *visitor)
{
    while (visitor_pending(visitor) > 0 && !visitor->broken) {
        ssize_t n = send(visitor->fd, visitor->out + visitor->start,
                         visitor_pending(visitor),
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            break;
        }
        if (n < 0) {
            visitor->broken = true;
            break;
        }
        visitor->start += (size_t)n;
        visitor->waited_ns = 0;
    }
    if (visitor_pending(visitor) == 0 || visitor->broken) {
        visitor->start = 0;
        visitor->end = 0;
        visitor->waited_ns = 0;
    } else if (visitor->waited_ns == 0) {
        visitor->waited_ns = clock_ns();
    }
    (void)loop_rewatch(visitor->loop, &visitor->watch,
                       visitor_pending(visitor) > 0 ? EPOLLIN | EPOLLOUT
                                                    : EPOLLIN);
}

/* Room for `size` more bytes behind `end`. */
static bool make_room(struct visitor *visitor, size_t size)
{
    size_t pending = visitor_pending(visitor);
    size_t capacity =
        visitor->capacity == 0 ? VISITOR_FIRST : visitor->capacity;
    void *grown = visitor->out;

    if (pending + size > VISITOR_QUEUE_MAX) {
        return false;
    }
    if (visitor->start > 0) {
        memmove(visitor->out, visitor->out + visitor->start, pending);
        visitor->start = 0;
        visitor->end = pending;
    }
    while (capacity < pending + size) {
        capacity *= 2;
    }
    if (capacity > visitor->capacity) {
        if (mem_grow(&grown, visitor->capacity, capacity, 1) != PSD_OK) {
            return false;
        }
        visitor->out = grown;
        visitor->capacity = capacity;
    }
    return true;
}

bool visitor_send(struct visitor *visitor, const struct frame_header *header,
                  const void *payload)
{
    struct frame_header sealed = *header;

    if (visitor->broken || visitor->is_last) {
        return true; /* nobody reads it */
    }
    if (!make_room(visitor, sizeof(sealed) + header->size)) {
        return false;
    }
    sealed.length = sealed.size;
    frame_seal(&sealed, payload);
    memcpy(visitor->out + visitor->end, &sealed, sizeof(sealed));
    visitor->end += sizeof(sealed);
    if (header->size > 0) {
        memcpy(visitor->out + visitor->end, payload, header->size);
        visitor->end += header->size;
    }
    if (visitor->waited_ns == 0) { /* else the socket is full */
        push(visitor);
    }
    return true;
}

void visitor_done(struct visitor *visitor, int code, const char *reason)
{
    struct desk_done done = { .code = code };
    struct frame_header header = { .type = FRAME_DONE,
                                   .rank = WIRE_RANK_NONE };
    struct pack pack;

    snprintf(done.reason, sizeof(done.reason), "%s", reason);
    pack_init(&pack);
    desk_done_pack(&pack, &done);
    header.size = (uint32_t)pack.size;
    if (pack.failed || !visitor_send(visitor, &header, pack.data)) {
        visitor->broken = true; /* it sees the end of the stream */
    }
    pack_fini(&pack);
    visitor->is_last = true;
    if (visitor_pending(visitor) > 0) {
        loop_timer_start(visitor->loop, &visitor->timer,
                         VISITOR_LAST_MS * CLOCK_NS_PER_MS, on_late);
    } else { /* not now: whoever calls may still look at it */
        loop_timer_start(visitor->loop, &visitor->timer, 0, on_done);
    }
}

void visitor_drain(struct visitor *visitor, uint64_t due_ns)
{
    uint64_t now_ns;

    push(visitor);
    while (visitor_pending(visitor) > 0 && (now_ns = clock_ns()) < due_ns) {
        struct pollfd poll_fd = { .fd = visitor->fd, .events = POLLOUT };

        (void)poll(&poll_fd, 1, (int)((due_ns - now_ns) / CLOCK_NS_PER_MS) + 1);
        push(visitor);
    }
}

/* ---- in ----------------------------------------------------------------- */

/* All of the ask is here, or as much as can be judged wrong. */
static psd_status check_ask(struct visitor *visitor, size_t *need_p)
{
    const uint8_t *payload = visitor->bytes + FRAME_HEADER_SIZE;
    struct frame_header header;
    psd_status status;

    *need_p = FRAME_HEADER_SIZE;
    if (visitor->used < FRAME_HEADER_SIZE) {
        return PSD_AGAIN;
    }
    memcpy(&header, visitor->bytes, sizeof(header));
    status = frame_check_header(&header);
    if (status != PSD_OK) {
        return status;
    }
    if (header.type != FRAME_ASK || header.size > DESK_ASK_MAX) {
        return PSD_EPROTO;
    }
    *need_p += header.size;
    if (visitor->used < *need_p) {
        return PSD_AGAIN;
    }
    status = frame_check_payload(&header, payload);
    return status == PSD_OK
               ? desk_ask_unpack(&visitor->ask, payload, header.size)
               : status;
}

/* False: it has left. */
static bool read_ask(struct visitor *visitor)
{
    psd_status status;
    size_t need;

    while ((status = check_ask(visitor, &need)) == PSD_AGAIN) {
        ssize_t n = read(visitor->fd, visitor->bytes + visitor->used,
                         need - visitor->used);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return true;
        }
        if (n <= 0) {
            visitor_leave(visitor);
            return false;
        }
        visitor->used += (size_t)n;
    }
    visitor->has_asked = true;
    loop_timer_stop(&visitor->timer);
    if (status != PSD_OK) {
        log_warn("desk: pid %d asked in no language of ours",
                 (int)visitor->pid);
        visitor_done(visitor, EXIT_CODE_PROTOCOL,
                     "this is no question of Poseidon's protocol; are psd and "
                     "psd_run of the same installation?");
        return true;
    }
    visitor->events->asked(visitor->user, visitor);
    return true;
}

/* After its ask a visitor has nothing to say. False: it has left. */
static bool read_more(struct visitor *visitor)
{
    char rubbish[4096];
    ssize_t n = recv(visitor->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT);

    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return true;
    }
    if (n > 0 && visitor->is_last) { /* it shall read why */
        return true;
    }
    visitor_leave(visitor);
    return false;
}

static void on_event(struct loop_watch *watch, uint32_t mask)
{
    struct visitor *visitor = list_entry(watch, struct visitor, watch);

    if ((mask & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 &&
        !(visitor->has_asked ? read_more(visitor) : read_ask(visitor))) {
        return;
    }
    if ((mask & EPOLLOUT) != 0) {
        push(visitor);
        if (visitor_pending(visitor) > 0) {
            return;
        }
        if (visitor->is_last) {
            visitor_leave(visitor);
        } else {
            visitor->events->drained(visitor->user, visitor);
        }
    }
}
