/*
 * claim.h: what the tests share: cmocka with the headers that it wants before
 * it, numbers from a seed, and a child that is expected to abort.
 */
#ifndef PSD_BASE_CLAIM_H
#define PSD_BASE_CLAIM_H

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

/* Are these sanitizers in this build? */
#if defined(__SANITIZE_THREAD__)
#define CLAIM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define CLAIM_TSAN 1
#endif
#endif
#ifndef CLAIM_TSAN
#define CLAIM_TSAN 0
#endif

#define CLAIM_COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A well mixed function of `x` (splitmix64). */
static inline uint64_t claim_mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

/* Does `call` end its process by abort? */
static inline bool claim_aborts(void (*call)(void))
{
    int status = 0;
    pid_t child = fork();

    if (child == 0) {
        struct rlimit no_core = { 0, 0 };

        setrlimit(RLIMIT_CORE, &no_core);
        if (freopen("/dev/null", "w", stderr) != NULL) {
            call();
        }
        _exit(0);
    }
    return child > 0 && waitpid(child, &status, 0) == child &&
           WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

#endif
