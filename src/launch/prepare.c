/*
 * prepare.c: an agent looks whether its host has what the job needs, before
 * anything runs; see agent_state.h. Every check is a row of `checks`; the
 * first that fails says what to do.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "config/address.h"
#include "launch/agent_state.h"
#include "launch/exit_code.h"
#include "launch/fact.h"
#include "launch/folder.h"
#include "launch/spawn.h"
#include "member/settings.h"

#define PROCESSES_SPARE 8 /* psd_run, master, guard, agent, a shell */

struct checking {
    struct agent *agent;
    struct launch_start *start;
    struct launch_ready *ready;
};

static void note(struct checking *checking, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void note(struct checking *checking, const char *format, ...)
{
    char *text = checking->ready->note;
    size_t size = sizeof(checking->ready->note);
    size_t used = strlen(text);
    va_list args;

    if (used > 0 && used + 3 < size) {
        memcpy(text + used, "; ", 3);
        used += 2;
    }
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

/* The sentence of a failure; returns its exit code. */
static int refuse(struct checking *checking, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int refuse(struct checking *checking, int code, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(checking->ready->reason, sizeof(checking->ready->reason), format,
              args);
    va_end(args);
    return code;
}

/* ---- limits ------------------------------------------------------------- */

static int check_limits(struct checking *checking)
{
    const struct launch_start *start = checking->start;
    uint32_t workers = checking->agent->local_workers;
    uint32_t servers = start->task_count - workers;
    rlim_t files = fact_files_needed(workers, servers);
    rlim_t processes = PROCESSES_SPARE + (rlim_t)workers + servers;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max < files) {
        return refuse(checking, EXIT_CODE_OS,
                      "%" PRIu32 " workers and %" PRIu32 " servers need "
                      "%" PRIu64 " open files, this shell allows %" PRIu64
                      "; raise the limit (`ulimit -Hn %" PRIu64 "`, or nofile "
                      "in /etc/security/limits.conf), or start fewer",
                      workers, servers, (uint64_t)files,
                      (uint64_t)limit.rlim_max, (uint64_t)files);
    }
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &limit) == 0 &&
        limit.rlim_cur < processes) {
        return refuse(checking, EXIT_CODE_OS,
                      "%" PRIu32 " workers and %" PRIu32 " servers need "
                      "%" PRIu64 " processes, this shell allows %" PRIu64
                      "; raise the limit (`ulimit -u %" PRIu64 "`), or start "
                      "fewer",
                      workers, servers, (uint64_t)processes,
                      (uint64_t)limit.rlim_cur, (uint64_t)processes);
    }
    return 0;
}

/* ---- folders ------------------------------------------------------------ */

static int check_folder(struct checking *checking)
{
    struct launch_start *start = checking->start;
    const char *home = getenv("HOME");

    if (fact_is_folder(start->folder)) {
        return 0;
    }
    if (start->here || home == NULL || !fact_is_folder(home)) {
        return refuse(checking, EXIT_CODE_OS, "there is no folder %s here",
                      start->folder);
    }
    note(checking, "there is no folder %s, working in %s", start->folder, home);
    snprintf(start->folder, sizeof(start->folder), "%s", home);
    return 0;
}

static int check_logs(struct checking *checking)
{
    struct launch_start *start = checking->start;
    struct launch_ready *ready = checking->ready;
    char error[1024];
    struct statvfs disk;

    fact_expand_home(start->logs, sizeof(start->logs));
    if (start->logs[0] == '/') {
        snprintf(ready->logs, sizeof(ready->logs), "%s", start->logs);
    } else if ((size_t)snprintf(ready->logs, sizeof(ready->logs), "%s/%s",
                                start->folder,
                                start->logs) >= sizeof(ready->logs)) {
        return refuse(checking, EXIT_CODE_CANNOT_CREATE,
                      "the path of the log folder is too long");
    }
    if (folder_make(ready->logs, error, sizeof(error)) != PSD_OK) {
        return refuse(checking, EXIT_CODE_CANNOT_CREATE, "%s", error);
    }
    if (statvfs(ready->logs, &disk) == 0 &&
        disk.f_bavail * disk.f_frsize < FACT_DISK_LEAST && disk.f_blocks > 0) {
        return refuse(checking, EXIT_CODE_CANNOT_CREATE,
                      "the disk of %s is full; make room, or name another "
                      "folder with -o",
                      ready->logs);
    }
    snprintf(start->logs, sizeof(start->logs), "%s", ready->logs);
    return 0;
}

/* ---- environment -------------------------------------------------------- */

static int no_memory(struct checking *checking)
{
    return refuse(checking, EXIT_CODE_OS, "out of memory");
}

