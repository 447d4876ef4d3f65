/*
 * report_json.c: see report_json.h. Values that are not known are null;
 * docs/report.md is for its readers.
 */
#define _GNU_SOURCE
#include "report/report_json.h"

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "report/cause.h"
#include "report/report.h"
#include "report/stall_text.h"
#include "report/utf8.h"

/* ---- values ------------------------------------------------------------- */

/* json_object_set_new and json_array_append_new take what they are given, NULL
 * included: then they fail, and the key is missing. Memory is that short only
 * when psd_run is about to end anyway. */
static void put(json_t *object, const char *key, json_t *value)
{
    (void)json_object_set_new(object, key, value);
}

static json_t *text_of(const char *bytes, size_t size)
{
    char *clean = utf8_clean(bytes, size);
    json_t *value = clean == NULL ? NULL : json_string(clean);

    mem_free(clean);
    return value;
}

/* NULL and "" are null. */
static json_t *text(const char *bytes)
{
    return bytes == NULL || bytes[0] == '\0'
               ? json_null()
               : text_of(bytes, strlen(bytes));
}

static json_t *number(uint64_t value)
{
    return value > INT64_MAX ? json_real((double)value)
                             : json_integer((json_int_t)value);
}

/* JSON has no NaN. */
static json_t *real(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *stamp(const struct timespec *when)
{
    char date[40];
    char whole[64];
    struct tm parts;

    if (gmtime_r(&when->tv_sec, &parts) == NULL ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &parts) == 0) {
        return json_null();
    }
    snprintf(whole, sizeof(whole), "%s.%03ldZ", date,
             when->tv_nsec / 1000000);
    return json_string(whole);
}

static json_t *lines(const char *at)
{
    json_t *array = json_array();

    while (at != NULL && *at != '\0') {
        size_t size = strcspn(at, "\n");

        (void)json_array_append_new(array, text_of(at, size));
        at += size + (at[size] == '\n');
    }
    return array;
}

/* ---- processes ---------------------------------------------------------- */

static const char *end_of(const struct run_process *process)
{
    if (process->lost) {
        return "lost";
    }
    if (!process->started && !process->exited) {
        return "not started";
    }
    if (!process->exited) {
        return "unknown";
    }
    if (process->victim &&
        (process->signal == SIGTERM || process->signal == SIGKILL)) {
        return "stopped"; /* by its agent, as a server is at every end */
    }
    return process->signal != 0 ? "killed"
           : process->code != 0 ? "failed"
                                : "done";
}

static void put_name(json_t *object, const struct run_process *process)
{
    put(object, "role", json_string(run_role(process)));
    put(object, "rank", number(process->rank));
    put(object, "host", text(process->host));
    put(object, "pid",
        process->pid == 0 ? json_null() : number(process->pid));
}

static json_t *process_json(const struct run_process *process)
{
    bool known = process->exited && !process->lost;
    char cause[CAUSE_SIZE] = "";
    char name[32] = "";
    json_t *object = json_object();

    put_name(object, process);
    put(object, "end", json_string(end_of(process)));
    put(object, "code",
        known && process->signal == 0 ? number(process->code) : json_null());
    put(object, "signal",
        known && process->signal != 0 ? number(process->signal)
                                      : json_null());
    if (known && process->signal != 0) {
        cause_signal_name(process->signal, name, sizeof(name));
    }
    if (process->victim) {
        snprintf(cause, sizeof(cause), "ended with the job");
    } else if (known && run_failed(process)) {
        cause_text(process, cause, sizeof(cause));
    }
    put(object, "signal_name", text(name));
    put(object, "meaning", text(cause));
    put(object, "out_of_memory",
        json_boolean(process->memory == LAUNCH_MEMORY_KILLED));
    put(object, "memory_bytes",
        process->memory_size == 0 ? json_null()
                                  : number(process->memory_size));
    put(object, "joined", json_boolean(process->entered));
    put(object, "victim", json_boolean(process->victim));
    return object;
}

