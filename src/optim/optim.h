/*
 * optim.h: how a server updates a value that it owns (store mode). A row is
 * one file; `slot` is `slots` arrays that are kept per block, zeroed at the
 * start. Pure; any thread.
 */
#ifndef PSD_OPTIM_OPTIM_H
#define PSD_OPTIM_OPTIM_H

#include "poseidon.h"

#define OPTIM_SLOTS_MAX 2

struct psd_knobs {
    float rate;
    float momentum;
};

struct psd_optim {
    const char *name;
    const char *summary;
    unsigned slots; /* arrays of state per block */
    /* Apply the mean gradient `grad` of step `step` to `value`. */
    void (*apply)(const struct psd_knobs *knobs, uint64_t step, float *value,
                  const float *grad, float *const *slot, size_t count);
};

extern const struct psd_optim psd_optim_add;
extern const struct psd_optim psd_optim_sgd;
extern const struct psd_optim psd_optim_momentum;

/* Every row there is; ends with NULL. */
extern const struct psd_optim *const psd_optims[];
const struct psd_optim *optim_find(const char *name); /* NULL: none */

#endif
