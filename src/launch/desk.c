/* desk.c: see desk.h. */
#define _GNU_SOURCE
#include "launch/desk.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/exit_code.h"
#include "launch/supervise_state.h"
#include "launch/visitor.h"

struct desk {
    struct supervise *supervise;
    struct psd_loop *loop;
    struct desk_place place;
    struct loop_watch watch;
    struct loop_timer look;
    int ready_fd;
    uint64_t started; /* seconds since 1970 */
    char logs[LAUNCH_PATH_MAX];
    uint32_t last_id;
    struct visitor visitors[DESK_VISITORS_MAX];
};

/* ---- status ------------------------------------------------------------- */

/* Server processes: where workers play the role there are none. */
static uint32_t count_servers(const struct supervise *supervise)
{
    const struct run *run = &supervise->run;

    return supervise->plan->starts[0].servers > 0 || run->roles ? run->servers
                                                                : 0;
}

/* The command of worker 0 as one line, cut for show. */
static void write_command(const struct supervise *supervise, char *text,
                          size_t size)
{
    const struct supervise_plan *plan = supervise->plan;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < supervise->host_count && used == 0; i++) {
        for (uint32_t k = 0; k < plan->starts[i].task_count; k++) {
            const struct launch_task *task = &plan->starts[i].tasks[k];

            if (task->is_server || task->rank != 0) {
                continue;
            }
            for (uint32_t w = 0; w < task->command.count && used < size; w++) {
                const char *word = task->command.words[w];
                bool plain = task->shell || (word[0] != '\0' &&
                                             strpbrk(word, " \t\n'\"") == NULL);

                used += (size_t)snprintf(text + used, size - used,
                                         plain ? "%s%s" : "%s'%s'",
                                         w == 0 ? "" : " ", word);
            }
        }
    }
}

static uint8_t process_state(const struct run_process *process)
{
    if (process->lost) {
        return DESK_PROCESS_LOST;
    }
    if (process->exited) {
        return DESK_PROCESS_EXITED;
    }
    if (process->said_bye) {
        return DESK_PROCESS_LEFT;
    }
    if (process->entered) {
        return DESK_PROCESS_TRAINING;
    }
    return process->started ? DESK_PROCESS_RUNNING : DESK_PROCESS_WAITING;
}

static bool all_started(const struct supervise *supervise)
{
    const struct run *run = &supervise->run;
    uint32_t count = run->workers + count_servers(supervise);

    for (uint32_t i = 0; i < count; i++) {
        if (!run->processes[i].started) {
            return false;
        }
    }
    return true;
}

static void fill_processes(const struct run *run, struct desk_status *status)
{
    for (uint32_t i = 0; i < status->process_count; i++) {
        const struct run_process *process = &run->processes[i];
        struct desk_process *to = &status->processes[i];

        to->is_server = process->is_server;
        to->state = process_state(process);
        to->code = process->code;
        to->signal = process->signal;
        to->rank = process->rank;
        to->pid = process->pid;
        snprintf(to->host, sizeof(to->host), "%s", process->host);
    }
}

static psd_status fill_status(const struct desk *desk,
                              struct desk_status *status)
{
    const struct supervise *supervise = desk->supervise;
    const struct run *run = &supervise->run;

    *status = (struct desk_status){
        .pid = (uint32_t)getpid(),
        .started = desk->started,
        .tee = supervise->plan->starts[0].tee,
        .hosts = run->hosts,
        .workers = run->workers,
        .servers = count_servers(supervise),
        .has_view = run->has_view,
        .step = run->view.step,
        .loss = run->has_view ? run->view.loss : NAN,
        .rate = run->view.rate,
    };
    status->state = run->over || supervise->stopping ? DESK_ENDING
                    : all_started(supervise)         ? DESK_RUNNING
                                                     : DESK_STARTING;
    status->process_count = status->workers + status->servers;
    status->processes =
        mem_zalloc_array(status->process_count, sizeof(*status->processes));
    if (status->processes == NULL) {
        return PSD_ENOMEM;
    }
    snprintf(status->name, sizeof(status->name), "%s", desk->place.name);
    snprintf(status->logs, sizeof(status->logs), "%s", desk->logs);
    write_command(supervise, status->command, sizeof(status->command));
    fill_processes(run, status);
    return PSD_OK;
}

static bool send_status(struct desk *desk, struct visitor *visitor)
{
    static struct desk_status status;
    struct frame_header header = { .type = FRAME_STATUS,
                                   .rank = WIRE_RANK_NONE };
    struct pack pack;
    bool sent = false;

    if (fill_status(desk, &status) != PSD_OK) {
        return false;
    }
    pack_init(&pack);
    desk_status_pack(&pack, &status);
    header.size = (uint32_t)pack.size;
    if (!pack.failed) {
        sent = visitor_send(visitor, &header, pack.data);
    }
    pack_fini(&pack);
    desk_status_fini(&status);
    return sent;
}

