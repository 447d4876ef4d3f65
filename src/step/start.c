/*
 * start.c: registering what was announced, and the same start: every worker
 * gets the bits of rank 0. Large values go through their slots' tensors, small
 * ones and those of another type together, so that a model of many small
 * parts does not pay a round trip for each. See step.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "step/step.h"

#define ALONE_MIN 32768 /* bytes that go by themselves */
#define BITS_SIZE (STEP_BITS_WORDS * sizeof(uint64_t))

/* ---- registering ------------------------------------------------------- */

static psd_status header_room(struct psd_step *step, uint32_t capacity)
{
    uint64_t *header;

    if (capacity == step->capacity) {
        return PSD_OK;
    }
    header = mem_zalloc_array(agree_words(capacity), sizeof(*header));
    if (header == NULL) {
        return PSD_ENOMEM;
    }
    mem_free(step->header);
    step->header = header;
    step->capacity = capacity;
    return PSD_OK;
}

static psd_status register_batch(struct psd_step *step, uint32_t first,
                                 uint32_t count, struct psd_spec *specs,
                                 psd_tensor *tensors)
{
    uint32_t capacity = agree_capacity(step->count);
    char name[64];
    psd_status status;

    snprintf(name, sizeof(name), "step/header/%" PRIu32, capacity);
    specs[0] = (struct psd_spec){.name = name,
                                 .dtype = PSD_INT64,
                                 .count = agree_words(capacity),
                                 .priority = INT32_MAX};
    specs[1] = (struct psd_spec){
        .name = "step/bits", .dtype = PSD_INT64, .count = STEP_BITS_WORDS};
    for (uint32_t i = 0; i < count; i++) {
        const struct step_slot *slot = step->slots[first + i];

        specs[2 + i] = (struct psd_spec){.name = slot->name,
                                         .dtype = slot->dtype,
                                         .count = slot->count,
                                         .priority = slot->priority};
    }
    status = psd_register(step->session, specs, count + 2, tensors);
    if (status != PSD_OK) {
        return step_check(step, status);
    }
    status = header_room(step, capacity);
    if (status != PSD_OK) {
        return step_fail(step, status, "no memory for the header of a pass");
    }
    step->header_tensor = tensors[0];
    step->bits_tensor = tensors[1];
    pthread_mutex_lock(&step->lock);
    for (uint32_t i = 0; i < count; i++) {
        step->slots[first + i]->tensor = tensors[2 + i];
    }
    step->registered = first + count;
    pthread_mutex_unlock(&step->lock);
    return PSD_OK;
}

psd_status step_register(struct psd_step *step)
{
    uint32_t first = step->registered;
    uint32_t count = step->count - first;
    struct psd_spec *specs = mem_zalloc_array(count + 2, sizeof(*specs));
    psd_tensor *tensors = mem_zalloc_array(count + 2, sizeof(*tensors));
    psd_status status;

    if (specs == NULL || tensors == NULL) {
        status = step_fail(step, PSD_ENOMEM,
                           "no memory to register %" PRIu32 " slots", count);
    } else {
        status = register_batch(step, first, count, specs, tensors);
    }
    mem_free(specs);
    mem_free(tensors);
    return status;
}

/* ---- do all start from the same list? ---------------------------------- */

struct start {
    void *const *data;
    const uint64_t *size;
    uint32_t count;
};

/* What this worker says about a slot: its size + 1; 0: left out. */
static uint64_t said(const struct start *start, uint32_t slot)
{
    return slot < start->count && start->data[slot] != NULL
               ? start->size[slot] + 1
               : 0;
}

/* Or-ed over all workers, a number and its complement have no bit in common
 * if and only if all gave the same number. */
static bool differs(const uint64_t *pair)
{
    return (pair[0] & pair[1]) != 0;
}

static psd_status or_all(struct psd_step *step, psd_tensor tensor, void *words)
{
    return step_check(
        step, psd_push_pull(step->session, tensor, words, 1, PSD_OP_OR, NULL));
}

