/*
 * stream.c: see stream.h. This is the path of a gradient between hosts: no
 * allocation for data frames, one system call for as many frames as there
 * are, and no copy of a bulk payload but the kernel's.
 */
#define _GNU_SOURCE
#include "transport/stream.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/linger.h"
#include "transport/tune.h"

/* ---- life -------------------------------------------------------------- */

static enum turn_end on_turn(struct turn *turn, size_t size,
                             size_t *written_p);
static enum turn_end write_some(struct stream *stream, size_t most,
                                size_t *written_p);
static void on_task(struct loop_task *task);
static void on_flusher(struct loop_task *task);
static void on_event(struct loop_watch *watch, uint32_t mask);
static void on_out_event(struct loop_watch *watch, uint32_t mask);

void stream_init(struct stream *stream, struct psd_link *link)
{
    stream->link = link;
    stream->fd_in = -1;
    stream->fd_out = -1;
    loop_task_init(&stream->task, on_task);
    loop_task_init(&stream->flusher, on_flusher);
    turn_init(&stream->turn, on_turn);
}

static void drop_descriptors(struct stream *stream)
{
    turns_leave(loop_turns(stream->link->loop), &stream->turn);
    tune_depth_fini(&stream->depth);
    loop_unwatch(stream->link->loop, &stream->in);
    loop_unwatch(stream->link->loop, &stream->out);
    if (stream->fd_out >= 0 && stream->fd_out != stream->fd_in) {
        close(stream->fd_out);
    }
    if (stream->fd_in >= 0) {
        close(stream->fd_in);
    }
    stream->fd_in = -1;
    stream->fd_out = -1;
}

