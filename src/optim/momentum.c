/*
 * momentum.c: the heavy ball (Polyak 1964), in the form that PyTorch and
 * TensorFlow use: velocity = momentum * velocity + gradient;
 * value -= rate * velocity.
 */
#include "optim/optim.h"

static void momentum_apply(const struct psd_knobs *knobs, uint64_t step,
                           float *value, const float *grad, float *const *slot,
                           size_t count)
{
    float rate = knobs->rate;
    float momentum = knobs->momentum;
    float *velocity = slot[0];

    (void)step;
    for (size_t i = 0; i < count; i++) {
        velocity[i] = momentum * velocity[i] + grad[i];
        value[i] -= rate * velocity[i];
    }
}

const struct psd_optim psd_optim_momentum = {
    .name = "momentum",
    .summary = "gradient descent with a heavy ball",
    .slots = 1,
    .apply = momentum_apply,
};
