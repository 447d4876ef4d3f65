/* add.c: value += what is pushed. For parameter differences, and counters. */
#include "optim/optim.h"

static void add_apply(const struct psd_knobs *knobs, uint64_t step,
                      float *value, const float *grad, float *const *slot,
                      size_t count)
{
    (void)knobs;
    (void)step;
    (void)slot;
    for (size_t i = 0; i < count; i++) {
        value[i] += grad[i];
    }
}

const struct psd_optim psd_optim_add = {
    .name = "add",
    .summary = "adds what is pushed",
    .slots = 0,
    .apply = add_apply,
};
