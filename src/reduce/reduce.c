/*
 * reduce.c: the function that sums a block is reduce_run; see reduce.h.
 *
 * The mean, exactly: w_r = n_r / sum(n) in double, rounded once to the type
 * that accumulates; the block is the sum of w_r g_r in rank order. A weight
 * of 0 is skipped, not multiplied; all zero gives zeros and a flag. Whose
 * contribution is not finite is found before the sum is stored over it.
 */
#include "reduce/reduce.h"

#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "reduce/change.h"
#include "reduce/sum.h"

#define STORE_CHUNK 4096 /* elements of a stored block updated at a time */

size_t reduce_gather_size(uint32_t ranks, uint64_t most)
{
    return ranks * (sizeof(uint64_t) + (size_t)most);
}

size_t reduce_store_size(const struct model_tensor *tensor, uint32_t size)
{
    const struct psd_optim *optim = optim_find(tensor->optim);

    if (tensor->kind == PSD_KIND_SHARED) {
        return size;
    }
    return tensor->kind != PSD_KIND_STORE || optim == NULL
               ? 0
               : (size_t)size * (1 + optim->slots);
}

bool reduce_op_fits(const struct model_tensor *tensor, unsigned op)
{
    bool whole = tensor->dtype == PSD_INT32 || tensor->dtype == PSD_INT64;

    if (tensor->kind == PSD_KIND_GATHER) {
        return op == WIRE_OP_GATHER;
    }
    if (tensor->kind == PSD_KIND_SHARED) {
        return op == PSD_OP_SUM || op == WIRE_OP_COPY;
    }
    switch (op) {
    case PSD_OP_MEAN:
        return !whole;
    case PSD_OP_OR:
        return whole;
    case PSD_OP_SUM:
        return true;
    case PSD_OP_MAX:
        return tensor->kind == PSD_KIND_REDUCE;
    case WIRE_OP_COPY:
        return true;
    default:
        return false;
    }
}

bool reduce_zeros_fit(const struct model_tensor *tensor, unsigned op)
{
    return (op == PSD_OP_MEAN || op == PSD_OP_SUM || op == PSD_OP_OR) &&
           reduce_op_fits(tensor, op);
}

psd_status reduce_round_init(struct reduce_round *round, uint32_t ranks)
{
    *round = (struct reduce_round){ .ranks = ranks };
    round->rank = mem_zalloc_array(ranks, sizeof(*round->rank));
    round->output = mem_zalloc_array((size_t)ranks + 1,
                                     sizeof(*round->output));
    round->input = mem_zalloc_array(ranks, sizeof(*round->input));
    round->weight = mem_zalloc_array(ranks, sizeof(*round->weight));
    if (round->rank == NULL || round->output == NULL ||
        round->input == NULL || round->weight == NULL) {
        reduce_round_fini(round);
        return PSD_ENOMEM;
    }
    return PSD_OK;
}

void reduce_round_fini(struct reduce_round *round)
{
    mem_free(round->rank);
    mem_free(round->output);
    mem_free(round->input);
    mem_free(round->weight);
    *round = (struct reduce_round){ .ranks = 0 };
}

/* The op that all who came agree on; 0 when they do not, or nobody brought
 * data. */
static unsigned agreed_op(struct reduce_round *round)
{
    unsigned op = 0;
    bool data = false;

    for (uint32_t i = 0; i < round->ranks; i++) {
        const struct reduce_rank *rank = &round->rank[i];

        if (rank->data == NULL && !(rank->weight > 0.0)) {
            continue;
        }
        if (op != 0 && rank->op != op) {
            round->flags |= FRAME_FLAG_DISAGREE;
            return 0;
        }
        op = rank->op;
        data = data || rank->data != NULL;
    }
    if (!data) {
        round->flags |= FRAME_FLAG_NOBODY;
        return 0;
    }
    return op;
}

/* Whose data counts, in rank order, with w_r. Returns how many; zeros that
 * were not sent only add to the weights. */
static unsigned choose_inputs(struct reduce_round *round, unsigned op)
{
    double total = 0.0;
    unsigned count = 0;

    for (uint32_t i = 0; i < round->ranks; i++) {
        const struct reduce_rank *rank = &round->rank[i];

        if (rank->weight > 0.0) {
            round->contributors++;
            total += rank->weight;
        } else if (op == PSD_OP_MEAN || op == PSD_OP_SUM) {
            continue;
        }
        if (rank->data != NULL) {
            round->input[count] = rank->data;
            round->weight[count] = rank->weight;
            count++;
        }
    }
    for (unsigned i = 0; i < count && op == PSD_OP_MEAN; i++) {
        round->weight[i] = round->weight[i] / total;
    }
    return count;
}

static void copy_out(struct reduce_round *round, const void *from)
{
    for (uint32_t i = 0; i < round->outputs; i++) {
        if (round->output[i] != from) {
            memcpy(round->output[i], from, round->size);
        }
    }
}

/* Whose is the input that sum_elements names? */
static uint32_t find_bad(const struct reduce_round *round,
                         const struct sum_inputs *inputs, unsigned bad)
{
    uint32_t i = 0;

    if (bad == 0 || bad > inputs->count) {
        return bad == 0 ? 0 : round->ranks + 1;
    }
    while (round->rank[i].data != inputs->data[bad - 1] ||
           round->rank[i].weight == 0.0) {
        i++;
        PSD_ASSERT(i < round->ranks); /* an input is some rank's data */
    }
    return i + 1;
}

