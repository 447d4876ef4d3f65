/* psd_run_start.c: from settings that are all right to a job: folders, logs,
 * the background, the plan. The job itself is src/launch/supervise.c. */
#define _GNU_SOURCE
#include <assert.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/copy.h"
#include "launch/detach.h"
#include "launch/dry.h"
#include "launch/exit_code.h"
#include "launch/fact.h"
#include "launch/folder.h"
#include "screen/goal.h"
#include "launch/supervise.h"
#include "psd_run.h"

static_assert((int)LAUNCH_TEE_NONE == (int)SCREEN_TEE_NONE, "one choice");

/* poseidon_run.log where psd_run ran: every line, with the time. */
static void write_log(void *user, psd_log_level level, const char *line)
{
    static const char *const names[] = {"error", "warning", "info", "debug"};
    FILE *file = user;
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];

    localtime_r(&now, &parts);
    strftime(stamp, sizeof(stamp), "%Y-%m-%d %H:%M:%S", &parts);
    fprintf(file, "%s %s: %s\n", stamp, names[level], line);
    fflush(file);
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

/* What is shown; `request` has the command. */
static struct screen_options screen_of(const struct run_settings *settings,
                                       const struct plan_request *request)
{
    struct screen_options options = {.tee = (enum screen_tee)request->tee,
                                     .quiet = settings->quiet,
                                     .verbose = settings->verbose,
                                     .steps = settings->steps};

    if (options.steps == 0) {
        options.steps = goal_steps(request->commands.words,
                                   request->shell ? 1 : request->commands.count,
                                   request->shell);
    }
    return options;
}

/* The name is what `psd stop` and its like know the job by. Two jobs of one
 * name would also share their folder. */
static int check_name(const char *name)
{
    char sentence[512];
    pid_t pid;

    if (name == NULL || !desk_place_taken(name, &pid)) {
        return 0;
    }
    snprintf(sentence, sizeof(sentence),
             "a job with the name %s is running (pid %d); end it with `psd "
             "stop %s`, or take another --name",
             name, (int)pid, name);
    return psd_run_complain(EXIT_CODE_UNAVAILABLE, sentence);
}

/* Open the place where the job answers. Without one it runs all the same,
 * unless it could then not be reached at all. */
static int open_place(const struct run_settings *settings, const char *name,
                      struct desk_place *place, struct supervise_plan *plan)
{
    char error[1024];
    char sentence[2048];
    psd_status status = desk_place_open(place, name, settings->name != NULL,
                                        error, sizeof(error));

    if (status == PSD_OK) {
        plan->place = place;
        return 0;
    }
    if (status == PSD_EINVAL) {
        return psd_run_complain(EXIT_CODE_UNAVAILABLE, error);
    }
    snprintf(sentence, sizeof(sentence),
             "%s; psd status, stop, logs and attach will not find this job",
             error);
    return psd_run_complain(settings->detach ? EXIT_CODE_CANNOT_CREATE : 0,
                            sentence);
}

/* ---- the job ------------------------------------------------------------ */

static int run_plan(const struct run_settings *settings,
                    struct supervise_plan *plan)
{
    struct copy copy = {.data = NULL};
    char error[512];
    int code;

    if (settings->copy) {
        if (copy_init(&copy, plan->way.psd, error, sizeof(error)) != PSD_OK) {
            return psd_run_complain(EXIT_CODE_OS, error);
        }
        plan->way.copy_id = copy.id;
        plan->way.copy_data = copy.data;
        plan->way.copy_size = copy.size;
    }
    code = supervise_run(plan);
    copy_fini(&copy);
    return code;
}

/* The log folder and, with --detach, the background. DETACH_GO: go on. */
static int make_room(const struct run_settings *settings,
                     struct supervise_plan *plan, char *logs, size_t size)
{
    char out[FOLDER_PATH_MAX];
    char error[1024];
    int code = check_name(settings->name);

