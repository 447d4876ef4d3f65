/*
 * agent.c: see agent.h. Life of an agent: idle -> running -> ending -> gone;
 * agent_end is the only way out of running, and it always arrives: SIGTERM,
 * a grace, then SIGKILL to whatever /proc shows below this process until
 * nothing is left.
 */
#define _GNU_SOURCE
#include "launch/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/agent_state.h"
#include "launch/cgroup.h"
#include "launch/exit_code.h"
#include "launch/folder.h"
#include "launch/helper.h"
#include "launch/ps.h"
#include "launch/tree.h"

#define KILL_EVERY_MS 10
#define PS_MS         8000 /* for a ps to end by itself */
#define EXIT_MS       300  /* for the last frames of a dead member */
#define PIPES_MS      1000 /* for the ends of the pipes, once all are dead */
#define BEATS         40   /* in the time after which psd_run counts as lost */

/* ---- frames to psd_run -------------------------------------------------- */

/* Without its guard the host is lost, and what ends now was ended by us: none
 * of it is to blame, so nothing is said of it. */
void agent_send(struct agent *agent, const struct process *process,
                unsigned type, const struct pack *pack)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .size = (uint32_t)pack->size,
        .rank = (uint16_t)(process != NULL ? process->rank : WIRE_RANK_NONE),
        .flags = process != NULL && process->is_server ? FRAME_FLAG_SERVER : 0,
    };

    if (agent->link != NULL && !pack->failed &&
        !(agent->unguarded && process != NULL)) {
        (void)link_send(agent->link, &header, pack->data);
    }
}

static void forward_output(void *user, struct output *output, const void *data,
                           size_t size)
{
    struct agent *agent = user;
    struct frame_header header = {
        .type = FRAME_OUTPUT,
        .size = (uint32_t)size,
        .rank = (uint16_t)output->rank,
        .block = output->stream,
        .flags = output->is_server ? FRAME_FLAG_SERVER : 0,
    };

    if (agent->link != NULL) {
        (void)link_send(agent->link, &header, data);
    }
}

static void send_started(struct agent *agent, const struct process *process,
                         int code, const char *reason)
{
    struct launch_started started = {
        .code = code,
        .pid = process != NULL ? (uint32_t)process->pid : 0,
    };
    struct pack pack;

    snprintf(started.reason, sizeof(started.reason), "%s", reason);
    pack_init(&pack);
    launch_started_pack(&pack, &started);
    agent_send(agent, process, FRAME_STARTED, &pack);
    pack_fini(&pack);
}

/* What it wrote last, and whether it was killed for want of memory. */
static void describe_failure(struct agent *agent, struct process *process,
                             struct launch_exited *exited)
{
    bool killed = exited->signal == SIGKILL ||
                  exited->code == EXIT_CODE_SIGNAL + SIGKILL;
    pid_t pids[] = { process->pid, process->member_pid };

    for (unsigned i = process->output_count; i > 0; i--) {
        output_tail(process->outputs[i - 1].path, exited->tail,
                    sizeof(exited->tail));
        exited->stream = (uint8_t)process->outputs[i - 1].stream;
        if (exited->tail[strspn(exited->tail, " \t\r\n")] != '\0') {
            break;
        }
    }
    if (!agent->ending) { /* else it may be us who kill */
        exited->memory = (uint8_t)memory_kill_check(
            &agent->memory_kill, pids, 2, killed, &exited->memory_size);
    }
}

static void send_exited(struct agent *agent, struct process *process)
{
    struct launch_exited exited = { .pid = (uint32_t)process->pid,
                                    .memory_size = process->peak };
    struct pack pack;

    for (unsigned i = 0; i < process->output_count; i++) {
        output_drain(&process->outputs[i]);
    }
    if (WIFSIGNALED(process->status)) {
        exited.signal = (uint8_t)WTERMSIG(process->status);
    } else {
        exited.code = (uint8_t)WEXITSTATUS(process->status);
    }
    if (exited.signal != 0 || exited.code != 0) {
        describe_failure(agent, process, &exited);
    }
    pack_init(&pack);
    launch_exited_pack(&pack, &exited);
    agent_send(agent, process, FRAME_EXITED, &pack);
    pack_fini(&pack);
}

