/* plan.c: see plan.h. */
#define _GNU_SOURCE
#include "launch/plan.h"

#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launch/port.h"
#include "launch/spawn.h"
#include "launch/supervise.h"
#include "config/task.h"

/* ---- who runs where ----------------------------------------------------- */

static bool has_worker(const struct cluster *cluster, uint32_t host)
{
    for (uint32_t i = 0; i < cluster->workers; i++) {
        if (cluster->worker_seats[i].host == host) {
            return true;
        }
    }
    return false;
}

static bool has_server(const struct cluster *cluster, uint32_t host)
{
    for (uint32_t i = 0; i < cluster->servers; i++) {
        if (cluster->server_seats[i].host == host) {
            return true;
        }
    }
    return false;
}

/* Every host with a worker is one with a server, and the other way round. */
static bool is_colocated(const struct cluster *cluster)
{
    for (uint32_t i = 0; i < cluster->workers; i++) {
        if (!has_server(cluster, cluster->worker_seats[i].host)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < cluster->servers; i++) {
        if (!has_worker(cluster, cluster->server_seats[i].host)) {
            return false;
        }
    }
    return true;
}

uint32_t plan_servers(const struct cluster *cluster)
{
    bool several = cluster->host_count > 1;

    return cluster->roles || (several && is_colocated(cluster))
               ? 0
               : cluster->servers;
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

static psd_status add_variables(const struct plan_request *request,
                                struct launch_start *start)
{
    struct launch_words *variables = &start->variables;
    psd_status status = add_settings(variables, request->settings);

    if (status == PSD_OK && getenv("PYTHONUNBUFFERED") == NULL) {
        status = launch_words_add(variables, "PYTHONUNBUFFERED", "1");
    }
    if (status == PSD_OK && getenv(LAUNCH_DISABLE) != NULL) {
        status = launch_words_add(variables, LAUNCH_DISABLE,
                                  getenv(LAUNCH_DISABLE));
    }
    return status == PSD_OK
               ? spawn_environment_add(variables, &request->variables)
               : status;
}

/* ---- tasks -------------------------------------------------------------- */

/* What every host is planned with. */
struct planning {
    const struct plan_request *request;
    struct task_book book;
    struct auth_job job;
    char folder[LAUNCH_PATH_MAX];
    char *error;
    size_t error_size;
};

/* Its line, or the words that are the same for all. A ps runs that of the
 * first worker. */
static struct launch_words command_of(const struct plan_request *request,
                                      bool is_server, uint32_t rank)
{
    struct launch_words one = request->commands;

    if (request->shell) {
        one.words += !is_server && one.count > 1 ? rank : 0;
        one.count = 1;
    }
    return one;
}

static psd_status add_task(struct planning *planning,
                           struct launch_start *start, bool is_server,
                           uint32_t rank)
{
    const struct plan_request *request = planning->request;
    struct launch_words command = command_of(request, is_server, rank);
    struct task who = {.is_server = is_server, .index = rank};
    struct launch_task *task;
    void *tasks = start->tasks;
    psd_status status;

    if (mem_grow(&tasks, start->task_count, (size_t)start->task_count + 1,
                 sizeof(*start->tasks)) != PSD_OK) {
        return PSD_ENOMEM;
    }
    start->tasks = tasks;
    task = &start->tasks[start->task_count++];
    *task = (struct launch_task){.is_server = is_server, .rank = rank};
    status = task_variables(&planning->book, who, request->name,
                            request->tf_config, &task->variables);
    if (status != PSD_OK || (is_server && !request->cluster->roles)) {
        return status; /* without a command: psd server */
    }
    task->shell = request->shell;
    return task_command(&planning->book, who, &command, request->shell,
                        &task->command, planning->error, planning->error_size);
}

static psd_status add_tasks(struct planning *planning, uint32_t host,
                            struct launch_start *start)
{
    const struct cluster *cluster = planning->request->cluster;
    uint32_t servers = cluster->roles ? cluster->servers : start->servers;
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < servers && status == PSD_OK; i++) {
        if (cluster->server_seats[i].host == host) {
            status = add_task(planning, start, true, i);
        }
    }
    for (uint32_t i = 0; i < cluster->workers && status == PSD_OK; i++) {
        if (cluster->worker_seats[i].host == host) {
            status = add_task(planning, start, false, i);
        }
    }
    return status;
}

/* ---- one host ----------------------------------------------------------- */

/* Another host, for the route to it. */
static const char *peer_of(const struct cluster *cluster, uint32_t host)
{
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        if (i != host && !cluster->hosts[i].local) {
            return cluster->hosts[i].name;
        }
    }
    return cluster->hosts[host == 0 && cluster->host_count > 1 ? 1 : 0].name;
}

static uint32_t most_servers(const struct cluster *cluster)
{
    uint32_t most = 0;

    for (uint32_t host = 0; host < cluster->host_count; host++) {
        uint32_t count = 0;

        for (uint32_t i = 0; i < cluster->servers; i++) {
            count += cluster->server_seats[i].host == host;
        }
        most = count > most ? count : most;
    }
    return most;
}

