/*
 * futex.h: sleeping on a word of memory, also between processes, and the
 * pause of a spinning core. Any thread.
 */
#ifndef PSD_BASE_FUTEX_H
#define PSD_BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleep while `*word` is `value`, at most `timeout_ns`. Spurious returns are
 * normal: the caller checks its condition again. */
void futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t timeout_ns);
/* Wake up to `count` sleepers. */
void futex_wake(_Atomic uint32_t *word, int count);

static inline void cpu_pause(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#endif
}

/* Processors that this process may use: affinity mask and cgroup quota,
 * whichever is smaller; at least 1. */
unsigned cpu_allowed(void);

#endif
