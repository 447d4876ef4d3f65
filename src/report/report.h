/*
 * report.h: the sentences about how a job ended. Pure: text only.
 */
#ifndef PSD_REPORT_REPORT_H
#define PSD_REPORT_REPORT_H

#include "report/run.h"

#define REPORT_LINES 20    /* of the culprit's output */
#define REPORT_SIZE  32768 /* room for a report */
#define REPORT_SENTENCE 1024 /* room for how one process ended */

/* "worker 1 (pid 4242 on b)"; without the host when that is this one. */
void report_name(const struct run_process *process, char *text, size_t size);

/* "worker 1 (pid 4242) was killed by signal 11 (SIGSEGV): invalid memory
 * access". */
void report_exit(const struct run_process *process, char *text, size_t size);

/* Where the last lines of `tail` begin, REPORT_LINES at most. */
const char *report_tail(const char *tail);

/* The whole report of a failure: culprit, its last lines, victims, logs, and
 * how to go on. */
void report_failure(const struct run *run, char *text, size_t size);

/* One line about a job that went well. */
void report_success(const struct run *run, char *text, size_t size);

#endif
