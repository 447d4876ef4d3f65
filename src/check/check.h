/*
 * check.h: psd check: is everything there that a job on this cluster needs?
 * A probe on every host tells what it has; then every pair of hosts measures.
 * check.c and check_pairs.c find out, check_judge.c says what is wrong,
 * check_table.c and check_json.c show it. One thread.
 */
#ifndef PSD_CHECK_CHECK_H
#define PSD_CHECK_CHECK_H

#include <stdio.h>

#include "check/probe_message.h"
#include "launch/ssh.h"

#define CHECK_PAIR_MS    250 /* of bulk bytes for a pair, both directions */
#define CHECK_MATRIX_MAX 16  /* hosts; more are shown as a list */

struct check_plan {
    const struct cluster *cluster;
    struct ssh_way way;
    const char *ports;
    const char *logs; /* -o */
    bool progress;    /* stderr is a terminal: say how far it is */
};

enum check_key { CHECK_KEY_KNOWN, CHECK_KEY_UNKNOWN, CHECK_KEY_CHANGED };

struct check_host {
    const struct cluster_host *where;
    uint32_t workers; /* entries of the cluster on it */
    uint32_t servers;
    bool reached; /* a command could be run there */
    enum check_key key;
    char version[MESSAGE_BUILD_MAX]; /* of psd there; "": unknown */
    char reason[2048];               /* why there are no facts; "" */
    struct probe_facts *facts;       /* NULL: none */
    bool has_clock;
    double clock_s;       /* ahead of ours */
    double clock_error_s; /* at most so far off */
};

enum check_contact { CHECK_UNTRIED, CHECK_REACHED, CHECK_NOT_REACHED };

struct check_pair {
    enum check_contact contact;
    bool measured;
    double trip_s;
    double rate;  /* bytes a second; 0: unknown */
    char *reason; /* why it was not reached or measured; NULL */
};

struct check_problem {
    bool warning; /* a job can run */
    uint32_t host;
    char *text; /* one sentence; commands in it are in backquotes */
};

struct check_result {
    const struct check_plan *plan;
    uint32_t count;
    struct check_host *hosts; /* as in the cluster */
    struct check_pair *pairs; /* [from * count + to] */
    uint32_t problem_count;
    struct check_problem *problems; /* errors first */
    double seconds;
    bool interrupted;
};

static inline struct check_pair *check_pair(const struct check_result *result,
                                            uint32_t from, uint32_t to)
{
    return &result->pairs[(size_t)from * result->count + to];
}

/* Look at every host and measure; check_fini frees the result. PSD_ENOMEM,
 * PSD_ESYSTEM with a log line. Keeps `plan`. */
psd_status check_run(const struct check_plan *plan,
                     struct check_result *result);
void check_fini(struct check_result *result);

/* Fill in the problems. PSD_ENOMEM. */
psd_status check_judge(struct check_result *result);
/* None that is more than a warning? */
bool check_is_well(const struct check_result *result);
/* The median over all measured pairs; 0: none. */
double check_median_rate(const struct check_result *result);

void check_print_table(const struct check_result *result, FILE *file);
/* PSD_ENOMEM. */
psd_status check_print_json(const struct check_result *result, FILE *file);

#endif
