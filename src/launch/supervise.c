/*
 * supervise.c: see supervise.h. The job is over once, for one reason: the
 * first verdict of the master, or the loss of one of our own processes. What
 * ends after that is a victim.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/agent.h"
#include "launch/cgroup.h"
#include "launch/exit_code.h"
#include "report/report.h"
#include "report/rerun.h"
#include "launch/supervise_state.h"

#define HELPERS_MS 3000 /* for agents and master to go, at the end */
#define BEAT_MS    1000 /* at most: the master takes silence for a pause */
#define FAILURE_MS 3000 /* for the others to end by themselves, at most */

/* ---- frames out --------------------------------------------------------- */

void supervise_send(struct psd_link *link, const struct run_process *process,
                    unsigned type, const struct pack *pack)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .size = (uint32_t)pack->size,
        .rank = (uint16_t)(process != NULL ? process->rank : WIRE_RANK_NONE),
        .flags = process != NULL && process->is_server ? FRAME_FLAG_SERVER : 0,
    };

    if (link != NULL && !pack->failed) {
        (void)link_send(link, &header, pack->data);
    }
}

/* The screen has shown everything of that stream. */
static void on_taken(void *user, unsigned which)
{
    struct supervise *supervise = user;

    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];
        struct frame_header header = {.type = FRAME_OUTPUT,
                                      .step = host->owed[which],
                                      .rank = WIRE_RANK_NONE};

        if (host->owed[which] > 0 && host->helper.link != NULL) {
            (void)link_send(host->helper.link, &header, NULL);
        }
        host->owed[which] = 0;
    }
}

/* psd_run says something of its own. */
static void on_say(void *user, const char *line)
{
    struct supervise *supervise = user;

    desk_say(supervise->desk, line);
}

/* ---- the end ------------------------------------------------------------ */

static void on_grace(struct loop_timer *timer)
{
    struct supervise *supervise = list_entry(timer, struct supervise, grace);

    supervise_stop(supervise, AGENT_END_MS);
}

void supervise_stop(struct supervise *supervise, uint32_t grace_ms)
{
    struct launch_stop stop = {.grace_ms = grace_ms};
    struct pack pack;

    loop_timer_stop(&supervise->grace);
    pack_init(&pack);
    launch_stop_pack(&pack, &stop);
    if (!supervise->stopping) {
        supervise_send(supervise->master.link, NULL, FRAME_STOP, &pack);
        supervise->master_done |= supervise->master.link == NULL;
        if (supervise->master.link == NULL && supervise->master.pid > 0) {
            kill(supervise->master.pid, SIGTERM); /* not greeted, or lost */
        }
    }
    supervise->stopping = true;
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];

        if (host->helper.link != NULL) {
            supervise_send(host->helper.link, NULL, FRAME_STOP, &pack);
        } else {
            host_drop(host); /* not reached, or its end is near */
        }
    }
    pack_fini(&pack);
}

void supervise_over(struct supervise *supervise, int code,
                    struct run_process *culprit, const char *reason)
{
    struct run *run = &supervise->run;

    if (run->reason[0] != '\0' ||
        (run->interrupted != 0 && !supervise->judging)) {
        return; /* what came first counts */
    }
    run->over = true;
    run->code = code;
    run->culprit = culprit;
    snprintf(run->reason, sizeof(run->reason), "%s", reason);
    log_error("run: %s", reason);
    screen_say(supervise->screen, "%s; ending the job", reason);
    if (culprit != NULL) {
        culprit->victim = false;
    }
    if (!supervise->stopping) {
        uint32_t ms = supervise->plan->grace_ms;

        loop_timer_start(supervise->loop, &supervise->grace,
                         (ms < FAILURE_MS ? ms : FAILURE_MS) * CLOCK_NS_PER_MS,
                         on_grace);
    }
}

void supervise_unfit(struct supervise *supervise, int code,
                     const char *sentence)
{
    supervise_over(supervise, code, NULL, sentence);
    supervise_stop(supervise, 0);
}

void supervise_ready(struct supervise *supervise)
{
    struct frame_header header = {.type = FRAME_GO, .rank = WIRE_RANK_NONE};

    if (supervise->hosts_ready < supervise->host_count ||
        supervise->master.link == NULL || supervise->stopping ||
        supervise->started) {
        return;
    }
    supervise->started = true;
    host_say_notes(supervise);
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];

        if (host->state == HOST_READY) {
            host->state = HOST_RUNNING;
            host->heard_ns = clock_ns();
            (void)link_send(host->helper.link, &header, NULL);
        }
    }
}