/* Store mode: mean of a chunk, then the optim row, then the new value to
 * all. A broadcast (COPY) sets the value. */
static void run_store(struct reduce_round *round, unsigned op,
                      const struct sum_inputs *inputs)
{
    const struct psd_optim *optim = optim_find(round->tensor->optim);
    struct psd_knobs knobs = { (float)round->tensor->rate,
                               (float)round->tensor->momentum };
    size_t count = round->size / sizeof(float);
    float grad[STORE_CHUNK];

    if (op == WIRE_OP_COPY) {
        memcpy(round->value, inputs->data[0], round->size);
    }
    for (size_t from = 0; from < count && op != WIRE_OP_COPY;
         from += STORE_CHUNK) {
        size_t now = count - from < STORE_CHUNK ? count - from : STORE_CHUNK;
        const void *moved[WIRE_RANKS_MAX];
        struct sum_inputs part = { moved, inputs->weight, inputs->count };
        float *slot[OPTIM_SLOTS_MAX];
        void *to = grad;
        unsigned bad;

        for (unsigned i = 0; i < inputs->count; i++) {
            moved[i] = (const float *)inputs->data[i] + from;
        }
        for (unsigned i = 0; i < optim->slots; i++) {
            slot[i] = round->value + (i + 1) * count + from;
        }
        if (part.count > 0) {
            bad = sum_elements(PSD_FLOAT32, (psd_op)op, &part, &to, 1, now);
            round->bad = reduce_first_bad(round->bad,
                                          find_bad(round, inputs, bad));
        } else {
            memset(grad, 0, now * sizeof(*grad));
        }
        optim->apply(&knobs, round->step, round->value + from, grad, slot,
                     now);
    }
    copy_out(round, round->value);
}

/* The push of one rank is added to the value, which is its answer; a
 * broadcast (COPY) sets the value. */
static void run_shared(struct reduce_round *round)
{
    struct change change = { .value = round->value,
                             .out = round->output[0] };
    uint32_t who = 0;
    enum change_found found;

    PSD_ASSERT(round->outputs == 1);
    while (who < round->ranks && round->rank[who].data == NULL) {
        who++;
    }
    round->length = round->size;
    if (who == round->ranks || !(round->rank[who].weight > 0.0)) {
        copy_out(round, round->value);
        return;
    }
    round->contributors = 1;
    if (round->rank[who].op == WIRE_OP_COPY) {
        memcpy(round->value, round->rank[who].data, round->size);
        copy_out(round, round->value);
        return;
    }
    change.data = round->rank[who].data;
    change.base = round->rank[who].base;
    found = change_add(round->tensor->dtype, &change,
                       round->size / dtype_size(round->tensor->dtype));
    round->bad = found == CHANGE_FINE   ? 0
                 : found == CHANGE_WILD ? who + 1
                                        : round->ranks + 1;
}

static void run_gather(struct reduce_round *round)
{
    for (uint32_t i = 0; i < round->outputs; i++) {
        char *to = (char *)round->output[i] + round->ranks * sizeof(uint64_t);

        for (uint32_t r = 0; r < round->ranks; r++) {
            const struct reduce_rank *rank = &round->rank[r];
            uint32_t length = rank->data == NULL ? 0 : rank->length;

            le_put_u64((char *)round->output[i] + r * sizeof(uint64_t),
                       length);
            if (length > 0) {
                memcpy(to, rank->data, length);
            }
            to += length;
        }
        round->length = (uint32_t)(to - (char *)round->output[i]);
    }
}

void reduce_run(struct reduce_round *round)
{
    unsigned op;
    struct sum_inputs inputs = { round->input, round->weight, 0 };

    round->flags = 0;
    round->contributors = 0;
    round->length = 0;
    round->bad = 0;
    if (round->tensor->kind == PSD_KIND_SHARED) {
        run_shared(round);
        return;
    }
    op = agreed_op(round);
    if (op == 0) {
        return;
    }
    inputs.count = choose_inputs(round, op);
    if (op == WIRE_OP_GATHER) {
        run_gather(round);
        return;
    }
    round->length = round->size;
    if (inputs.count == 0 && round->contributors == 0) {
        round->flags |= FRAME_FLAG_NOWEIGHT;
    }
    if (op == WIRE_OP_COPY && inputs.count > 1) {
        round->flags |= FRAME_FLAG_DISAGREE; /* two roots */
        round->length = 0;
    } else if (round->value != NULL &&
               (round->flags & FRAME_FLAG_NOWEIGHT) != 0) {
        copy_out(round, round->value);
    } else if (round->value != NULL) {
        run_store(round, op, &inputs);
    } else if (inputs.count == 0) {
        for (uint32_t i = 0; i < round->outputs; i++) {
            memset(round->output[i], 0, round->size);
        }
    } else if (op == WIRE_OP_COPY) {
        copy_out(round, inputs.data[0]);
    } else {
        unsigned bad = sum_elements(
            round->tensor->dtype, (psd_op)op, &inputs, round->output,
            round->outputs, round->size / dtype_size(round->tensor->dtype));

        round->bad = find_bad(round, &inputs, bad);
    }
}
