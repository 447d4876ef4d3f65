/*
 * run_settings.h: every option of psd_run, its own and those of every job, as
 * one table: the command line, the environment and the cluster file set the
 * same rows. One thread.
 */
#ifndef PSD_CONFIG_RUN_SETTINGS_H
#define PSD_CONFIG_RUN_SETTINGS_H

#include "base/option.h"
#include "member/settings.h"

#define RUN_SETTINGS_MAX 64 /* rows, with the last */

struct run_settings {
    struct psd_settings job; /* first: its rows have their own offsets */
    const char *cluster_config;
    const char *hostfile;
    uint64_t workers;
    uint64_t servers;
    const char *out;
    const char *name;
    struct option_list export;
    bool tf_config;
    const char *rsh;
    bool copy;
    const char *tee;
    bool tensorboard;
    double grace;
    double dead_after;
    double stall_after;
    const char *on_stall;
    uint64_t steps;
    bool quiet;
    bool verbose;
    bool detach;
    bool dry_run;
    bool print_config;
    bool help;
    bool version;
};

/* The table; ends with a NULL name. */
const struct option_row *run_settings_rows(void);

#endif
