/* schedule.c: see schedule.h. The circle method: the last player stays, the
 * others move on by one place each round, and who faces whom plays. */
#include "check/schedule.h"

uint32_t schedule_rounds(uint32_t count)
{
    return count < 2 ? 0 : count + (count & 1u) - 1;
}

uint32_t schedule_slots(uint32_t count)
{
    return count < 2 ? 0 : (count + 1) / 2;
}

bool schedule_pair(uint32_t count, uint32_t round, uint32_t slot,
                   uint32_t *a_p, uint32_t *b_p)
{
    uint32_t rounds = schedule_rounds(count); /* places that move */
    uint32_t a = (round + slot) % rounds;
    uint32_t b = slot == 0 ? rounds : (round + rounds - slot) % rounds;

    if (a >= count || b >= count) {
        return false; /* against the empty place */
    }
    *a_p = a < b ? a : b;
    *b_p = a < b ? b : a;
    return true;
}
