/* outbox.c: see outbox.h. */
#define _GNU_SOURCE
#include "transport/outbox.h"

#include <errno.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"

psd_status outbox_init(struct outbox *outbox, uint32_t capacity,
                       uint32_t limit)
{
    *outbox = (struct outbox){ .capacity = capacity, .limit = limit };
    outbox->entries = mem_zalloc_array(capacity, sizeof(*outbox->entries));
    return outbox->entries == NULL ? PSD_ENOMEM : PSD_OK;
}

static struct outbox_entry *entry_at(const struct outbox *outbox,
                                     uint32_t index)
{
    uint32_t at = outbox->head + index;

    return &outbox->entries[at < outbox->capacity ? at
                                                  : at - outbox->capacity];
}

static void pop_first(struct outbox *outbox)
{
    struct outbox_entry *entry = entry_at(outbox, 0);

    if (entry->owned) {
        mem_free((void *)(uintptr_t)entry->payload);
        entry->owned = false;
    }
    outbox->head++;
    if (outbox->head == outbox->capacity) {
        outbox->head = 0;
    }
    outbox->count--;
}

void outbox_clear(struct outbox *outbox)
{
    while (outbox->count > 0) {
        pop_first(outbox);
    }
    outbox->offset = 0;
    outbox->pending = 0;
}

void outbox_fini(struct outbox *outbox)
{
    if (outbox->entries != NULL) {
        outbox_clear(outbox);
        mem_free(outbox->entries);
        outbox->entries = NULL;
    }
}

static psd_status outbox_grow(struct outbox *outbox)
{
    uint32_t capacity = outbox->capacity * 2;
    struct outbox_entry *entries;

    if (capacity > outbox->limit) {
        capacity = outbox->limit;
    }
    if (capacity <= outbox->capacity) {
        return PSD_AGAIN;
    }
    entries = mem_zalloc_array(capacity, sizeof(*entries));
    if (entries == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < outbox->count; i++) {
        entries[i] = *entry_at(outbox, i);
    }
    mem_free(outbox->entries);
    outbox->entries = entries;
    outbox->capacity = capacity;
    outbox->head = 0;
    return PSD_OK;
}

psd_status outbox_push(struct outbox *outbox,
                       const struct frame_header *header, const void *payload)
{
    struct outbox_entry *entry;
    void *copy = NULL;

    if (outbox->count == outbox->capacity) {
        psd_status status = outbox_grow(outbox);

        if (status != PSD_OK) {
            return status;
        }
    }
    if (frame_is_control(header) && header->size > 0) {
        copy = mem_zalloc(header->size);
        if (copy == NULL) {
            return PSD_ENOMEM;
        }
        memcpy(copy, payload, header->size);
    }
    entry = entry_at(outbox, outbox->count);
    entry->header = *header;
    entry->payload = copy != NULL ? copy : payload;
    entry->owned = copy != NULL;
    outbox->count++;
    outbox->pending += FRAME_HEADER_SIZE + header->size;
    return PSD_OK;
}

/* The first `most` unwritten bytes, in order, as up to OUTBOX_IOV iovecs. */
static int fill(const struct outbox *outbox, struct iovec *iov, size_t most,
                size_t *offered_p)
{
    size_t skip = outbox->offset;
    size_t sum = 0;
    int used = 0;

    for (uint32_t i = 0;
         i < outbox->count && used + 2 <= OUTBOX_IOV && sum < most; i++) {
        struct outbox_entry *entry = entry_at(outbox, i);
        size_t size = entry->header.size;

        if (skip < FRAME_HEADER_SIZE) {
            iov[used].iov_base = (uint8_t *)&entry->header + skip;
            iov[used].iov_len = FRAME_HEADER_SIZE - skip;
            sum += iov[used++].iov_len;
            skip = 0;
        } else {
            skip -= FRAME_HEADER_SIZE;
        }
        if (size > 0) {
            iov[used].iov_base = (void *)(uintptr_t)(entry->payload + skip);
            iov[used].iov_len = size - skip;
            sum += iov[used++].iov_len;
        }
        skip = 0;
    }
    while (sum > most) { /* the last two may go too far */
        size_t over = sum - most;
        size_t *last = &iov[used - 1].iov_len;

        over = over < *last ? over : *last;
        sum -= over;
        *last -= over;
        used -= *last == 0;
    }
    *offered_p = sum;
    return used;
}

/* The first `size` of them are written. */
static void drop(struct outbox *outbox, size_t size)
{
    PSD_ASSERT(size <= outbox->pending);
    outbox->pending -= size;
    size += outbox->offset;
    while (outbox->count > 0) {
        size_t frame = FRAME_HEADER_SIZE + entry_at(outbox, 0)->header.size;

        if (size < frame) {
            break;
        }
        size -= frame;
        pop_first(outbox);
    }
    outbox->offset = size;
}

/* A pipe has no MSG_NOSIGNAL: hold SIGPIPE back for the call, and take it if
 * it was ours. */
static ssize_t write_pipe(int fd, const struct iovec *iov, int count)
{
    static const struct timespec now = { .tv_sec = 0 };
    sigset_t pipe_set;
    sigset_t pending;
    sigset_t old;
    ssize_t written;
    int error;

    sigemptyset(&pipe_set);
    sigaddset(&pipe_set, SIGPIPE);
    sigpending(&pending);
    pthread_sigmask(SIG_BLOCK, &pipe_set, &old);
    written = writev(fd, iov, count);
    error = errno;
    if (written < 0 && error == EPIPE && !sigismember(&pending, SIGPIPE)) {
        (void)sigtimedwait(&pipe_set, NULL, &now);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    errno = error;
    return written;
}

ssize_t outbox_write(struct outbox *outbox, int fd, bool is_socket,
                     size_t most, size_t *offered_p)
{
    struct iovec iov[OUTBOX_IOV];
    struct msghdr message = { .msg_iov = iov };
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (most < SIZE_MAX ? MSG_EOR : 0);
    int count = fill(outbox, iov, most, offered_p);
    ssize_t written;

    message.msg_iovlen = (size_t)count;
    do {
        written = is_socket ? sendmsg(fd, &message, flags)
                            : write_pipe(fd, iov, count);
    } while (written < 0 && errno == EINTR);
    if (written > 0) {
        drop(outbox, (size_t)written);
    }
    return written;
}
