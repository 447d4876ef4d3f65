/*
 * dry.h: psd_run --dry-run: what would be started where, with which words and
 * which environment. Nothing is started; the secret is not shown.
 */
#ifndef PSD_LAUNCH_DRY_H
#define PSD_LAUNCH_DRY_H

#include <stdio.h>

#include "launch/supervise.h"

psd_status dry_print(const struct supervise_plan *plan, FILE *file);

#endif
