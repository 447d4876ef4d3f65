/* sched.c: see sched.h. */
#include "model/sched.h"

#include <stdbool.h>

#include "base/log.h"
#include "base/mem.h"

psd_status sched_reserve(struct sched *sched, uint32_t capacity)
{
    void *items = sched->items;
    psd_status status;

    if (capacity <= sched->capacity) {
        return PSD_OK;
    }
    status = mem_grow(&items, sched->capacity, capacity,
                      sizeof(*sched->items));
    if (status == PSD_OK) {
        sched->items = items;
        sched->capacity = capacity;
    }
    return status;
}

void sched_fini(struct sched *sched)
{
    mem_free(sched->items);
    *sched = (struct sched){ .items = NULL };
}

static bool before(const struct sched_item *a, const struct sched_item *b)
{
    return a->priority > b->priority ||
           (a->priority == b->priority && a->order < b->order);
}

void sched_put(struct sched *sched, uint32_t block, int32_t priority)
{
    struct sched_item item = { priority, block, sched->next_order++ };
    uint32_t at = sched->count++;

    PSD_ASSERT(at < sched->capacity);
    while (at > 0 && before(&item, &sched->items[(at - 1) / 2])) {
        sched->items[at] = sched->items[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    sched->items[at] = item;
}

uint32_t sched_peek(const struct sched *sched)
{
    return sched->count == 0 ? UINT32_MAX : sched->items[0].block;
}

void sched_pop(struct sched *sched)
{
    struct sched_item item;
    uint32_t at = 0;

    PSD_ASSERT(sched->count > 0);
    item = sched->items[--sched->count];
    for (;;) {
        uint32_t child = 2 * at + 1;

        if (child >= sched->count) {
            break;
        }
        if (child + 1 < sched->count &&
            before(&sched->items[child + 1], &sched->items[child])) {
            child++;
        }
        if (!before(&sched->items[child], &item)) {
            break;
        }
        sched->items[at] = sched->items[child];
        at = child;
    }
    sched->items[at] = item;
}
