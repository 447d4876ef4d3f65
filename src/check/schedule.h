/*
 * schedule.h: who measures with whom, and when: a round-robin tournament.
 * Every pair meets once; in a round nobody is in two pairs. Pure.
 */
#ifndef PSD_CHECK_SCHEDULE_H
#define PSD_CHECK_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* 0 below two hosts. */
uint32_t schedule_rounds(uint32_t count);
/* Pairs of a round, with the one that may be missing. */
uint32_t schedule_slots(uint32_t count);
/* The pair in `slot` of `round`, the smaller first; false: there is none, for
 * somebody sits out when `count` is odd. */
bool schedule_pair(uint32_t count, uint32_t round, uint32_t slot,
                   uint32_t *a_p, uint32_t *b_p);

#endif
