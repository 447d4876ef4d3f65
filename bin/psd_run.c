/*
 * psd_run.c: the launcher's command line. What is wrong with it is said here,
 * before anything is started; psd_run_start.c goes on from there.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>

#include "base/log.h"
#include "base/option.h"
#include "config/config.h"
#include "launch/exit_code.h"
#include "config/hostfile.h"
#include "config/slurm.h"
#include "config/task.h"
#include "psd_run.h"

static void help(const struct option_row *rows)
{
    printf("usage: psd_run [-h] [-c FILE | --hostfile FILE | -n WORKERS] "
           "[-o DIR]\n               [OPTION...] COMMAND\n\n"
           "Runs COMMAND once per worker, as one training job, on the hosts of "
           "a file over\nssh, on those of a Slurm allocation, or on this "
           "machine. One quoted string is\nrun by sh -c; several words, or "
           "words after --, are executed as they are.\nThe workers' input is "
           "/dev/null; the output of worker 0 is shown, everything\nis in the "
           "log folder.\n\n"
           "options:\n");
    option_help(rows, stdout);
    printf("\nexit codes: the culprit's own, or 128 + its signal; 64 wrong "
           "usage, 65 the\nworkers' models differ, 69 something or a host is "
           "missing, 71 the system\nrefused, 73 the output folder cannot be "
           "made, 75 a worker is stalled, 76\nprotocol broken, 78 the cluster "
           "file is wrong, 126 not executable, 127\ncommand not found, 130 "
           "interrupted\n");
}

int psd_run_complain(int code, const char *sentence)
{
    fprintf(stderr, "psd_run: %s\n", sentence);
    return code;
}

/* ---- command ------------------------------------------------------------ */

/* One word with something in it that only a shell understands, and no --
 * before it. A plain word is executed as it is. */
static bool is_line(int argc, char **argv, int next)
{
    return argc - next == 1 && strcmp(argv[next - 1], "--") != 0 &&
           strpbrk(argv[next], " \t\n;&|<>()$`\\\"'*?[]{}#~=!") != NULL;
}

/* The commands of the file, the parts of one quoted string, or the words. */
static int read_command(struct plan_request *request, struct cluster *cluster,
                        int argc, char **argv, int next)
{
    bool given = next < argc && argv[next][0] != '\0';
    psd_status status;

    if (cluster->commands.count > 0) {
        if (given) {
            return psd_run_complain(
                EXIT_CODE_USAGE,
                "the cluster file has \"commands\" and there is "
                "one here too; take one of them away");
        }
        request->shell = true;
        status = launch_words_set(&request->commands, cluster->commands.count,
                                  cluster->commands.words);
    } else if (!given) {
        return psd_run_complain(
            EXIT_CODE_USAGE,
            "no command; what shall the workers run? For example: "
            "psd_run -n 2 \"python train.py\" (--help tells "
            "more)");
    } else if (is_line(argc, argv, next)) {
        request->shell = true;
        status = task_split(argv[next], cluster->workers, &request->commands);
    } else {
        status = launch_words_set(&request->commands, (uint32_t)(argc - next),
                                  argv + next);
    }
    if (status != PSD_OK) {
        return psd_run_complain(EXIT_CODE_OS, "out of memory");
    }
    cluster->roles = task_has_roles(cluster, &request->commands);
    /* A script with roles wants at least one ps; beside worker 0 it costs
     * nothing. */
    if (cluster->roles && cluster->servers == 0 && cluster->workers > 0 &&
        task_wants_servers(&request->commands) &&
        cluster_add_server(cluster, cluster->worker_seats[0].host) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_OS, "out of memory");
    }
    return 0;
}

/* -x NAME takes its value from here, -x NAME=value gives it. */
static int read_exports(struct plan_request *request,
                        const struct option_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        const char *text = list->values[i];
        size_t size = strcspn(text, "=");
        const char *value = text[size] == '=' ? text + size + 1 : NULL;
        char name[256];
        char error[1024];
        bool good =
            size > 0 && size < sizeof(name) && !isdigit((unsigned char)text[0]);

        for (size_t k = 0; k < size && good; k++) {
            good = isalnum((unsigned char)text[k]) || text[k] == '_';
        }
        if (!good || strncmp(text, "PSD_", 4) == 0) {
            snprintf(error, sizeof(error),
                     "-x %s is no variable that can be passed; it must be "
                     "NAME or NAME=value, and PSD_ names are ours",
                     text);
            return psd_run_complain(EXIT_CODE_USAGE, error);
        }
        memcpy(name, text, size);
        name[size] = '\0';
        value = value == NULL ? getenv(name) : value;
        if (value == NULL) {
            snprintf(error, sizeof(error),
                     "-x %s: it is not set here; set it, or say %s=value", name,
                     name);
            return psd_run_complain(EXIT_CODE_USAGE, error);
        }
        if (launch_words_add(&request->variables, name, value) != PSD_OK) {
            return psd_run_complain(EXIT_CODE_OS, "out of memory");
        }
    }
    return 0;
}

/* ---- hosts -------------------------------------------------------------- */

static enum option_origin origin_of(const struct option_row *rows,
                                    const struct option_source *sources,
                                    const char *name)
{
    for (size_t i = 0; rows[i].name != NULL; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            return sources[i].origin;
        }
    }
    return OPTION_FROM_DEFAULT;
}

static bool from_words(const struct option_row *rows,
                       const struct option_source *sources, const char *name)
{
    return origin_of(rows, sources, name) == OPTION_FROM_WORDS;
}

/* From a file, from Slurm, or this machine. Returns 0 or the exit code. */
static int read_cluster(struct run_settings *settings,
                        const struct option_row *rows,
                        struct option_source *sources, struct cluster *cluster)
{
    bool counted = from_words(rows, sources, "workers") ||
                   from_words(rows, sources, "servers");
    char error[1024] = "out of memory";
    psd_status status;

