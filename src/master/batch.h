/*
 * batch.h: one registration, from the first worker that hands it in to the
 * last. Batches are compared as bytes; only one that differs is kept and
 * decoded, to say how. One thread.
 */
#ifndef PSD_MASTER_BATCH_H
#define PSD_MASTER_BATCH_H

#include <stdbool.h>

#include "wire/message.h"

struct batch_side {
    bool in;
    uint32_t number;  /* which batch of its own this worker registers */
    uint8_t *payload; /* NULL: the same bytes as the first's */
    size_t size;
};

struct batch {
    uint32_t workers;
    uint32_t count; /* workers that are in; 0: none is registering */
    uint32_t first; /* rank of the first */
    struct batch_side *sides;
};

psd_status batch_init(struct batch *batch, uint32_t workers);
void batch_fini(struct batch *batch);

/* Copies what it needs of `payload`. PSD_EPROTO: this worker is in already. */
psd_status batch_take(struct batch *batch, uint32_t rank, uint32_t number,
                      const void *payload, size_t size);

/* Everybody is in: PSD_OK, or PSD_EDIFFER and the differences in `text`, or
 * why they could not be compared. */
psd_status batch_compare(const struct batch *batch, char *text, size_t size);

/* The bytes that all agree on. */
const struct batch_side *batch_first(const struct batch *batch);

/* Ready for the next registration. */
void batch_clear(struct batch *batch);

#endif
