/*
 * sum.h: adding numbers of several ranks: the leaves, one function per type
 * and op, compiled once per instruction set. Elementwise and in the order
 * given, without fused multiply-add, so that every instruction set and every
 * cutting into blocks gives the same bits (a NaN stays a NaN, but which of two
 * is not said). Pure; any thread.
 */
#ifndef PSD_REDUCE_SUM_H
#define PSD_REDUCE_SUM_H

#include <stddef.h>

#include "poseidon.h"

struct sum_inputs {
    const void *const *data; /* in rank order */
    const double *weight;    /* MEAN: w_r, sums to 1; rounded once, here, to
                              * the type that accumulates */
    unsigned count;          /* at least 1 */
};

/* `count` elements of every input, combined by `op`, into every output.
 * Outputs may be inputs; otherwise nothing overlaps. float16 and bfloat16
 * accumulate in float32. MAX keeps a NaN.
 *
 * MEAN and SUM of the floating types also tell whether the result is finite:
 * returns 0 when all of it is, otherwise 1 + the first of the inputs that has
 * a NaN or an infinity, or inputs->count + 1 when none has and the sum was too
 * large for the type. It costs a look at the result; inputs are looked at only
 * where that is not finite. */
typedef unsigned sum_call(psd_dtype dtype, psd_op op,
                          const struct sum_inputs *inputs,
                          void *const *outputs, unsigned output_count,
                          size_t count);

/* The best for this machine. */
sum_call sum_elements;

/* The plain one, for the test that compares the two. */
sum_call sum_elements_base;

#endif
