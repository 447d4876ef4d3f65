/*
 * inquiry.c: psd_run looks into a stall: the master has said who holds the
 * others up; the agents of those processes are asked to look at them; then
 * the report is told, once, and when it is over one line more. See
 * supervise_state.h.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "report/report.h"
#include "report/stall_text.h"
#include "launch/supervise_state.h"

#define INQUIRY_MS 3000 /* for the agents; a stack takes one second */

static struct run_process *stalled_process(struct supervise *supervise,
                                           uint32_t i)
{
    const struct launch_stalled *who = &supervise->stall->what.stalled[i];

    return run_find(&supervise->run, who->is_server, who->rank);
}

static void tell(struct supervise *supervise)
{
    static char text[REPORT_SIZE];
    struct run_stall *stall = supervise->stall;
    struct run *run = &supervise->run;

    loop_timer_stop(&supervise->inquiry);
    supervise->stall_told = true;
    stall_report(run, stall, text, sizeof(text));
    log_info("run: %s", text);
    screen_say(supervise->screen, "%s", text);
    if (supervise->plan->stall_stop) {
        stall_sentence(run, stall, text, WIRE_TEXT_MAX);
        supervise_stalled(supervise,
                          stall->what.count > 0
                              ? stalled_process(supervise, 0)
                              : NULL,
                          text);
    }
}

static void on_limit(struct loop_timer *timer)
{
    struct supervise *supervise = list_entry(timer, struct supervise, inquiry);

    if (!supervise->run.over) {
        tell(supervise);
    }
}

/* Ask the agents; false: there is nobody to look at. */
static bool ask(struct supervise *supervise)
{
    const struct launch_stall *what = &supervise->stall->what;
    struct pack nothing;
    bool asked = false;

    pack_init(&nothing);
    for (uint32_t i = 0; i < what->count && i < RUN_LOOKS_MAX; i++) {
        const struct run_process *process = stalled_process(supervise, i);

        if (process != NULL && process->started && !process->exited) {
            supervise_send(
                supervise->hosts[process->host_index].helper.link, process,
                FRAME_LOOK, &nothing);
            asked = true;
        }
    }
    pack_fini(&nothing);
    return asked;
}

static void begin(struct supervise *supervise, const struct launch_stall *what)
{
    struct run *run = &supervise->run;
    struct run_stall *stall;

    if (run->stall_count == RUN_STALLS_MAX) { /* the oldest is forgotten */
        mem_free(run->stalls[0]);
        memmove(&run->stalls[0], &run->stalls[1],
                (RUN_STALLS_MAX - 1) * sizeof(run->stalls[0]));
        run->stall_count--;
    }
    stall = mem_zalloc(sizeof(*stall));
    if (stall == NULL) {
        return;
    }
    run->stalls[run->stall_count++] = stall;
    stall->what = *what;
    supervise->stall = stall;
    supervise->stall_told = false;
    if (ask(supervise)) {
        loop_timer_start(supervise->loop, &supervise->inquiry,
                         INQUIRY_MS * CLOCK_NS_PER_MS, on_limit);
    } else {
        tell(supervise);
    }
}

static void end(struct supervise *supervise, const struct launch_stall *what)
{
    struct run_stall *stall = supervise->stall;
    char text[REPORT_SENTENCE];

    if (!supervise->stall_told) {
        tell(supervise);
    }
    if (supervise->run.over) {
        return;
    }
    supervise->stall = NULL;
    stall->over = true;
    stall->waited_ms = what->waited_ms;
    stall_over(&supervise->run, stall, text, sizeof(text));
    log_info("run: %s", text);
    screen_say(supervise->screen, "%s", text);
}

void inquiry_take(struct supervise *supervise, const struct launch_stall *what)
{
    if (supervise->run.over) {
        return;
    }
    if (what->kind == LAUNCH_STALL_OVER) {
        if (supervise->stall != NULL) {
            end(supervise, what);
        }
    } else if (supervise->stall == NULL && !supervise->stopping) {
        begin(supervise, what);
    }
}

void inquiry_seen(struct supervise *supervise,
                  const struct run_process *process,
                  const struct launch_look *look)
{
    struct run_stall *stall = supervise->stall;
    bool all = true;

    if (stall == NULL || supervise->stall_told || supervise->run.over) {
        return;
    }
    for (uint32_t i = 0; i < stall->what.count && i < RUN_LOOKS_MAX; i++) {
        const struct run_process *who = stalled_process(supervise, i);

        if (who == process) {
            stall->looks[i] = *look;
            stall->seen[i] = true;
        }
        all = all && (stall->seen[i] || who == NULL || !who->started ||
                      who->exited);
    }
    if (all) {
        tell(supervise);
    }
}
