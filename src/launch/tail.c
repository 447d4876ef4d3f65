/* tail.c: see tail.h, and desk_message.h for the frames. */
#define _GNU_SOURCE
#include "launch/tail.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/agent_state.h"
#include "launch/desk_message.h"

#define TAIL_STREAMS 2

/* ---- the last lines ----------------------------------------------------- */

uint64_t tail_offset(int fd, uint64_t lines)
{
    static char block[TAIL_CHUNK];
    off_t size = lseek(fd, 0, SEEK_END);
    off_t least = size > (off_t)TAIL_SCAN_MAX ? size - (off_t)TAIL_SCAN_MAX : 0;
    off_t at = size;

    if (size <= 0) {
        return 0;
    }
    if (lines == 0) {
        return (uint64_t)size;
    }
    while (at > least) {
        size_t part = (size_t)(at - least) < sizeof(block)
                          ? (size_t)(at - least)
                          : sizeof(block);

        at -= (off_t)part;
        if (pread(fd, block, part, at) != (ssize_t)part) {
            return 0; /* it was cut meanwhile */
        }
        for (size_t i = part; i > 0; i--) {
            /* The end of the last line does not begin one. */
            if (block[i - 1] == '\n' && at + (off_t)i != size &&
                --lines == 0) {
                return (uint64_t)at + i;
            }
        }
    }
    return (uint64_t)least;
}

/* ---- one reader --------------------------------------------------------- */

static void send_bytes(struct agent *agent, const struct tail *tail,
                       uint32_t stream, const void *data, size_t size)
{
    struct frame_header header = {
        .type = FRAME_TAIL,
        .size = (uint32_t)size,
        .step = tail->id,
        .block = stream,
        .rank = (uint16_t)tail->process->rank,
        .flags = tail->process->is_server ? FRAME_FLAG_SERVER : 0,
    };

    if (agent->link != NULL) {
        (void)link_send(agent->link, &header, data);
    }
}

static void close_tail(struct tail *tail)
{
    for (unsigned i = 0; i < TAIL_STREAMS; i++) {
        if (tail->fds[i] >= 0) {
            close(tail->fds[i]);
        }
    }
    *tail = (struct tail){ .fds = { -1, -1 } };
}

static void end_tail(struct agent *agent, struct tail *tail,
                     const char *sentence)
{
    send_bytes(agent, tail, 0, sentence, strlen(sentence));
    close_tail(tail);
}

/* Nothing more is written: every pipe of the process is at its end. */
static bool is_over(const struct process *process)
{
    for (unsigned i = 0; i < process->output_count; i++) {
        if (process->outputs[i].fd >= 0) {
            return false;
        }
    }
    return true;
}

/* One chunk of one stream; false when it has none now. */
static bool move_chunk(struct agent *agent, struct tail *tail, unsigned which)
{
    static char data[TAIL_CHUNK];
    size_t size = tail->window < sizeof(data) ? (size_t)tail->window
                                              : sizeof(data);
    ssize_t n;

    if (tail->fds[which] < 0 || size == 0) {
        return false;
    }
    do {
        n = read(tail->fds[which], data, size);
    } while (n < 0 && errno == EINTR);
    if (n <= 0) {
        return false;
    }
    tail->window -= (uint64_t)n;
    agent->tails.moved_ns = clock_ns();
    send_bytes(agent, tail, which == 0 ? LAUNCH_STREAM_STDOUT
                                       : LAUNCH_STREAM_STDERR,
               data, (size_t)n);
    return true;
}

/* As much as the window takes, both streams in turn. */
static void pump(struct agent *agent, struct tail *tail)
{
    bool over = is_over(tail->process); /* asked before the last read */
    bool moved = true;

    while (moved) {
        moved = false;
        for (unsigned i = 0; i < TAIL_STREAMS; i++) {
            moved |= move_chunk(agent, tail, i);
        }
    }
    if (tail->window > 0 && (over || !tail->follow)) {
        end_tail(agent, tail, "");
    }
}

/* ---- all of them -------------------------------------------------------- */

static void on_timer(struct loop_timer *timer)
{
    struct tail_set *set = list_entry(timer, struct tail_set, timer);
    struct agent *agent = list_entry(set, struct agent, tails);
    bool any = false;

    for (size_t i = 0; i < TAILS_MAX; i++) {
        if (set->tails[i].process != NULL) {
            pump(agent, &set->tails[i]);
            any |= set->tails[i].process != NULL;
        }
    }
    if (any) {
        loop_timer_start(agent->loop, timer, TAIL_POLL_MS * CLOCK_NS_PER_MS,
                         on_timer);
    }
}