/* What `activate` would do: PATH and VIRTUAL_ENV. */
static int check_virtualenv(struct checking *checking)
{
    struct launch_start *start = checking->start;
    const char *path = getenv("PATH");
    char bin[LAUNCH_PATH_MAX + 8];
    char joined[2 * LAUNCH_PATH_MAX];

    if (start->virtualenv[0] == '\0') {
        return 0;
    }
    fact_expand_home(start->virtualenv, sizeof(start->virtualenv));
    snprintf(bin, sizeof(bin), "%s/bin", start->virtualenv);
    if (!fact_is_folder(bin)) {
        return refuse(checking, EXIT_CODE_UNAVAILABLE,
                      "there is no virtualenv %s; make it there with `python3 "
                      "-m venv %s`, or correct \"virtualenv\"",
                      start->virtualenv, start->virtualenv);
    }
    snprintf(joined, sizeof(joined), "%s:%s", bin,
             path == NULL ? "/usr/local/bin:/usr/bin:/bin" : path);
    if (launch_words_add(&start->variables, "VIRTUAL_ENV", start->virtualenv) !=
            PSD_OK ||
        launch_words_add(&start->variables, "PATH", joined) != PSD_OK) {
        return no_memory(checking);
    }
    unsetenv("PYTHONHOME");
    return 0;
}

/* The last counts, as it does for the worker. */
static const char *given(const struct launch_words *variables,
                         const char *name)
{
    size_t size = strlen(name);

    for (uint32_t i = variables->count; i-- > 0;) {
        if (strncmp(variables->words[i], name, size) == 0 &&
            variables->words[i][size] == '=') {
            return variables->words[i] + size + 1;
        }
    }
    return NULL;
}

/* What was passed with -x, or is in the user's environment; NULL: nothing. */
static const char *said(const struct launch_start *start, const char *name)
{
    const char *value = given(&start->variables, name);

    return value != NULL ? value : getenv(name);
}

struct thread_row {
    const char *name;
    bool follows; /* OMP_NUM_THREADS, where it is unset */
};

static const struct thread_row thread_rows[] = {
    { "OMP_NUM_THREADS", false },
    { "MKL_NUM_THREADS", true },
    { "OPENBLAS_NUM_THREADS", true },
    { "TF_NUM_INTRAOP_THREADS", false },
    { "TF_NUM_INTEROP_THREADS", false },
};

#define THREAD_ROWS (sizeof(thread_rows) / sizeof(thread_rows[0]))

/* Numeric libraries that would each take every core share them instead, unless
 * the user has said how many, to them or to the one that they follow. */
static int check_threads(struct checking *checking)
{
    struct launch_start *start = checking->start;
    uint32_t workers = checking->agent->local_workers;
    unsigned cores = cpu_allowed();
    unsigned share = workers > 0 && cores / workers > 0 ? cores / workers : 1;
    const char *first = NULL;
    unsigned more = 0;
    bool omp = said(start, "OMP_NUM_THREADS") != NULL;
    char others[48] = "";
    char value[16];

    snprintf(value, sizeof(value), "%u", share);
    for (size_t i = 0; i < THREAD_ROWS && workers > 0; i++) {
        const char *name = thread_rows[i].name;

        if (said(start, name) != NULL || (thread_rows[i].follows && omp)) {
            continue;
        }
        if (launch_words_add(&start->variables, name, value) != PSD_OK) {
            return no_memory(checking);
        }
        more += first != NULL;
        first = first == NULL ? name : first;
    }
    if (more > 0) {
        snprintf(others, sizeof(others), " and %u more like it", more);
    }
    if (first != NULL) {
        note(checking,
             "%s%s set to %u for each worker (%u cores / %" PRIu32 " workers)",
             first, others, share, cores, workers);
    }
    return 0;
}

/* Training takes large memory and gives it back in every step. In huge pages
 * the kernel clears less of it and the processor finds it faster; glibc asks
 * for them by itself only from 2.43 on. Not if the user has said how. */
static int check_pages(struct checking *checking)
{
    static const char name[] = "GLIBC_TUNABLES";
    static const char ours[] = "glibc.malloc.hugetlb";
    struct launch_start *start = checking->start;
    const char *others = said(start, name);
    char joined[1024];
    int size;

    if (others != NULL && strstr(others, ours) != NULL) {
        return 0;
    }
    if (others == NULL || others[0] == '\0') {
        size = snprintf(joined, sizeof(joined), "%s=1", ours);
    } else {
        size = snprintf(joined, sizeof(joined), "%s:%s=1", others, ours);
    }
    if (size < (int)sizeof(joined) &&
        launch_words_add(&start->variables, name, joined) != PSD_OK) {
        return no_memory(checking);
    }
    return 0;
}