static void on_exit_timer(struct loop_timer *timer);
static void report_exits(struct agent *agent, bool now);

/* ---- the end ------------------------------------------------------------ */

static void check_done(struct agent *agent)
{
    bool over = agent->ending && agent->nobody_left &&
                output_done(&agent->outputs) && tail_settled(agent);

    if (over && (agent->link == NULL || link_pending(agent->link) == 0)) {
        agent->done = true;
    }
}

static void on_kill(struct loop_timer *timer)
{
    struct agent *agent = list_entry(timer, struct agent, end_timer);

    if (!agent->nobody_left) {
        cgroup_kill(agent->cgroup);
        agent->nobody_left = tree_signal(SIGKILL) == 0;
        agent->pipes_due_ns = clock_ns() + PIPES_MS * CLOCK_NS_PER_MS;
    } else if (clock_ns() >= agent->pipes_due_ns) {
        output_finish(&agent->outputs);
    }
    if (agent->nobody_left) {
        report_exits(agent, true);
    }
    check_done(agent);
    loop_timer_start(agent->loop, &agent->end_timer,
                     KILL_EVERY_MS * CLOCK_NS_PER_MS, on_kill);
}

static void on_ps(struct loop_timer *timer)
{
    struct agent *agent = list_entry(timer, struct agent, end_timer);
    bool alive = false;

    for (uint32_t i = 0; i < agent->process_count; i++) {
        alive = alive || agent->processes[i].alive;
    }
    if (!alive || clock_ns() >= agent->ps_due_ns) {
        agent_end(agent, AGENT_END_MS);
    } else {
        ps_release(agent->folder);
        loop_timer_start(agent->loop, &agent->end_timer,
                         KILL_EVERY_MS * CLOCK_NS_PER_MS, on_ps);
    }
}

/* The workers are done: a ps that waits for that ends by itself. False: there
 * is none, or not only that. */
static bool let_ps_leave(struct agent *agent)
{
    for (uint32_t i = 0; i < agent->process_count; i++) {
        if (agent->processes[i].alive && !agent->processes[i].is_server) {
            return false;
        }
    }
    if (agent->ending || agent->ps_due_ns != 0 ||
        ps_release(agent->folder) == 0) { /* no ps of ours */
        return false;
    }
    agent->ps_due_ns = clock_ns() + PS_MS * CLOCK_NS_PER_MS;
    on_ps(&agent->end_timer);
    return true;
}

void agent_end(struct agent *agent, uint32_t grace_ms)
{
    uint64_t due_ns = clock_ns() + grace_ms * CLOCK_NS_PER_MS;

    if (agent->ending && due_ns >= agent->kill_due_ns) {
        return; /* already as soon as that */
    }
    if (!agent->ending && grace_ms > 0 && tree_signal(SIGTERM) == 0) {
        grace_ms = 0; /* nobody is left */
    } else if (!agent->ending && grace_ms > 0) {
        tree_signal(SIGCONT); /* one that is stopped cannot hear */
    }
    agent->ending = true;
    agent->kill_due_ns = due_ns;
    loop_timer_start(agent->loop, &agent->end_timer, grace_ms * CLOCK_NS_PER_MS,
                     on_kill);
}

/* ---- children ----------------------------------------------------------- */

static struct process *find_pid(struct agent *agent, pid_t pid)
{
    for (uint32_t i = 0; i < agent->process_count; i++) {
        if (agent->processes[i].alive && agent->processes[i].pid == pid) {
            return &agent->processes[i];
        }
    }
    return NULL;
}

