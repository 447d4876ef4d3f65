/*
 * wild.h: numbers that are not finite. Pure; any thread.
 */
#ifndef PSD_REDUCE_WILD_H
#define PSD_REDUCE_WILD_H

#include "reduce/half.h"

/* Not 0 when the value is a NaN or an infinity: only a finite number less
 * itself is 0. Two instructions beside those that wait for memory. */
static inline uint32_t wild_f32(float value)
{
    return bits_of_float(value - value);
}

static inline uint64_t wild_f64(double value)
{
    double none = value - value;
    uint64_t bits;

    memcpy(&bits, &none, sizeof(bits));
    return bits;
}

/* Of a half without its sign: a NaN or an infinity begins here. */
#define WILD_F16 0x7c00
#define WILD_BF16 0x7f80

#endif
