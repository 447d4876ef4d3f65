/*
 * report.h: the sentences about how a job ended. Pure: text only.
 */
#ifndef PSD_LAUNCH_REPORT_H
#define PSD_LAUNCH_REPORT_H

#include "launch/run.h"

#define REPORT_LINES 20    /* of the culprit's stderr */
#define REPORT_SIZE  32768 /* room for a report */

/* "worker 1 (pid 4242) was killed by signal 9 (SIGKILL)". */
void report_exit(const struct run_process *process, char *text, size_t size);

/* The whole report of a failure: culprit, its last lines, victims, logs. */
void report_failure(const struct run *run, char *text, size_t size);

/* One line about a job that went well. */
void report_success(const struct run *run, char *text, size_t size);

#endif