/* The master died: nothing can go on. What its stream has to say comes
 * before. */
static void master_reaped(struct supervise *supervise, int status)
{
    bool remote = supervise->plan->cluster->master != CLUSTER_HERE;
    char who[CLUSTER_NAME_MAX + 32];
    char reason[CLUSTER_NAME_MAX + 256];

    if (supervise->stopping || supervise->run.reason[0] != '\0' ||
        supervise->master.fd >= 0) {
        return;
    }
    host_master_text(supervise, who, sizeof(who));
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));

        snprintf(reason, sizeof(reason), "%s was %skilled by signal %d (SIG%s)",
                 who, remote ? "lost: its ssh was " : "", WTERMSIG(status),
                 name == NULL ? "?" : name);
    } else {
        snprintf(reason, sizeof(reason), "%s %s with exit code %d", who,
                 remote ? "was lost: its ssh ended" : "ended",
                 WEXITSTATUS(status));
    }
    supervise_over(supervise, EXIT_CODE_UNAVAILABLE, NULL, reason);
    supervise_stop(supervise, AGENT_END_MS);
}

/* ---- signals ------------------------------------------------------------ */

void supervise_interrupt(struct supervise *supervise, int signo, const char *by)
{
    struct run *run = &supervise->run;

    if (run->interrupted == 0) {
        run->interrupted = signo;
        run->over = true;
        screen_say(supervise->screen,
                   "%s: ending the job; once more ends it at once", by);
        supervise_stop(supervise, supervise->plan->grace_ms);
    } else {
        supervise_stop(supervise, 0);
    }
}

static void on_signal(struct loop_watch *watch, uint32_t mask)
{
    struct supervise *supervise = list_entry(watch, struct supervise, signals);
    struct signalfd_siginfo info;
    char by[16];
    int status;

    (void)mask;
    while (read(supervise->signal_fd, &info, sizeof(info)) ==
           (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            snprintf(by, sizeof(by), "SIG%s",
                     sigabbrev_np((int)info.ssi_signo));
            supervise_interrupt(supervise, (int)info.ssi_signo, by);
            continue;
        }
        for (uint32_t i = 0; i < supervise->host_count; i++) {
            if (helper_reap(&supervise->hosts[i].helper, &status)) {
                host_reaped(&supervise->hosts[i], status);
            }
        }
        if (helper_reap(&supervise->master, &status)) {
            master_reaped(supervise, status);
        }
    }
}

static psd_status watch_signals(struct supervise *supervise)
{
    static const int signals[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    sigset_t set;

    sigemptyset(&set);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        /* What nohup or a shell has turned off stays off. */
        if (signals[i] == SIGCHLD ||
            sigaction(signals[i], NULL, &before) != 0 ||
            before.sa_handler != SIG_IGN) {
            sigaddset(&set, signals[i]);
        }
    }
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    supervise->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (supervise->signal_fd < 0) {
        log_error("run: no signalfd: %m");
        return PSD_ESYSTEM;
    }
    return loop_watch(supervise->loop, &supervise->signals,
                      supervise->signal_fd, EPOLLIN, on_signal);
}

/* ---- life --------------------------------------------------------------- */

static void on_master_greeted(void *user)
{
    struct supervise *supervise = user;

    supervise->master_heard_ns = clock_ns();
    supervise_ready(supervise);
}

static void on_master_failed(void *user, const char *sentence)
{
    struct supervise *supervise = user;
    const struct cluster *cluster = supervise->plan->cluster;
    struct cluster_host here = {.name = "localhost", .local = true};
    const struct cluster_host *host = cluster->master == CLUSTER_HERE
                                          ? &here
                                          : &cluster->hosts[cluster->master];
    char cause[2048];
    char reason[4096];

    helper_drain(&supervise->master);
    supervise->master_done = true;
    snprintf(cause, sizeof(cause), "host %s: %s", host->name, sentence);
    if (sentence[0] == '\0') {
        (void)ssh_explain(&supervise->plan->way, host, 255 << 8,
                          supervise->master_said, cause, sizeof(cause));
    }
    snprintf(reason, sizeof(reason), "the master could not be started: %s",
             cause);
    supervise_unfit(supervise, EXIT_CODE_UNAVAILABLE, reason);
}

