/*
 * check_state.h: what check.c, which reaches the hosts, and check_pairs.c,
 * which lets them measure, share; nobody else includes it.
 */
#ifndef PSD_CHECK_CHECK_STATE_H
#define PSD_CHECK_CHECK_STATE_H

#include "check/check.h"
#include "launch/helper.h"

enum visit_state {
    VISIT_WAITING,    /* not tried yet, or to be tried again */
    VISIT_CONNECTING, /* ssh is under way */
    VISIT_LOOKING,    /* its probe looks around */
    VISIT_READY,      /* its facts are there */
    VISIT_GONE,
};

/* One host, while it is looked at. */
struct visit {
    struct check *check;
    uint32_t index;
    struct check_host *host;
    enum visit_state state;
    struct helper helper;
    bool reaped;
    int status;
    unsigned tries;
    struct loop_timer timer;
    char failure[1024];
    char said[4096];
    unsigned clocks;   /* answers */
    uint64_t clock_ns; /* when it was asked, by the real-time clock */
    uint64_t asked_ns; /* and by the monotonic one */
    uint32_t next;     /* peers tried, counted from its own index */
    uint32_t open;     /* orders without a result */
    uint32_t partner;  /* in this round; UINT32_MAX: none */
    bool late;         /* owes something beyond the limit */
};

enum check_phase { PHASE_VISIT, PHASE_CLOCK, PHASE_REACH, PHASE_ROUNDS };

struct check {
    const struct check_plan *plan;
    struct check_result *result;
    struct psd_loop *loop;
    struct auth_job job;
    struct visit *visits;
    uint32_t count;
    uint32_t trying;
    int signal_fd;
    struct loop_watch signals;
    struct loop_timer beat;
    struct loop_timer limit; /* of the phase, or the round */
    enum check_phase phase;
    uint32_t *live; /* hosts that take part in rounds */
    uint32_t live_count;
    uint32_t round;
    psd_status status;
    bool done;
};

/* The host is lost: why. What it owed counts as failed. */
void visit_fail(struct visit *visit, const char *sentence);

/* check_pairs.c: every host is ready or gone. */
void pairs_start(struct check *check);
/* A frame of a probe that is ready. */
psd_status pairs_deliver(struct visit *visit,
                         const struct frame_header *header,
                         const void *payload);
/* A host was lost while the others measure. */
void pairs_lost(struct visit *visit);

/* A line on the terminal that the next one replaces. */
void check_progress(const struct check *check, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