psd_status stream_start(struct stream *stream, int fd_in, int fd_out,
                        bool adopted)
{
    struct psd_loop *loop = stream->link->loop;
    psd_status status;
    int type;
    socklen_t size = sizeof(type);

    stream->fd_in = fd_in;
    stream->fd_out = fd_out;
    stream->adopted = adopted;
    stream->window = tune_is_loopback(fd_in) ? LINK_WINDOW_LOCAL : LINK_WINDOW;
    stream->low = adopted || stream->window == LINK_WINDOW_LOCAL ? 0 : 1;
    stream->socket =
        getsockopt(fd_out, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
    tune_depth_init(&stream->depth,
                    stream->low != 0 && stream->socket ? fd_out : -1);
    /* One more than LINK_FRAMES_MAX: a credit always finds room. */
    status = outbox_init(&stream->outbox, LINK_FRAMES_MAX + 1,
                         adopted ? LINK_ADOPTED_FRAMES_MAX
                                 : LINK_FRAMES_MAX + 1);
    if (status == PSD_OK) {
        stream->buffer = mem_zalloc(STREAM_BUFFER);
        status = stream->buffer == NULL ? PSD_ENOMEM : PSD_OK;
    }
    if (status == PSD_OK) {
        status = loop_watch(loop, &stream->in, fd_in, EPOLLIN, on_event);
    }
    if (status == PSD_OK && fd_out != fd_in) {
        status = loop_watch(loop, &stream->out, fd_out, 0, on_out_event);
    }
    stream->up = status == PSD_OK;
    return status;
}

void stream_fail(struct stream *stream, psd_status why)
{
    if (stream->dead) {
        return;
    }
    stream->dead = true;
    stream->up = false;
    stream->why = why;
    drop_descriptors(stream);
    outbox_clear(&stream->outbox);
    loop_task_post(stream->link->loop, &stream->task);
}

void stream_tell_up(struct stream *stream)
{
    stream->tell_up = true;
    loop_task_post(stream->link->loop, &stream->task);
}

void stream_close(struct stream *stream)
{
    size_t written;

    turns_leave(loop_turns(stream->link->loop), &stream->turn);
    if (stream->up && !stream->mute) {
        (void)write_some(stream, SIZE_MAX, &written); /* as far as it goes */
    }
    loop_task_cancel(&stream->task);
    loop_task_cancel(&stream->flusher);
    if (stream->up && !stream->mute && !stream->adopted) {
        loop_unwatch(stream->link->loop, &stream->in);
        linger_close(stream->link->loop, stream->fd_in);
        stream->fd_in = -1;
        stream->fd_out = -1;
    }
    drop_descriptors(stream);
    outbox_fini(&stream->outbox);
    mem_free(stream->buffer);
    mem_free(stream->gather);
    stream->buffer = NULL;
    stream->gather = NULL;
    stream->up = false;
    stream->dead = true;
    stream->told_down = true;
}

/* ---- sending ----------------------------------------------------------- */

static bool counts(const struct stream *stream,
                   const struct frame_header *header)
{
    return !stream->adopted && !frame_is_control(header);
}

/* Is there credit for a data payload? A receiver keeps a part of the window to
 * itself, so below that everything may have been consumed; a payload larger
 * than the window goes then. */
static bool has_credit(const struct stream *stream, uint32_t size)
{
    return stream->flying < stream->window / STREAM_CREDIT_PART ||
           stream->flying + size <= stream->window;
}

static bool has_room(const struct stream *stream)
{
    const struct outbox *outbox = &stream->outbox;

    if (stream->adopted) {
        return outbox->count < LINK_ADOPTED_FRAMES_MAX &&
               outbox->pending < LINK_ADOPTED_BYTES_MAX;
    }
    return outbox->count < LINK_FRAMES_MAX;
}

/* After PSD_AGAIN: is it worth calling `ready`? */
static void check_starved(struct stream *stream)
{
    if (stream->starved && stream->outbox.count <= LINK_FRAMES_MAX / 2 &&
        has_credit(stream, stream->starved_size)) {
        loop_task_post(stream->link->loop, &stream->task);
    }
}

static psd_status starve(struct stream *stream, uint32_t size)
{
    stream->starved = true;
    stream->starved_size = size;
    return PSD_AGAIN;
}

static void want_out(struct stream *stream, bool want)
{
    struct psd_loop *loop = stream->link->loop;
    uint32_t mask = want ? (uint32_t)EPOLLOUT : 0u;
    psd_status status;

    if (stream->fd_out == stream->fd_in) {
        status = loop_rewatch(loop, &stream->in, EPOLLIN | mask);
    } else if (stream->out.slot == 0) {
        return; /* its reader is gone */
    } else {
        status = loop_rewatch(loop, &stream->out, mask);
    }
    if (status != PSD_OK) {
        stream_fail(stream, status);
    }
}

/* Nothing can be written any more. What the peer said before it went is still
 * delivered, by the task, before `down`. */
static void go_mute(struct stream *stream)
{
    log_debug("link: cannot write: %m");
    turns_leave(loop_turns(stream->link->loop), &stream->turn);
    stream->mute = true;
    outbox_clear(&stream->outbox);
    loop_task_post(stream->link->loop, &stream->task);
}

/* Write up to `most` bytes. */
static enum turn_end write_some(struct stream *stream, size_t most,
                                size_t *written_p)
{
    enum turn_end end = TURN_DONE;

    *written_p = 0;
    while (stream->outbox.count > 0 && end == TURN_DONE) {
        size_t left = most == SIZE_MAX ? most : most - *written_p;
        size_t offered;
        ssize_t written = outbox_write(&stream->outbox, stream->fd_out,
                                       stream->socket, left, &offered);

        if (written < 0 && errno != EAGAIN && errno != EWOULDBLOCK) {
            go_mute(stream);
            return TURN_DONE;
        }
        *written_p += written > 0 ? (size_t)written : 0;
        if (written < (ssize_t)offered) {
            end = TURN_FULL;
        } else if (*written_p == most && stream->outbox.count > 0) {
            end = TURN_OVER;
        }
    }
    stream->depth.sent += *written_p;
    if (end == TURN_FULL) {
        tune_depth_full(&stream->depth);
    } else if (end == TURN_DONE) {
        stream->depth.sent = 0; /* after a pause the line has no queue */
        stream->turn.late = false;
    }
    want_out(stream, end == TURN_FULL);
    check_starved(stream);
    return stream->up ? end : TURN_DONE;
}

static enum turn_end on_turn(struct turn *turn, size_t size,
                             size_t *written_p)
{
    struct stream *stream = list_entry(turn, struct stream, turn);

    turn->size = tune_depth_turn(&stream->depth);
    if (turn->size == 0) { /* not any more */
        (void)write_some(stream, SIZE_MAX, written_p);
        return TURN_DONE;
    }
    if (!tune_depth_has_room(&stream->depth)) {
        *written_p = 0;
        tune_depth_full(&stream->depth);
        want_out(stream, true);
        return stream->up ? TURN_FULL : TURN_DONE;
    }
    return write_some(stream, size, written_p);
}

/* Much for another host goes in turns. Little goes at once, and so does all of
 * a link that made the others wait. */
static bool joins(struct stream *stream, const struct turns *turns)
{
    struct turn *turn = &stream->turn;

    if (stream->link->turn == 0 || turns->off || turn->late ||
        stream->outbox.pending < STREAM_MUCH) {
        return false;
    }
    turn->place = stream->link->turn;
    turn->size = tune_depth_turn(&stream->depth);
    return turn->size > 0;
}

void stream_flush(struct stream *stream)
{
    struct turns *turns = loop_turns(stream->link->loop);
    size_t written;

    loop_task_done(stream->link->loop, &stream->flusher);
    if (!stream->up || stream->mute) {
        return;
    }
    if (!turn_waits(&stream->turn)) {
        if (!joins(stream, turns)) {
            (void)write_some(stream, SIZE_MAX, &written);
            return;
        }
        want_out(stream, false);
        turns_join(turns, &stream->turn);
    }
    turns_run(turns);
}

static psd_status queue(struct stream *stream, struct frame_header *header,
                        const void *payload)
{
    psd_status status;

    header->credit = stream->owed;
    frame_seal(header, payload);
    status = outbox_push(&stream->outbox, header, payload);
    if (status == PSD_OK) {
        stream->owed = 0;
        loop_task_post_late(stream->link->loop, &stream->flusher);
    }
    return status;
}

psd_status stream_send(struct stream *stream,
                       const struct frame_header *header, const void *payload)
{
    struct frame_header copy = *header;
    bool counted = counts(stream, header);
    psd_status status;

    if (stream->dead || stream->mute) {
        return stream->dead ? stream->why : PSD_ELOST;
    }
    if (!stream->up || !has_room(stream) ||
        (counted && !has_credit(stream, header->size))) {
        return starve(stream, counted ? header->size : 0);
    }
    if (stream->link->crc && !frame_is_control(header)) {
        copy.flags |= FRAME_FLAG_CRC;
    }
    status = queue(stream, &copy, payload);
    if (status == PSD_AGAIN) {
        return starve(stream, 0);
    }
    if (status == PSD_OK) {
        stream->flying += counted ? header->size : 0;
        stream->link->sent_bytes += header->size;
    }
    return status;
}

/* Grant what has built up when no frame has taken it along. At once, because
 * the peer may be waiting; a full outbox has such a frame already. */
static void pay_credit(struct stream *stream)
{
    struct frame_header header = { .type = FRAME_CREDIT };

    if (stream->owed >= stream->window / STREAM_CREDIT_PART && stream->up &&
        !stream->mute &&
        queue(stream, &header, NULL) == PSD_OK) {
        stream_flush(stream);
    }
}

static void on_flusher(struct loop_task *task)
{
    struct stream *stream = list_entry(task, struct stream, flusher);

    stream_flush(stream);
    pay_credit(stream);
}

/* ---- receiving --------------------------------------------------------- */

/* Control links have no place: a payload that lies in the buffer is delivered
 * from there, another is gathered. */
static psd_status place_control(struct stream *stream)
{
    size_t size = stream->header.size;

    if (stream->end - stream->start >= size) {
        stream->to = stream->buffer + stream->start;
        stream->got = size;
        stream->start += size;
        return PSD_OK;
    }
    if (stream->gather_size < size) {
        mem_free(stream->gather);
        stream->gather_size = 0;
        stream->gather = mem_zalloc(size);
        if (stream->gather == NULL) {
            return PSD_ENOMEM;
        }
        stream->gather_size = size;
    }
    stream->to = stream->gather;
    return PSD_OK;
}

static psd_status begin_frame(struct stream *stream)
{
    struct psd_link *link = stream->link;
    void *to = NULL;
    psd_status status;

    memcpy(&stream->header, stream->buffer + stream->start,
           FRAME_HEADER_SIZE);
    stream->start += FRAME_HEADER_SIZE;
    status = frame_check_header(&stream->header);
    if (status != PSD_OK) {
        return status;
    }
    if (stream->header.region != 0) {
        log_error("link: a span on a link that maps nothing");
        return PSD_EPROTO;
    }
    stream->inside = true;
    stream->got = 0;
    stream->to = NULL;
    stream->bulk = stream->header.size >= STREAM_BULK;
    if (stream->header.size == 0) {
        return PSD_OK;
    }
    if (link->events->place == NULL) {
        return place_control(stream);
    }
    status = link->events->place(link->user, link, &stream->header, &to);
    stream->to = to;
    return status;
}

/* Data bytes have left the kernel: the peer may send as many again. */
static void consume(struct stream *stream, size_t size)
{
    stream->got += size;
    if (counts(stream, &stream->header)) {
        stream->owed += (uint32_t)size;
    }
}

/* Move what is buffered to its place. True when the payload is complete. */
static bool fill_payload(struct stream *stream)
{
    size_t left = stream->header.size - stream->got;
    size_t have = stream->end - stream->start;
    size_t size = left < have ? left : have;

    if (size > 0 && stream->to != NULL) {
        memcpy(stream->to + stream->got, stream->buffer + stream->start, size);
    }
    consume(stream, size);
    stream->start += size;
    return size == left;
}

static psd_status take_credit(struct stream *stream)
{
    uint32_t credit = stream->header.credit;

    if (credit > stream->flying) {
        log_error("link: the peer consumed %u bytes more than it was sent",
                  credit - (uint32_t)stream->flying);
        return PSD_EPROTO;
    }
    stream->flying -= credit;
    check_starved(stream);
    return PSD_OK;
}

static psd_status finish_frame(struct stream *stream)
{
    struct frame_header *header = &stream->header;
    psd_status status = PSD_OK;

    stream->inside = false;
    if (stream->to != NULL || header->size == 0) {
        status = frame_check_payload(header, stream->to);
    }
    if (status == PSD_OK && header->credit > 0) {
        status = take_credit(stream);
    }
    if (status != PSD_OK || header->type == FRAME_CREDIT) {
        return status;
    }
    header->length = header->size;
    stream->link->received_bytes += header->size;
    return link_deliver(stream->link, header, stream->to);
}

static void drop_gather(struct stream *stream)
{
    if (stream->gather_size > STREAM_GATHER_KEEP && !stream->inside) {
        mem_free(stream->gather);
        stream->gather = NULL;
        stream->gather_size = 0;
    }
}

/* Take every frame that the buffer completes. Afterwards the buffer holds at
 * most a part of a header, at its front. */
static psd_status parse(struct stream *stream)
{
    psd_status status = PSD_OK;

    while (status == PSD_OK && !stream->link->closed && !stream->dead) {
        if (!stream->inside) {
            if (stream->end - stream->start < FRAME_HEADER_SIZE) {
                break;
            }
            status = begin_frame(stream);
            if (status != PSD_OK || stream->link->closed) {
                break;
            }
        }
        if (!fill_payload(stream)) {
            break;
        }
        status = finish_frame(stream);
    }
    drop_gather(stream);
    stream->end -= stream->start;
    if (stream->end > 0 && stream->start > 0) {
        memmove(stream->buffer, stream->buffer + stream->start, stream->end);
    }
    stream->start = 0;
    return status;
}

/* One read: the rest of a payload goes to its place, what follows it to the
 * buffer. Between bulk payloads only little is read ahead, because what lies
 * in the buffer is copied once more. */
static ssize_t read_some(struct stream *stream, size_t *offered_p)
{
    struct iovec iov[2];
    size_t room = STREAM_BUFFER - stream->end;
    size_t direct = 0;
    int count = 0;
    ssize_t got;

    if (stream->inside && stream->to != NULL) {
        direct = stream->header.size - stream->got;
        iov[count].iov_base = stream->to + stream->got;
        iov[count].iov_len = direct;
        count++;
    }
    if (stream->bulk && room > STREAM_PEEK &&
        (direct > 0 || !stream->inside)) {
        room = STREAM_PEEK;
    }
    iov[count].iov_base = stream->buffer + stream->end;
    iov[count].iov_len = room;
    count++;
    *offered_p = direct + room;
    do {
        got = readv(stream->fd_in, iov, count);
    } while (got < 0 && errno == EINTR);
    if (got > 0) {
        size_t placed = (size_t)got < direct ? (size_t)got : direct;

        consume(stream, placed);
        stream->end += (size_t)got - placed;
    }
    return got;
}

static psd_status why_of(int error)
{
    if (error == 0 || error == ECONNRESET || error == EPIPE ||
        error == ETIMEDOUT || error == EHOSTUNREACH) {
        return PSD_ELOST;
    }
    errno = error;
    log_error("link: cannot read: %m");
    return PSD_ESYSTEM;
}

/* Between hosts a bulk payload trickles in packet by packet. Looking at each
 * would cost more than reading them; nothing waits for half a payload. */
static void set_low_mark(struct stream *stream)
{
    size_t left = stream->inside ? stream->header.size - stream->got : 0;
    int low = left >= STREAM_LOW ? STREAM_LOW : 1;

    if (stream->up && stream->low != 0 && stream->low != low) {
        stream->low = low;
        tune_low_mark(stream->fd_in, low);
    }
}

/* Read and deliver until the stream is dry or the turn is over. False when
 * nothing more can come now. */
static bool receive(struct stream *stream)
{
    size_t turn = 0;

    while (turn < STREAM_TURN) {
        size_t offered;
        ssize_t got = read_some(stream, &offered);
        psd_status status;

        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
            return false;
        }
        if (got <= 0) {
            stream_fail(stream, why_of(got == 0 ? 0 : errno));
            return false;
        }
        status = parse(stream);
        if (stream->link->closed || stream->dead) {
            return false;
        }
        if (status != PSD_OK) {
            stream_fail(stream, status);
            return false;
        }
        pay_credit(stream);
        if ((size_t)got < offered && !stream->mute) {
            return false; /* dry: spare the read that would say so */
        }
        turn += (size_t)got;
    }
    return true;
}

