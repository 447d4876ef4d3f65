/*
 * fuzz_config.c: any bytes, as a cluster file. What is accepted is a cluster
 * whose names are safe in a command line and whose seats have hosts; what is
 * refused leaves settings as they were and has a sentence of one line.
 */
#include "base/log.h"
#include "fuzz.h"
#include "config/config.h"
#include "config/task.h"
#include "member/settings.h"

#define ROWS_MAX 32

static void check_line(const char *text)
{
    for (; *text != '\0'; text++) {
        PSD_ASSERT((unsigned char)*text >= ' ');
        PSD_ASSERT((unsigned char)*text < 0x7f);
    }
}

static void check_cluster(const struct cluster *cluster)
{
    char error[256];

    PSD_ASSERT(cluster->workers > 0 && cluster->workers <= WIRE_RANKS_MAX);
    PSD_ASSERT(cluster->servers > 0 && cluster->servers <= WIRE_SHARDS_MAX);
    PSD_ASSERT(cluster->host_count <= CLUSTER_HOSTS_MAX);
    PSD_ASSERT(cluster->commands.count == 0 ||
               cluster->commands.count == cluster->workers);
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *host = &cluster->hosts[i];

        PSD_ASSERT(cluster_check_name(host->name, error, sizeof(error)) ==
                   PSD_OK);
        PSD_ASSERT(host->user == NULL ||
                   cluster_check_user(host->user, error, sizeof(error)) ==
                       PSD_OK);
    }
    for (uint32_t i = 0; i < cluster->workers; i++) {
        PSD_ASSERT(cluster->worker_seats[i].host < cluster->host_count);
    }
}

/* What the cluster's first worker would be told, with its commands. */
static void check_task(const struct cluster *cluster)
{
    struct launch_words variables = { .count = 0 };
    struct launch_words out = { .count = 0 };
    struct task_book book;
    struct task task = { .index = cluster->workers - 1 };
    char error[256];

    PSD_ASSERT(task_book_init(&book, cluster, "7000", error, sizeof(error)) ==
               PSD_OK);
    PSD_ASSERT(task_variables(&book, task, "j", true, &variables) == PSD_OK);
    (void)task_has_roles(cluster, &cluster->commands);
    if (task_command(&book, task, &cluster->commands, true, &out, error,
                     sizeof(error)) == PSD_OK) {
        PSD_ASSERT(out.count == cluster->commands.count);
        launch_words_fini(&out);
    }
    for (uint32_t i = 0; i < cluster->commands.count && i < 4; i++) {
        PSD_ASSERT(task_split(cluster->commands.words[i], 2, &out) == PSD_OK);
        PSD_ASSERT(out.count == 1 || out.count == 2);
        launch_words_fini(&out);
    }
    launch_words_fini(&variables);
    task_book_fini(&book);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct document document = { .path = "c.json",
                                 .text = (const char *)data,
                                 .size = size };
    struct option_source sources[ROWS_MAX] = { { .line = 0 } };
    struct psd_settings settings;
    struct psd_settings before;
    struct cluster cluster;
    char error[1024] = "";

    PSD_ASSERT(option_defaults(psd_settings_rows, &settings) == PSD_OK);
    before = settings;
    if (config_parse(&document, psd_settings_rows, &settings, sources,
                     &cluster, error, sizeof(error)) == PSD_OK) {
        check_cluster(&cluster);
        check_task(&cluster);
        PSD_ASSERT(settings_check(&settings, error, sizeof(error)) == PSD_OK);
        cluster_fini(&cluster);
    } else {
        PSD_ASSERT(strncmp(error, "c.json:", 7) == 0);
        check_line(error);
        PSD_ASSERT(settings.digest == before.digest);
        PSD_ASSERT(settings.block_size == before.block_size);
        PSD_ASSERT(settings.ports == before.ports);
    }
    return 0;
}
