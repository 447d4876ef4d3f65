/*
 * rerun.h: a command line as somebody can type it again: every word that a
 * shell would change is quoted. Pure.
 */
#ifndef PSD_REPORT_RERUN_H
#define PSD_REPORT_RERUN_H

#include "poseidon.h"

/* `count` words in one line; the caller frees it with mem_free. NULL: no
 * memory. */
char *rerun_line(int count, char *const *words);

#endif