/* Reported with the killed ones first: the order in which the system hands out
 * zombies is not that of their deaths. What a member said before it died comes
 * before: its last frames may still lie in its socket. */
static void report_exits(struct agent *agent, bool now)
{
    bool waiting = false;

    for (int killed = 1; killed >= 0; killed--) {
        for (uint32_t i = 0; i < agent->process_count; i++) {
            struct process *process = &agent->processes[i];

            if (!process->reaped ||
                (WIFSIGNALED(process->status) ? 1 : 0) != killed) {
                continue;
            }
            if (process->link != NULL && !now) {
                waiting = true;
                continue;
            }
            process->reaped = false;
            send_exited(agent, process);
        }
    }
    if (waiting && agent->exit_timer.due_ns == 0) {
        loop_timer_start(agent->loop, &agent->exit_timer,
                         EXIT_MS * CLOCK_NS_PER_MS, on_exit_timer);
    } else if (!waiting) {
        loop_timer_stop(&agent->exit_timer);
    }
}

/* A child of the member may hold its socket open for ever. */
static void on_exit_timer(struct loop_timer *timer)
{
    report_exits(list_entry(timer, struct agent, exit_timer), true);
}

void agent_member_gone(struct agent *agent)
{
    report_exits(agent, false);
}

static void reap(struct agent *agent)
{
    struct rusage usage;
    int status;
    pid_t pid;

    while ((pid = wait4(-1, &status, WNOHANG, &usage)) > 0) {
        struct process *process = find_pid(agent, pid);

        if (process != NULL) { /* else an orphan that fell to us */
            process->alive = false;
            process->status = status;
            process->peak = (uint64_t)usage.ru_maxrss * 1024;
            process->reaped = true;
        }
    }
    report_exits(agent, false);
    if (agent->ending && pid < 0 && !agent->nobody_left) {
        on_kill(&agent->end_timer); /* ECHILD: no need to wait longer */
    }
}

static void on_signal(struct loop_watch *watch, uint32_t mask)
{
    struct agent *agent = list_entry(watch, struct agent, signals);
    struct signalfd_siginfo info;

    (void)mask;
    while (read(agent->signal_fd, &info, sizeof(info)) ==
           (ssize_t)sizeof(info)) {
        if (info.ssi_signo == SIGCHLD) {
            reap(agent);
        } else {
            agent_end(agent, AGENT_END_MS);
        }
    }
}

static void on_guard(struct loop_watch *watch, uint32_t mask)
{
    struct agent *agent = list_entry(watch, struct agent, guard);

    (void)mask;
    log_error("agent: the guard was killed; ending everything");
    agent->unguarded = true;
    loop_unwatch(agent->loop, &agent->guard);
    agent_end(agent, AGENT_END_MS);
}

/* ---- start -------------------------------------------------------------- */

static rlim_t raise_files(uint32_t local_workers)
{
    struct rlimit limit;
    rlim_t before;
    rlim_t need = (rlim_t)local_workers + 64; /* what a member needs */

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) {
        return 0;
    }
    before = limit.rlim_cur;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
    return before > need ? before : need;
}

/* Servers come first, so that they listen by the time workers look for them. */
static psd_status start_all(struct agent *agent, struct process **failed_p,
                            int *code_p, char *error, size_t error_size)
{
    const struct launch_start *start = &agent->start;
    rlim_t files = raise_files(agent->local_workers);
    uint32_t locals[2] = { 0, 0 };

    for (uint32_t i = 0; i < start->task_count; i++) {
        const struct launch_task *task = &start->tasks[i];
        struct process *process = &agent->processes[i];
        psd_status status;

        *process = (struct process){
            .owner = agent,
            .is_server = task->is_server,
            .local = locals[task->is_server ? 1 : 0]++,
            .rank = task->rank,
        };
        status = process_start(process, start, task, agent->path,
                               agent->cgroup, &agent->outputs, files, code_p,
                               error, error_size);
        if (status != PSD_OK) {
            *failed_p = process;
            return status;
        }
        agent->process_count++;
        send_started(agent, process, 0, "");
    }
    return PSD_OK;
}