static json_t *culprit_json(const struct run *run)
{
    const struct run_process *culprit = run->culprit;
    json_t *object;

    if (culprit == NULL) {
        return json_null();
    }
    object = process_json(culprit);
    put(object, "stalled", json_boolean(run->stalled));
    put(object, "tail_of",
        culprit->tail == NULL || culprit->tail[0] == '\0' ? json_null()
        : culprit->is_server                              ? json_string("log")
        : culprit->stream == LAUNCH_STREAM_STDOUT ? json_string("stdout")
                                                  : json_string("stderr"));
    put(object, "tail",
        lines(culprit->tail == NULL ? NULL : report_tail(culprit->tail)));
    return object;
}

static json_t *processes_json(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t i = 0;
         run->processes != NULL && i < run->workers + run->servers; i++) {
        (void)json_array_append_new(array, process_json(&run->processes[i]));
    }
    return array;
}

/* ---- stalls ------------------------------------------------------------- */

static json_t *stalled_json(const struct run *run,
                            const struct run_stall *stall, uint32_t i)
{
    const struct launch_stalled *who = &stall->what.stalled[i];
    const struct launch_look *look = &stall->looks[i];
    const struct run_process *process =
        run_find((struct run *)(uintptr_t)run, who->is_server, who->rank);
    json_t *object = json_object();
    char state[2] = { 0, 0 };

    if (process != NULL) {
        put_name(object, process);
    }
    if (i < RUN_LOOKS_MAX && stall->seen[i]) {
        state[0] = (char)look->state;
        put(object, "state", text(state));
        put(object, "doing", json_string(stall_state(look->state)));
        put(object, "looked_at", number(look->pid));
        put(object, "program", text(look->name));
        put(object, "kernel_function", text(look->where));
        put(object, "stack",
            look->stack_is == LAUNCH_STACK_SHOWN ? lines(look->stack)
                                                 : json_null());
    }
    return object;
}

static json_t *stall_json(const struct run *run, const struct run_stall *stall)
{
    static const char *const kinds[] = { "over",   "open", "register", "place",
                                         "tensor", "join", "silent" };
    char sentence[REPORT_SENTENCE];
    json_t *object = json_object();
    json_t *array = json_array();

    stall_sentence((struct run *)(uintptr_t)run, stall, sentence,
                   sizeof(sentence));
    put(object, "waits_for", json_string(kinds[stall->what.kind]));
    put(object, "tensor", text(stall->what.tensor));
    put(object, "step",
        stall->what.kind == LAUNCH_STALL_TENSOR ? number(stall->what.step)
                                                : json_null());
    put(object, "waiting", number(stall->what.waiters));
    put(object, "seconds",
        real((double)(stall->over ? stall->waited_ms : stall->what.waited_ms) /
             1000.0));
    put(object, "over", json_boolean(stall->over));
    put(object, "sentence", text(sentence));
    for (uint32_t i = 0; i < stall->what.count; i++) {
        (void)json_array_append_new(array, stalled_json(run, stall, i));
    }
    put(object, "processes", array);
    return object;
}

static json_t *stalls_json(const struct run *run)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < run->stall_count; i++) {
        (void)json_array_append_new(array, stall_json(run, run->stalls[i]));
    }
    return array;
}

/* ---- the rest ----------------------------------------------------------- */

static json_t *figures_json(const struct run *run)
{
    const struct launch_view *view = &run->view;
    json_t *object;

    if (!run->has_view) {
        return json_null();
    }
    object = json_object();
    put(object, "step", number(view->step));
    put(object, "loss", real(view->loss));
    put(object, "samples", number(view->samples));
    put(object, "samples_per_second", real(view->mean_rate));
    put(object, "samples_per_second_lately", real(view->rate));
    put(object, "exchanged_bytes", number(view->exchanged_bytes));
    put(object, "wire_bytes", number(view->wire_bytes));
    put(object, "wait_share", real(view->wait_share));
    put(object, "digests_compared", number(view->compared));
    put(object, "digests_different", number(view->differences));
    return object;
}

static json_t *hosts_json(const struct run *run,
                          const struct supervise_plan *plan)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < run->hosts; i++) {
        const struct cluster_host *host = &plan->cluster->hosts[i];
        json_t *object = json_object();

        put(object, "name", text(host->name));
        put(object, "user", text(host->user));
        put(object, "port",
            host->port == 0 ? json_null() : number(host->port));
        put(object, "local", json_boolean(host->local));
        put(object, "logs", text(plan->starts[i].logs));
        (void)json_array_append_new(array, object);
    }
    return array;
}

