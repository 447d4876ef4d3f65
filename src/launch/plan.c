/* plan.c: see plan.h. */
#define _GNU_SOURCE
#include "launch/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"

#define FILES_SPARE      64
#define FILES_PER_WORKER 6 /* two pipes, two logs, an arena, a socket */
#define FILES_PER_SERVER 3
#define PROCESSES_SPARE  8 /* psd_run, master, guard, agent, a shell */

psd_status plan_check_limits(uint32_t workers, uint32_t servers, char *error,
                             size_t error_size)
{
    rlim_t files = FILES_SPARE + (rlim_t)workers * FILES_PER_WORKER +
                   (rlim_t)servers * FILES_PER_SERVER;
    rlim_t processes = PROCESSES_SPARE + (rlim_t)workers + servers;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < files) {
        snprintf(error, error_size,
                 "%" PRIu32 " workers and %" PRIu32 " servers need %" PRIu64
                 " open files, this shell allows %" PRIu64
                 "; raise the limit (`ulimit -Hn %" PRIu64
                 "`, or nofile in /etc/security/limits.conf), or start fewer",
                 workers, servers, (uint64_t)files, (uint64_t)limit.rlim_max,
                 (uint64_t)files);
        return PSD_ESYSTEM;
    }
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 &&
        limit.rlim_cur < processes) {
        snprintf(error, error_size,
                 "%" PRIu32 " workers and %" PRIu32 " servers need %" PRIu64
                 " processes, this shell allows %" PRIu64
                 "; raise the limit (`ulimit -u %" PRIu64 "`), or start fewer",
                 workers, servers, (uint64_t)processes,
                 (uint64_t)limit.rlim_cur, (uint64_t)processes);
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

/* ---- environment -------------------------------------------------------- */

/* Every option of the job, as PSD_NAME. */
static psd_status add_settings(struct launch_words *variables,
                               const struct psd_settings *settings)
{
    for (const struct option_row *row = psd_settings_rows; row->name != NULL;
         row++) {
        char name[64];
        char value[256];
        psd_status status;

        if (!row->job) {
            continue;
        }
        option_variable(row->name, name, sizeof(name));
        option_format(row, settings, value, sizeof(value));
        status = launch_words_add(variables, name, value);
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

/* Numeric libraries that would each take every core share them instead. */
static psd_status add_threads(struct launch_words *variables, uint32_t workers,
                              char *note, size_t note_size)
{
    static const char *const names[] = {
        "OMP_NUM_THREADS",        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",   "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
    };
    unsigned cores = cpu_allowed();
    unsigned share = cores / workers > 0 ? cores / workers : 1;
    size_t used = 0;
    char value[16];

    note[0] = '\0';
    snprintf(value, sizeof(value), "%u", share);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        psd_status status;

        if (getenv(names[i]) != NULL) {
            continue;
        }
        status = launch_words_add(variables, names[i], value);
        if (status != PSD_OK) {
            return status;
        }
        used += (size_t)snprintf(note + used, note_size - used, "%s%s",
                                 used == 0 ? "" : ", ", names[i]);
    }
    if (used > 0 && used < note_size) {
        snprintf(note + used, note_size - used,
                 " set to %u for each worker (%u cores / %" PRIu32 " workers)",
                 share, cores, workers);
    }
    return PSD_OK;
}

static psd_status add_variables(const struct plan_request *request,
                                struct launch_start *start, char *note,
                                size_t note_size)
{
    struct launch_words *variables = &start->variables;
    psd_status status = add_settings(variables, request->settings);

    if (status == PSD_OK) {
        status = add_threads(variables, request->workers, note, note_size);
    }
    if (status == PSD_OK) {
        status = launch_words_add(variables, "JOB_NAME", request->name);
    }
    if (status == PSD_OK && getenv("PYTHONUNBUFFERED") == NULL) {
        status = launch_words_add(variables, "PYTHONUNBUFFERED", "1");
    }
    return status;
}

/* ---- the plan ----------------------------------------------------------- */

static uint32_t *count_up(uint32_t count)
{
    uint32_t *ranks = mem_zalloc_array(count, sizeof(*ranks));

    for (uint32_t i = 0; ranks != NULL && i < count; i++) {
        ranks[i] = i;
    }
    return ranks;
}

psd_status plan_make(const struct plan_request *request,
                     struct launch_start *start, char *note, size_t note_size)
{
    psd_status status;

    *start = (struct launch_start){
        .workers = request->workers,
        .servers = request->servers,
        .threads = (uint32_t)request->settings->threads,
        .shell = request->shell,
        .tee_all = request->tee_all,
        .host = "127.0.0.1",
        .local_workers = request->workers,
        .local_servers = request->servers,
    };
    snprintf(start->ports, sizeof(start->ports), "%s",
             request->settings->ports);
    snprintf(start->name, sizeof(start->name), "%s", request->name);
    snprintf(start->logs, sizeof(start->logs), "%s", request->logs);
    if (getcwd(start->folder, sizeof(start->folder)) == NULL) {
        log_error("run: no working directory: %m");
        return PSD_ESYSTEM;
    }
    status = auth_random(&start->job, sizeof(start->job));
    if (status != PSD_OK) {
        return status;
    }
    start->worker_ranks = count_up(request->workers);
    start->server_ranks = count_up(request->servers);
    status = PSD_ENOMEM;
    if (start->worker_ranks != NULL && start->server_ranks != NULL) {
        status = launch_words_set(&start->command, request->command_count,
                                  request->command);
    }
    if (status == PSD_OK) {
        status = add_variables(request, start, note, note_size);
    }
    if (status != PSD_OK) {
        launch_start_fini(start);
    }
    return status;
}
