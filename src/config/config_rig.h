/*
 * config_rig.h: options and texts of files for config_test.c and node_test.c.
 */
#ifndef PSD_CONFIG_CONFIG_RIG_H
#define PSD_CONFIG_CONFIG_RIG_H

#include "base/claim.h"
#include "config/config.h"
#include "member/settings.h"

struct settings {
    struct psd_settings job;
    const char *tee;
    double grace;
    uint64_t workers;
    struct option_list pass;
};

#define FIELD(name) offsetof(struct settings, name)

static const struct option_row rows[] = {
    { .name = "digest", .kind = OPTION_CHOICE, .offset = FIELD(job.digest),
      .initial = "rotate", .choices = "step|rotate|off", .job = true },
    { .name = "block-size", .kind = OPTION_SIZE,
      .offset = FIELD(job.block_size), .initial = "256K", .low = 4096,
      .high = 64 << 20, .job = true },
    { .name = "checksum", .kind = OPTION_FLAG, .offset = FIELD(job.checksum),
      .job = true },
    { .name = "ports", .kind = OPTION_TEXT, .offset = FIELD(job.ports),
      .initial = "0", .job = true },
    { .name = "tee", .kind = OPTION_CHOICE, .offset = FIELD(tee),
      .initial = "0", .choices = "0|all|none", .config = true },
    { .name = "grace", .kind = OPTION_DOUBLE, .offset = FIELD(grace),
      .initial = "3", .low = 0, .high = 3600, .config = true },
    { .name = "workers", .kind = OPTION_UINT, .offset = FIELD(workers),
      .initial = "1" },
    { .name = "pass", .letter = 'x', .kind = OPTION_LIST,
      .offset = FIELD(pass), .config = true },
    { .name = NULL },
};

#define ROWS (CLAIM_COUNT(rows) - 1)
#define NODES "\"worker_nodes\":[\"a\",\"b\"],\"server_nodes\":[\"a\"]"

static char error[1024];

struct read {
    struct settings settings;
    struct option_source sources[ROWS];
    struct cluster cluster;
};

static inline psd_status parse_bytes(struct read *read, const char *text,
                                     size_t size)
{
    struct document document = { .path = "c.json",
                                 .text = text,
                                 .size = size };

    *read = (struct read){ .cluster.workers = 77 };
    error[0] = '\0';
    assert_int_equal(option_defaults(rows, &read->settings), PSD_OK);
    return config_parse(&document, rows, &read->settings, read->sources,
                        &read->cluster, error, sizeof(error));
}

static inline void parse(struct read *read, const char *text)
{
    if (parse_bytes(read, text, strlen(text)) != PSD_OK) {
        fail_msg("%s: %s", text, error);
    }
}

static inline void fini(struct read *read)
{
    option_fini(rows, &read->settings);
    cluster_fini(&read->cluster);
}

/* The seats with their hosts and GPUs, with blanks between. */
static inline const char *seats(const struct cluster *cluster, bool servers)
{
    static char text[4000];
    uint32_t count = servers ? cluster->servers : cluster->workers;
    size_t used = 0;

    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < sizeof(text); i++) {
        const struct cluster_seat *seat = servers ? &cluster->server_seats[i]
                                                  : &cluster->worker_seats[i];
        char host[600];

        cluster_host_text(&cluster->hosts[seat->host], host, sizeof(host));
        used += (size_t)snprintf(text + used, sizeof(text) - used,
                                 "%s%s%s%s%s", i == 0 ? "" : " ", host,
                                 seat->gpus == NULL ? "" : "(",
                                 seat->gpus == NULL ? "" : seat->gpus,
                                 seat->gpus == NULL ? "" : ")");
    }
    return text;
}

static inline void refused_bytes(const char *text, size_t size,
                                 const char *part)
{
    struct read read;

    if (parse_bytes(&read, text, size) != PSD_EINVAL) {
        fail_msg("'%s' is taken", text);
    }
    if (strstr(error, part) == NULL) {
        fail_msg("'%s' is not in '%s' of %s", part, error, text);
    }
    for (const char *c = error; *c != '\0'; c++) {
        assert_in_range(*c, ' ', '~');
    }
    assert_int_equal(read.cluster.workers, 77);
    assert_string_equal(read.settings.job.digest, "rotate");
    assert_int_equal(read.settings.pass.count, 0);
    assert_int_equal(read.sources[0].origin, OPTION_FROM_DEFAULT);
}

static inline void refused(const char *text, const char *part)
{
    refused_bytes(text, strlen(text), part);
}

#endif
