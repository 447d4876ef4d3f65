/*
 * sparse.c: sparse gradients. Nobody knows beforehand how many rows the others
 * have, so that is asked first (one small MAX for all slots of the pass, and
 * everybody's samples); then indices and values are gathered as they are, in
 * rank order, and the values multiplied by w_r as reduce.c does. Gathered
 * tensors have a capacity of a power of two of rows, which their names carry:
 * more rows, other tensors. See step.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "model/model.h"
#include "reduce/sum.h"
#include "step/step.h"

#define ROWS_MIN   64 /* smallest capacity */
#define COUNTS_MIN 16 /* slots that are sparse in a pass, at first */
#define DIMS_MAX   8
#define NNZ_MAX    (UINT64_C(1) << 30)
#define WIDTH_MAX  (UINT64_C(1) << 30)

/* What MAX says about one slot. A number and its negative: equal on all
 * workers that have one if and only if the two maxima cancel. */
enum {
    COUNT_NNZ,
    COUNT_DIMS,
    COUNT_DIMS_LEAST,
    COUNT_WIDTH,
    COUNT_WIDTH_LEAST,
    COUNT_WORDS
};

struct step_sparse {
    /* Of this worker, in this pass. */
    const int64_t *indices;
    const void *values;
    uint64_t nnz;
    uint64_t dims;
    uint64_t width;

    /* What is registered. */
    uint64_t room; /* rows; 0: nothing */
    uint64_t room_dims;
    uint64_t room_width;
    psd_tensor index_tensor;
    psd_tensor value_tensor;

    /* The answer. */
    int64_t *got_indices; /* by rank: dims rows */
    int64_t *all_indices; /* dims rows of all; dims above 1 only */
    void *got_values;
    uint64_t *index_counts; /* by rank */
    uint64_t *value_counts;
    psd_ticket index_ticket;
    psd_ticket value_ticket;
    const int64_t *answer_indices;
    const void *answer_values;
    uint64_t answer_nnz;
};

static void answer_free(struct step_sparse *rows)
{
    mem_free(rows->got_indices);
    mem_free(rows->all_indices);
    mem_free(rows->got_values);
    mem_free(rows->index_counts);
    mem_free(rows->value_counts);
    rows->got_indices = NULL;
    rows->all_indices = NULL;
    rows->got_values = NULL;
    rows->index_counts = NULL;
    rows->value_counts = NULL;
}

void sparse_destroy(struct step_sparse *rows)
{
    if (rows != NULL) {
        answer_free(rows);
        mem_free(rows);
    }
}

/* Under lock. */
static struct step_sparse *rows_of(struct step_slot *slot)
{
    if (slot->rows == NULL) {
        slot->rows = mem_zalloc(sizeof(*slot->rows));
    }
    return slot->rows;
}

/* ---- the calls --------------------------------------------------------- */

static const char *wrong_with(const struct psd_step *step, uint32_t id,
                              const struct step_sparse *in)
{
    if (step->stage != STEP_OPEN) {
        return "there is no pass: psd_step_begin comes first";
    }
    if (step->slots[id]->kind != PSD_SLOT_GRADIENT) {
        return "only a gradient can be sparse";
    }
    if (in->dims == 0 || in->dims > DIMS_MAX || in->width == 0 ||
        in->width > WIDTH_MAX || in->nnz > NNZ_MAX ||
        (in->nnz > 0 && (in->indices == NULL || in->values == NULL))) {
        return "a sparse gradient has 1 to 8 dimensions of indices, up to "
               "2^30 entries of 1 to 2^30 elements, and memory for them";
    }
    return NULL;
}

/* Alone the answer is the input. */
static void answer_alone(const struct psd_step *step, struct step_slot *slot)
{
    slot->rows->answer_indices = slot->rows->indices;
    slot->rows->answer_values = slot->rows->values;
    slot->rows->answer_nnz = step->weight > 0 ? slot->rows->nnz : 0;
    slot->outcome = PSD_STEP_SPARSE;
}

psd_status psd_step_push_sparse(struct psd_step *step, uint32_t id,
                                const int64_t *indices, uint64_t nnz,
                                uint64_t index_dims, const void *values,
                                uint64_t width)
{
    const struct step_sparse in = {.indices = indices,
                                   .values = values,
                                   .nnz = nnz,
                                   .dims = index_dims,
                                   .width = width};
    const char *why = NULL;
    psd_status status;

    pthread_mutex_lock(&step->lock);
    status = step_take(step, id, &in, &why);
    if (status == PSD_OK) {
        why = wrong_with(step, id, &in);
        status = why == NULL ? PSD_OK : PSD_EINVAL;
    }
    if (status == PSD_OK && rows_of(step->slots[id]) == NULL) {
        status = PSD_ENOMEM;
        why = "no memory";
    }
    if (status == PSD_OK) {
        struct step_slot *slot = step->slots[id];

        slot->rows->indices = indices;
        slot->rows->values = values;
        slot->rows->nnz = nnz;
        slot->rows->dims = index_dims;
        slot->rows->width = width;
        slot->sparse = true;
        if (step->alone) {
            answer_alone(step, slot);
        }
    }
    pthread_mutex_unlock(&step->lock);
    return status == PSD_OK ? PSD_OK : step_refuse_slot(step, id, status, why);
}

