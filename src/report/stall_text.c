/* stall_text.c: see stall_text.h. */
#include "report/stall_text.h"

#include <inttypes.h>

#include "base/banned.h"
#include "base/text.h"
#include "report/report.h"

#define NAME_SIZE 512
#define BARRIER   "psd.barrier"

const char *stall_state(uint8_t state)
{
    switch (state) {
    case 'R':
        return "it computes";
    case 'S':
    case 'I':
        return "it sleeps";
    case 'D':
        return "it waits for a disk or a file server";
    case 'T':
        return "it is stopped";
    case 't':
        return "a debugger has stopped it";
    case 0:
        return "it has just ended";
    default:
        return "its state is not known";
    }
}

/* ---- who ---------------------------------------------------------------- */

static void add_who(struct text *text, struct run *run,
                    const struct launch_stall *what)
{
    char name[NAME_SIZE];

    for (uint32_t i = 0; i < what->count; i++) {
        const struct run_process *process =
            run_find(run, what->stalled[i].is_server, what->stalled[i].rank);

        if (process != NULL) {
            report_name(process, name, sizeof(name));
            text_add(text, "%s%s",
                     i == 0                                    ? ""
                     : i + 1 == what->count && what->more == 0 ? " and "
                                                               : ", ",
                     name);
        }
    }
    if (what->more > 0) {
        text_add(text, " and %" PRIu32 " more", what->more);
    }
}

/* ---- for what ----------------------------------------------------------- */

static void add_tensor(struct text *text, const struct launch_stall *what)
{
    if (strcmp(what->tensor, BARRIER) == 0) {
        text_add(text, "in psd_barrier");
        return;
    }
    text_add(text, "for tensor \"%s\"", what->tensor);
    if (what->tensors > 1) {
        text_add(text, " (and %" PRIu32 " more)", what->tensors - 1);
    }
    text_add(text, " at step %" PRIu64, what->step);
}

static void add_wait(struct text *text, const struct launch_stall *what)
{
    double seconds = (double)what->waited_ms / 1000.0;

    if (what->kind == LAUNCH_STALL_SILENT) {
        text_add(text, "nothing was heard of %s for %.1f s",
                 what->count + what->more == 1 ? "it" : "them", seconds);
        return;
    }
    text_add(text, "%" PRIu32 " worker%s waited %.1f s ", what->waiters,
             what->waiters == 1 ? " has" : "s have", seconds);
    switch (what->kind) {
    case LAUNCH_STALL_ENTER:
        text_add(text, "in psd_open");
        break;
    case LAUNCH_STALL_REGISTER:
    case LAUNCH_STALL_PLACE:
        text_add(text, "in psd_register");
        break;
    case LAUNCH_STALL_JOIN:
        text_add(text, "in psd_join");
        break;
    default:
        add_tensor(text, what);
    }
}

static void add_how(struct text *text, const struct launch_stall *what)
{
    bool one = what->count + what->more == 1;
    const char *it = one ? "it" : "they";

    if (what->count == 0) {
        text_add(text, ", and nobody is missing; is the network cut?");
        return;
    }
    switch (what->stalled[0].how) {
    case LAUNCH_STALL_SAYS_NOTHING:
        text_add(text, ", and %s %s not answer", it, one ? "does" : "do");
        break;
    case LAUNCH_STALL_WAITS:
        text_add(text,
                 ", but %s %s elsewhere; do all make the same calls in the "
                 "same order?",
                 it, one ? "waits" : "wait");
        break;
    case LAUNCH_STALL_IDLE:
        text_add(text, ", which %s %s pushed but %s not wait for", it,
                 one ? "has" : "have", one ? "does" : "do");
        break;
    case LAUNCH_STALL_SUSPECT:
        text_add(text,
                 ", which all have pushed and %s should have answered; is "
                 "the network cut?",
                 it);
        break;
    default:
        text_add(text,
                 what->kind == LAUNCH_STALL_PLACE
                     ? ", for which %s %s not made room"
                     : ", where %s %s not arrived",
                 it, one ? "has" : "have");
    }
}