/* ---- events ------------------------------------------------------------ */

static void on_event(struct loop_watch *watch, uint32_t mask)
{
    struct stream *stream = list_entry(watch, struct stream, in);
    struct psd_link *link = stream->link;

    link_enter(link);
    if ((mask & EPOLLOUT) != 0) {
        stream_flush(stream);
        pay_credit(stream);
    }
    if ((mask & ~(uint32_t)EPOLLOUT) != 0 && !stream->dead) {
        (void)receive(stream);
        set_low_mark(stream);
    }
    link_leave(link);
}

static void on_out_event(struct loop_watch *watch, uint32_t mask)
{
    struct stream *stream = list_entry(watch, struct stream, out);

    if ((mask & (EPOLLERR | EPOLLHUP)) != 0) {
        errno = EPIPE;
        loop_unwatch(stream->link->loop, &stream->out);
        go_mute(stream);
        return;
    }
    stream_flush(stream);
    pay_credit(stream);
}

static void on_task(struct loop_task *task)
{
    struct stream *stream = list_entry(task, struct stream, task);
    struct psd_link *link = stream->link;

    link_enter(link);
    if (stream->tell_up) {
        stream->tell_up = false;
        link_up(link);
    }
    if (stream->mute && !stream->dead && !link->closed) {
        while (receive(stream)) {
        }
        if (!link->closed) {
            stream_fail(stream, PSD_ELOST);
        }
    }
    if (stream->dead && !stream->told_down && !link->closed) {
        stream->told_down = true;
        link_down(link, stream->why);
    }
    if (stream->up && stream->starved && !link->closed &&
        has_room(stream) && has_credit(stream, stream->starved_size)) {
        stream->starved = false;
        link_ready(link);
    }
    link_leave(link);
}