/* Ports that each server has for its own; UINT32_MAX: any number. */
static uint32_t ports_each(const struct plan_request *request)
{
    const struct cluster *cluster = request->cluster;
    bool tcp = strcmp(request->settings->transport, "tcp") == 0 ||
               cluster->host_count > 1;
    uint16_t first;
    uint16_t last;

    if (!tcp || !settings_ports(request->settings->ports, &first, &last) ||
        first == 0) {
        return UINT32_MAX;
    }
    return (last - first + 1u) / most_servers(cluster);
}

/* As told; else what the workers ask for, as far as it can be had. */
static void set_threads(const struct plan_request *request,
                        struct launch_start *start)
{
    uint32_t most = SETTINGS_THREADS_MAX;

    start->threads = (uint32_t)request->settings->threads;
    start->threads_max = start->threads;
    if (start->threads > 0) {
        return;
    }
    if (start->servers > 0) {
        uint32_t ports = ports_each(request);

        most = most < ports ? most : ports;
        most = most < WIRE_SHARDS_MAX / start->servers
                   ? most
                   : WIRE_SHARDS_MAX / start->servers;
    }
    start->threads = 1;
    start->threads_max = most > 0 ? most : 1;
}

static psd_status fill(struct planning *planning, uint32_t host,
                       struct launch_start *start)
{
    const struct plan_request *request = planning->request;
    const struct cluster *cluster = request->cluster;
    bool local = cluster->hosts[host].local;
    psd_status status;

    *start = (struct launch_start){
        .job = planning->job,
        .workers = cluster->workers,
        .servers = plan_servers(cluster),
        .hosts = cluster->host_count,
        .tee = (uint8_t)request->tee,
        .here = local,
        .silence_ms = local ? 0 : SUPERVISE_SILENCE * request->dead_after_ms,
    };
    set_threads(request, start);
    snprintf(start->name, sizeof(start->name), "%s", request->name);
    snprintf(start->host, sizeof(start->host), "%s", cluster->hosts[host].name);
    snprintf(start->ports, sizeof(start->ports), "%s",
             request->settings->ports);
    snprintf(start->folder, sizeof(start->folder), "%s", planning->folder);
    snprintf(start->logs, sizeof(start->logs), "%s", request->logs);
    if (cluster->interface != NULL) {
        snprintf(start->interface, sizeof(start->interface), "%s",
                 cluster->interface);
    }
    if (cluster->virtualenv != NULL) {
        snprintf(start->virtualenv, sizeof(start->virtualenv), "%s",
                 cluster->virtualenv);
    }
    if (cluster->host_count > 1) {
        snprintf(start->peer, sizeof(start->peer), "%s",
                 peer_of(cluster, host));
    }
    status = add_variables(request, start);
    return status == PSD_OK ? add_tasks(planning, host, start) : status;
}

/* The addresses that commands may ask for. On this machine they are free ones,
 * on others nobody can know. */
static psd_status make_book(struct planning *planning, char *error,
                            size_t error_size)
{
    const struct cluster *cluster = planning->request->cluster;
    const char *ports = planning->request->settings->ports;
    char first[16];

    if (cluster->host_count == 1 && cluster->hosts[0].local &&
        cluster->roles && strcmp(ports, "0") == 0) {
        snprintf(first, sizeof(first), "%u",
                 port_find(TASK_PORT_FIRST,
                           cluster->workers + cluster->servers));
        ports = first;
    }
    return task_book_init(&planning->book, cluster, ports, error, error_size);
}

psd_status plan_make(const struct plan_request *request,
                     struct launch_start **starts_p, char *error,
                     size_t error_size)
{
    uint32_t count = request->cluster->host_count;
    struct launch_start *starts = mem_zalloc_array(count, sizeof(*starts));
    static struct planning planning;
    psd_status status = starts == NULL ? PSD_ENOMEM : PSD_OK;

    planning = (struct planning){
        .request = request, .error = error, .error_size = error_size};
    snprintf(error, error_size, "cannot prepare the job: out of memory");
    if (status == PSD_OK &&
        getcwd(planning.folder, sizeof(planning.folder)) == NULL) {
        snprintf(error, error_size, "there is no working directory: %s",
                 strerror(errno));
        status = PSD_ESYSTEM;
    }
    if (status == PSD_OK) {
        status = auth_random(&planning.job, sizeof(planning.job));
    }
    if (status == PSD_OK) {
        status = make_book(&planning, error, error_size);
    }
    for (uint32_t i = 0; i < count && status == PSD_OK; i++) {
        status = fill(&planning, i, &starts[i]);
    }
    task_book_fini(&planning.book);
    explicit_bzero(&planning.job, sizeof(planning.job));
    if (status != PSD_OK) {
        plan_fini(starts, count);
        return status;
    }
    *starts_p = starts;
    return PSD_OK;
}

void plan_fini(struct launch_start *starts, uint32_t count)
{
    for (uint32_t i = 0; starts != NULL && i < count; i++) {
        launch_start_fini(&starts[i]);
    }
    mem_free(starts);
}
