/*
 * alone.h: a job of Python programs that no worker has joined: they ran, but
 * each for itself. Only the launcher can say so. Pure.
 */
#ifndef PSD_REPORT_ALONE_H
#define PSD_REPORT_ALONE_H

#include "report/run.h"

/* Does the command run Python? `*flag_p` is 'I', 'S' or 'E' when it does so
 * by an option that switches sitecustomize or PYTHONPATH off, else 0. */
bool alone_is_python(char *const *command, uint32_t count, bool shell,
                     char *flag_p);
/* The sentence about a job that went well; false: there is nothing to say. */
bool alone_text(const struct run *run, char *const *command, uint32_t count,
                bool shell, char *text, size_t size);

#endif
