/* futex.c: see futex.h. */
#define _GNU_SOURCE
#include "base/futex.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns)
{
    struct timespec timeout = {
        .tv_sec = (time_t)(timeout_ns / 1000000000u),
        .tv_nsec = (long)(timeout_ns % 1000000000u),
    };

    (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAIT, value, &timeout,
                  NULL, 0);
}

void futex_wake(_Atomic uint32_t *word, int count)
{
    (void)syscall(SYS_futex, (uint32_t *)word, FUTEX_WAKE, count, NULL, NULL,
                  0);
}

/* cgroup v2 writes "quota period" or "max period" into cpu.max. */
static unsigned quota_cpus(void)
{
    FILE *file = fopen("/sys/fs/cgroup/cpu.max", "re");
    unsigned long quota = 0;
    unsigned long period = 0;
    unsigned cpus = UINT_MAX;

    if (file == NULL) {
        return cpus;
    }
    if (fscanf(file, "%lu %lu", &quota, &period) == 2 && period > 0) {
        cpus = (unsigned)((quota + period - 1) / period);
    }
    fclose(file);
    return cpus == 0 ? 1 : cpus;
}

unsigned cpu_allowed(void)
{
    cpu_set_t set;
    unsigned mask = 1;
    unsigned quota = quota_cpus();

    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        mask = (unsigned)CPU_COUNT(&set);
    }
    return quota < mask ? quota : mask;
}