/* ---- logs --------------------------------------------------------------- */

static void send_tail(struct desk *desk, const struct visitor *visitor,
                      unsigned action, uint64_t credit)
{
    struct psd_link *link = desk->supervise->hosts[visitor->host].helper.link;
    struct desk_tail tail = {
        .action = (uint8_t)action,
        .id = visitor->id,
        .is_server = visitor->ask.is_server,
        .rank = visitor->ask.rank,
        .follow = visitor->ask.follow,
        .lines = visitor->ask.lines,
        .credit = credit,
    };
    struct pack pack;

    pack_init(&pack);
    desk_tail_pack(&pack, &tail);
    supervise_send(link, NULL, FRAME_TAIL, &pack);
    pack_fini(&pack);
}

static void open_tail(struct desk *desk, struct visitor *visitor)
{
    struct supervise *supervise = desk->supervise;
    const struct run_process *process = run_find(
        &supervise->run, visitor->ask.is_server, visitor->ask.rank);
    char reason[512];

    if (process == NULL ||
        (process->is_server && process->rank >= count_servers(supervise))) {
        snprintf(reason, sizeof(reason),
                 "job %s has no %s %" PRIu32 ": it has %" PRIu32
                 " workers and %" PRIu32 " server processes",
                 desk->place.name, visitor->ask.is_server ? "server" : "worker",
                 visitor->ask.rank, supervise->run.workers,
                 count_servers(supervise));
        visitor_done(visitor, EXIT_CODE_USAGE, reason);
        return;
    }
    if (!process->started ||
        supervise->hosts[process->host_index].helper.link == NULL) {
        snprintf(reason, sizeof(reason), "%s %" PRIu32 " on host %s %s",
                 run_role(process), process->rank, process->host,
                 process->started ? "cannot be reached any more"
                                  : "has not started yet; try again");
        visitor_done(visitor, EXIT_CODE_UNAVAILABLE, reason);
        return;
    }
    visitor->host = process->host_index;
    visitor->tailing = true;
    send_tail(desk, visitor, DESK_TAIL_OPEN, DESK_WINDOW);
}

void desk_tail(struct desk *desk, uint32_t host,
               const struct frame_header *header, const void *payload)
{
    struct frame_header output = {
        .type = FRAME_OUTPUT,
        .size = header->size,
        .rank = header->rank,
        .flags = header->flags & FRAME_FLAG_SERVER,
        .block = header->block,
    };

    for (size_t i = 0; desk != NULL && i < DESK_VISITORS_MAX; i++) {
        struct visitor *visitor = &desk->visitors[i];

        if (visitor->events == NULL || !visitor->tailing ||
            visitor->id != header->step || visitor->host != host) {
            continue;
        }
        if (header->block == 0) {
            char reason[1024];

            snprintf(reason, sizeof(reason), "%.*s",
                     (int)(header->size < 1000 ? header->size : 1000),
                     header->size > 0 ? (const char *)payload : "");
            visitor->tailing = false;
            visitor_done(visitor,
                         reason[0] == '\0' ? 0 : EXIT_CODE_UNAVAILABLE,
                         reason);
            return;
        }
        visitor->owed += header->size;
        if (!visitor_send(visitor, &output, payload)) {
            visitor_leave(visitor); /* more than the window: it is broken */
        } else if (visitor_pending(visitor) == 0) {
            visitor->events->drained(desk, visitor);
        }
        return;
    }
}

void desk_host_gone(struct desk *desk, uint32_t host)
{
    for (size_t i = 0; desk != NULL && i < DESK_VISITORS_MAX; i++) {
        struct visitor *visitor = &desk->visitors[i];
        char reason[LAUNCH_PATH_MAX + 512];

        if (visitor->events == NULL || !visitor->tailing ||
            visitor->host != host) {
            continue;
        }
        snprintf(reason, sizeof(reason),
                 "host %s has gone before all of the log was shown; it is in "
                 "%s there",
                 desk->supervise->hosts[host].where->name, desk->logs);
        visitor->tailing = false;
        visitor_done(visitor, EXIT_CODE_UNAVAILABLE, reason);
    }
}

/* ---- stop --------------------------------------------------------------- */