psd_status psd_step_sparse_result(const struct psd_step *step, uint32_t id,
                                  const int64_t **indices_p,
                                  const void **values_p, uint64_t *nnz_p)
{
    const struct step_sparse *rows;

    if (id >= step->count || step->stage != STEP_IDLE ||
        step->slots[id]->outcome != PSD_STEP_SPARSE) {
        return PSD_EINVAL;
    }
    rows = step->slots[id]->rows;
    *indices_p = rows->answer_indices;
    *values_p = rows->answer_values;
    *nnz_p = rows->answer_nnz;
    return PSD_OK;
}

/* ---- how many rows ----------------------------------------------------- */

static uint32_t next_sparse(const struct psd_step *step, uint32_t from)
{
    return agree_next(step->header, step->capacity, AGREE_SPARSE, from);
}

static psd_status register_batch(struct psd_step *step,
                                 const struct psd_spec *specs, uint32_t count,
                                 psd_tensor *tensors)
{
    psd_status status = step_wait_sent(step);

    if (status == PSD_OK) {
        status = step_check(step,
                            psd_register(step->session, specs, count, tensors));
    }
    return status;
}

/* Room to ask about `count` slots at once. */
static psd_status counts_reserve(struct psd_step *step, uint32_t count)
{
    uint32_t room = COUNTS_MIN;
    char name[64];
    struct psd_spec specs[2] = {{.name = name, .dtype = PSD_INT64},
                                {.name = "step/weights",
                                 .dtype = PSD_FLOAT64,
                                 .kind = PSD_KIND_GATHER,
                                 .count = 1}};
    psd_tensor tensors[2];
    psd_status status;

    if (count <= step->counts_room) {
        return PSD_OK;
    }
    while (room < count) {
        room *= 2;
    }
    mem_free(step->counts);
    mem_free(step->weights);
    mem_free(step->weight_counts);
    step->counts =
        mem_zalloc_array((size_t)room * COUNT_WORDS, sizeof(*step->counts));
    step->weights = mem_zalloc_array(step->size, sizeof(*step->weights));
    step->weight_counts =
        mem_zalloc_array(step->size, sizeof(*step->weight_counts));
    if (step->counts == NULL || step->weights == NULL ||
        step->weight_counts == NULL) {
        return step_fail(step, PSD_ENOMEM, "no memory for sparse gradients");
    }
    snprintf(name, sizeof(name), "step/rows/%" PRIu32, room);
    specs[0].count = (uint64_t)room * COUNT_WORDS;
    status = register_batch(step, specs, 2, tensors);
    if (status == PSD_OK) {
        step->counts_tensor = tensors[0];
        step->weights_tensor = tensors[1];
        step->counts_room = room;
    }
    return status;
}

static void counts_fill(struct psd_step *step)
{
    int64_t *words = step->counts;

    for (uint64_t i = 0; i < (uint64_t)step->counts_room * COUNT_WORDS; i++) {
        words[i] = INT64_MIN;
    }
    for (uint32_t i = next_sparse(step, 0); i != UINT32_MAX;
         i = next_sparse(step, i + 1)) {
        const struct step_slot *slot = step->slots[i];

        if (slot->sparse) {
            words[COUNT_NNZ] = step->weight > 0 ? (int64_t)slot->rows->nnz : 0;
            words[COUNT_DIMS] = (int64_t)slot->rows->dims;
            words[COUNT_DIMS_LEAST] = -(int64_t)slot->rows->dims;
            words[COUNT_WIDTH] = (int64_t)slot->rows->width;
            words[COUNT_WIDTH_LEAST] = -(int64_t)slot->rows->width;
        }
        words += COUNT_WORDS;
    }
}

static psd_status counts_exchange(struct psd_step *step)
{
    struct psd_push_args args = {
        .data = step->counts, .weight = 1, .op = PSD_OP_MAX};
    psd_ticket counts_ticket = {0};
    psd_ticket weights_ticket = {0};
    psd_status status;

    counts_fill(step);
    status =
        psd_push(step->session, step->counts_tensor, &args, &counts_ticket);
    if (status == PSD_OK) {
        status =
            psd_gather(step->session, step->weights_tensor, &step->weight, 1,
                       step->weights, step->weight_counts, &weights_ticket);
    }
    if (status == PSD_OK) {
        status = psd_wait(step->session, counts_ticket, NULL);
    }
    if (status == PSD_OK) {
        status = psd_wait(step->session, weights_ticket, NULL);
    }
    return step_check(step, status);
}

