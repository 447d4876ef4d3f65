/*
 * clock.h: monotonic time in nanoseconds, replaceable so that the simulator
 * runs on a virtual clock. Any thread.
 */
#ifndef PSD_BASE_CLOCK_H
#define PSD_BASE_CLOCK_H

#include <stdint.h>

#define CLOCK_NS_PER_MS UINT64_C(1000000)
#define CLOCK_NS_PER_S UINT64_C(1000000000)

uint64_t clock_ns(void);

/* Tests: this thread reads `*now` instead; NULL gives the real clock back. */
void clock_replace(const uint64_t *now);

#endif
