/*
 * stall_text.h: the sentences about a stall: who holds whom up, what it is
 * doing, its stack. Pure: text only.
 */
#ifndef PSD_REPORT_STALL_TEXT_H
#define PSD_REPORT_STALL_TEXT_H

#include "report/run.h"

/* "worker 1 (pid 4242) is stalled: ...", one line. */
void stall_sentence(struct run *run, const struct run_stall *stall, char *text,
                    size_t size);
/* The same, and what was seen of each. */
void stall_report(struct run *run, const struct run_stall *stall, char *text,
                  size_t size);
/* "worker 1 (pid 4242) moves again after 12.3 s". */
void stall_over(struct run *run, const struct run_stall *stall, char *text,
                size_t size);
/* "stopped", "sleeps": a letter of ps in words. */
const char *stall_state(uint8_t state);

#endif