static void start_job(struct agent *agent)
{
    const struct launch_start *start = &agent->start;
    char error[WIRE_TEXT_MAX] = "the agent could not prepare the job";
    uint32_t shards = start->servers * start->threads_max;
    struct process *failed = NULL;
    int code = EXIT_CODE_OS;
    psd_status status;

    agent->processes =
        mem_zalloc_array(start->task_count, sizeof(*agent->processes));
    status = agent->processes == NULL ? PSD_ENOMEM : PSD_OK;
    if (status == PSD_OK) {
        status = region_set_init(&agent->regions, start->workers, shards,
                                 agent->local_workers);
    }
    if (status == PSD_OK) {
        status = seat_open(agent);
    }
    if (status == PSD_OK) {
        status = start_all(agent, &failed, &code, error, sizeof(error));
    }
    if (status != PSD_OK) {
        send_started(agent, failed, code, error);
        agent_end(agent, 0);
    }
}

/* ---- beats -------------------------------------------------------------- */

/* psd_run may be gone without a word: its machine, or the network. */
static void on_beat(struct loop_timer *timer)
{
    struct agent *agent = list_entry(timer, struct agent, beat);
    uint64_t limit_ns = agent->start.silence_ms * CLOCK_NS_PER_MS;
    struct frame_header header = { .type = FRAME_BEAT,
                                   .rank = WIRE_RANK_NONE };

    if (agent->link != NULL) {
        (void)link_send(agent->link, &header, NULL);
    }
    if (clock_ns() - agent->heard_ns > limit_ns) {
        log_error("agent: nothing was heard of psd_run for %.1f s; ending "
                  "everything here",
                  (double)limit_ns / (double)CLOCK_NS_PER_S);
        link_close(agent->link);
        agent->link = NULL;
        output_mute(&agent->outputs);
        tail_fini(agent);
        agent_end(agent, AGENT_END_MS);
        return;
    }
    loop_timer_start(agent->loop, &agent->beat, limit_ns / BEATS, on_beat);
}

/* ---- frames from psd_run ------------------------------------------------ */

static psd_status take_start(struct agent *agent,
                             const struct frame_header *header,
                             const void *payload)
{
    static struct launch_ready ready;
    struct pack pack;
    psd_status status;

    if (agent->prepared || agent->ending) {
        log_error("agent: a second start");
        return PSD_EPROTO;
    }
    status = launch_start_unpack(&agent->start, payload, header->size);
    if (status != PSD_OK) {
        return status;
    }
    agent->prepared = prepare_job(agent, &ready);
    pack_init(&pack);
    launch_ready_pack(&pack, &ready);
    agent_send(agent, NULL, FRAME_READY, &pack);
    pack_fini(&pack);
    if (agent->start.silence_ms > 0) {
        on_beat(&agent->beat);
    }
    return PSD_OK;
}

static void take_look(struct agent *agent, const struct frame_header *header)
{
    struct process *process =
        seat_find(agent, (header->flags & FRAME_FLAG_SERVER) != 0,
                  header->rank);

    if (process != NULL) {
        look_start(process);
    }
}

