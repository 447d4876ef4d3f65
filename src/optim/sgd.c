/* sgd.c: value -= rate * gradient. */
#include "optim/optim.h"

static void sgd_apply(const struct psd_knobs *knobs, uint64_t step,
                      float *value, const float *grad, float *const *slot,
                      size_t count)
{
    float rate = knobs->rate;

    (void)step;
    (void)slot;
    for (size_t i = 0; i < count; i++) {
        value[i] -= rate * grad[i];
    }
}

const struct psd_optim psd_optim_sgd = {
    .name = "sgd",
    .summary = "plain gradient descent",
    .slots = 0,
    .apply = sgd_apply,
};
