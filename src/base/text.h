/*
 * text.h: a text that grows and stays within its memory; what does not fit is
 * cut. One thread.
 */
#ifndef PSD_BASE_TEXT_H
#define PSD_BASE_TEXT_H

#include <stddef.h>

struct text {
    char *data;
    size_t size; /* at least 1 */
    size_t used; /* without the ending NUL */
};

void text_add(struct text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