static psd_status deliver(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    struct agent *agent = user;
    struct launch_stop stop;
    psd_status status;

    (void)link;
    agent->heard_ns = clock_ns();
    switch (header->type) {
    case FRAME_START:
        return take_start(agent, header, payload);
    case FRAME_GO:
        if (!agent->prepared || agent->processes != NULL || agent->ending) {
            return PSD_EPROTO;
        }
        start_job(agent);
        return PSD_OK;
    case FRAME_STOP:
        status = launch_stop_unpack(&stop, payload, header->size);
        if (status == PSD_OK && !let_ps_leave(agent)) {
            agent_end(agent, stop.grace_ms);
        }
        return status;
    case FRAME_OUTPUT:
        output_credit(&agent->outputs, (size_t)header->step);
        return PSD_OK;
    case FRAME_TAIL:
        return tail_take(agent, header, payload);
    case FRAME_LOOK:
        take_look(agent, header);
        return PSD_OK;
    case FRAME_BEAT:
        return PSD_OK;
    default:
        return seat_forward(agent, header, payload);
    }
}

static void down(void *user, struct psd_link *link, psd_status why)
{
    struct agent *agent = user;

    (void)why;
    link_close(link);
    agent->link = NULL;
    output_mute(&agent->outputs);
    tail_fini(agent);
    agent_end(agent, AGENT_END_MS);
}

static const struct link_events stream_events = { .deliver = deliver,
                                                  .down = down };

/* ---- life --------------------------------------------------------------- */

/* Keep the stream, give 0 and 1 to /dev/null. */
static psd_status take_stream(struct agent *agent)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    psd_status status;

    if (in < 0 || out < 0 || null < 0 || dup2(null, STDIN_FILENO) < 0 ||
        dup2(null, STDOUT_FILENO) < 0) {
        log_error("agent: no control stream: %m");
        return PSD_ESYSTEM;
    }
    close(null);
    agent->heard_ns = clock_ns();
    status = helper_greet(out, "agent");
    if (status == PSD_OK) {
        status = link_adopt(agent->loop, in, out, &stream_events, agent,
                            &agent->link);
    }
    return status;
}

static psd_status watch_signals(struct agent *agent, pid_t guard)
{
    sigset_t set;
    int pidfd = (int)syscall(SYS_pidfd_open, guard, 0);

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    agent->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (pidfd < 0 || agent->signal_fd < 0 || getppid() != guard) {
        log_error("agent: cannot watch the guard: %m");
        return PSD_ESYSTEM;
    }
    if (loop_watch(agent->loop, &agent->signals, agent->signal_fd, EPOLLIN,
                   on_signal) != PSD_OK) {
        return PSD_ESYSTEM;
    }
    return loop_watch(agent->loop, &agent->guard, pidfd, EPOLLIN, on_guard);
}

static void agent_fini(struct agent *agent)
{
    gate_close(agent->gate);
    tail_fini(agent);
    for (uint32_t i = 0; i < agent->process_count; i++) {
        process_fini(&agent->processes[i]);
    }
    link_close(agent->link);
    region_set_fini(&agent->regions);
    launch_start_fini(&agent->start);
    memory_kill_fini(&agent->memory_kill);
    mem_free(agent->processes);
    loop_destroy(agent->loop);
}

int agent_run(pid_t guard, const char *folder, const char *cgroup)
{
    static struct agent agent;
    struct loop_events events;
    psd_status status;

    prctl(PR_SET_CHILD_SUBREAPER, 1);
    agent.folder = folder;
    agent.cgroup = cgroup;
    memory_kill_init(&agent.memory_kill, "", cgroup);
    snprintf(agent.path, sizeof(agent.path), "%s/%s", folder, FOLDER_SOCKET);
    status = loop_create(&agent.loop);
    if (status == PSD_OK) {
        output_pool_init(&agent.outputs, agent.loop);
        agent.outputs.user = &agent;
        agent.outputs.forward = forward_output;
        status = watch_signals(&agent, guard);
    }
    if (status == PSD_OK) {
        status = take_stream(&agent);
    }
    while (status == PSD_OK && !agent.done) {
        loop_wait(agent.loop, &events, -1);
        loop_dispatch(agent.loop, &events);
    }
    agent_fini(&agent);
    folder_remove_run(folder);
    cgroup_remove(cgroup);
    return status == PSD_OK ? 0 : EXIT_CODE_OS;
}
