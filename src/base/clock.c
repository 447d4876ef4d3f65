/* clock.c: see clock.h. */
#define _GNU_SOURCE
#include "base/clock.h"

#include <stddef.h>
#include <time.h>

static _Thread_local const uint64_t *virtual_now;

uint64_t clock_ns(void)
{
    struct timespec now;

    if (virtual_now != NULL) {
        return *virtual_now;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

void clock_replace(const uint64_t *now)
{
    virtual_now = now;
}
