/*
 * config.h: the cluster file of psd_run -c, JSON. Its keys are those of
 * Poseidon's manual, ours beside them, and every option of psd_run whose row
 * says so. What is wrong is told with file, line and column. One thread.
 */
#ifndef PSD_CONFIG_CONFIG_H
#define PSD_CONFIG_CONFIG_H

#include "base/option.h"
#include "config/cluster.h"
#include "config/document.h"

/* Read the file into `cluster`, which cluster_fini frees, and into those
 * settings that did not come from the command line (`sources`; NULL: none
 * did). Settings borrow from the cluster. On PSD_EINVAL (a sentence in
 * `error`) and PSD_ENOMEM nothing of the file is kept. */
psd_status config_read(const char *path, const struct option_row *rows,
                       void *settings, struct option_source *sources,
                       struct cluster *cluster, char *error,
                       size_t error_size);
/* The same for a document that is there already. */
psd_status config_parse(const struct document *document,
                        const struct option_row *rows, void *settings,
                        struct option_source *sources,
                        struct cluster *cluster, char *error,
                        size_t error_size);

/* The cluster as part of --print-config, like option_print. */
void config_print(const struct cluster *cluster, FILE *file);

#endif