static psd_status name_difference(struct psd_step *step,
                                  const struct start *start)
{
    const uint32_t most = STEP_BITS_WORDS / 2;
    uint64_t *words = (void *)step->bits;

    for (uint32_t from = 0; from < step->registered; from += most) {
        psd_status status;

        memset(words, 0, BITS_SIZE);
        for (uint32_t i = 0; i < most; i++) {
            words[2 * i] = said(start, from + i);
            words[2 * i + 1] = ~words[2 * i];
        }
        status = or_all(step, step->bits_tensor, words);
        for (uint32_t i = 0; i < most && status == PSD_OK; i++) {
            uint32_t slot = from + i;

            if (differs(&words[2 * i]) && said(start, slot) == 0) {
                return step_fail(step, PSD_EDIFFER,
                                 "the workers do not start from the same "
                                 "model: rank %" PRIu32 " has no value for "
                                 "%s",
                                 step->rank, step->slots[slot]->name);
            }
            if (differs(&words[2 * i])) {
                return step_fail(step, PSD_EDIFFER,
                                 "the workers do not start from the same "
                                 "model: on rank %" PRIu32 " %s has %" PRIu64
                                 " bytes, another worker says otherwise",
                                 step->rank, step->slots[slot]->name,
                                 start->size[slot]);
            }
        }
        if (status != PSD_OK) {
            return status;
        }
    }
    return step_fail(step, PSD_EDIFFER,
                     "the workers do not start from the same model");
}

static psd_status check_same(struct psd_step *step, const struct start *start)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    psd_status status;

    for (uint32_t i = 0; i < step->registered; i++) {
        hash = (hash ^ said(start, i)) * UINT64_C(0x100000001b3);
        hash ^= hash >> 29;
    }
    memset(step->header, 0,
           agree_words(step->capacity) * sizeof(*step->header));
    step->header[0] = hash;
    step->header[1] = ~hash;
    status = or_all(step, step->header_tensor, step->header);
    if (status == PSD_OK && differs(step->header)) {
        return name_difference(step, start);
    }
    return status;
}

/* ---- the bits ---------------------------------------------------------- */

static bool goes_alone(const struct psd_step *step, const struct start *start,
                       uint32_t slot)
{
    return said(start, slot) != 0 && start->size[slot] >= ALONE_MIN &&
           start->size[slot] == step->slots[slot]->size;
}

struct cursor {
    uint32_t slot;
    uint64_t offset;
};

/* Copy the small values from `at` on into a packet, or out of it. */
static struct cursor packet_copy(struct psd_step *step,
                                 const struct start *start, struct cursor at,
                                 bool out)
{
    uint64_t used = 0;

    while (at.slot < step->registered && used < BITS_SIZE) {
        uint64_t left =
            said(start, at.slot) == 0 || goes_alone(step, start, at.slot)
                ? 0
                : start->size[at.slot] - at.offset;
        uint64_t now = left < BITS_SIZE - used ? left : BITS_SIZE - used;

        if (now > 0) {
            char *value = (char *)start->data[at.slot] + at.offset;

            memcpy(out ? value : step->bits + used,
                   out ? step->bits + used : value, now);
        }
        used += now;
        at.offset += now;
        if (now == left) {
            at = (struct cursor){at.slot + 1, 0};
        }
    }
    return at;
}

static psd_status send_all(struct psd_step *step, const struct start *start)
{
    struct cursor at = {0, 0};
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < step->registered && status == PSD_OK; i++) {
        if (goes_alone(step, start, i)) {
            status = psd_broadcast(step->session, step->slots[i]->tensor,
                                   start->data[i], 0);
        }
    }
    while (at.slot < step->registered && status == PSD_OK) {
        struct cursor end = at;

        if (step->rank == 0) {
            end = packet_copy(step, start, at, false);
        }
        status = psd_broadcast(step->session, step->bits_tensor, step->bits, 0);
        if (step->rank != 0 && status == PSD_OK) {
            end = packet_copy(step, start, at, true);
        }
        at = end;
    }
    return step_check(step, status);
}

psd_status psd_step_start(struct psd_step *step, void *const *data,
                          const uint64_t *size, uint32_t count)
{
    struct start start = {data, size, count};
    psd_status status = step_failed(step);

    if (status != PSD_OK) {
        return status;
    }
    if (step->stage != STEP_IDLE) {
        return step_refuse(step, "a pass is open: psd_step_finish ends it");
    }
    if (count > step->count) {
        return step_refuse(step,
                           "a start of %" PRIu32 " slots, there are "
                           "%" PRIu32,
                           count, step->count);
    }
    status = step_register(step);
    if (status != PSD_OK || step->alone) {
        return status;
    }
    step->bits = mem_zalloc(BITS_SIZE);
    if (step->bits == NULL) {
        return step_fail(step, PSD_ENOMEM, "no memory for a start");
    }
    status = check_same(step, &start);
    if (status == PSD_OK) {
        status = send_all(step, &start);
    }
    if (status == PSD_OK) { /* otherwise it may still be written to */
        mem_free(step->bits);
        step->bits = NULL;
    }
    return status;
}
