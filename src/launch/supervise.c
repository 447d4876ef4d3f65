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
#include "launch/report.h"
#include "launch/supervise_state.h"

#define HELPERS_MS 3000 /* for guard and master to go, at the end */

/* ---- frames out --------------------------------------------------------- */

static void send_pack(struct psd_link *link, const struct run_process *process,
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

static void send_start(struct supervise *supervise)
{
    struct pack pack;

    pack_init(&pack);
    launch_start_pack(&pack, &supervise->plan->start);
    send_pack(supervise->guard.link, NULL, FRAME_START, &pack);
    pack_wipe(&pack);
}

static void on_taken(void *user, size_t size)
{
    struct supervise *supervise = user;
    struct frame_header header = { .type = FRAME_OUTPUT,
                                   .step = size,
                                   .rank = WIRE_RANK_NONE };

    if (supervise->guard.link != NULL) {
        (void)link_send(supervise->guard.link, &header, NULL);
    }
}

/* ---- the end ------------------------------------------------------------ */

static void on_grace(struct loop_timer *timer)
{
    struct supervise *supervise = list_entry(timer, struct supervise, grace);

    supervise_stop(supervise, AGENT_END_MS);
}

void supervise_stop(struct supervise *supervise, uint32_t grace_ms)
{
    struct launch_stop stop = { .grace_ms = grace_ms };
    struct pack pack;

    loop_timer_stop(&supervise->grace);
    pack_init(&pack);
    launch_stop_pack(&pack, &stop);
    send_pack(supervise->guard.link, NULL, FRAME_STOP, &pack);
    if (!supervise->stopping) {
        send_pack(supervise->master.link, NULL, FRAME_STOP, &pack);
    }
    pack_fini(&pack);
    supervise->stopping = true;
}

void supervise_over(struct supervise *supervise, int code,
                    struct run_process *culprit, const char *reason)
{
    struct run *run = &supervise->run;

    if (run->reason[0] != '\0') {
        return;
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
        loop_timer_start(supervise->loop, &supervise->grace,
                         supervise->plan->grace_ms * CLOCK_NS_PER_MS, on_grace);
    }
}

/* One of psd_run's own processes died: nothing can go on. */
static void own_loss(struct supervise *supervise, const char *what, int status)
{
    char reason[256];

    if (supervise->stopping || supervise->run.reason[0] != '\0') {
        return;
    }
    if (WIFSIGNALED(status)) {
        const char *name = sigabbrev_np(WTERMSIG(status));

        snprintf(reason, sizeof(reason),
                 "the %s was killed by signal %d "
                 "(SIG%s)",
                 what, WTERMSIG(status), name == NULL ? "?" : name);
    } else {
        snprintf(reason, sizeof(reason), "the %s ended with exit code %d", what,
                 WEXITSTATUS(status));
    }
    supervise_over(supervise, EXIT_CODE_UNAVAILABLE, NULL, reason);
    supervise_stop(supervise, AGENT_END_MS);
}

/* ---- processes ---------------------------------------------------------- */

/* Tell the master; its verdict, which may name another reason that it knew
 * before, comes back at once. */
static void lose(struct supervise *supervise, struct run_process *process,
                 const char *sentence)
{
    struct run *run = &supervise->run;
    struct launch_lost lost = { .pid = process->pid };
    struct pack pack;

    if (run->over) {
        return;
    }
    run->over = true;
    snprintf(lost.reason, sizeof(lost.reason), "%s", sentence);
    pack_init(&pack);
    launch_lost_pack(&pack, &lost);
    send_pack(supervise->master.link, process, FRAME_LOST, &pack);
    pack_fini(&pack);
}

static bool others_wait(const struct run *run, const struct run_process *than)
{
    for (uint32_t i = 0; i < run->workers; i++) {
        const struct run_process *process = &run->processes[i];

        if (process != than && process->entered && !process->said_bye &&
            !process->exited) {
            return true;
        }
    }
    return false;
}

/* A worker that ended well and left the others waiting is lost all the
 * same. */
void supervise_check_deserters(struct supervise *supervise)
{
    struct run *run = &supervise->run;

    for (uint32_t i = 0; i < run->workers; i++) {
        struct run_process *process = &run->processes[i];
        char sentence[256];

        if (!process->exited || process->said_bye || run_failed(process) ||
            !others_wait(run, process)) {
            continue;
        }
        snprintf(sentence, sizeof(sentence),
                 "worker %" PRIu32 " (pid %" PRIu32
                 ") ended with exit code 0 without %s",
                 process->rank, process->pid,
                 process->entered ? "psd_close while others still train"
                                  : "joining the job that others wait for");
        lose(supervise, process, sentence);
        return;
    }
}

static bool all_workers_exited(const struct run *run)
{
    for (uint32_t i = 0; i < run->workers; i++) {
        if (!run->processes[i].exited) {
            return false;
        }
    }
    return true;
}

void supervise_exited(struct supervise *supervise, struct run_process *process)
{
    struct run *run = &supervise->run;
    char sentence[256];

    report_exit(process, sentence, sizeof(sentence));
    log_info("run: %s", sentence);
    if (run->over || supervise->stopping) {
        process->victim = process != run->culprit && run_failed(process);
    } else if (run_failed(process)) {
        lose(supervise, process, sentence);
    } else if (process->is_server) {
        snprintf(sentence, sizeof(sentence),
                 "server %" PRIu32 " (pid %" PRIu32
                 ") ended before the workers",
                 process->rank, process->pid);
        lose(supervise, process, sentence);
    } else {
        supervise_check_deserters(supervise);
    }
    if (all_workers_exited(run) && !supervise->stopping) {
        supervise_stop(supervise, AGENT_END_MS);
    }
}

static void on_hang_up(struct loop_timer *timer)
{
    struct supervise *supervise = list_entry(timer, struct supervise, hang_up);
    struct run *run = &supervise->run;

    for (uint32_t i = 0; i < run->workers + run->servers; i++) {
        struct run_process *process = &run->processes[i];

        if (process->hung_up && !process->exited) {
            char sentence[256];

            snprintf(sentence, sizeof(sentence),
                     "%s %" PRIu32 " (pid %" PRIu32
                     ") ended its session without psd_close",
                     run_role(process), process->rank, process->pid);
            lose(supervise, process, sentence);
        }
    }
}

void supervise_hung_up(struct supervise *supervise)
{
    loop_timer_start(supervise->loop, &supervise->hang_up,
                     SUPERVISE_HANG_UP_MS * CLOCK_NS_PER_MS, on_hang_up);
}

/* ---- signals ------------------------------------------------------------ */

static void interrupt(struct supervise *supervise, int signo)
{
    struct run *run = &supervise->run;

    if (run->interrupted == 0) {
        run->interrupted = signo;
        run->over = true;
        screen_say(supervise->screen,
                   "SIG%s: ending the job; once more ends it at once",
                   sigabbrev_np(signo));
        supervise_stop(supervise, supervise->plan->grace_ms);
    } else {
        supervise_stop(supervise, 0);
    }
}

static void on_signal(struct loop_watch *watch, uint32_t mask)
{
    struct supervise *supervise = list_entry(watch, struct supervise, signals);
    struct signalfd_siginfo info;
    int status;

    (void)mask;
    while (read(supervise->signal_fd, &info, sizeof(info)) ==
           (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            interrupt(supervise, (int)info.ssi_signo);
            continue;
        }
        if (helper_reap(&supervise->guard, &status)) {
            own_loss(supervise, "guard of the agent", status);
        }
        if (helper_reap(&supervise->master, &status)) {
            own_loss(supervise, "master", status);
        }
    }
}

static psd_status watch_signals(struct supervise *supervise)
{
    static const int signals[] = { SIGCHLD, SIGINT, SIGTERM, SIGHUP };
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

static psd_status start_helpers(struct supervise *supervise)
{
    const struct supervise_plan *plan = supervise->plan;
    char workers[16];
    char servers[16];
    char threads[16];
    const char *master[] = { plan->psd,   "master",    "--workers",
                             workers,     "--servers", servers,
                             "--threads", threads,     NULL };
    const char *agent[] = { plan->psd, "agent", NULL };
    psd_status status;

    snprintf(workers, sizeof(workers), "%" PRIu32, plan->start.workers);
    snprintf(servers, sizeof(servers), "%" PRIu32, plan->start.servers);
    snprintf(threads, sizeof(threads), "%" PRIu32, plan->start.threads);
    status = helper_start(&supervise->master, supervise->loop, master,
                          &hub_master_events, supervise);
    if (status == PSD_OK) {
        status = helper_start(&supervise->guard, supervise->loop, agent,
                              &hub_agent_events, supervise);
    }
    supervise->guard_pid = supervise->guard.pid;
    return status;
}

static psd_status prepare(struct supervise *supervise)
{
    const struct launch_start *start = &supervise->plan->start;
    struct run *run = &supervise->run;
    struct screen_events events = { .user = supervise, .taken = on_taken };
    psd_status status;

    run->workers = start->workers;
    run->servers = start->servers;
    run->logs = start->logs;
    run->processes = mem_zalloc_array((size_t)run->workers + run->servers,
                                      sizeof(*run->processes));
    if (run->processes == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < run->workers + run->servers; i++) {
        run->processes[i].is_server = i >= run->workers;
        run->processes[i].rank = i >= run->workers ? i - run->workers : i;
    }
    status = loop_create(&supervise->loop);
    if (status != PSD_OK) {
        return status;
    }
    status = screen_create(supervise->loop, run->workers, start->tee_all,
                           &events, &supervise->screen);
    if (status != PSD_OK) {
        return status;
    }
    return watch_signals(supervise);
}

static void finish(struct supervise *supervise)
{
    struct run *run = &supervise->run;
    char cgroup[CGROUP_PATH_MAX];

    helper_stop(&supervise->guard, HELPERS_MS);
    /* Guard and agent may have died in one instant. */
    if (supervise->guard_pid > 0 &&
        cgroup_path(supervise->guard_pid, cgroup, sizeof(cgroup))) {
        cgroup_kill(cgroup);
        cgroup_remove(cgroup);
    }
    if (supervise->folder[0] != '\0') {
        folder_remove_run(supervise->folder);
    }
    helper_stop(&supervise->master, HELPERS_MS);
    screen_destroy(supervise->screen);
    for (uint32_t i = 0;
         run->processes != NULL && i < run->workers + run->servers; i++) {
        mem_free(run->processes[i].tail);
    }
    mem_free(run->processes);
    loop_destroy(supervise->loop);
}

static int conclude(struct supervise *supervise)
{
    static char text[REPORT_SIZE];
    struct run *run = &supervise->run;

    screen_finish(supervise->screen);
    if (run->interrupted != 0) {
        log_info("run: interrupted by signal %d", run->interrupted);
        screen_say(supervise->screen, "interrupted; logs in %s", run->logs);
        return EXIT_CODE_SIGNAL + run->interrupted;
    }
    if (run->code != 0 || run->over) {
        if (run->code == 0) {
            run->code = EXIT_CODE_UNAVAILABLE;
        }
        report_failure(run, text, sizeof(text));
    } else {
        report_success(run, text, sizeof(text));
    }
    log_info("run: %s", text);
    screen_say(supervise->screen, "%s", text);
    return run->code;
}

int supervise_run(const struct supervise_plan *plan)
{
    static struct supervise supervise;
    struct loop_events events;
    int code = EXIT_CODE_OS;

    supervise.plan = plan;
    if (prepare(&supervise) == PSD_OK && start_helpers(&supervise) == PSD_OK) {
        if (plan->note[0] != '\0') {
            screen_say(supervise.screen, "%s", plan->note);
        }
        send_start(&supervise);
        while (!supervise.agent_gone || !supervise.master_done) {
            loop_wait(supervise.loop, &events, -1);
            loop_dispatch(supervise.loop, &events);
        }
        code = conclude(&supervise);
    }
    finish(&supervise);
    return code;
}
