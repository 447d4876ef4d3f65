/* psd_status.c: `psd status`: the running jobs of this user, as a table for
 * people or as JSON for programs. */
#include <inttypes.h>
#include <math.h>
#include <time.h>

#include "base/log.h"
#include "command.h"
#include "launch/exit_code.h"
#include "launch/json_text.h"
#include "query.h"

#define ANSWER_MS 2000 /* a psd_run that is stopped does not answer */

static struct settings {
    bool json;
    bool help;
} settings;

static const struct option_row rows[] = {
    { .name = "json",
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, json),
      .help = "for programs" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, help),
      .help = "this text" },
    { .name = NULL },
};

static const struct query query = {
    .name = "status",
    .usage = "status [--json]\n\n"
             "Shows the jobs of yours that run on this machine: those whose\n"
             "psd_run is here, wherever their workers are.",
    .rows = rows,
    .help = &settings.help,
    .settings = &settings,
};

/* ---- for people --------------------------------------------------------- */

/* Nothing that a job is called moves the cursor. */
static void print_text(const char *text)
{
    for (; *text != '\0'; text++) {
        putchar((unsigned char)*text < ' ' || *text == 127 ? '?' : *text);
    }
}

static void print_process(const struct desk_process *process)
{
    printf("  %-6s %4" PRIu32 "  %-24s ",
           process->is_server ? "server" : "worker", process->rank,
           process->host);
    if (process->pid == 0) {
        printf("%-12s ", "-");
    } else {
        printf("pid %-8" PRIu32 " ", process->pid);
    }
    if (process->state != DESK_PROCESS_EXITED) {
        printf("%s\n", desk_process_state_name(process->state));
    } else if (process->signal != 0) {
        printf("killed by signal %u\n", process->signal);
    } else {
        printf("exited with %u\n", process->code);
    }
}

static void print_job(const struct desk_status *status)
{
    time_t started = (time_t)status->started;
    struct tm parts;
    char stamp[32] = "?";

    if (localtime_r(&started, &parts) != NULL) {
        strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &parts);
    }
    printf("job ");
    print_text(status->name);
    printf(": %s, pid %" PRIu32 ", since %s\n", desk_state_name(status->state),
           status->pid, stamp);
    printf("  command ");
    print_text(status->command);
    printf("\n  logs    ");
    print_text(status->logs);
    printf("\n  %" PRIu32 " host%s, %" PRIu32 " worker%s, %" PRIu32
           " server%s",
           status->hosts, status->hosts == 1 ? "" : "s", status->workers,
           status->workers == 1 ? "" : "s", status->servers,
           status->servers == 1 ? "" : "s");
    if (status->has_view) {
        printf("; step %" PRIu64, status->step);
        if (!isnan(status->loss)) {
            printf(", loss %.4g", status->loss);
        }
        printf(", %.0f samples/s", status->rate);
    }
    printf("\n");
    for (uint32_t i = 0; i < status->process_count; i++) {
        print_process(&status->processes[i]);
    }
}

/* ---- for programs ------------------------------------------------------- */

static void json_field(const char *name, const char *text)
{
    printf("\"%s\": ", name);
    json_text(stdout, text);
    printf(", ");
}

static void json_number(const char *name, double value)
{
    printf("\"%s\": ", name);
    if (isfinite(value)) {
        printf("%.9g, ", value);
    } else {
        printf("null, ");
    }
}

static void json_process(const struct desk_process *process)
{
    printf("{\"role\": \"%s\", \"rank\": %" PRIu32 ", ",
           process->is_server ? "server" : "worker", process->rank);
    json_field("host", process->host);
    if (process->pid == 0) {
        printf("\"pid\": null, ");
    } else {
        printf("\"pid\": %" PRIu32 ", ", process->pid);
    }
    printf("\"state\": \"%s\"", desk_process_state_name(process->state));
    if (process->state == DESK_PROCESS_EXITED && process->signal != 0) {
        printf(", \"signal\": %u", process->signal);
    } else if (process->state == DESK_PROCESS_EXITED) {
        printf(", \"exit_code\": %u", process->code);
    }
    printf("}");
}

static void json_job(const struct desk_status *status)
{
    time_t started = (time_t)status->started;
    struct tm parts;
    char stamp[32] = "";

    if (gmtime_r(&started, &parts) != NULL) {
        strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%SZ", &parts);
    }
    printf("{");
    json_field("name", status->name);
    printf("\"pid\": %" PRIu32 ", ", status->pid);
    json_field("state", desk_state_name(status->state));
    json_field("started", stamp);
    json_field("command", status->command);
    json_field("logs", status->logs);
    printf("\"hosts\": %" PRIu32 ", \"workers\": %" PRIu32
           ", \"servers\": %" PRIu32 ", ",
           status->hosts, status->workers, status->servers);
    if (status->has_view) {
        printf("\"step\": %" PRIu64 ", ", status->step);
    } else {
        printf("\"step\": null, ");
    }
    json_number("loss", status->has_view ? status->loss : NAN);
    json_number("samples_per_second", status->has_view ? status->rate : NAN);
    printf("\"processes\": [");
    for (uint32_t i = 0; i < status->process_count; i++) {
        printf("%s", i == 0 ? "" : ", ");
        json_process(&status->processes[i]);
    }
    printf("]}");
}

/* ---- all ---------------------------------------------------------------- */

static void show_silent(const struct caller *caller)
{
    if (settings.json) {
        printf("{");
        json_field("name", caller->file);
        printf("\"pid\": %d, \"state\": \"silent\"}", (int)caller->pid);
    } else {
        printf("job %s: does not answer, pid %d; was its psd_run stopped, or "
               "is it of another version?\n",
               caller->file, (int)caller->pid);
    }
}

/* True when something was shown; a job that ends just now is not there. */
static bool show_one(struct caller *caller, bool first)
{
    static struct desk_status status;
    psd_status result = caller_next(caller, ANSWER_MS);

    if (result == PSD_ELOST) {
        return false;
    }
    if (settings.json && !first) {
        printf(", ");
    }
    if (result != PSD_OK || caller->header.type != FRAME_STATUS ||
        desk_status_unpack(&status, caller->payload, caller->header.size) !=
            PSD_OK) {
        show_silent(caller);
        return true;
    }
    if (settings.json) {
        json_job(&status);
    } else {
        print_job(&status);
    }
    desk_status_fini(&status);
    return true;
}

int status_main(int argc, char **argv)
{
    static struct caller callers[DESK_JOBS_MAX];
    const char *words[QUERY_WORDS_MAX] = { NULL };
    int code = query_parse(&query, argc, argv, words);
    struct desk_ask ask = { .verb = DESK_STATUS, .lines = DESK_LINES_ALL };
    bool first = true;
    size_t count;

    if (code != QUERY_GO) {
        return code;
    }
    count = caller_list(callers, DESK_JOBS_MAX);
    for (size_t i = 0; i < count; i++) {
        (void)caller_ask(&callers[i], &ask); /* reading tells */
    }
    if (settings.json) {
        printf("{\"jobs\": [");
    }
    for (size_t i = 0; i < count; i++) {
        if (show_one(&callers[i], first)) {
            first = false;
        }
        caller_close(&callers[i]);
    }
    if (settings.json) {
        printf("]}\n");
    } else if (first) {
        printf("no job of yours is running on this machine\n");
    }
    return fflush(stdout) == 0 ? 0 : EXIT_CODE_OS;
}
