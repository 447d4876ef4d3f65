/* psd_check.c: `psd check`: is the cluster fit for a job? And `psd probe`,
 * which it starts on every host. */
#define _GNU_SOURCE
#include <assert.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "base/log.h"
#include "base/option.h"
#include "command.h"
#include "check/check.h"
#include "launch/copy.h"
#include "launch/exit_code.h"
#include "launch/folder.h"
#include "check/probe.h"
#include "config/config.h"
#include "config/hostfile.h"
#include "config/run_settings.h"
#include "config/slurm.h"

struct settings {
    struct run_settings run; /* first: its rows have their own offsets */
    bool json;
};

static_assert(offsetof(struct settings, run) == 0, "rows are shared");

static const struct option_row json_row = {
    .name = "json",
    .kind = OPTION_FLAG,
    .offset = offsetof(struct settings, json),
    .help = "everything as one JSON object",
};

/* Those of psd_run that matter here, for the command line. */
static bool is_ours(const struct option_row *row)
{
    static const char *const names[] = {
        "cluster-config", "hostfile", "out", "rsh", "copy", "ports", "help"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(row->name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* `own`: for the command line and --help; else all, for the cluster file. */
static const struct option_row *pick_rows(bool own)
{
    static struct option_row rows[2][RUN_SETTINGS_MAX + 1];
    const struct option_row *all = run_settings_rows();
    struct option_row *to = rows[own ? 1 : 0];
    size_t count = 0;

    to[count++] = json_row;
    for (size_t i = 0; all[i].name != NULL; i++) {
        if (!own || is_ours(&all[i])) {
            to[count++] = all[i];
        }
    }
    return to;
}

static void help(void)
{
    printf("usage: psd check [OPTION...] [-c FILE | --hostfile FILE]\n\n"
           "Looks whether everything is there that a job on this cluster\n"
           "needs: ssh, psd, Python and packages, memory, disk, clocks, and\n"
           "whether every host reaches every other, how fast. What is wrong\n"
           "is said with the command that mends it.\n\noptions:\n");
    option_help(pick_rows(true), stdout);
    printf("\nexit codes: 0 all is well (there may be warnings), 64 wrong "
           "usage, 69\nsomething is missing, 71 the system refused, 130 "
           "interrupted\n");
}

static int complain(int code, const char *sentence)
{
    fprintf(stderr, "psd check: %s\n", sentence);
    return code;
}

/* The one place that knows where hosts come from. */
static psd_status read_cluster(const struct option_row *rows, int argc,
                               char **argv, struct settings *settings,
                               struct cluster *cluster, char *error,
                               size_t error_size)
{
    static struct option_source sources[RUN_SETTINGS_MAX + 1];
    psd_status status;

    option_trace(rows, argc, argv, sources);
    if (settings->run.cluster_config != NULL &&
        settings->run.hostfile != NULL) {
        snprintf(error, error_size,
                 "-c and --hostfile both name the hosts; give one of them");
        return PSD_EINVAL;
    }
    if (settings->run.cluster_config != NULL) {
        status = config_read(settings->run.cluster_config, rows, settings,
                             sources, cluster, error, error_size);
    } else if (settings->run.hostfile != NULL) {
        status =
            hostfile_read(settings->run.hostfile, cluster, error, error_size);
    } else if (slurm_is_here()) {
        status = slurm_read(cluster, error, error_size);
    } else {
        snprintf(error, error_size,
                 "which hosts? Name a file with -c cluster.json or "
                 "--hostfile FILE");
        status = PSD_EINVAL;
    }
    return status == PSD_OK ? cluster_settle(cluster) : status;
}

static int show(struct check_result *result, bool json)
{
    psd_status status = PSD_OK;

    if (result->interrupted) {
        return EXIT_CODE_INTERRUPTED;
    }
    if (check_judge(result) != PSD_OK) {
        return complain(EXIT_CODE_OS, "out of memory");
    }
    if (json) {
        status = check_print_json(result, stdout);
    } else {
        check_print_table(result, stdout);
    }
    if (status != PSD_OK || fflush(stdout) != 0) {
        return complain(EXIT_CODE_OS, "the result cannot be written");
    }
    return check_is_well(result) ? 0 : EXIT_CODE_UNAVAILABLE;
}

static int run(const struct settings *settings, const struct cluster *cluster)
{
    static char psd[FOLDER_PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", psd, sizeof(psd) - 1);
    struct check_plan plan = {
        .cluster = cluster,
        .way = {.psd = psd,
                .rsh = settings->run.rsh,
                .pem_file = cluster->pem_file},
        .ports = settings->run.job.ports,
        .logs = settings->run.out,
        .progress = isatty(STDERR_FILENO) != 0,
    };
    struct copy copy = {.data = NULL};
    struct check_result result;
    char error[1024];
    int code = EXIT_CODE_OS;

    if (size <= 0) {
        return complain(EXIT_CODE_OS, "/proc is not there");
    }
    if (settings->run.copy) {
        if (copy_init(&copy, psd, error, sizeof(error)) != PSD_OK) {
            return complain(EXIT_CODE_UNAVAILABLE, error);
        }
        plan.way.copy_id = copy.id;
        plan.way.copy_data = copy.data;
        plan.way.copy_size = copy.size;
    }
    if (check_run(&plan, &result) == PSD_OK) {
        code = show(&result, settings->json);
    }
    check_fini(&result);
    if (settings->run.copy) {
        copy_fini(&copy);
    }
    return code;
}

int check_main(int argc, char **argv)
{
    const struct option_row *rows = pick_rows(false);
    struct settings settings = {.json = false};
    struct cluster cluster = {.host_count = 0};
    char error[2048];
    int next = 1;
    int code;

    if (option_defaults(rows, &settings) != PSD_OK) {
        return complain(EXIT_CODE_OS, "the table of options is broken");
    }
    if (option_environment(rows, &settings, error, sizeof(error)) != PSD_OK ||
        option_parse(pick_rows(true), &settings, argc, argv, &next, error,
                     sizeof(error)) != PSD_OK) {
        return complain(EXIT_CODE_USAGE, error);
    }
    if (settings.run.help) {
        help();
        return 0;
    }
    if (next < argc) {
        snprintf(error, sizeof(error),
                 "%.200s is one word too many; --help "
                 "tells more",
                 argv[next]);
        return complain(EXIT_CODE_USAGE, error);
    }
    if (read_cluster(rows, argc, argv, &settings, &cluster, error,
                     sizeof(error)) != PSD_OK) {
        return complain(EXIT_CODE_USAGE, error);
    }
    if (settings_check(&settings.run.job, error, sizeof(error)) != PSD_OK) {
        cluster_fini(&cluster);
        return complain(EXIT_CODE_USAGE, error);
    }
    code = run(&settings, &cluster);
    cluster_fini(&cluster);
    option_fini(rows, &settings);
    return code;
}

int probe_main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1 || isatty(STDIN_FILENO)) {
        fprintf(stderr, "psd probe: started by psd check, not by hand; it "
                        "reads what to do from its input\n");
        return EXIT_CODE_USAGE;
    }
    return probe_run();
}
