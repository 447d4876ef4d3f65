/* gate.c: see gate.h. The welcome is written by hand, before the stream
 * becomes a link: its bytes carry the descriptors. */
#define _GNU_SOURCE
#include "launch/gate.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define GATE_BACKLOG  1024
#define GATE_RETRY_MS 10
#define GATE_FDS_MAX  250 /* in one message; the kernel's limit is 253 */

struct guest {
    struct gate *gate; /* NULL: free */
    int fd;
    pid_t pid;
    struct loop_watch watch;
    struct loop_timer timer;
    uint8_t bytes[FRAME_HEADER_SIZE + GATE_HELLO_MAX];
    size_t used;
    struct message_hello hello;
    bool judged;       /* the seat is held for it */
    struct pack reply; /* header and payload of the welcome */
    size_t sent;
    uint32_t fds_sent;
};

struct gate {
    struct psd_loop *loop;
    const struct region_set *regions;
    struct gate_events events;
    int fd;
    struct loop_watch watch;
    uint32_t guest_count;
    struct guest guests[GATE_GUESTS_MAX];
};

static void on_guest(struct loop_watch *watch, uint32_t mask);
static void on_connect(struct loop_watch *watch, uint32_t mask);

/* ---- guests ------------------------------------------------------------- */

/* `keep`: the descriptor is somebody else's now. */
static void guest_leave(struct guest *guest, bool keep)
{
    struct gate *gate = guest->gate;

    loop_unwatch(gate->loop, &guest->watch);
    loop_timer_stop(&guest->timer);
    if (!keep) {
        close(guest->fd);
        if (guest->judged) {
            gate->events.forget(gate->events.user, &guest->hello);
        }
    }
    pack_wipe(&guest->reply);
    guest->gate = NULL;
    if (gate->guest_count-- == GATE_GUESTS_MAX) {
        (void)loop_watch(gate->loop, &gate->watch, gate->fd, EPOLLIN,
                         on_connect);
    }
}

static void on_late(struct loop_timer *timer)
{
    struct guest *guest = list_entry(timer, struct guest, timer);

    log_warn("gate: pid %d said no hello in %d ms", (int)guest->pid,
             GATE_HELLO_MS);
    guest_leave(guest, false);
}

/* Header and payload of one frame, as bytes. */
static void compose(struct pack *bytes, unsigned type, const struct pack *body)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .size = (uint32_t)body->size,
        .length = (uint32_t)body->size,
    };

    frame_seal(&header, body->data);
    pack_bytes(bytes, &header, sizeof(header));
    pack_bytes(bytes, body->data, body->size);
}

