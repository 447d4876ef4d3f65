/* batch.c: see batch.h. */
#include "master/batch.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "master/differ.h"

psd_status batch_init(struct batch *batch, uint32_t workers)
{
    *batch = (struct batch){ .workers = workers };
    batch->sides = mem_zalloc_array(workers, sizeof(*batch->sides));
    return batch->sides == NULL ? PSD_ENOMEM : PSD_OK;
}

void batch_clear(struct batch *batch)
{
    for (uint32_t i = 0; i < batch->workers; i++) {
        mem_free(batch->sides[i].payload);
        batch->sides[i] = (struct batch_side){ .in = false };
    }
    batch->count = 0;
}

void batch_fini(struct batch *batch)
{
    if (batch->sides != NULL) {
        batch_clear(batch);
    }
    mem_free(batch->sides);
    *batch = (struct batch){ .workers = 0 };
}

const struct batch_side *batch_first(const struct batch *batch)
{
    return &batch->sides[batch->first];
}

psd_status batch_take(struct batch *batch, uint32_t rank, uint32_t number,
                      const void *payload, size_t size)
{
    struct batch_side *side = &batch->sides[rank];
    const struct batch_side *first = batch_first(batch);

    if (side->in) {
        log_error("master: worker %" PRIu32 " registers twice at once", rank);
        return PSD_EPROTO;
    }
    if (batch->count == 0 || size != first->size ||
        memcmp(payload, first->payload, size) != 0) {
        side->payload = mem_zalloc(size);
        if (side->payload == NULL) {
            return PSD_ENOMEM;
        }
        memcpy(side->payload, payload, size);
    }
    if (batch->count == 0) {
        batch->first = rank;
    }
    side->in = true;
    side->number = number;
    side->size = size;
    batch->count++;
    return PSD_OK;
}

/* A worker's bytes: its own, or those of the first. */
static const uint8_t *bytes_of(const struct batch *batch, uint32_t rank)
{
    const struct batch_side *side = &batch->sides[rank];

    return side->payload != NULL ? side->payload : batch_first(batch)->payload;
}

static bool same_bytes(const struct batch *batch, uint32_t a, uint32_t b)
{
    const uint8_t *left = bytes_of(batch, a);
    const uint8_t *right = bytes_of(batch, b);

    return left == right || (batch->sides[a].size == batch->sides[b].size &&
                             memcmp(left, right, batch->sides[a].size) == 0);
}

/* Decode the two and write down how they differ. */
static psd_status compare_pair(const struct batch *batch, struct differ *differ,
                               uint32_t left, uint32_t right)
{
    struct message_table tables[2];
    struct differ_side sides[2] = {
        { .rank = left, .table = &tables[0] },
        { .rank = right, .table = &tables[1] },
    };
    psd_status status;

    status = message_table_unpack(&tables[0], bytes_of(batch, left),
                                  batch->sides[left].size);
    if (status != PSD_OK) {
        return status;
    }
    status = message_table_unpack(&tables[1], bytes_of(batch, right),
                                  batch->sides[right].size);
    if (status == PSD_OK) {
        status = differ_compare(differ, &sides[0], &sides[1]);
        message_table_fini(&tables[1]);
    }
    message_table_fini(&tables[0]);
    return status;
}

psd_status batch_compare(const struct batch *batch, char *text, size_t size)
{
    const struct batch_side *zero = &batch->sides[0];
    struct differ differ;

    differ_init(&differ, text, size);
    for (uint32_t i = 1; i < batch->workers; i++) {
        const struct batch_side *side = &batch->sides[i];
        psd_status status;

        if (side->number != zero->number) {
            snprintf(text, size,
                     "worker 0 registers its batch %" PRIu32
                     " while worker %" PRIu32 " registers its batch %" PRIu32,
                     zero->number, i, side->number);
            return PSD_EDIFFER;
        }
        if (same_bytes(batch, 0, i)) {
            continue;
        }
        status = compare_pair(batch, &differ, 0, i);
        if (status != PSD_OK) {
            snprintf(text, size,
                     "worker 0 or %" PRIu32
                     " registered something that is no table of tensors",
                     i);
            return status;
        }
    }
    return differ_finish(&differ) == 0 ? PSD_OK : PSD_EDIFFER;
}
