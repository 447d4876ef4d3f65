/*
 * blame.c: who is to blame when a process ends, hangs up, stalls or is lost
 * with its host; see supervise_state.h. The master has the last word: it may
 * know another reason that came before.
 */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/agent.h"
#include "launch/exit_code.h"
#include "report/report.h"
#include "launch/supervise_state.h"

static void send_lost(struct supervise *supervise,
                      const struct run_process *process, const char *sentence)
{
    struct launch_lost lost = {.pid = process->pid};
    struct pack pack;

    snprintf(lost.reason, sizeof(lost.reason), "%s", sentence);
    pack_init(&pack);
    launch_lost_pack(&pack, &lost);
    supervise_send(supervise->master.link, process, FRAME_LOST, &pack);
    pack_fini(&pack);
}

/* Tell the master; its verdict, which may name another reason that it knew
 * before, comes back at once. */
static void lose(struct supervise *supervise, struct run_process *process,
                 const char *sentence)
{
    struct run *run = &supervise->run;

    if (run->over) {
        return;
    }
    if (process->is_server && run->roles) { /* a ps is no member */
        supervise_over(supervise,
                       run_failed(process) ? run_code(process)
                                           : EXIT_CODE_UNAVAILABLE,
                       process, sentence);
        supervise_stop(supervise, AGENT_END_MS);
        return;
    }
    run->over = true;
    supervise->judging = true;
    send_lost(supervise, process, sentence);
}

void supervise_stalled(struct supervise *supervise, struct run_process *culprit,
                       const char *reason)
{
    struct run *run = &supervise->run;

    if (run->over || supervise->stopping) {
        return;
    }
    run->stalled = true;
    supervise_over(supervise, EXIT_CODE_STALLED, culprit, reason);
    if (culprit != NULL) { /* the others are told why */
        send_lost(supervise, culprit, reason);
    } else {
        supervise_stop(supervise, AGENT_END_MS);
    }
}

void supervise_host_lost(struct supervise *supervise, struct host *host,
                         const char *sentence)
{
    struct run *run = &supervise->run;
    struct run_process *first = NULL;

    for (uint32_t i = 0; i < run->workers + run->servers; i++) {
        struct run_process *process = &run->processes[i];

        if (process->host == host->where->name && !process->exited) {
            first = first == NULL ? process : first;
            process->exited = true;
            process->lost = true;
        }
    }
    if (first == NULL) { /* all of it had ended well */
        return;
    }
    lose(supervise, first, sentence);
    if (supervise->host_count == 1) {
        supervise_over(supervise, EXIT_CODE_UNAVAILABLE, NULL, sentence);
        supervise_stop(supervise, 0);
    }
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
    char sentence[REPORT_SENTENCE];

    report_exit(process, sentence, sizeof(sentence));
    screen_detail(supervise->screen, "%s", sentence);
    if (run->over || supervise->stopping) {
        process->victim = process != run->culprit && run_failed(process);
    } else if (run_failed(process)) {
        lose(supervise, process, sentence);
    } else if (process->is_server && !run->roles) {
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
