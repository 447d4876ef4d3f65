/*
 * stall.h: who holds the others up. A wait that lasts longer than the limit is
 * looked into, whoever it is that everybody waits for:
 *
 *     psd_open, psd_register   the master itself knows who is missing
 *     a tensor, psd_join       a worker says that it is STUCK; everybody is
 *                              asked (WHO) and answers for itself; who has not
 *                              done its part, or does not answer, is named
 *     nothing                  a worker of which nothing is heard is asked too
 *
 * What is found goes to psd_run (STALL) once, and once more when it is over.
 * Nobody is waited for because all compute: a worker that computes does not
 * wait. One thread; time is a parameter.
 */
#ifndef PSD_MASTER_STALL_H
#define PSD_MASTER_STALL_H

#include "launch/stall_message.h"
#include "wire/standing.h"

#define STALL_STEPS 31 /* the latest ones, for the median */

/* One member. */
struct stall_seat {
    uint64_t heard_ns;          /* the last frame of it; 0: none */
    struct message_stuck stuck; /* what it waits for */
    uint64_t since_ns;
    bool asked;
    bool answered;
    struct message_standing standing;
    uint64_t step; /* the last that it reported */
    uint64_t step_ns;
};

struct stall {
    uint64_t after_ns; /* 0: by the rule of master.h */
    uint32_t count;    /* members */
    struct stall_seat *seats; /* workers, then servers */
    uint64_t tick_ns;         /* of the last look */
    uint64_t here_ns; /* since when psd_open or psd_register is waited for */
    uint64_t here_key; /* which of them */
    /* The question that is out. */
    bool asking;
    uint32_t question; /* its number */
    uint64_t asked_ns;
    uint32_t trigger; /* the member on whose account it was asked */
    struct message_who who;
    /* What psd_run was told and is not over. */
    bool told;
    struct launch_stall report;
    uint64_t told_key; /* here_key then */
    uint64_t since_ns;
    uint64_t told_ns;
    /* How long steps take. */
    uint64_t steps_ns[STALL_STEPS];
    uint32_t step_count; /* of all that were seen */
};

psd_status stall_init(struct stall *stall, uint32_t workers, uint32_t servers);
void stall_fini(struct stall *stall);

void stall_heard(struct stall *stall, uint32_t member, uint64_t now_ns);
/* A worker has reported that it is at `step`. */
void stall_step(struct stall *stall, uint32_t rank, uint64_t step,
                uint64_t now_ns);
/* A wait that lasts longer is a stall. */
uint64_t stall_limit(const struct stall *stall);

#endif
