/*
 * hostfile.h: the hosts of a job as OpenMPI and DeepSpeed have them, one line
 * each:
 *
 *     node1 slots=4 max_slots=8     # four workers
 *     ann@node2:2222                # one; the port is sshd's
 *
 * slots is 1 where it is not said; a host that comes again has more of them.
 * max_slots is checked and means nothing more. There are no servers: the
 * workers play the role. One thread.
 */
#ifndef PSD_CONFIG_HOSTFILE_H
#define PSD_CONFIG_HOSTFILE_H

#include "config/cluster.h"
#include "config/document.h"

/* Fill `cluster`, which cluster_fini frees. On PSD_EINVAL (file:line:column
 * and a sentence in `error`) and PSD_ENOMEM nothing is kept. */
psd_status hostfile_read(const char *path, struct cluster *cluster,
                         char *error, size_t error_size);
psd_status hostfile_parse(const struct document *document,
                          struct cluster *cluster, char *error,
                          size_t error_size);

#endif