/* As Ctrl-C; who only waits for an end that is coming changes nothing. */
static void stop_job(struct desk *desk, const struct visitor *visitor)
{
    struct supervise *supervise = desk->supervise;
    struct run *run = &supervise->run;
    char by[64];

    snprintf(by, sizeof(by), "psd stop%s (pid %d)",
             visitor->ask.now ? " --now" : "", (int)visitor->pid);
    if (run->over && run->interrupted == 0) { /* its own reason stays */
        supervise_stop(supervise, visitor->ask.now
                                      ? 0
                                      : supervise->plan->grace_ms);
        return;
    }
    if (run->interrupted == 0) {
        supervise_interrupt(supervise, SIGINT, by);
    }
    if (visitor->ask.now) {
        supervise_interrupt(supervise, SIGINT, by);
    }
}

/* ---- attached ----------------------------------------------------------- */

void desk_show(struct desk *desk, const struct frame_header *header,
               const void *payload)
{
    struct frame_header copy = {
        .type = header->type,
        .flags = header->flags & FRAME_FLAG_SERVER,
        .size = header->size,
        .block = header->block,
        .rank = header->rank,
    };

    for (size_t i = 0; desk != NULL && i < DESK_VISITORS_MAX; i++) {
        struct visitor *visitor = &desk->visitors[i];

        if (visitor->events != NULL && visitor->attached &&
            !visitor_send(visitor, &copy, payload)) {
            visitor->left_out += copy.size;
        }
    }
}

void desk_say(struct desk *desk, const char *line)
{
    struct frame_header header = { .type = FRAME_SAY,
                                   .size = (uint32_t)strlen(line),
                                   .rank = WIRE_RANK_NONE };

    desk_show(desk, &header, line);
}

/* ---- visitors ----------------------------------------------------------- */

static void on_asked(void *user, struct visitor *visitor)
{
    struct desk *desk = user;
    char reason[512];

    if (strcmp(visitor->ask.build, psd_version()) != 0) {
        snprintf(reason, sizeof(reason),
                 "this psd is version %s, the psd_run of job %s is %s; use the "
                 "psd that belongs to it",
                 visitor->ask.build, desk->place.name, psd_version());
        visitor_done(visitor, EXIT_CODE_PROTOCOL, reason);
        return;
    }
    switch (visitor->ask.verb) {
    case DESK_LOGS:
        open_tail(desk, visitor);
        return;
    case DESK_STOP:
        visitor->waits = true;
        stop_job(desk, visitor);
        return;
    default:
        break;
    }
    if (!send_status(desk, visitor)) {
        visitor_done(visitor, EXIT_CODE_OS, "psd_run is out of memory");
    } else if (visitor->ask.verb == DESK_ATTACH) {
        visitor->attached = true;
        visitor->waits = true;
    } else {
        visitor_done(visitor, 0, "");
    }
}

static void on_drained(void *user, struct visitor *visitor)
{
    struct frame_header header = { .type = FRAME_SAY, .rank = WIRE_RANK_NONE };
    char line[128];

    if (visitor->tailing && visitor->owed > 0) {
        send_tail(user, visitor, DESK_TAIL_CREDIT, visitor->owed);
        visitor->owed = 0;
    }
    if (visitor->left_out > 0) {
        header.size = (uint32_t)snprintf(
            line, sizeof(line),
            "%" PRIu64 " bytes were left out here: this reader is too slow; "
            "the log files have them",
            visitor->left_out);
        visitor->left_out = 0;
        (void)visitor_send(visitor, &header, line);
    }
}

static void on_gone(void *user, struct visitor *visitor)
{
    if (visitor->tailing) {
        send_tail(user, visitor, DESK_TAIL_CLOSE, 0);
    }
}

static const struct visitor_events visitor_events = { .asked = on_asked,
                                                      .drained = on_drained,
                                                      .gone = on_gone };

/* A free seat. One who does not read gives way, the longest waiting first;
 * then one who has not said what it wants. */
static struct visitor *find_seat(struct desk *desk)
{
    struct visitor *slowest = NULL;
    struct visitor *mute = NULL;

    for (size_t i = 0; i < DESK_VISITORS_MAX; i++) {
        struct visitor *visitor = &desk->visitors[i];

        if (visitor->events == NULL) {
            return visitor;
        }
        if (visitor->waited_ns != 0 &&
            (slowest == NULL || visitor->waited_ns < slowest->waited_ns)) {
            slowest = visitor;
        }
        if (!visitor->has_asked && (mute == NULL || visitor->id < mute->id)) {
            mute = visitor;
        }
    }
    slowest = slowest == NULL ? mute : slowest;
    if (slowest != NULL) {
        visitor_leave(slowest);
    }
    return slowest;
}

