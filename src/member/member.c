/* member.c: see member.h. */
#define _GNU_SOURCE
#include "member/member.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "member/settings.h"

#define FDS_PER_MESSAGE 253 /* the kernel's SCM_MAX_FD */

/* ---- bytes ------------------------------------------------------------- */

static psd_status write_all(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        ssize_t n = send(fd, at, size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            return PSD_ELOST;
        }
        at += n;
        size -= (size_t)n;
    }
    return PSD_OK;
}

/* Keep the descriptors that came with a message. */
static void take_fds(struct member *member, struct msghdr *message)
{
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part != NULL;
         part = CMSG_NXTHDR(message, part)) {
        size_t count;

        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) {
            continue;
        }
        count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        for (size_t i = 0; i < count; i++) {
            int fd;

            memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(fd));
            if (member->fd_count < MEMBER_FDS_MAX) {
                member->fds[member->fd_count++] = fd;
            } else {
                close(fd);
            }
        }
    }
}

/* Read exactly `size` bytes until `due_ns`; takes descriptors on the way. */
static psd_status read_all(struct member *member, void *data, size_t size,
                           uint64_t due_ns)
{
    char *at = data;

    while (size > 0) {
        char control[CMSG_SPACE(FDS_PER_MESSAGE * sizeof(int))];
        struct iovec iov = { at, size };
        struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1,
                                  .msg_control = control,
                                  .msg_controllen = sizeof(control) };
        struct pollfd poll_fd = { .fd = member->fd, .events = POLLIN };
        uint64_t now = clock_ns();
        uint64_t left_ms;
        ssize_t n;

        if (now >= due_ns) {
            return PSD_ETIME;
        }
        left_ms = (due_ns - now) / CLOCK_NS_PER_MS + 1;
        if (poll(&poll_fd, 1,
                 left_ms < MEMBER_TICK_MS ? (int)left_ms : MEMBER_TICK_MS) <
            1) {
            continue;
        }
        n = recvmsg(member->fd, &message, MSG_CMSG_CLOEXEC);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return PSD_ELOST;
        }
        take_fds(member, &message);
        at += n;
        size -= (size_t)n;
    }
    return PSD_OK;
}

/* One whole frame; `*payload_p` is the caller's to free. */
static psd_status read_frame(struct member *member,
                             struct frame_header *header, void **payload_p,
                             uint64_t due_ns)
{
    void *payload = NULL;
    psd_status status;

    status = read_all(member, header, sizeof(*header), due_ns);
    if (status == PSD_OK) {
        status = frame_check_header(header);
    }
    if (status != PSD_OK) {
        return status;
    }
    if (header->size > 0) {
        payload = mem_zalloc(header->size);
        if (payload == NULL) {
            return PSD_ENOMEM;
        }
        status = read_all(member, payload, header->size, due_ns);
    }
    if (status == PSD_OK) {
        status = frame_check_payload(header, payload);
    }
    if (status != PSD_OK) {
        mem_free(payload);
        return status;
    }
    *payload_p = payload;
    return PSD_OK;
}

psd_status member_send(struct member *member, unsigned type, uint32_t block,
                       const struct pack *pack)
{
    struct frame_header header = {
        .size = pack == NULL ? 0 : (uint32_t)pack->size,
        .type = (uint8_t)type,
        .block = block,
        .rank = (uint16_t)member->rank,
        .flags = member->is_server ? FRAME_FLAG_SERVER : 0,
    };
    psd_status status;

    if (pack != NULL && (pack->failed || pack->size > WIRE_CONTROL_MAX)) {
        return PSD_ENOMEM;
    }
    frame_seal(&header, pack == NULL ? NULL : pack->data);
    pthread_mutex_lock(&member->send_lock);
    status = write_all(member->fd, &header, sizeof(header));
    if (status == PSD_OK && header.size > 0) {
        status = write_all(member->fd, pack->data, pack->size);
    }
    pthread_mutex_unlock(&member->send_lock);
    return status;
}

/* ---- opening ----------------------------------------------------------- */

static psd_status connect_agent(struct member *member, const char *path,
                                char *error, size_t error_size)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };

    if (strlen(path) >= sizeof(address.sun_path)) {
        snprintf(error, error_size, "PSD_AGENT is too long for a socket: %s",
                 path);
        return PSD_EENV;
    }
    memcpy(address.sun_path, path, strlen(path) + 1);
    member->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (member->fd < 0 || connect(member->fd, (struct sockaddr *)&address,
                                  sizeof(address)) != 0) {
        snprintf(error, error_size,
                 "cannot reach the agent at %s: %m; the job that set "
                 "PSD_AGENT is over, start a new one with psd_run",
                 path);
        return PSD_ELOST;
    }
    return PSD_OK;
}

static psd_status say_hello(struct member *member, uint32_t incarnation)
{
    struct message_hello hello = {
        .is_server = member->is_server,
        .rank = member->rank,
        .incarnation = incarnation,
        .pid = (uint32_t)getpid(),
    };
    struct pack pack;
    psd_status status;

    snprintf(hello.build, sizeof(hello.build), "%s", psd_version());
    pack_init(&pack);
    message_hello_pack(&pack, &hello);
    status = member_send(member, FRAME_HELLO, 0, &pack);
    pack_fini(&pack);
    return status;
}

