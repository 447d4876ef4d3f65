/* conclude.c: the last words about a job, on the screen, in the log and in
 * report.json, and its exit code. See supervise_state.h. */
#include "base/log.h"
#include "launch/exit_code.h"
#include "report/alone.h"
#include "report/report.h"
#include "report/report_json.h"
#include "launch/supervise_state.h"

/* A worker that failed never goes with a zero, whatever was missed. */
static void settle_code(struct run *run)
{
    for (uint32_t i = 0; i < run->workers && run->code == 0; i++) {
        const struct run_process *process = &run->processes[i];

        if (run_failed(process)) {
            run->code = run_code(process);
        }
    }
    if (run->code == 0 && run->over) {
        run->code = EXIT_CODE_UNAVAILABLE;
    }
}

/* Python programs that all ran well, but each for itself. */
static void tell_alone(struct supervise *supervise)
{
    const struct launch_start *start = &supervise->plan->starts[0];
    const char *off = getenv(LAUNCH_DISABLE);
    char text[512];

    if (supervise->plan->native ||
        (off != NULL && off[0] != '\0' && strcmp(off, "0") != 0)) {
        return; /* as it was wished */
    }
    for (uint32_t i = 0; i < start->task_count; i++) {
        const struct launch_task *task = &start->tasks[i];

        if (task->is_server) {
            continue;
        }
        if (alone_text(&supervise->run, task->command.words,
                       task->command.count, task->shell, text, sizeof(text))) {
            log_warn("run: %s", text);
            screen_say(supervise->screen, "%s", text);
        }
        return;
    }
}

static void tell(struct supervise *supervise)
{
    static char text[REPORT_SIZE];
    struct run *run = &supervise->run;

    screen_finish(supervise->screen);
    if (run->interrupted != 0 && run->reason[0] == '\0') {
        run->code = EXIT_CODE_SIGNAL + run->interrupted;
        snprintf(text, sizeof(text), "interrupted; logs in %s", run->logs);
    } else {
        settle_code(run);
        if (run->code != 0) {
            report_failure(run, text, sizeof(text));
        } else {
            tell_alone(supervise);
            report_success(run, text, sizeof(text));
        }
    }
    log_info("run: %s", text);
    screen_say(supervise->screen, "%s", text);
}

int conclude(struct supervise *supervise, bool ran)
{
    struct run *run = &supervise->run;

    if (ran) {
        tell(supervise);
    } else {
        run->code = EXIT_CODE_OS;
    }
    clock_gettime(CLOCK_REALTIME, &run->ended);
    report_json_write(run, supervise->plan);
    return run->code;
}
