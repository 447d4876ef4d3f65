/* optim.c: the table; see optim.h. */
#include "optim/optim.h"

#include <string.h>

const struct psd_optim *const psd_optims[] = {
    &psd_optim_add,
    &psd_optim_sgd,
    &psd_optim_momentum,
    NULL,
};

const struct psd_optim *optim_find(const char *name)
{
    for (const struct psd_optim *const *row = psd_optims; *row != NULL;
         row++) {
        if (strcmp((*row)->name, name) == 0) {
            return *row;
        }
    }
    return NULL;
}