/* That of worker 0; others may have their own. */
static const struct launch_task *first_task(const struct run *run,
                                            const struct supervise_plan *plan)
{
    for (uint32_t i = 0; i < run->hosts; i++) {
        const struct launch_start *start = &plan->starts[i];

        for (uint32_t k = 0; k < start->task_count; k++) {
            if (!start->tasks[k].is_server && start->tasks[k].rank == 0) {
                return &start->tasks[k];
            }
        }
    }
    return NULL;
}

static void put_command(json_t *object, const struct run *run,
                        const struct supervise_plan *plan)
{
    const struct launch_task *task = first_task(run, plan);
    json_t *array = json_array();

    for (uint32_t i = 0; task != NULL && i < task->command.count; i++) {
        const char *word = task->command.words[i];

        (void)json_array_append_new(array, text_of(word, strlen(word)));
    }
    put(object, "command", array);
    put(object, "shell", json_boolean(task != NULL && task->shell));
    put(object, "resume", text(run->line));
    put(object, "folder",
        text(run->hosts > 0 ? plan->starts[0].folder : NULL));
}

static const char *result_of(const struct run *run)
{
    if (run->code == 0) {
        return "done";
    }
    if (run->stalled) {
        return "stalled";
    }
    return run->interrupted != 0 && run->reason[0] == '\0' ? "interrupted"
                                                           : "failed";
}

static json_t *report_json(const struct run *run,
                           const struct supervise_plan *plan)
{
    json_t *object = json_object();
    json_t *versions = json_object();

    put(object, "format", number(REPORT_JSON_FORMAT));
    put(object, "name", text(run->name));
    put_command(object, run, plan);
    put(object, "started", stamp(&run->began));
    put(object, "ended", stamp(&run->ended));
    put(object, "seconds",
        real((double)(run->ended.tv_sec - run->began.tv_sec) +
             (double)(run->ended.tv_nsec - run->began.tv_nsec) / 1e9));
    put(object, "result", json_string(result_of(run)));
    put(object, "exit_code", json_integer(run->code));
    put(object, "interrupted_by",
        run->interrupted == 0 ? json_null() : json_integer(run->interrupted));
    put(object, "reason", text(run->reason));
    put(object, "culprit", culprit_json(run));
    put(object, "processes", processes_json(run));
    put(object, "stalls", stalls_json(run));
    put(object, "figures", figures_json(run));
    put(object, "hosts", hosts_json(run, plan));
    put(object, "workers", number(run->workers));
    put(object, "servers", number(run->servers));
    put(object, "logs", text(run->logs));
    put(versions, "poseidon", json_string(psd_version()));
    put(versions, "protocol", number(WIRE_VERSION));
    put(object, "versions", versions);
    return object;
}

char *report_json_text(const struct run *run,
                       const struct supervise_plan *plan)
{
    json_t *object = report_json(run, plan);
    char *document =
        json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(9));

    json_decref(object);
    return document;
}

static bool write_all(int fd, const char *data)
{
    size_t size = strlen(data);

    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0) {
            return false;
        }
        data += n;
        size -= (size_t)n;
    }
    return write(fd, "\n", 1) == 1;
}

void report_json_write(const struct run *run,
                       const struct supervise_plan *plan)
{
    char *document = report_json_text(run, plan);
    char path[LAUNCH_PATH_MAX + 32];
    char temporary[LAUNCH_PATH_MAX + 48];
    bool good = false;
    int fd;

    snprintf(path, sizeof(path), "%s/" REPORT_JSON_NAME, plan->logs);
    snprintf(temporary, sizeof(temporary), "%s.%d", path, (int)getpid());
    fd = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd >= 0) {
        good = document != NULL && write_all(fd, document);
        good = close(fd) == 0 && good;
    }
    if (!good || rename(temporary, path) != 0) {
        log_warn("report: cannot write %s: %m", path);
        (void)unlink(temporary);
    }
    free(document);
}
