/*
 * log.h: one line per event, to one sink. Silent until a sink is set. Any
 * thread.
 *
 * error: an operation is lost; warn: survived; info: an event of the job;
 * debug: per object. Lines are lowercase, "noun: what happened value".
 */
#ifndef PSD_BASE_LOG_H
#define PSD_BASE_LOG_H

#include "poseidon.h"
#include "base/banned.h"

void log_line(psd_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(PSD_LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_line(PSD_LOG_WARN, __VA_ARGS__)
#define log_info(...) log_line(PSD_LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_line(PSD_LOG_DEBUG, __VA_ARGS__)

/* A sink that writes "psd: level: line" to stderr; what bin/ installs. */
void log_stderr(void *user, psd_log_level level, const char *line);

/* Programmer errors only: prints the condition and aborts, also in release
 * builds. Never for bytes of a peer, a file or a user. */
#define PSD_ASSERT(condition)                                   \
    do {                                                        \
        if (!(condition)) {                                     \
            log_assert(#condition, __FILE__, __LINE__);         \
        }                                                       \
    } while (0)
void log_assert(const char *condition, const char *file, int line)
    __attribute__((noreturn));

#endif
