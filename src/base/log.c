/*
 * log.c: the sink and the status sentences' neighbour; see log.h. The sink is
 * swapped under a lock that is also held while it runs, so that after
 * psd_log_set returns the old sink is never called again.
 */
#include "base/log.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>

#define LOG_LINE_MAX 1024

static pthread_mutex_t sink_lock = PTHREAD_MUTEX_INITIALIZER;
static psd_log_sink sink_call;
static void *sink_user;
static _Atomic int sink_level = -1;

void psd_log_set(psd_log_sink sink, void *user, psd_log_level level)
{
    pthread_mutex_lock(&sink_lock);
    sink_call = sink;
    sink_user = user;
    atomic_store(&sink_level, sink == NULL ? -1 : (int)level);
    pthread_mutex_unlock(&sink_lock);
}

void log_line(psd_log_level level, const char *format, ...)
{
    int saved = errno; /* for %m, and for the caller */
    char line[LOG_LINE_MAX];
    va_list args;

    if ((int)level > atomic_load_explicit(&sink_level, memory_order_relaxed)) {
        return;
    }
    va_start(args, format);
    errno = saved;
    vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    pthread_mutex_lock(&sink_lock);
    if (sink_call != NULL) {
        sink_call(sink_user, level, line);
    }
    pthread_mutex_unlock(&sink_lock);
    errno = saved;
}

void log_stderr(void *user, psd_log_level level, const char *line)
{
    static const char *const names[] = { "error", "warning", "info", "debug" };

    (void)user;
    fprintf(stderr, "psd: %s: %s\n", names[level], line);
}

void log_assert(const char *condition, const char *file, int line)
{
    fprintf(stderr, "psd: broken assumption: %s at %s:%d\n", condition, file,
            line);
    abort();
}