static struct tail *find_tail(struct agent *agent, uint32_t id)
{
    for (size_t i = 0; i < TAILS_MAX; i++) {
        struct tail *tail = &agent->tails.tails[i];

        if (tail->process != NULL && tail->id == id) {
            return tail;
        }
    }
    return NULL;
}

static struct process *find_process(struct agent *agent,
                                    const struct desk_tail *ask)
{
    for (uint32_t i = 0; i < agent->process_count; i++) {
        struct process *process = &agent->processes[i];

        if (process->is_server == (ask->is_server != 0) &&
            process->rank == ask->rank) {
            return process;
        }
    }
    return NULL;
}

static void open_tail(struct agent *agent, struct tail *tail,
                      struct process *process, const struct desk_tail *ask)
{
    *tail = (struct tail){
        .process = process,
        .id = ask->id,
        .fds = { -1, -1 },
        .follow = ask->follow != 0,
        .window = ask->credit,
    };
    for (unsigned i = 0; i < process->output_count && i < TAIL_STREAMS; i++) {
        char sentence[LAUNCH_PATH_MAX + 256];

        tail->fds[i] = open(process->outputs[i].path, O_RDONLY | O_CLOEXEC);
        if (tail->fds[i] < 0) {
            snprintf(sentence, sizeof(sentence), "cannot read %s on host %s: "
                     "%s",
                     process->outputs[i].path, agent->start.host,
                     strerror(errno));
            end_tail(agent, tail, sentence);
            return;
        }
        if (ask->lines != DESK_LINES_ALL) {
            lseek(tail->fds[i], (off_t)tail_offset(tail->fds[i], ask->lines),
                  SEEK_SET);
        }
    }
    on_timer(&agent->tails.timer);
}

static void take_open(struct agent *agent, const struct desk_tail *ask)
{
    struct process *process = find_process(agent, ask);
    struct tail *tail = agent->tails.tails;
    struct process nobody = { .rank = ask->rank,
                              .is_server = ask->is_server != 0 };
    struct tail refused = { .process = &nobody,
                            .id = ask->id,
                            .fds = { -1, -1 } };

    while (tail < agent->tails.tails + TAILS_MAX && tail->process != NULL) {
        tail++;
    }
    if (process == NULL) {
        end_tail(agent, &refused, "it has not been started there");
    } else if (tail == agent->tails.tails + TAILS_MAX) {
        end_tail(agent, &refused,
                 "too many read logs of this host; try again later");
    } else {
        open_tail(agent, tail, process, ask);
    }
}

psd_status tail_take(struct agent *agent, const struct frame_header *header,
                     const void *payload)
{
    struct desk_tail ask;
    psd_status status = desk_tail_unpack(&ask, payload, header->size);
    struct tail *tail;

    if (status != PSD_OK) {
        return status;
    }
    if (ask.action == DESK_TAIL_OPEN) {
        take_open(agent, &ask);
        return PSD_OK;
    }
    tail = find_tail(agent, ask.id);
    if (tail == NULL) {
        return PSD_OK; /* it has ended meanwhile */
    }
    if (ask.action == DESK_TAIL_CLOSE) {
        close_tail(tail);
    } else {
        tail->window += ask.credit;
        pump(agent, tail);
    }
    return PSD_OK;
}

bool tail_settled(struct agent *agent)
{
    struct tail_set *set = &agent->tails;
    uint64_t now_ns = clock_ns();
    bool any = false;

    if (set->ended_ns == 0) {
        set->ended_ns = now_ns;
        set->moved_ns = now_ns;
    }
    for (size_t i = 0; i < TAILS_MAX; i++) {
        if (set->tails[i].process != NULL) {
            pump(agent, &set->tails[i]);
            any |= set->tails[i].process != NULL;
        }
    }
    return !any || now_ns - set->moved_ns > TAIL_QUIET_MS * CLOCK_NS_PER_MS ||
           now_ns - set->ended_ns > TAIL_END_MS * CLOCK_NS_PER_MS;
}

void tail_fini(struct agent *agent)
{
    for (size_t i = 0; i < TAILS_MAX; i++) {
        if (agent->tails.tails[i].process != NULL) {
            close_tail(&agent->tails.tails[i]);
        }
    }
    loop_timer_stop(&agent->tails.timer);
}