/* One GPU for each worker, none for servers. */
static int check_gpus(struct checking *checking)
{
    struct launch_start *start = checking->start;
    const char *ids[FACT_GPUS_MAX];
    char text[1024];
    unsigned gpus = fact_gpus(text, sizeof(text), ids);
    uint32_t workers = checking->agent->local_workers;
    uint32_t local = 0;

    if (gpus > 0 && workers > gpus) {
        note(checking, "%" PRIu32 " workers share %u GPUs", workers, gpus);
    }
    for (uint32_t i = 0; i < start->task_count; i++) {
        struct launch_task *task = &start->tasks[i];
        const char *mine = task->is_server ? ""
                           : gpus > 0      ? ids[local % gpus]
                                           : NULL;

        local += task->is_server == 0;
        if (mine != NULL &&
            given(&task->variables, "CUDA_VISIBLE_DEVICES") == NULL &&
            launch_words_add(&task->variables, "CUDA_VISIBLE_DEVICES", mine) !=
                PSD_OK) {
            return no_memory(checking);
        }
    }
    return 0;
}

/* ---- command ------------------------------------------------------------ */

/* A plain word that no shell would find is said before anything runs. */
static int check_command(struct checking *checking,
                         const struct launch_task *task,
                         char *const *environment)
{
    const struct launch_start *start = checking->start;
    const char *name = task->command.words[0];
    char word[256];
    int code;

    if (!task->shell) {
        snprintf(word, sizeof(word), "%s", name);
        code = spawn_look(name, start->folder, environment);
    } else if (spawn_shell_finds(name, start->folder, environment, word,
                                 sizeof(word))) {
        code = 0;
    } else {
        code = strchr(word, '/') != NULL && access(word, F_OK) == 0
                   ? EXIT_CODE_NOT_EXECUTABLE
                   : EXIT_CODE_NOT_FOUND;
    }
    if (code == 0) {
        return 0;
    }
    if (code == EXIT_CODE_NOT_EXECUTABLE) {
        return refuse(checking, EXIT_CODE_NOT_EXECUTABLE,
                      "%s: cannot be executed; is `chmod +x` missing?", word);
    }
    return refuse(checking, EXIT_CODE_NOT_FOUND,
                  "%s: command not found; give its path, or add its folder to "
                  "PATH",
                  word);
}

static int check_commands(struct checking *checking)
{
    const struct launch_start *start = checking->start;
    struct launch_words environment = {.count = 0};
    const char *last = "";
    int code = 0;

    if (spawn_environment(&start->variables, &environment) != PSD_OK) {
        return no_memory(checking);
    }
    for (uint32_t i = 0; i < start->task_count && code == 0; i++) {
        const struct launch_task *task = &start->tasks[i];

        if (task->command.count > 0 &&
            strcmp(task->command.words[0], last) != 0) {
            code = check_command(checking, task, environment.words);
            last = task->command.words[0];
        }
    }
    launch_words_fini(&environment);
    return code;
}

/* ---- network ------------------------------------------------------------ */

static int check_ports(struct checking *checking)
{
    const struct launch_start *start = checking->start;
    uint32_t workers = checking->agent->local_workers;
    uint32_t need = start->servers > 0
                        ? (start->task_count - workers) * start->threads
                        : workers;
    uint16_t first;
    uint16_t last;
    uint32_t there = 0;

    if (!settings_ports(start->ports, &first, &last) || first == 0 ||
        start->hosts == 1) {
        return 0;
    }
    for (unsigned port = first; port <= last && there < need; port++) {
        there += fact_port_is_free(checking->agent->address, port);
    }
    if (there < need) {
        return refuse(checking, EXIT_CODE_UNAVAILABLE,
                      "%" PRIu32 " of the ports %s are free on %s, %" PRIu32
                      " are needed; `ss -ltnp` shows who has them, "
                      "\"ports\" gives another range",
                      there, start->ports, checking->agent->address, need);
    }
    return 0;
}

static int check_address(struct checking *checking)
{
    const struct launch_start *start = checking->start;
    struct agent *agent = checking->agent;
    char error[1024];

    snprintf(agent->address, sizeof(agent->address), "127.0.0.1");
    if (start->hosts > 1 &&
        address_choose(start->host, start->interface, start->peer,
                       agent->address, sizeof(agent->address), error,
                       sizeof(error)) != PSD_OK) {
        return refuse(checking, EXIT_CODE_UNAVAILABLE, "%s", error);
    }
    snprintf(checking->ready->address, sizeof(checking->ready->address), "%s",
             agent->address);
    return 0;
}

/* ---- all of it ---------------------------------------------------------- */

static int (*const checks[])(struct checking *checking) = {
    check_limits,  check_folder, check_logs, check_virtualenv,
    check_threads, check_pages,  check_gpus, check_commands,
    check_address, check_ports,
};

bool prepare_job(struct agent *agent, struct launch_ready *ready)
{
    struct checking checking = {
        .agent = agent, .start = &agent->start, .ready = ready};

    *ready = (struct launch_ready){.code = 0};
    agent->local_workers = launch_start_local(&agent->start);
    snprintf(ready->folder, sizeof(ready->folder), "%s", agent->folder);
    for (size_t i = 0;
         i < sizeof(checks) / sizeof(checks[0]) && ready->code == 0; i++) {
        ready->code = checks[i](&checking);
    }
    return ready->code == 0;
}
