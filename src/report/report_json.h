/*
 * report_json.h: report.json in the log folder: how a job went, for programs.
 * Written at the end of every job, a good one too. One thread.
 */
#ifndef PSD_REPORT_REPORT_JSON_H
#define PSD_REPORT_REPORT_JSON_H

#include "launch/supervise.h"
#include "report/run.h"

#define REPORT_JSON_NAME   "report.json"
#define REPORT_JSON_FORMAT 1 /* goes up when a key changes its meaning */

/* The document as text, valid UTF-8 whatever the logs had; mem_free does not
 * free it: free() does, it is the JSON library's. NULL: no memory. */
char *report_json_text(const struct run *run,
                       const struct supervise_plan *plan);

/* Write it under another name and rename it. A failure is a log line: the job
 * is what it is. */
void report_json_write(const struct run *run,
                       const struct supervise_plan *plan);

#endif
