/*
 * psd_run.c: the launcher's command line. What is wrong with it is said here,
 * before anything is started; the rest is src/launch/supervise.c.
 */
#define _GNU_SOURCE
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "launch/exit_code.h"
#include "launch/folder.h"
#include "launch/plan.h"
#include "launch/supervise.h"
#include "member/settings.h"

#define ROWS_MAX 64

struct settings {
    struct psd_settings job; /* first: its rows have their own offsets */
    uint64_t workers;
    uint64_t servers;
    const char *out;
    const char *tee;
    const char *name;
    double grace;
    bool help;
    bool version;
};

static_assert(offsetof(struct settings, job) == 0, "rows are shared");

#define FIELD(field) offsetof(struct settings, field)

static const struct option_row own_rows[] = {
    { .name = "workers",
      .letter = 'n',
      .kind = OPTION_UINT,
      .offset = FIELD(workers),
      .initial = "1",
      .low = 1,
      .high = WIRE_RANKS_MAX,
      .help = "workers on this machine" },
    { .name = "servers",
      .letter = 's',
      .kind = OPTION_UINT,
      .offset = FIELD(servers),
      .initial = "0",
      .low = 0,
      .high = WIRE_SHARDS_MAX,
      .help = "parameter servers as processes of their own; 0: the workers "
              "play the role" },
    { .name = "out",
      .letter = 'o',
      .kind = OPTION_TEXT,
      .offset = FIELD(out),
      .initial = ".",
      .value_name = "DIR",
      .help = "where the folder poseidon_log_<time> is made" },
    { .name = "tee",
      .kind = OPTION_CHOICE,
      .offset = FIELD(tee),
      .initial = "0",
      .choices = "0|all",
      .help = "show the output of worker 0, or of all with a prefix" },
    { .name = "grace",
      .kind = OPTION_DOUBLE,
      .offset = FIELD(grace),
      .initial = "3",
      .low = 0,
      .high = 3600,
      .value_name = "SECONDS",
      .help = "time for the others to end by themselves after a failure, and "
              "from SIGTERM to SIGKILL after Ctrl-C" },
    { .name = "name",
      .kind = OPTION_TEXT,
      .offset = FIELD(name),
      .help = "of the job: JOB_NAME in its environment; default: that of the "
              "log folder" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = FIELD(help),
      .help = "this text" },
    { .name = "version",
      .kind = OPTION_FLAG,
      .offset = FIELD(version),
      .help = "the version" },
};

/* Our own options and those of every job, in one table. */
static const struct option_row *all_rows(void)
{
    static struct option_row rows[ROWS_MAX];
    size_t own = sizeof(own_rows) / sizeof(own_rows[0]);

    memcpy(rows, own_rows, sizeof(own_rows));
    for (size_t i = 0; psd_settings_rows[i].name != NULL; i++) {
        PSD_ASSERT(own + i + 1 < ROWS_MAX);
        rows[own + i] = psd_settings_rows[i];
    }
    return rows;
}

static void help(const struct option_row *rows)
{
    printf("usage: psd_run -n WORKERS [OPTION...] COMMAND\n\n"
           "Runs COMMAND once per worker, as one training job. One quoted\n"
           "string is run by sh -c; several words, or words after --, are\n"
           "executed as they are. The workers' input is /dev/null; the output\n"
           "of worker 0 is shown, everything is in the log folder.\n\n"
           "options:\n");
    option_help(rows, stdout);
    printf("\nexit codes: the culprit's own, or 128 + its signal; 64 wrong "
           "usage,\n65 the workers' models differ, 69 something is missing, "
           "71 the system\nrefused, 73 the output folder cannot be made, 76 "
           "protocol broken,\n126 not executable, 127 command not found, 130 "
           "interrupted\n");
}

/* poseidon_run.log, beside the log folder: every line, with the time. */
static void write_log(void *user, psd_log_level level, const char *line)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };
    FILE *file = user;
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];

    localtime_r(&now, &parts);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &parts);
    fprintf(file, "%s %s: %s\n", stamp, names[level], line);
    fflush(file);
}

static FILE *open_log(const char *out)
{
    char path[FOLDER_PATH_MAX + 32];
    FILE *file;

    snprintf(path, sizeof(path), "%s/poseidon_run.log", out);
    file = fopen(path, "ae");
    if (file != NULL) {
        psd_log_set(write_log, file, PSD_LOG_INFO);
    }
    return file;
}