static void on_connect(struct loop_watch *watch, uint32_t mask)
{
    struct desk *desk = list_entry(watch, struct desk, watch);
    struct ucred peer;
    socklen_t size = sizeof(peer);
    struct visitor *visitor;
    int fd = accept4(desk->place.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

    (void)mask;
    if (fd < 0) {
        if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED) {
            log_error("desk: cannot accept a visitor: %m");
            loop_unwatch(desk->loop, &desk->watch);
            desk_place_close(&desk->place); /* on_look opens it again */
        }
        return;
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid()) {
        log_warn("desk: a visitor of another user was turned away");
        close(fd);
        return;
    }
    visitor = find_seat(desk);
    if (visitor == NULL) {
        log_warn("desk: pid %d was turned away: %d visitors are enough",
                 (int)peer.pid, DESK_VISITORS_MAX);
        close(fd);
        return;
    }
    (void)visitor_enter(visitor, desk->loop, fd, peer.pid, ++desk->last_id,
                        &visitor_events, desk);
}

/* ---- life --------------------------------------------------------------- */

/* The socket may have been taken away: open another one. */
static void on_look(struct loop_timer *timer)
{
    struct desk *desk = list_entry(timer, struct desk, look);
    char name[LAUNCH_NAME_MAX];
    char error[1024];

    loop_timer_start(desk->loop, &desk->look, DESK_LOOK_MS * CLOCK_NS_PER_MS,
                     on_look);
    if (desk_place_stands(&desk->place)) {
        return;
    }
    snprintf(name, sizeof(name), "%s", desk->place.name);
    loop_unwatch(desk->loop, &desk->watch);
    desk_place_close(&desk->place);
    if (desk_place_open(&desk->place, name, false, error, sizeof(error)) !=
            PSD_OK ||
        loop_watch(desk->loop, &desk->watch, desk->place.fd, EPOLLIN,
                   on_connect) != PSD_OK) {
        snprintf(desk->place.name, sizeof(desk->place.name), "%s", name);
        return;
    }
    log_warn("desk: the socket was gone; the job is now %s in %s",
             desk->place.name, desk->place.path);
}

psd_status desk_create(struct supervise *supervise, struct desk_place *place,
                       int ready_fd, struct desk **desk_p)
{
    struct desk *desk = mem_zalloc(sizeof(*desk));
    char *logs = realpath(supervise->plan->logs, NULL);

    if (desk == NULL) {
        free(logs);
        return PSD_ENOMEM;
    }
    desk->supervise = supervise;
    desk->loop = supervise->loop;
    desk->place = *place;
    desk->ready_fd = ready_fd;
    desk->started = (uint64_t)time(NULL);
    snprintf(desk->logs, sizeof(desk->logs), "%s",
             logs == NULL ? supervise->plan->logs : logs);
    free(logs);
    *place = (struct desk_place){ .folder = -1, .fd = -1 };
    if (loop_watch(desk->loop, &desk->watch, desk->place.fd, EPOLLIN,
                   on_connect) != PSD_OK) {
        desk_place_close(&desk->place);
        mem_free(desk);
        return PSD_ESYSTEM;
    }
    loop_timer_start(desk->loop, &desk->look, DESK_LOOK_MS * CLOCK_NS_PER_MS,
                     on_look);
    *desk_p = desk;
    return PSD_OK;
}

void desk_started(struct desk *desk)
{
    if (desk == NULL || desk->ready_fd < 0 || desk->supervise->run.over ||
        desk->supervise->stopping || !all_started(desk->supervise)) {
        return;
    }
    (void)!write(desk->ready_fd, desk->place.name, strlen(desk->place.name));
    close(desk->ready_fd);
    desk->ready_fd = -1;
}

void desk_destroy(struct desk *desk, int code)
{
    uint64_t due_ns = clock_ns() + DESK_LAST_MS * CLOCK_NS_PER_MS;

    if (desk == NULL) {
        return;
    }
    loop_timer_stop(&desk->look);
    loop_unwatch(desk->loop, &desk->watch);
    desk_place_close(&desk->place);
    for (size_t i = 0; i < DESK_VISITORS_MAX; i++) {
        struct visitor *visitor = &desk->visitors[i];

        if (visitor->events != NULL && !visitor->is_last) {
            visitor->tailing = false;
            visitor_done(visitor, visitor->waits ? code : EXIT_CODE_UNAVAILABLE,
                         visitor->waits ? "" : "the job has ended");
        }
    }
    for (size_t i = 0; i < DESK_VISITORS_MAX; i++) {
        if (desk->visitors[i].events != NULL) {
            visitor_drain(&desk->visitors[i], due_ns);
            visitor_leave(&desk->visitors[i]);
        }
    }
    if (desk->ready_fd >= 0) {
        close(desk->ready_fd);
    }
    mem_free(desk);
}
