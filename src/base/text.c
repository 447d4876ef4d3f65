/* text.c: see text.h. */
#include "base/text.h"

#include <stdarg.h>
#include <stdio.h>

void text_add(struct text *text, const char *format, ...)
{
    size_t left = text->size - text->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text->data + text->used, left, format, args);
    va_end(args);
    if (n > 0) {
        text->used += (size_t)n < left ? (size_t)n : left - 1;
    }
}