/* The program psd lies beside this one. */
static bool find_psd(char *path, size_t size)
{
    static const char name[] = "psd";
    ssize_t used = readlink("/proc/self/exe", path, size - 1);
    char *slash;

    if (used <= 0) {
        return false;
    }
    path[used] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash + 1 - path) + sizeof(name) > size) {
        return false;
    }
    memcpy(slash + 1, name, sizeof(name));
    return access(path, X_OK) == 0;
}

static int complain(int code, const char *sentence)
{
    fprintf(stderr, "psd_run: %s\n", sentence);
    return code;
}

/* One word with something in it that only a shell understands, and no --
 * before it. A plain word is executed as it is. */
static bool is_line(int argc, char **argv, int next)
{
    return argc - next == 1 && strcmp(argv[next - 1], "--") != 0 &&
           strpbrk(argv[next], " \t\n;&|<>()$`\\\"'*?[]{}#~=!") != NULL;
}

static int start(const struct settings *settings, int argc, char **argv,
                 int next)
{
    static struct supervise_plan plan;
    static char logs[FOLDER_PATH_MAX];
    static char psd[FOLDER_PATH_MAX];
    char out[FOLDER_PATH_MAX];
    char error[1024];
    char note[512];
    struct plan_request request = {
        .workers = (uint32_t)settings->workers,
        .servers = (uint32_t)settings->servers,
        .name = settings->name,
        .tee_all = strcmp(settings->tee, "all") == 0,
        .settings = &settings->job,
        .logs = logs,
        .command = argv + next,
        .command_count = (uint32_t)(argc - next),
        .shell = is_line(argc, argv, next),
    };
    FILE *log;
    int code;

    if (!find_psd(psd, sizeof(psd))) {
        return complain(EXIT_CODE_UNAVAILABLE,
                        "the program psd is not beside psd_run; install both "
                        "in one folder");
    }
    if (plan_check_limits(request.workers, request.servers, error,
                          sizeof(error)) != PSD_OK) {
        return complain(EXIT_CODE_OS, error);
    }
    if (folder_make_logs(settings->out, logs, sizeof(logs), error,
                         sizeof(error)) != PSD_OK ||
        realpath(settings->out, out) == NULL) {
        return complain(EXIT_CODE_CANNOT_CREATE, error);
    }
    log = open_log(settings->out);
    if (request.name == NULL) {
        request.name =
            strrchr(logs, '/') == NULL ? logs : strrchr(logs, '/') + 1;
    }
    if (plan_make(&request, &plan.start, note, sizeof(note)) != PSD_OK) {
        return complain(EXIT_CODE_OS, "cannot prepare the job");
    }
    plan.psd = psd;
    plan.grace_ms = (uint32_t)(settings->grace * 1000.0);
    plan.note = note;
    code = supervise_run(&plan);
    launch_start_fini(&plan.start);
    psd_log_set(NULL, NULL, PSD_LOG_ERROR);
    if (log != NULL) {
        fclose(log);
    }
    return code;
}

int main(int argc, char **argv)
{
    const struct option_row *rows = all_rows();
    struct settings settings = { .workers = 0 };
    char error[512];
    int next = 1;

    psd_log_set(log_stderr, NULL, PSD_LOG_WARN);
    if (option_defaults(rows, &settings) != PSD_OK) {
        return complain(EXIT_CODE_OS, "the table of options is broken");
    }
    if (option_parse(rows, &settings, argc, argv, &next, error,
                     sizeof(error)) != PSD_OK) {
        return complain(EXIT_CODE_USAGE, error);
    }
    if (settings.help) {
        help(rows);
        return 0;
    }
    if (settings.version) {
        printf("psd_run %s\n", psd_version());
        return 0;
    }
    if (settings_check(&settings.job, error, sizeof(error)) != PSD_OK) {
        return complain(EXIT_CODE_USAGE, error);
    }
    if (settings.servers * settings.job.threads > WIRE_SHARDS_MAX) {
        snprintf(error, sizeof(error),
                 "%" PRIu64 " servers of %" PRIu64 " threads are more than "
                 "the %d shards that a job may have; ask for fewer (-s, "
                 "--threads)",
                 settings.servers, settings.job.threads, WIRE_SHARDS_MAX);
        return complain(EXIT_CODE_USAGE, error);
    }
    if (next >= argc || argv[next][0] == '\0') {
        return complain(EXIT_CODE_USAGE,
                        "no command; what shall the workers run? For example: "
                        "psd_run -n 2 \"python train.py\" (--help tells "
                        "more)");
    }
    return start(&settings, argc, argv, next);
}
