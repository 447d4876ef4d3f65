/*
 * slot.h: where a loaded library keeps the address of a function of another
 * one that it calls: the slots of its global offset table, and words of its
 * data that the loader filled in. Writing there changes what this one library
 * calls and nothing else in the process. ELF with RELA relocations.
 */
#ifndef PSD_MEMORY_SLOT_H
#define PSD_MEMORY_SLOT_H

#include <stdbool.h>

#include "poseidon.h"

#define SLOT_MAX 16 /* of one function in one library */

struct slot {
    void **at;
    bool sealed; /* read-only since the loader was done with it (RELRO) */
};

struct slot_list {
    struct slot slot[SLOT_MAX];
    unsigned count;
    void *previous; /* the function that they led to, never a stub of the
                     * library that would overwrite its slot */
};

/* Find the slots of `function` in the library whose file is named `library`,
 * or so and then a dot and a version. PSD_ENOSUP: not loaded, no slot, more
 * than SLOT_MAX, or tables that lead outside of it; `why` has the sentence. */
psd_status slot_find(const char *library, const char *function,
                     struct slot_list *list, char *why, size_t why_size);

/* Let all of them lead to `function`. PSD_ESYSTEM: a page cannot be written;
 * those before it stay as they were. */
psd_status slot_set(const struct slot_list *list, void *function);

#endif
