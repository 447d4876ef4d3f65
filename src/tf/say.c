/*
 * say.c: base/log.h for the plug-in, which has base/mem.c in it but is not
 * part of libposeidon: its few lines (no memory) go to stderr.
 */
#include <stdarg.h>

#include "base/log.h"

void log_line(psd_log_level level, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (level <= PSD_LOG_WARN) {
        fprintf(stderr, "poseidon: %s\n", line);
    }
}

void log_assert(const char *condition, const char *file, int line)
{
    fprintf(stderr, "poseidon: broken assumption: %s at %s:%d\n", condition,
            file, line);
    abort();
}
