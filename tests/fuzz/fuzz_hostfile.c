/*
 * fuzz_hostfile.c: any bytes, as a hostfile, or, when the first byte is '!',
 * as two lines: the node list of Slurm, its tasks per node.
 */
#include "base/log.h"
#include "base/mem.h"
#include "fuzz.h"
#include "config/hostfile.h"
#include "config/slurm.h"

static void check(psd_status status, struct cluster *cluster,
                  const char *error)
{
    char wrong[256];

    if (status != PSD_OK) {
        PSD_ASSERT(error[0] != '\0');
        for (; *error != '\0'; error++) {
            PSD_ASSERT((unsigned char)*error >= ' ');
            PSD_ASSERT((unsigned char)*error < 0x7f);
        }
        return;
    }
    PSD_ASSERT(cluster->workers > 0 && cluster->workers <= WIRE_RANKS_MAX);
    PSD_ASSERT(cluster->servers == 0);
    PSD_ASSERT(cluster->host_count <= CLUSTER_HOSTS_MAX);
    for (uint32_t i = 0; i < cluster->host_count; i++) {
        const struct cluster_host *host = &cluster->hosts[i];

        PSD_ASSERT(cluster_check_name(host->name, wrong, sizeof(wrong)) ==
                   PSD_OK);
        PSD_ASSERT(host->user == NULL ||
                   cluster_check_user(host->user, wrong, sizeof(wrong)) ==
                       PSD_OK);
    }
    cluster_fini(cluster);
}

static void try_slurm(const uint8_t *data, size_t size)
{
    char *text = mem_zalloc(size + 1);
    struct cluster cluster;
    char error[512] = "";
    char *tasks;

    PSD_ASSERT(text != NULL);
    memcpy(text, data, size);
    tasks = strchr(text, '\n');
    if (tasks != NULL) {
        *tasks++ = '\0';
        tasks[strcspn(tasks, "\n")] = '\0';
    }
    check(slurm_parse(text, tasks, NULL, &cluster, error, sizeof(error)),
          &cluster, error);
    check(slurm_parse(text, NULL, tasks, &cluster, error, sizeof(error)),
          &cluster, error);
    mem_free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct document document = { .path = "hosts",
                                 .text = (const char *)data,
                                 .size = size };
    struct cluster cluster;
    char error[512] = "";

    if (size > 0 && data[0] == '!') {
        try_slurm(data + 1, size - 1);
        return 0;
    }
    check(hostfile_parse(&document, &cluster, error, sizeof(error)), &cluster,
          error);
    return 0;
}
