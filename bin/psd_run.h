/* psd_run.h: between psd_run.c, which reads the command line, and
 * psd_run_start.c, which makes a job of it. */
#ifndef PSD_BIN_PSD_RUN_H
#define PSD_BIN_PSD_RUN_H

#include "launch/plan.h"
#include "config/run_settings.h"

/* Say it on stderr; returns `code`. */
int psd_run_complain(int code, const char *sentence);

/* The request becomes a plan, and the plan a job, or a page about it; `argv`
 * is psd_run's own, for the report. Returns psd_run's exit code. */
int psd_run_start(const struct run_settings *settings, struct cluster *cluster,
                  struct plan_request *request, int argc, char **argv);

#endif