void stall_sentence(struct run *run, const struct run_stall *stall, char *text,
                    size_t size)
{
    const struct launch_stall *what = &stall->what;
    struct text out = {.data = text, .size = size};

    if (what->count == 0) {
        text_add(&out, "the job is stalled: ");
    } else {
        add_who(&out, run, what);
        text_add(&out,
                 " %s stalled: ", what->count + what->more == 1 ? "is" : "are");
    }
    add_wait(&out, what);
    if (what->kind == LAUNCH_STALL_TENSOR && what->count > 0 &&
        what->stalled[0].how == LAUNCH_STALL_MISSING &&
        strcmp(what->tensor, BARRIER) != 0) {
        text_add(&out, ", which %s not pushed",
                 what->count + what->more == 1 ? "it has" : "they have");
    } else {
        add_how(&out, what);
    }
}

/* ---- doing what --------------------------------------------------------- */

static void add_stack(struct text *text, const struct launch_look *look)
{
    const char *at = look->stack;

    if (look->stack_is == LAUNCH_STACK_SHOWN) {
        text_add(text, "\n  its stack:");
        while (*at != '\0') {
            size_t size = strcspn(at, "\n");

            text_add(text, "\n    | %.*s", (int)size, at);
            at += size + (at[size] == '\n');
        }
    } else if (look->stack_is == LAUNCH_STACK_SILENT) {
        text_add(text, "\n  asked for its stack, it wrote nothing");
    } else if (strncmp(look->name, "python", 6) == 0 && look->state != 'T' &&
               look->state != 't' && look->state != 0) {
        text_add(text,
                 "\n  it would show its stack after faulthandler.register("
                 "int(os.environ[\"PSD_STACK_SIGNAL\"]))");
    }
}

static void add_look(struct text *text, const struct run_process *process,
                     const struct launch_look *look, bool named)
{
    char name[NAME_SIZE];

    text_add(text, "\n  ");
    if (named) {
        report_name(process, name, sizeof(name));
        text_add(text, "%s: ", name);
    }
    text_add(text, "%s", stall_state(look->state));
    if (look->state != 0) {
        text_add(text, " (state %c", look->state);
        if (look->where[0] != '\0') {
            text_add(text, ", in %s", look->where);
        }
        if (look->pid != process->pid) {
            text_add(text, ", pid %" PRIu32 " %s", look->pid, look->name);
        }
        text_add(text, ")");
    }
    if (look->state == 'T') {
        text_add(text, "; `kill -CONT %" PRIu32 "`%s%s lets it go on",
                 look->pid,
                 strcmp(process->host, "localhost") == 0 ? "" : " on ",
                 strcmp(process->host, "localhost") == 0 ? "" : process->host);
    }
    add_stack(text, look);
}

void stall_report(struct run *run, const struct run_stall *stall, char *text,
                  size_t size)
{
    const struct launch_stall *what = &stall->what;
    struct text out = {.data = text, .size = size};

    stall_sentence(run, stall, text, size);
    out.used = strlen(text);
    for (uint32_t i = 0; i < what->count && i < RUN_LOOKS_MAX; i++) {
        const struct run_process *process =
            run_find(run, what->stalled[i].is_server, what->stalled[i].rank);

        if (process != NULL && stall->seen[i]) {
            add_look(&out, process, &stall->looks[i], what->count > 1);
        } else if (process != NULL) {
            text_add(&out, "\n  the agent of %s could not look at it",
                     process->host);
        }
    }
}

void stall_over(struct run *run, const struct run_stall *stall, char *text,
                size_t size)
{
    const struct launch_stall *what = &stall->what;
    struct text out = {.data = text, .size = size};

    if (what->count == 0) {
        text_add(&out, "the job moves");
    } else {
        add_who(&out, run, what);
        text_add(&out, " move%s", what->count + what->more == 1 ? "s" : "");
    }
    text_add(&out, " again after %.1f s", (double)stall->waited_ms / 1000.0);
}
