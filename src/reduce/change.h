/*
 * change.h: values that every worker changes on its own: what became of
 * numbers since they were last seen, `data` - `base`, and adding it. In the
 * type itself; halves are rounded after each of the two; whole numbers wrap.
 * Pure; any thread.
 */
#ifndef PSD_REDUCE_CHANGE_H
#define PSD_REDUCE_CHANGE_H

#include <stddef.h>

#include "poseidon.h"

struct change {
    const void *data;
    void *base;  /* NULL: data is the change itself */
    void *value; /* what it is added to */
    void *out;   /* may be data; otherwise nothing overlaps */
};

enum change_found {
    CHANGE_FINE,
    CHANGE_WILD,    /* the change has a NaN or an infinity */
    CHANGE_TOO_FAR, /* only the value has one now */
};

/* out = data - base, of `count` elements. */
void change_make(psd_dtype dtype, const struct change *change, size_t count);

/* value += data - base; then out and base are the value, too. All of it in one
 * pass, because it costs what the memory costs. */
enum change_found change_add(psd_dtype dtype, const struct change *change,
                             size_t count);

#endif