static void on_master_said(void *user, const char *line)
{
    struct supervise *supervise = user;

    log_info("master: %s", line);
    host_keep_line(supervise->master_said, sizeof(supervise->master_said),
                   line);
    if (supervise->started) {
        screen_say(supervise->screen, "master: %s", line);
    }
}

static void on_master_wants(void *user)
{
    struct supervise *supervise = user;

    helper_give(&supervise->master, supervise->plan->way.copy_data,
                supervise->plan->way.copy_size);
}

static const struct helper_events master_events = {
    .link = &hub_master_events,
    .greeted = on_master_greeted,
    .failed = on_master_failed,
    .said = on_master_said,
    .wants = on_master_wants,
};

psd_status supervise_master_words(const struct supervise_plan *plan,
                                  struct launch_words *argv_p)
{
    const struct cluster *cluster = plan->cluster;
    const struct launch_start *start = &plan->starts[0];
    struct cluster_host here = {.name = "localhost", .local = true};
    const struct cluster_host *host = cluster->master == CLUSTER_HERE
                                          ? &here
                                          : &cluster->hosts[cluster->master];
    char workers[16];
    char servers[16];
    char threads[16];
    char threads_max[16];
    char silence[16];
    char stall[16];
    const char *arguments[] = {
        "master",        "--workers",   workers,       "--servers",
        servers,         "--threads",   threads,       "--threads-max",
        threads_max,     "--silence",   silence,       "--stall-after",
        stall,           NULL};

    snprintf(workers, sizeof(workers), "%" PRIu32, start->workers);
    snprintf(servers, sizeof(servers), "%" PRIu32, start->servers);
    snprintf(threads, sizeof(threads), "%" PRIu32, start->threads);
    snprintf(threads_max, sizeof(threads_max), "%" PRIu32, start->threads_max);
    snprintf(silence, sizeof(silence), "%" PRIu32,
             host->local ? 0 : SUPERVISE_SILENCE * plan->dead_after_ms);
    snprintf(stall, sizeof(stall), "%" PRIu32, plan->stall_after_ms);
    return ssh_words(&plan->way, host, arguments, argv_p);
}

static psd_status start_master(struct supervise *supervise)
{
    struct launch_words argv;
    psd_status status = supervise_master_words(supervise->plan, &argv);

    supervise->master_heard_ns = clock_ns();
    if (status == PSD_OK) {
        status = helper_start(&supervise->master, supervise->loop, argv.words,
                              &master_events, supervise);
        launch_words_fini(&argv);
    }
    return status;
}

static void on_beat(struct loop_timer *timer)
{
    struct supervise *supervise = list_entry(timer, struct supervise, beat);
    uint64_t ms = supervise->plan->dead_after_ms / 4;

    host_beat_all(supervise);
    loop_timer_start(supervise->loop, &supervise->beat,
                     (ms < BEAT_MS ? ms : BEAT_MS) * CLOCK_NS_PER_MS, on_beat);
}

static struct run_process *add_process(struct supervise *supervise, uint32_t i,
                                       bool is_server,
                                       const struct cluster_seat *seat)
{
    struct run_process *process = &supervise->run.processes[i];

    process->is_server = is_server;
    process->rank = is_server ? i - supervise->run.workers : i;
    process->host_index = seat->host;
    process->host = supervise->plan->cluster->hosts[seat->host].name;
    return process;
}

