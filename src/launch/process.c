/* process.c: see process.h. What a worker and a server find when they start:
 * their environment, their log files, their command. */
#define _GNU_SOURCE
#include "launch/process.h"

#include <inttypes.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/exit_code.h"
#include "launch/injection.h"
#include "launch/ps.h"
#include "launch/spawn.h"

#define PROCESS_WORDS_MAX 4

static psd_status set_number(struct launch_words *environment, const char *name,
                             uint32_t value)
{
    char text[16];

    snprintf(text, sizeof(text), "%" PRIu32, value);
    return spawn_environment_set(environment, name, text);
}

/* PSD_*: who it is and where its agent listens. */
static psd_status make_environment(const struct process *process,
                                   const struct launch_start *start,
                                   const struct launch_task *task,
                                   const char *agent_path,
                                   struct launch_words *environment_p)
{
    struct {
        const char *name;
        uint32_t value;
    } numbers[] = {
        { "PSD_RANK", process->rank },
        { "PSD_SIZE", start->workers },
        { "PSD_LOCAL_RANK", process->local },
        { "PSD_LOCAL_SIZE", launch_start_local(start) },
        { "PSD_SERVERS", start->servers },
        { "PSD_INCARNATION", 0 },
        { LOOK_VARIABLE, (uint32_t)look_signal() },
    };
    bool is_ps = task->is_server && task->command.count > 0;
    psd_status status = spawn_environment(&start->variables, environment_p);

    if (status != PSD_OK) {
        return status;
    }
    status = spawn_environment_add(environment_p, &task->variables);
    if (status == PSD_OK) {
        status = spawn_environment_set(environment_p, "PSD_ROLE",
                                       is_ps             ? "ps"
                                       : task->is_server ? "server"
                                                         : "worker");
    }
    if (status == PSD_OK) {
        status = spawn_environment_set(environment_p, "PSD_LOG_DIR",
                                       start->logs);
    }
    if (status == PSD_OK) { /* a ps is no member */
        status = spawn_environment_set(
            environment_p, is_ps ? PS_VARIABLE : "PSD_AGENT", agent_path);
    }
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]) &&
                       status == PSD_OK && !is_ps;
         i++) {
        status = set_number(environment_p, numbers[i].name, numbers[i].value);
    }
    if (status == PSD_OK && task->command.count > 0) {
        status = injection_add(environment_p);
    }
    if (status != PSD_OK) {
        launch_words_fini(environment_p);
    }
    return status;
}

/* stdout and stderr of a worker apart, of a server together. */
static psd_status open_outputs(struct process *process,
                               const struct launch_start *start,
                               struct output_pool *pool, int ends[2])
{
    bool pass = !process->is_server &&
                (start->tee == LAUNCH_TEE_ALL ||
                 (start->tee == LAUNCH_TEE_FIRST && process->rank == 0));

    process->output_count = process->is_server ? 1 : 2;
    ends[0] = -1;
    ends[1] = -1;
    for (unsigned i = 0; i < process->output_count; i++) {
        struct output *output = &process->outputs[i];
        char name[64];

        output->pass = pass;
        output->is_server = process->is_server;
        output->rank = process->rank;
        output->stream = i == 0 ? LAUNCH_STREAM_STDOUT : LAUNCH_STREAM_STDERR;
        if (process->is_server) {
            snprintf(name, sizeof(name), "server_%" PRIu32 ".log",
                     process->rank);
        } else {
            snprintf(name, sizeof(name), "worker_%" PRIu32 ".%s", process->rank,
                     i == 0 ? "out" : "err");
        }
        if (output_open(output, pool, start->logs, name, &ends[i]) != PSD_OK) {
            return PSD_ESYSTEM;
        }
    }
    return PSD_OK;
}

static void close_ends(const int ends[2])
{
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0) {
            close(ends[i]);
        }
    }
}

/* A worker: the user's command. A server: this program again, or the command
 * in the role of a ps. */
static void fill_command(const struct launch_task *task, const char *self,
                         char *words[PROCESS_WORDS_MAX],
                         struct spawn_plan *plan)
{
    plan->argv = words;
    if (task->command.count == 0) {
        words[0] = (char *)(uintptr_t)self;
        words[1] = "server";
        words[2] = NULL;
    } else if (task->shell) {
        words[0] = "sh";
        words[1] = "-c";
        words[2] = task->command.words[0];
        words[3] = NULL;
    } else {
        plan->argv = task->command.words;
    }
}

psd_status process_start(struct process *process,
                         const struct launch_start *start,
                         const struct launch_task *task,
                         const char *agent_path, const char *cgroup,
                         struct output_pool *pool, rlim_t files, int *code_p,
                         char *error, size_t error_size)
{
    struct spawn_plan plan = { .folder = start->folder,
                               .files = files,
                               .cgroup = cgroup };
    struct launch_words environment = { .count = 0 };
    char self[LAUNCH_PATH_MAX] = "";
    char *words[PROCESS_WORDS_MAX];
    int ends[2];
    psd_status status;

    *code_p = EXIT_CODE_OS;
    snprintf(error, error_size, "out of memory");
    status = make_environment(process, start, task, agent_path, &environment);
    if (status != PSD_OK) {
        return status;
    }
    snprintf(error, error_size,
             "cannot capture its output; raise `ulimit -n`, or name a log "
             "folder with room by -o");
    status = open_outputs(process, start, pool, ends);
    if (status == PSD_OK) {
        if (process->is_server &&
            readlink("/proc/self/exe", self, sizeof(self) - 1) < 0) {
            snprintf(self, sizeof(self), "psd");
        }
        fill_command(task, self, words, &plan);
        plan.variables = environment.words;
        plan.out = ends[0];
        plan.err = process->is_server ? ends[0] : ends[1];
        status = spawn_process(&plan, &process->pid, code_p, error, error_size);
    }
    close_ends(ends);
    launch_words_fini(&environment);
    if (status != PSD_OK) {
        process_fini(process);
        return status;
    }
    process->alive = true;
    return PSD_OK;
}

void process_fini(struct process *process)
{
    look_stop(&process->look);
    for (unsigned i = 0; i < process->output_count; i++) {
        output_close(&process->outputs[i]);
    }
    process->output_count = 0;
    link_close(process->link);
    process->link = NULL;
}
