/*
 * slurm.h: the hosts of a job from the environment that Slurm gives to what
 * it starts: SLURM_JOB_NODELIST, such as node[01-03,07],gpu-[1-2]x[3-4], and
 * SLURM_TASKS_PER_NODE, such as 2(x3),1, or SLURM_NTASKS_PER_NODE, one number
 * for all; neither: one worker per node. There are no servers: the workers
 * play the role. One thread.
 */
#ifndef PSD_CONFIG_SLURM_H
#define PSD_CONFIG_SLURM_H

#include "config/cluster.h"

/* Are we inside an allocation (SLURM_JOB_ID)? */
bool slurm_is_here(void);

/* Fill `cluster`, which cluster_fini frees, from the environment. PSD_EINVAL
 * with a sentence that names the variable, and PSD_ENOMEM: nothing is kept. */
psd_status slurm_read(struct cluster *cluster, char *error,
                      size_t error_size);
/* The same from the texts of the three variables; the last two may be NULL. */
psd_status slurm_parse(const char *nodes, const char *tasks, const char *each,
                       struct cluster *cluster, char *error,
                       size_t error_size);

#endif
