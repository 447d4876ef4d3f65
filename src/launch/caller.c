/* caller.c: see caller.h. */
#define _GNU_SOURCE
#include "launch/caller.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define CALLER_GONE_MS 5000

/* ---- finding ------------------------------------------------------------ */

size_t caller_list(struct caller *callers, size_t count)
{
    static struct desk_job jobs[DESK_JOBS_MAX];
    size_t found = desk_place_list(
        jobs, count < DESK_JOBS_MAX ? count : DESK_JOBS_MAX);

    for (size_t i = 0; i < found; i++) {
        callers[i] =
            (struct caller){ .fd = jobs[i].fd, .pid = jobs[i].pid };
        snprintf(callers[i].file, sizeof(callers[i].file), "%s", jobs[i].file);
    }
    return found;
}

static void list_names(const struct caller *callers, size_t count, char *text,
                       size_t size)
{
    size_t used = 0;

    text[0] = '\0';
    for (size_t i = 0; i < count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, "%s%s (pid %d)",
                                 i == 0 ? "" : ", ", callers[i].file,
                                 (int)callers[i].pid);
    }
}

static bool is_meant(const struct caller *caller, const char *job)
{
    char file[DESK_FILE_MAX];
    char pid[16];

    desk_place_file(job, file, sizeof(file));
    snprintf(pid, sizeof(pid), "%d", (int)caller->pid);
    return strcmp(caller->file, file) == 0 || strcmp(caller->file, job) == 0 ||
           strcmp(pid, job) == 0;
}

psd_status caller_choose(const char *job, struct caller *caller, char *error,
                         size_t error_size)
{
    static struct caller callers[DESK_JOBS_MAX];
    size_t count = caller_list(callers, DESK_JOBS_MAX);
    size_t chosen = count;
    size_t fits = 0;
    char names[1024];
    psd_status status = PSD_OK;

    for (size_t i = 0; i < count; i++) {
        if (job == NULL || is_meant(&callers[i], job)) {
            chosen = i;
            fits++;
        }
    }
    list_names(callers, count, names, sizeof(names));
    if (count == 0) {
        snprintf(error, error_size, "no job of yours is running on this "
                                    "machine");
        status = PSD_ELOST;
    } else if (fits == 0) {
        snprintf(error, error_size, "no job %s is running; there is %s", job,
                 names);
        status = PSD_ELOST;
    } else if (fits > 1) {
        snprintf(error, error_size, "which job? There are %s", names);
        status = PSD_EINVAL;
    }
    for (size_t i = 0; i < count; i++) {
        if (status == PSD_OK && i == chosen) {
            *caller = callers[i];
        } else {
            caller_close(&callers[i]);
        }
    }
    return status;
}

void caller_close(struct caller *caller)
{
    if (caller->fd >= 0) {
        close(caller->fd);
    }
    mem_free(caller->payload);
    *caller = (struct caller){ .fd = -1 };
}

/* ---- asking ------------------------------------------------------------- */

psd_status caller_ask(struct caller *caller, struct desk_ask *ask)
{
    struct frame_header header = { .type = FRAME_ASK, .rank = WIRE_RANK_NONE };
    struct pack body;
    struct pack bytes;
    psd_status status = PSD_OK;

    snprintf(ask->build, sizeof(ask->build), "%s", psd_version());
    pack_init(&body);
    pack_init(&bytes);
    desk_ask_pack(&body, ask);
    header.size = (uint32_t)body.size;
    header.length = header.size;
    frame_seal(&header, body.data);
    pack_bytes(&bytes, &header, sizeof(header));
    pack_bytes(&bytes, body.data, body.size);
    if (body.failed || bytes.failed) {
        status = PSD_ENOMEM;
    } else if (send(caller->fd, bytes.data, bytes.size, MSG_NOSIGNAL) !=
               (ssize_t)bytes.size) {
        status = PSD_ELOST; /* a new socket has room for it */
    }
    pack_fini(&body);
    pack_fini(&bytes);
    return status;
}

static psd_status read_some(struct caller *caller, void *to, size_t size)
{
    ssize_t n;

    do {
        n = recv(caller->fd, to, size, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN) {
        return PSD_AGAIN;
    }
    if (n <= 0) {
        return PSD_ELOST;
    }
    caller->used += (size_t)n;
    return PSD_OK;
}

static psd_status take_header(struct caller *caller)
{
    psd_status status = frame_check_header(&caller->header);
    void *grown = caller->payload;

    if (status != PSD_OK) {
        return status;
    }
    if (caller->header.size > DESK_ANSWER_MAX) {
        log_error("desk: an answer of %" PRIu32 " bytes is too long",
                  caller->header.size);
        return PSD_EPROTO;
    }
    if (caller->header.size > caller->capacity) {
        status = mem_grow(&grown, caller->capacity, caller->header.size, 1);
        if (status != PSD_OK) {
            return status;
        }
        caller->payload = grown;
        caller->capacity = caller->header.size;
    }
    return PSD_OK;
}

psd_status caller_read(struct caller *caller)
{
    psd_status status = PSD_OK;

    if (caller->used == FRAME_HEADER_SIZE + (size_t)caller->header.size) {
        caller->used = 0; /* the one before */
    }
    while (caller->used < FRAME_HEADER_SIZE) {
        status = read_some(caller, (uint8_t *)&caller->header + caller->used,
                           FRAME_HEADER_SIZE - caller->used);
        if (status == PSD_OK && caller->used == FRAME_HEADER_SIZE) {
            status = take_header(caller);
        }
        if (status != PSD_OK) {
            return status;
        }
    }
    while (caller->used < FRAME_HEADER_SIZE + (size_t)caller->header.size) {
        size_t got = caller->used - FRAME_HEADER_SIZE;

        status = read_some(caller, caller->payload + got,
                           caller->header.size - got);
        if (status != PSD_OK) {
            return status;
        }
    }
    return frame_check_payload(&caller->header, caller->payload);
}

psd_status caller_next(struct caller *caller, int timeout_ms)
{
    uint64_t due_ns =
        clock_ns() + (uint64_t)(timeout_ms < 0 ? 0 : timeout_ms) *
                         CLOCK_NS_PER_MS;
    psd_status status;

    while ((status = caller_read(caller)) == PSD_AGAIN) {
        struct pollfd poll_fd = { .fd = caller->fd, .events = POLLIN };
        uint64_t now_ns = clock_ns();
        int left_ms = -1;

        if (timeout_ms >= 0 && now_ns >= due_ns) {
            return PSD_ETIME;
        }
        if (timeout_ms >= 0) {
            left_ms = (int)((due_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
        }
        (void)poll(&poll_fd, 1, left_ms);
    }
    return status;
}

void caller_wait(const struct caller *caller)
{
    struct pollfd poll_fd = {
        .fd = (int)syscall(SYS_pidfd_open, caller->pid, 0),
        .events = POLLIN,
    };

    if (poll_fd.fd >= 0) {
        (void)poll(&poll_fd, 1, CALLER_GONE_MS);
        close(poll_fd.fd);
    }
}