    if ((settings->cluster_config != NULL) + (settings->hostfile != NULL) +
            counted >
        1) {
        return psd_run_complain(
            EXIT_CODE_USAGE,
            "-c, --hostfile and -n (with -s) are three ways to "
            "say where workers run; give one");
    }
    if (settings->cluster_config != NULL) {
        status = config_read(settings->cluster_config, rows, settings, sources,
                             cluster, error, sizeof(error));
    } else if (settings->hostfile != NULL) {
        status =
            hostfile_read(settings->hostfile, cluster, error, sizeof(error));
    } else if (!counted && slurm_is_here()) {
        status = slurm_read(cluster, error, sizeof(error));
    } else {
        status = cluster_init_local(cluster, (uint32_t)settings->workers,
                                    (uint32_t)settings->servers);
    }
    if (status == PSD_OK) {
        status = cluster_settle(cluster);
    }
    if (status != PSD_OK) {
        return psd_run_complain(
            status == PSD_EINVAL ? EXIT_CODE_CONFIG : EXIT_CODE_OS, error);
    }
    return 0;
}

/* A job's name is that of its folder, too. */
static bool is_name(const char *name)
{
    size_t size = strlen(name);

    for (size_t i = 0; i < size; i++) {
        if (name[i] == '/' || iscntrl((unsigned char)name[i])) {
            return false;
        }
    }
    return size > 0 && size < LAUNCH_NAME_MAX && name[0] != '.' &&
           name[0] != '-';
}

static int check_settings(const struct run_settings *settings,
                          const struct cluster *cluster)
{
    char error[512];

    if (settings_check(&settings->job, error, sizeof(error)) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_USAGE, error);
    }
    if (cluster->servers * settings->job.threads > WIRE_SHARDS_MAX) {
        snprintf(error, sizeof(error),
                 "%" PRIu32 " servers of %" PRIu64 " threads are more than "
                 "the %d shards that a job may have; ask for fewer (-s, "
                 "--threads)",
                 cluster->servers, settings->job.threads, WIRE_SHARDS_MAX);
        return psd_run_complain(EXIT_CODE_USAGE, error);
    }
    if (settings->name != NULL && !is_name(settings->name)) {
        return psd_run_complain(
            EXIT_CODE_USAGE,
            "--name is the name of a folder too: letters, digits "
            "and the like, no slash, no dot in front");
    }
    if (settings->copy && settings->rsh != NULL) {
        return psd_run_complain(
            EXIT_CODE_USAGE,
            "--copy needs ssh; with --rsh install psd at the same "
            "path on every host");
    }
    return 0;
}

static enum launch_tee tee_of(const char *text)
{
    return strcmp(text, "all") == 0    ? LAUNCH_TEE_ALL
           : strcmp(text, "none") == 0 ? LAUNCH_TEE_NONE
                                       : LAUNCH_TEE_FIRST;
}

/* Without --seed every job has another one, the same for all its workers. */
static int draw_seed(struct run_settings *settings,
                     const struct option_row *rows,
                     const struct option_source *sources)
{
    uint32_t seed;

    if (origin_of(rows, sources, "seed") != OPTION_FROM_DEFAULT) {
        return 0;
    }
    if (auth_random(&seed, sizeof(seed)) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_OS,
                                "the system has no random numbers; give a "
                                "--seed");
    }
    settings->job.seed = seed;
    return 0;
}

static int prepare(struct run_settings *settings, const struct option_row *rows,
                   struct option_source *sources, int argc, char **argv,
                   int next)
{
    struct cluster cluster = {.workers = 0};
    struct plan_request request = {.cluster = &cluster};
    int code = read_cluster(settings, rows, sources, &cluster);

    if (code == 0) {
        code = check_settings(settings, &cluster);
    }
    if (code == 0 && settings->print_config) {
        option_print(rows, settings, sources, stdout);
        config_print(&cluster, stdout);
        cluster_fini(&cluster);
        return 0;
    }
    if (code == 0) {
        code = draw_seed(settings, rows, sources);
    }
    if (code == 0) {
        code = read_command(&request, &cluster, argc, argv, next);
    }
    if (code == 0) {
        code = read_exports(&request, &settings->export);
    }
    if (code == 0) {
        request.tee = tee_of(settings->tee);
        request.settings = &settings->job;
        request.dead_after_ms = (uint32_t)(settings->dead_after * 1000.0);
        request.tf_config = settings->tf_config || cluster.origin != NULL;
        code = psd_run_start(settings, &cluster, &request, argc, argv);
    }
    launch_words_fini(&request.commands);
    launch_words_fini(&request.variables);
    cluster_fini(&cluster);
    return code;
}

int main(int argc, char **argv)
{
    const struct option_row *rows = run_settings_rows();
    static struct option_source sources[RUN_SETTINGS_MAX];
    struct run_settings settings = {.workers = 0};
    char error[512];
    int next = 1;
    int code;

    psd_log_set(log_stderr, NULL, PSD_LOG_WARN);
    if (option_defaults(rows, &settings) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_OS, "the table of options is broken");
    }
    if (option_environment(rows, &settings, error, sizeof(error)) != PSD_OK ||
        option_parse(rows, &settings, argc, argv, &next, error,
                     sizeof(error)) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_USAGE, error);
    }
    option_trace(rows, argc, argv, sources);
    if (settings.help) {
        help(rows);
        return 0;
    }
    if (settings.version) {
        printf("psd_run %s\n", psd_version());
        return 0;
    }
    code = prepare(&settings, rows, sources, argc, argv, next);
    option_fini(rows, &settings);
    return code;
}
