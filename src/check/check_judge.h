/*
 * check_judge.h: what check_judge.c, which judges hosts, and check_reach.c,
 * which judges pairs, share; nobody else includes it. Pure.
 */
#ifndef PSD_CHECK_CHECK_JUDGE_H
#define PSD_CHECK_CHECK_JUDGE_H

#include "check/check.h"

#define JUDGE_TARGET_MAX  520 /* user, host and port for ssh */
#define JUDGE_COMMAND_MAX (JUDGE_TARGET_MAX + 512)

struct judge {
    struct check_result *result;
    psd_status status; /* the first failure stays */
    uint32_t pairs_told;
    uint32_t pairs_left;
};

/* One more problem of that host. */
void judge_add(struct judge *judge, bool warning, uint32_t host,
               const char *format, ...) __attribute__((format(printf, 4, 5)));

/* A command as it is typed here to run on the host. Returns `text`. */
const char *judge_there(const struct check_host *host, char *text, size_t size,
                        const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* `text`, when it is safe to be typed as it is; else `instead`. It may come
 * from a host that is not what it should be. */
const char *judge_plain(const char *text, const char *instead);

/* check_reach.c. */
void judge_pairs(struct judge *judge);

#endif