    if (code != 0) {
        return code;
    }
    snprintf(out, sizeof(out), "%s", settings->out);
    fact_expand_home(out, sizeof(out)); /* a cluster file has no shell */
    if (folder_make_logs(out, settings->name, logs, size, error,
                         sizeof(error)) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_CANNOT_CREATE, error);
    }
    return settings->detach ? detach_start(logs, &plan->ready_fd) : DETACH_GO;
}

/* poseidon_run.log and the place where the job answers, then the job. */
static int run_job(const struct run_settings *settings,
                   struct plan_request *request, struct supervise_plan *plan)
{
    static struct desk_place place;
    FILE *log = fopen("poseidon_run.log", "ae");
    char error[1024];
    int code;

    if (log != NULL) {
        psd_log_set(write_log, log, PSD_LOG_INFO);
    }
    log_info("run: the seed of all workers is %" PRIu64, settings->job.seed);
    code = open_place(settings, request->name, &place, plan);
    if (code == 0 &&
        plan_make(request, &plan->starts, error, sizeof(error)) != PSD_OK) {
        code = psd_run_complain(EXIT_CODE_OS, error);
    } else if (code == 0) {
        code = run_plan(settings, plan);
        plan_fini(plan->starts, request->cluster->host_count);
    }
    desk_place_close(&place); /* taken over, unless it never began */
    psd_log_set(NULL, NULL, PSD_LOG_ERROR);
    if (log != NULL) {
        fclose(log);
    }
    return code;
}

static int print_plan(struct plan_request *request, struct supervise_plan *plan)
{
    char error[1024];
    int code;

    if (plan_make(request, &plan->starts, error, sizeof(error)) != PSD_OK) {
        return psd_run_complain(EXIT_CODE_OS, error);
    }
    code = dry_print(plan, stdout) == PSD_OK ? 0 : EXIT_CODE_OS;
    plan_fini(plan->starts, request->cluster->host_count);
    return code;
}

int psd_run_start(const struct run_settings *settings, struct cluster *cluster,
                  struct plan_request *request, int argc, char **argv)
{
    static struct supervise_plan plan;
    static char logs[FOLDER_PATH_MAX];  /* here */
    static char there[FOLDER_PATH_MAX]; /* where ~ may be another folder */
    static char psd[FOLDER_PATH_MAX];
    int code;

    if (!find_psd(psd, sizeof(psd))) {
        return psd_run_complain(EXIT_CODE_UNAVAILABLE,
                                "the program psd is not beside psd_run; "
                                "install both in one folder");
    }
    plan.ready_fd = -1;
    snprintf(logs, sizeof(logs), "%s/poseidon_log_<time>", settings->out);
    if (!settings->dry_run) {
        code = make_room(settings, &plan, logs, sizeof(logs));
        if (code != DETACH_GO) {
            return code;
        }
    }
    request->name = settings->name;
    if (request->name == NULL) {
        request->name =
            strrchr(logs, '/') == NULL ? logs : strrchr(logs, '/') + 1;
    }
    request->logs = logs;
    if (settings->out[0] == '~') {
        if ((size_t)snprintf(there, sizeof(there), "%s/%s", settings->out,
                             request->name) >= sizeof(there)) {
            return psd_run_complain(EXIT_CODE_CANNOT_CREATE,
                                    "the path of --out is too long");
        }
        request->logs = there;
    }
    plan.cluster = cluster;
    plan.way.psd = psd;
    plan.way.rsh = settings->rsh;
    plan.way.pem_file = cluster->pem_file;
    plan.grace_ms = (uint32_t)(settings->grace * 1000.0);
    plan.dead_after_ms = request->dead_after_ms;
    plan.screen = screen_of(settings, request);
    plan.logs = logs;
    plan.stall_after_ms = (uint32_t)(settings->stall_after * 1000.0);
    plan.stall_stop = strcmp(settings->on_stall, "stop") == 0;
    plan.native = settings->job.tf_native;
    plan.argc = argc;
    plan.argv = argv;
    plan.tensorboard = settings->tensorboard ? settings->out : NULL;
    return settings->dry_run ? print_plan(request, &plan)
                             : run_job(settings, request, &plan);
}
