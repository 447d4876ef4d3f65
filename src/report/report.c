/* report.c: see report.h. */
#define _GNU_SOURCE
#include "report/report.h"

#include <inttypes.h>
#include <signal.h>

#include "base/banned.h"
#include "base/text.h"
#include "launch/exit_code.h"
#include "report/cause.h"
#include "screen/screen.h"

#define VICTIMS_SHOWN 16

const char *run_role(const struct run_process *process)
{
    return process->is_server ? "server" : "worker";
}

struct run_process *run_find(struct run *run, bool is_server, uint32_t rank)
{
    if (rank >= (is_server ? run->servers : run->workers)) {
        return NULL;
    }
    return &run->processes[is_server ? run->workers + rank : rank];
}

bool run_failed(const struct run_process *process)
{
    return process->exited && (process->code != 0 || process->signal != 0);
}

int run_code(const struct run_process *process)
{
    return process->signal != 0 ? EXIT_CODE_SIGNAL + (int)process->signal
                                : (int)process->code;
}

static void add_exit(struct text *text, const struct run_process *process)
{
    const char *name;

    if (process->signal == 0) {
        text_add(text, "ended with exit code %u", process->code);
        return;
    }
    name = sigabbrev_np(process->signal);
    text_add(text, "was killed by signal %u (SIG%s)", process->signal,
             name == NULL ? "?" : name);
}

void report_name(const struct run_process *process, char *text, size_t size)
{
    struct text out = {.data = text, .size = size};

    text_add(&out, "%s %" PRIu32 " (pid %" PRIu32, run_role(process),
             process->rank, process->pid);
    if (process->host != NULL && strcmp(process->host, "localhost") != 0) {
        text_add(&out, " on %s", process->host);
    }
    text_add(&out, ")");
}

void report_exit(const struct run_process *process, char *text, size_t size)
{
    struct text out = {.data = text, .size = size};
    char name[512];
    char cause[CAUSE_SIZE];

    report_name(process, name, sizeof(name));
    cause_text(process, cause, sizeof(cause));
    text_add(&out, "%s ", name);
    if (process->memory == LAUNCH_MEMORY_KILLED) {
        text_add(&out, "was killed by the kernel");
    } else {
        add_exit(&out, process);
    }
    if (cause[0] != '\0') {
        text_add(&out, ": %s", cause);
    }
}

const char *report_tail(const char *tail)
{
    const char *at = tail + strlen(tail);
    unsigned lines = 0;

    while (at > tail && at[-1] == '\n') {
        at--; /* an empty end is no line */
    }
    for (; at > tail; at--) {
        if (at[-1] == '\n' && ++lines == REPORT_LINES) {
            break;
        }
    }
    return at;
}

/* The last lines, each behind a bar. */
static void add_tail(struct text *text, const char *tail)
{
    const char *at = report_tail(tail);

    while (*at != '\0') {
        size_t size = strcspn(at, "\n");

        text_add(text, "    | %.*s\n", (int)size, at);
        at += size + (at[size] == '\n');
    }
}

static void add_victims(struct text *text, const struct run *run)
{
    uint32_t count = run->workers + run->servers;
    uint32_t shown = 0;
    uint32_t more = 0;

    for (uint32_t i = 0; i < count; i++) {
        const struct run_process *process = &run->processes[i];

        if (process == run->culprit || !process->victim) {
            continue;
        }
        if (shown == VICTIMS_SHOWN) {
            more++;
            continue;
        }
        text_add(text, "%s%s %" PRIu32 " ", shown == 0 ? "  victims: " : ", ",
                 run_role(process), process->rank);
        add_exit(text, process);
        shown++;
    }
    if (more > 0) {
        text_add(text, ", and %" PRIu32 " more", more);
    }
    if (shown > 0) {
        text_add(text, "\n");
    }
}

static bool any_started(const struct run *run)
{
    for (uint32_t i = 0; i < run->workers + run->servers; i++) {
        if (run->processes[i].started) {
            return true;
        }
    }
    return false;
}

void report_failure(const struct run *run, char *text, size_t size)
{
    const struct run_process *culprit = run->culprit;
    struct text out = {.data = text, .size = size};

    text_add(&out, "the job failed (exit code %d)\n", run->code);
    text_add(&out, "  reason: %s\n", run->reason);
    if (culprit != NULL && run_failed(culprit) && !run->stalled) {
        char sentence[REPORT_SENTENCE];

        report_exit(culprit, sentence, sizeof(sentence));
        if (strcmp(sentence, run->reason) != 0) {
            text_add(&out, "  culprit: %s\n", sentence);
        }
    }
    if (culprit != NULL && culprit->tail != NULL && culprit->tail[0] != '\0') {
        text_add(&out, "  its last lines%s:\n",
                 culprit->stream == LAUNCH_STREAM_STDOUT && !culprit->is_server
                     ? " (stdout)"
                     : "");
        add_tail(&out, culprit->tail);
    }
    add_victims(&out, run);
    text_add(&out, "  logs: %s", run->logs);
    if (run->line != NULL && any_started(run)) {
        text_add(&out, "\n  to resume: %s", run->line);
    }
}

void report_success(const struct run *run, char *text, size_t size)
{
    const struct launch_view *view = &run->view;
    struct text out = {.data = text, .size = size};
    char bytes[32];

    text_add(&out, "%" PRIu32 " worker%s done", run->workers,
             run->workers == 1 ? "" : "s");
    if (run->has_view && view->step > 0) {
        text_add(&out, " at step %" PRIu64, view->step);
    }
    if (run->has_view && view->samples > 0) {
        text_add(&out, ", %.0f samples/s", view->mean_rate);
    }
    if (run->has_view && view->exchanged_bytes > 0) {
        screen_bytes_text(view->exchanged_bytes, bytes, sizeof(bytes));
        text_add(&out, ", %s exchanged", bytes);
    }
    if (run->has_view && view->wire_bytes > 0) {
        screen_bytes_text(view->wire_bytes, bytes, sizeof(bytes));
        text_add(&out, ", %s over sockets", bytes);
    }
    if (run->has_view && view->compared > 0) {
        text_add(&out,
                 "; replicas equal: %" PRIu64 " digests compared, %" PRIu64
                 " differences",
                 view->compared, view->differences);
    }
    text_add(&out, "; logs in %s", run->logs);
}
