/*
 * cause.h: what an end means, in words: a signal, an exit code, a Python
 * traceback at the end of the log, want of memory. Pure: text only.
 */
#ifndef PSD_REPORT_CAUSE_H
#define PSD_REPORT_CAUSE_H

#include "report/run.h"

#define CAUSE_SIZE 512 /* room for a meaning */

/* "SIGSEGV", "SIGRTMIN+5", "signal 99". */
void cause_signal_name(unsigned signo, char *text, size_t size);

/* What it means that `process` ended as it did: "invalid memory access",
 * "command not found", "Python exception ValueError: ..."; "" when there is
 * nothing to say. */
void cause_text(const struct run_process *process, char *text, size_t size);

/* "3.2 GiB". */
void cause_memory(uint64_t bytes, char *text, size_t size);

#endif