static psd_status read_welcome(struct member *member, char *error,
                               size_t error_size)
{
    uint64_t due = clock_ns() + MEMBER_OPEN_MS * CLOCK_NS_PER_MS;
    struct frame_header header;
    struct message_end end;
    void *payload = NULL;
    psd_status status;

    status = read_frame(member, &header, &payload, due);
    if (status != PSD_OK) {
        snprintf(error, error_size, "the agent did not answer: %s",
                 psd_status_text(status));
        return status;
    }
    if (header.type == FRAME_WELCOME) {
        status = message_welcome_unpack(&member->welcome, payload,
                                        header.size);
        snprintf(error, error_size, "the agent's welcome is malformed");
    } else if (header.type == FRAME_END &&
               message_end_unpack(&end, payload, header.size) == PSD_OK) {
        snprintf(error, error_size, "%s", end.reason);
        status = end.status < 0 ? (psd_status)end.status : PSD_EABORT;
    } else {
        snprintf(error, error_size, "the agent sent a %s frame",
                 frame_type_name(header.type));
        status = PSD_EPROTO;
    }
    if (payload != NULL) {
        explicit_bzero(payload, header.size); /* the secret was in it */
    }
    mem_free(payload);
    return status;
}

psd_status member_open(struct member *member, const char *path,
                       bool is_server, uint32_t rank, uint32_t incarnation,
                       char *error, size_t error_size)
{
    psd_status status;

    *member = (struct member){ .fd = -1, .is_server = is_server,
                               .rank = rank };
    pthread_mutex_init(&member->send_lock, NULL);
    status = connect_agent(member, path, error, error_size);
    if (status == PSD_OK) {
        status = say_hello(member, incarnation);
        snprintf(error, error_size, "the agent hung up");
    }
    if (status == PSD_OK) {
        status = read_welcome(member, error, error_size);
    }
    if (status != PSD_OK) {
        member_close(member);
    }
    return status;
}

void *member_map(struct member *member, uint32_t index, size_t size)
{
    void *base;

    if (index >= member->fd_count || member->fds[index] < 0) {
        log_error("member: the agent gave no descriptor %" PRIu32, index);
        return NULL;
    }
    base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                member->fds[index], 0);
    if (base == MAP_FAILED) {
        log_error("member: cannot map %zu bytes of shared memory: %m", size);
        return NULL;
    }
    close(member->fds[index]);
    member->fds[index] = -1;
    return base;
}

psd_status member_listen(const struct member *member, struct psd_loop *loop,
                         const struct listen_events *events, void *user,
                         struct psd_listener **listener_p,
                         char url[MESSAGE_URL_MAX])
{
    const struct message_welcome *welcome = &member->welcome;
    uint16_t first;
    uint16_t last;
    psd_status status = PSD_ESYSTEM;

    if (!settings_ports(welcome->ports, &first, &last)) {
        return PSD_EPROTO;
    }
    for (unsigned port = first; port <= last && status == PSD_ESYSTEM;
         port++) {
        uint16_t taken = 0;

        status = listener_open(loop, welcome->host, (uint16_t)port,
                               &welcome->job, events, user, &taken,
                               listener_p);
        if (status == PSD_OK) {
            bool v6 = strchr(welcome->host, ':') != NULL;

            snprintf(url, MESSAGE_URL_MAX, v6 ? "tcp:[%s]:%u" : "tcp:%s:%u",
                     welcome->host, taken);
        }
    }
    return status;
}

/* ---- the control thread ------------------------------------------------ */

static void *control_main(void *argument)
{
    struct member *member = argument;
    uint64_t next_tick = clock_ns() + MEMBER_TICK_MS * CLOCK_NS_PER_MS;

    while (!atomic_load(&member->stopping)) {
        struct pollfd poll_fd = { .fd = member->fd, .events = POLLIN };
        uint64_t now = clock_ns();
        struct frame_header header;
        void *payload = NULL;

        if (now >= next_tick) {
            member->events.tick(member->events.user);
            next_tick = now + MEMBER_TICK_MS * CLOCK_NS_PER_MS;
        }
        if (poll(&poll_fd, 1,
                 (int)((next_tick - now) / CLOCK_NS_PER_MS) + 1) < 1) {
            continue;
        }
        if (read_frame(member, &header, &payload, UINT64_MAX / 2) != PSD_OK) {
            if (!atomic_load(&member->stopping)) {
                member->events.gone(member->events.user);
            }
            break;
        }
        member->events.frame(member->events.user, &header, payload);
        mem_free(payload);
    }
    return NULL;
}

psd_status member_start(struct member *member,
                        const struct member_events *events)
{
    member->events = *events;
    if (pthread_create(&member->thread, NULL, control_main, member) != 0) {
        log_error("member: cannot start the control thread");
        return PSD_ESYSTEM;
    }
    member->started = true;
    return PSD_OK;
}

void member_close(struct member *member)
{
    atomic_store(&member->stopping, true);
    if (member->started) {
        shutdown(member->fd, SHUT_RDWR);
        pthread_join(member->thread, NULL);
        member->started = false;
    }
    if (member->fd >= 0) {
        close(member->fd);
        member->fd = -1;
    }
    while (member->fd_count > 0) {
        int fd = member->fds[--member->fd_count];

        if (fd >= 0) {
            close(fd);
        }
    }
}
