/* passes.h: what the parts of e2e_passes share. */
#ifndef E2E_PASSES_H
#define E2E_PASSES_H

#include <stdio.h>
#include <stdlib.h>

#include "poseidon_step.h"

#define SLOTS 12

extern struct psd_session *session;
extern struct psd_step *step;
extern uint32_t rank;
extern uint32_t size;

#define CHECK(condition)                                                       \
    do {                                                                       \
        if (!(condition)) {                                                    \
            fprintf(stderr, "passes: rank %u: line %d: %s (%s)\n", rank,       \
                    __LINE__, #condition, psd_error(session));                 \
            psd_abort(session, 99, "passes: a check failed");                  \
            exit(99);                                                          \
        }                                                                      \
    } while (0)

/* An element of what rank r contributes. */
float value(uint32_t r, uint32_t pass, uint32_t slot, size_t i);

/* passes_sparse.c */
void sparse(void);
void mixed(void);

#endif
