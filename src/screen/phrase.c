/* phrase.c: see phrase.h. */
#include "screen/phrase.h"

#include <inttypes.h>

#include "base/banned.h"
#include "base/clock.h"

void phrase_bytes(double bytes, char *text, size_t size)
{
    static const char *const units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    size_t unit = 0;

    while (bytes >= 999.5 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        bytes /= 1000.0;
        unit++;
    }
    snprintf(text, size, unit == 0 || bytes >= 99.95 ? "%.0f %s" : "%.1f %s",
             bytes, units[unit]);
}

void phrase_time(uint64_t time_ns, char *text, size_t size)
{
    double ms = (double)time_ns / (double)CLOCK_NS_PER_MS;

    if (ms < 0.9995) {
        snprintf(text, size, "%.0f us", ms * 1000.0);
    } else if (ms < 9.95) {
        snprintf(text, size, "%.1f ms", ms);
    } else if (ms < 999.5) {
        snprintf(text, size, "%.0f ms", ms);
    } else {
        snprintf(text, size, ms < 9995 ? "%.2f s" : "%.1f s", ms / 1000.0);
    }
}

void phrase_eta(double seconds, char *text, size_t size)
{
    uint64_t s = seconds < 1e9 ? (uint64_t)seconds : UINT64_C(1000000000);

    if (s < 100) {
        snprintf(text, size, "%" PRIu64 " s", s);
    } else if (s < 100 * 60) {
        snprintf(text, size, "%" PRIu64 " min", (s + 30) / 60);
    } else if (s < 48 * 3600) {
        snprintf(text, size, "%" PRIu64 " h %02" PRIu64 " min", s / 3600,
                 s / 60 % 60);
    } else {
        snprintf(text, size, "%" PRIu64 " d %" PRIu64 " h", s / 86400,
                 s / 3600 % 24);
    }
}

void phrase_rate(double rate, char *text, size_t size)
{
    if (rate >= 1e6) {
        snprintf(text, size, "%.2f M", rate / 1e6);
    } else {
        snprintf(text, size, rate < 99.5 ? "%.1f" : "%.0f", rate);
    }
}
