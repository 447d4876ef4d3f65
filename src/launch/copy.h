/*
 * copy.h: --copy: Poseidon itself as an archive, for hosts where it is not
 * installed: the programs and the library as they lie beside psd_run. One
 * thread.
 */
#ifndef PSD_LAUNCH_COPY_H
#define PSD_LAUNCH_COPY_H

#include <stddef.h>

#include "poseidon.h"

struct copy {
    char *data; /* a tar archive */
    size_t size;
    char id[64]; /* version and content: names the copy over there */
};

/* Pack what belongs to `psd` (a path that ends in bin/psd). On failure `error`
 * has the sentence. */
psd_status copy_init(struct copy *copy, const char *psd, char *error,
                     size_t error_size);
void copy_fini(struct copy *copy);

#endif