/* Who runs where, before anybody does. */
static psd_status prepare_run(struct supervise *supervise)
{
    const struct supervise_plan *plan = supervise->plan;
    const struct cluster *cluster = plan->cluster;
    struct run *run = &supervise->run;

    run->workers = cluster->workers;
    run->servers = cluster->servers;
    run->hosts = cluster->host_count;
    run->roles = cluster->roles;
    run->logs = plan->logs;
    run->name = plan->starts[0].name;
    run->line = rerun_line(plan->argc, plan->argv);
    run->processes = mem_zalloc_array((size_t)run->workers + run->servers,
                                      sizeof(*run->processes));
    supervise->hosts =
        mem_zalloc_array(cluster->host_count, sizeof(*supervise->hosts));
    if (run->processes == NULL || supervise->hosts == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < run->workers; i++) {
        add_process(supervise, i, false, &cluster->worker_seats[i]);
    }
    for (uint32_t i = 0; i < run->servers; i++) {
        add_process(supervise, run->workers + i, true,
                    &cluster->server_seats[i]);
    }
    supervise->host_count = cluster->host_count;
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        supervise->hosts[i].supervise = supervise;
        supervise->hosts[i].where = &cluster->hosts[i];
        supervise->hosts[i].start = &plan->starts[i];
        if (plan->starts[i].task_count == 0) { /* the master's alone */
            supervise->hosts[i].state = HOST_GONE;
            supervise->hosts_ready++;
            supervise->hosts_gone++;
        }
    }
    return PSD_OK;
}

static psd_status prepare(struct supervise *supervise)
{
    struct screen_events events = {
        .user = supervise, .taken = on_taken, .said = on_say};
    psd_status status = prepare_run(supervise);

    if (status == PSD_OK) {
        status = loop_create(&supervise->loop);
    }
    if (status == PSD_OK) {
        status = screen_create(supervise->loop, supervise->run.workers,
                               &supervise->plan->screen, &events,
                               &supervise->screen);
    }
    if (status == PSD_OK && supervise->plan->place != NULL) {
        status = desk_create(supervise, supervise->plan->place,
                             supervise->plan->ready_fd, &supervise->desk);
    }
    return status == PSD_OK ? watch_signals(supervise) : status;
}

/* Guard and agent may have died in one instant. */
static void clean_local(const struct host *host)
{
    char cgroup[CGROUP_PATH_MAX];

    if (host->guard_pid > 0 &&
        cgroup_path(host->guard_pid, cgroup, sizeof(cgroup))) {
        cgroup_kill(cgroup);
        cgroup_remove(cgroup);
    }
    if (host->folder[0] != '\0') {
        folder_remove_run(host->folder);
    }
}

static void say_tensorboard(void *user, const char *sentence)
{
    struct supervise *supervise = user;

    screen_note(supervise->screen, "%s", sentence);
}

static void finish(struct supervise *supervise, int code)
{
    struct run *run = &supervise->run;
    uint64_t due_ns = clock_ns() + HELPERS_MS * CLOCK_NS_PER_MS;

    for (uint32_t i = 0; i < supervise->host_count; i++) {
        helper_close(&supervise->hosts[i].helper);
    }
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        helper_stop(&supervise->hosts[i].helper, due_ns);
        clean_local(&supervise->hosts[i]);
    }
    helper_stop(&supervise->master, due_ns);
    tensorboard_stop(&supervise->tensorboard);
    desk_destroy(supervise->desk, code);
    supervise->desk = NULL;
    screen_destroy(supervise->screen);
    for (uint32_t i = 0;
         run->processes != NULL && i < run->workers + run->servers; i++) {
        mem_free(run->processes[i].tail);
    }
    for (uint32_t i = 0; i < run->stall_count; i++) {
        mem_free(run->stalls[i]);
    }
    mem_free(run->line);
    mem_free(run->processes);
    mem_free(supervise->hosts);
    loop_destroy(supervise->loop);
}

int supervise_run(const struct supervise_plan *plan)
{
    static struct supervise supervise;
    struct loop_events events;
    bool ran = false;
    int code;

    supervise.plan = plan;
    clock_gettime(CLOCK_REALTIME, &supervise.run.began);
    if (prepare(&supervise) == PSD_OK && start_master(&supervise) == PSD_OK) {
        host_try_all(&supervise);
        on_beat(&supervise.beat);
        if (plan->tensorboard != NULL) {
            supervise.tensorboard.user = &supervise;
            supervise.tensorboard.say = say_tensorboard;
            tensorboard_start(&supervise.tensorboard, supervise.loop,
                              plan->tensorboard, plan->cluster->virtualenv);
        }
        while (supervise.hosts_gone < supervise.host_count ||
               !supervise.master_done) {
            loop_wait(supervise.loop, &events, -1);
            loop_dispatch(supervise.loop, &events);
        }
        ran = true;
    }
    code = conclude(&supervise, ran);
    finish(&supervise, code);
    return code;
}