/* ---- room for them ----------------------------------------------------- */

/* The answer's memory for rows->room rows of each worker. */
static psd_status answer_reserve(struct psd_step *step, struct step_slot *slot)
{
    struct step_sparse *rows = slot->rows;
    size_t most = (size_t)step->size * rows->room;

    answer_free(rows);
    rows->got_indices =
        mem_zalloc_array(most * rows->room_dims, sizeof(*rows->got_indices));
    rows->got_values =
        mem_zalloc_array(most * rows->room_width, dtype_size(slot->dtype));
    rows->index_counts =
        mem_zalloc_array(step->size, sizeof(*rows->index_counts));
    rows->value_counts =
        mem_zalloc_array(step->size, sizeof(*rows->value_counts));
    if (rows->room_dims > 1) {
        rows->all_indices = mem_zalloc_array(most * rows->room_dims,
                                             sizeof(*rows->all_indices));
    }
    return rows->got_indices == NULL || rows->got_values == NULL ||
                   rows->index_counts == NULL || rows->value_counts == NULL ||
                   (rows->room_dims > 1 && rows->all_indices == NULL)
               ? step_fail(step, PSD_ENOMEM,
                           "no memory for the sparse gradient of %s",
                           slot->name)
               : PSD_OK;
}

static psd_status rows_register(struct psd_step *step, uint32_t id)
{
    struct step_slot *slot = step->slots[id];
    struct step_sparse *rows = slot->rows;
    char names[2][96];
    struct psd_spec specs[2] = {
        {.name = names[0],
         .dtype = PSD_INT64,
         .kind = PSD_KIND_GATHER,
         .count = rows->room * rows->room_dims,
         .priority = slot->priority},
        {.name = names[1],
         .dtype = slot->dtype,
         .kind = PSD_KIND_GATHER,
         .count = rows->room * rows->room_width,
         .priority = slot->priority},
    };
    psd_tensor tensors[2];
    psd_status status;

    snprintf(names[0], sizeof(names[0]),
             "step/indices/%" PRIu32 "/%" PRIu64 "x%" PRIu64, id,
             rows->room_dims, rows->room);
    snprintf(names[1], sizeof(names[1]),
             "step/values/%" PRIu32 "/%" PRIu64 "x%" PRIu64, id, rows->room,
             rows->room_width);
    status = step_wait_sent(step);
    if (status != PSD_OK) {
        return status;
    }
    status = psd_register(step->session, specs, 2, tensors);
    if (status == PSD_EINVAL) {
        return step_fail(step, PSD_EINVAL,
                         "the sparse gradient of %s has up to %" PRIu64
                         " rows of %" PRIu64 " elements on one worker, too "
                         "many to gather from %" PRIu32 " workers: make it "
                         "dense, or the batch smaller (%s)",
                         slot->name, rows->room, rows->room_width, step->size,
                         psd_error(step->session));
    }
    if (status != PSD_OK) {
        return step_check(step, status);
    }
    rows->index_tensor = tensors[0];
    rows->value_tensor = tensors[1];
    return answer_reserve(step, slot);
}

/* Make room for what MAX has said about slot `id`. */
static psd_status rows_reserve(struct psd_step *step, uint32_t id,
                               const int64_t *words)
{
    struct step_slot *slot = step->slots[id];
    struct step_sparse *rows;
    uint64_t room = ROWS_MIN;

    if (words[COUNT_DIMS] != -words[COUNT_DIMS_LEAST] ||
        words[COUNT_WIDTH] != -words[COUNT_WIDTH_LEAST]) {
        return step_fail(step, PSD_EDIFFER,
                         "the sparse gradient of %s has other dimensions on "
                         "other workers",
                         slot->name);
    }
    rows = rows_of(slot);
    if (rows == NULL) {
        return step_fail(step, PSD_ENOMEM,
                         "no memory for the sparse gradient of %s", slot->name);
    }
    if ((uint64_t)words[COUNT_NNZ] <= rows->room &&
        (uint64_t)words[COUNT_DIMS] == rows->room_dims &&
        (uint64_t)words[COUNT_WIDTH] == rows->room_width) {
        return PSD_OK;
    }
    while (room < (uint64_t)words[COUNT_NNZ]) {
        room *= 2;
    }
    rows->room = room;
    rows->room_dims = (uint64_t)words[COUNT_DIMS];
    rows->room_width = (uint64_t)words[COUNT_WIDTH];
    return rows_register(step, id);
}

/* ---- the rows ---------------------------------------------------------- */

