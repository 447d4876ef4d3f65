/*
 * plan.h: from psd_run's command line and cluster to what the agent of each
 * host is told: commands, environment, secret. One thread.
 */
#ifndef PSD_LAUNCH_PLAN_H
#define PSD_LAUNCH_PLAN_H

#include "config/cluster.h"
#include "launch/launch_message.h"
#include "member/settings.h"

struct plan_request {
    const struct cluster *cluster;
    const char *name; /* of the job */
    enum launch_tee tee;
    const struct psd_settings *settings;
    const char *logs; /* log folder, as seen from the working directory */
    uint32_t dead_after_ms;
    bool shell;                    /* `commands` are lines for sh -c: one for */
    struct launch_words commands;  /* all, or one per worker; else the words */
    bool tf_config;                /* TF_CONFIG for everybody */
    struct launch_words variables; /* -x: NAME=value */
};

/* Do servers run as processes of their own? Not when workers and servers are
 * on the same hosts: then the workers play the role. */
uint32_t plan_servers(const struct cluster *cluster);

/* One START for each host of the cluster, with a fresh secret; one without
 * tasks has nothing to do. On failure `error` has the sentence. plan_fini
 * frees them. */
psd_status plan_make(const struct plan_request *request,
                     struct launch_start **starts_p, char *error,
                     size_t error_size);
void plan_fini(struct launch_start *starts, uint32_t count);

#endif