/* Refused: a sentence and the door. A fresh socket has room for it. */
static void refuse(struct guest *guest, psd_status status, const char *reason)
{
    struct message_end end = { .status = status };
    struct pack body;
    struct pack bytes;

    log_warn("gate: refused pid %d: %s", (int)guest->pid, reason);
    snprintf(end.reason, sizeof(end.reason), "%s", reason);
    pack_init(&body);
    pack_init(&bytes);
    message_end_pack(&body, &end);
    compose(&bytes, FRAME_END, &body);
    if (!body.failed && !bytes.failed) {
        (void)!send(guest->fd, bytes.data, bytes.size,
                    MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    pack_fini(&body);
    pack_fini(&bytes);
    guest_leave(guest, false);
}

/* ---- the welcome -------------------------------------------------------- */

/* One message: the next descriptors, with one byte as long as more
 * descriptors follow, then with all the bytes that are left. */
static ssize_t send_piece(struct guest *guest)
{
    const struct region_set *regions = guest->gate->regions;
    union {
        char bytes[CMSG_SPACE(GATE_FDS_MAX * sizeof(int))];
        struct cmsghdr align;
    } control;
    uint32_t fds = regions->count - guest->fds_sent;
    struct iovec iov = { guest->reply.data + guest->sent,
                         guest->reply.size - guest->sent };
    struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
    ssize_t n;

    if (fds > GATE_FDS_MAX) {
        fds = GATE_FDS_MAX;
        iov.iov_len = 1;
    }
    if (fds > 0) {
        struct cmsghdr *part = &control.align;

        memset(&control, 0, sizeof(control));
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(fds * sizeof(int));
        memcpy(CMSG_DATA(part), regions->fds + guest->fds_sent,
               fds * sizeof(int));
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
    }
    n = sendmsg(guest->fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0) {
        guest->fds_sent += fds;
        guest->sent += (size_t)n;
    }
    return n;
}

static void on_retry(struct loop_timer *timer);

static void send_welcome(struct guest *guest)
{
    struct gate *gate = guest->gate;
    struct message_hello hello = guest->hello;
    pid_t pid = guest->pid;
    int fd = guest->fd;

    while (guest->sent < guest->reply.size) {
        ssize_t n = send_piece(guest);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && (errno == EAGAIN || errno == ETOOMANYREFS)) {
            /* Too many descriptors of this user are on their way. */
            loop_timer_start(gate->loop, &guest->timer,
                             GATE_RETRY_MS * CLOCK_NS_PER_MS, on_retry);
            return;
        }
        if (n <= 0) {
            guest_leave(guest, false);
            return;
        }
    }
    guest_leave(guest, true);
    gate->events.seat(gate->events.user, &hello, pid, fd);
}

static void on_retry(struct loop_timer *timer)
{
    send_welcome(list_entry(timer, struct guest, timer));
}

static void judge(struct guest *guest)
{
    struct gate *gate = guest->gate;
    struct message_welcome welcome = { .workers = 0 };
    char reason[WIRE_TEXT_MAX];
    struct pack body;
    psd_status status;

    loop_unwatch(gate->loop, &guest->watch);
    loop_timer_stop(&guest->timer);
    status = gate->events.judge(gate->events.user, &guest->hello, guest->pid,
                                &welcome, reason, sizeof(reason));
    if (status != PSD_OK) {
        refuse(guest, status, reason);
        return;
    }
    guest->judged = true;
    welcome.board_size = gate->regions->board_size;
    welcome.arena_size = gate->regions->arena_size;
    pack_init(&body);
    message_welcome_pack(&body, &welcome);
    compose(&guest->reply, FRAME_WELCOME, &body);
    explicit_bzero(&welcome, sizeof(welcome));
    status = body.failed || guest->reply.failed ? PSD_ENOMEM : PSD_OK;
    pack_wipe(&body);
    if (status != PSD_OK) {
        guest_leave(guest, false);
        return;
    }
    send_welcome(guest);
}

/* ---- the hello ---------------------------------------------------------- */

/* All of the hello is here, or as much as can be judged wrong. */
static psd_status check_hello(struct guest *guest, size_t *need_p)
{
    struct frame_header header;
    psd_status status;

    *need_p = FRAME_HEADER_SIZE;
    if (guest->used < FRAME_HEADER_SIZE) {
        return PSD_AGAIN;
    }
    memcpy(&header, guest->bytes, sizeof(header));
    status = frame_check_header(&header);
    if (status != PSD_OK) {
        return status;
    }
    if (header.type != FRAME_HELLO || header.size > GATE_HELLO_MAX) {
        return PSD_EPROTO;
    }
    *need_p += header.size;
    if (guest->used < *need_p) {
        return PSD_AGAIN;
    }
    status = frame_check_payload(&header, guest->bytes + FRAME_HEADER_SIZE);
    if (status != PSD_OK) {
        return status;
    }
    return message_hello_unpack(&guest->hello, guest->bytes + FRAME_HEADER_SIZE,
                                header.size);
}

static void on_guest(struct loop_watch *watch, uint32_t mask)
{
    struct guest *guest = list_entry(watch, struct guest, watch);
    psd_status status;
    size_t need;

    (void)mask;
    while ((status = check_hello(guest, &need)) == PSD_AGAIN) {
        /* No byte beyond the hello: the rest is for the link. */
        ssize_t n =
            read(guest->fd, guest->bytes + guest->used, need - guest->used);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0 && errno == EAGAIN) {
            return;
        }
        if (n <= 0) {
            guest_leave(guest, false);
            return;
        }
        guest->used += (size_t)n;
    }
    if (status != PSD_OK) {
        refuse(guest, PSD_EPROTO,
               "this is no hello of Poseidon's protocol; were the library and "
               "psd_run installed together?");
        return;
    }
    judge(guest);
}

/* ---- the door ----------------------------------------------------------- */

static void admit(struct gate *gate, int fd)
{
    struct guest *guest = gate->guests;
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid()) {
        log_warn("gate: a peer of another user was turned away");
        close(fd);
        return;
    }
    while (guest->gate != NULL) {
        guest++;
    }
    *guest = (struct guest){ .gate = gate, .fd = fd, .pid = peer.pid };
    pack_init(&guest->reply);
    gate->guest_count++;
    if (loop_watch(gate->loop, &guest->watch, fd, EPOLLIN, on_guest) !=
        PSD_OK) {
        guest_leave(guest, false);
        return;
    }
    loop_timer_start(gate->loop, &guest->timer, GATE_HELLO_MS * CLOCK_NS_PER_MS,
                     on_late);
}

static void on_connect(struct loop_watch *watch, uint32_t mask)
{
    struct gate *gate = list_entry(watch, struct gate, watch);

    (void)mask;
    while (gate->guest_count < GATE_GUESTS_MAX) {
        int fd = accept4(gate->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
                log_error("gate: cannot accept a member: %m");
            }
            return;
        }
        admit(gate, fd);
    }
    loop_unwatch(gate->loop, &gate->watch);
}

psd_status gate_open(struct psd_loop *loop, const char *path,
                     const struct region_set *regions,
                     const struct gate_events *events, struct gate **gate_p)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    struct gate *gate = mem_zalloc(sizeof(*gate));

    if (gate == NULL) {
        return PSD_ENOMEM;
    }
    gate->loop = loop;
    gate->regions = regions;
    gate->events = *events;
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    gate->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (gate->fd < 0 ||
        bind(gate->fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(gate->fd, GATE_BACKLOG) != 0 ||
        loop_watch(loop, &gate->watch, gate->fd, EPOLLIN, on_connect) !=
            PSD_OK) {
        log_error("gate: cannot listen at %s: %m", path);
        if (gate->fd >= 0) {
            close(gate->fd);
        }
        mem_free(gate);
        return PSD_ESYSTEM;
    }
    *gate_p = gate;
    return PSD_OK;
}

void gate_close(struct gate *gate)
{
    if (gate == NULL) {
        return;
    }
    for (size_t i = 0; i < GATE_GUESTS_MAX; i++) {
        if (gate->guests[i].gate != NULL) {
            guest_leave(&gate->guests[i], false);
        }
    }
    loop_unwatch(gate->loop, &gate->watch);
    close(gate->fd);
    mem_free(gate);
}