static psd_status rows_send(struct psd_step *step, struct step_slot *slot)
{
    struct step_sparse *rows = slot->rows;
    uint64_t nnz = slot->sparse && step->weight > 0 ? rows->nnz : 0;
    psd_status status;

    status =
        psd_gather(step->session, rows->index_tensor,
                   nnz > 0 ? rows->indices : NULL, nnz * rows->room_dims,
                   rows->got_indices, rows->index_counts, &rows->index_ticket);
    if (status == PSD_OK) {
        status = psd_gather(step->session, rows->value_tensor,
                            nnz > 0 ? rows->values : NULL,
                            nnz * rows->room_width, rows->got_values,
                            rows->value_counts, &rows->value_ticket);
    }
    return step_check(step, status);
}

/* Rank by rank dims rows, become dims rows of all ranks. */
static void indices_join(const struct psd_step *step, struct step_sparse *rows)
{
    const int64_t *from = rows->got_indices;
    uint64_t before = 0;

    for (uint32_t r = 0; r < step->size; r++) {
        uint64_t nnz = rows->index_counts[r] / rows->room_dims;

        for (uint64_t d = 0; d < rows->room_dims && nnz > 0; d++) {
            memcpy(rows->all_indices + d * rows->answer_nnz + before, from,
                   nnz * sizeof(*from));
            from += nnz;
        }
        before += nnz;
    }
    rows->answer_indices = rows->all_indices;
}

/* Multiply by w_r, and see whether all is finite. */
static void values_weigh(const struct psd_step *step, struct step_slot *slot,
                         double total)
{
    struct step_sparse *rows = slot->rows;
    char *at = rows->got_values;

    for (uint32_t r = 0; r < step->size; r++) {
        uint64_t count = rows->value_counts[r];
        const void *input = at;
        void *output = at;
        double weight = step->weights[r] / total;
        struct sum_inputs inputs = {&input, &weight, 1};
        unsigned bad = count == 0 ? 0
                                  : sum_elements(slot->dtype, step->op, &inputs,
                                                 &output, 1, count);

        if (bad != 0 && slot->bad == 0) {
            slot->bad = r + 1;
        }
        at += count * dtype_size(slot->dtype);
    }
}

static psd_status rows_take(struct psd_step *step, struct step_slot *slot,
                            double total)
{
    struct step_sparse *rows = slot->rows;
    psd_status status = psd_wait(step->session, rows->index_ticket, NULL);

    if (status == PSD_OK) {
        status = psd_wait(step->session, rows->value_ticket, NULL);
    }
    if (status != PSD_OK) {
        return step_check(step, status);
    }
    rows->answer_nnz = 0;
    for (uint32_t r = 0; r < step->size; r++) {
        uint64_t nnz = rows->index_counts[r] / rows->room_dims;

        if (rows->index_counts[r] != nnz * rows->room_dims ||
            rows->value_counts[r] != nnz * rows->room_width) {
            return step_fail(step, PSD_EPROTO,
                             "the sparse gradient of %s: rank %" PRIu32
                             " sent %" PRIu64 " indices and %" PRIu64 " values",
                             slot->name, r, rows->index_counts[r],
                             rows->value_counts[r]);
        }
        rows->answer_nnz += nnz;
    }
    rows->answer_indices = rows->got_indices;
    rows->answer_values = rows->got_values;
    if (rows->room_dims > 1) {
        indices_join(step, rows);
    }
    values_weigh(step, slot, total);
    return PSD_OK;
}

psd_status sparse_exchange(struct psd_step *step)
{
    uint32_t count = 0;
    double total = 0;
    psd_status status;

    for (uint32_t i = next_sparse(step, 0); i != UINT32_MAX;
         i = next_sparse(step, i + 1)) {
        count++;
    }
    if (count == 0) {
        return PSD_OK;
    }
    status = counts_reserve(step, count);
    if (status == PSD_OK) {
        status = counts_exchange(step);
    }
    count = 0;
    for (uint32_t i = next_sparse(step, 0); i != UINT32_MAX && status == PSD_OK;
         i = next_sparse(step, i + 1)) {
        status =
            rows_reserve(step, i, step->counts + (size_t)count++ * COUNT_WORDS);
    }
    for (uint32_t i = next_sparse(step, 0); i != UINT32_MAX && status == PSD_OK;
         i = next_sparse(step, i + 1)) {
        status = rows_send(step, step->slots[i]);
    }
    for (uint32_t r = 0; r < step->size && status == PSD_OK; r++) {
        total += step->weights[r];
    }
    for (uint32_t i = next_sparse(step, 0); i != UINT32_MAX && status == PSD_OK;
         i = next_sparse(step, i + 1)) {
        status = rows_take(step, step->slots[i], total);
    }
    return status;
}
