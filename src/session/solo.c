/*
 * solo.c: a job of one. No network, no threads, no files: an exchange is over
 * before psd_push returns, with the same meaning as among many. See
 * session.h.
 */
#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"

psd_status solo_add(struct psd_session *session)
{
    const struct model *model = &session->model;
    void *values = session->solo_value;
    uint32_t before = session->solo_count;
    psd_status status;

    if (session->solo.ranks == 0) {
        status = reduce_round_init(&session->solo, 1);
        if (status != PSD_OK) {
            return status;
        }
    }
    status = mem_grow(&values, before, model->tensor_count,
                      sizeof(*session->solo_value));
    if (status != PSD_OK) {
        return status;
    }
    session->solo_value = values;
    session->solo_count = model->tensor_count;
    for (uint32_t i = before; i < model->tensor_count; i++) {
        const struct model_tensor *tensor = &model->tensors[i];

        if (reduce_store_size(tensor, 1) == 0) {
            continue;
        }
        session->solo_value[i] =
            mem_zalloc(tensor->size * (1 + OPTIM_SLOTS_MAX));
        if (session->solo_value[i] == NULL) {
            return PSD_ENOMEM;
        }
    }
    return PSD_OK;
}

void solo_close(struct psd_session *session)
{
    for (uint32_t i = 0; i < session->solo_count; i++) {
        mem_free(session->solo_value[i]);
    }
    mem_free(session->solo_value);
    reduce_round_fini(&session->solo);
}

/* A block of a tensor, through the same function that sums many ranks. */
static void run_block(struct psd_session *session, uint32_t index)
{
    const struct model_block *block = &session->model.blocks[index];
    const struct model_tensor *tensor = &session->model.tensors[block->tensor];
    struct flight *flight = &session->flights[block->tensor];
    struct reduce_round *round = &session->solo;
    float *value = session->solo_value[block->tensor];

    round->tensor = tensor;
    round->size = block->size;
    round->step = flight->step;
    round->output[0] = flight->out + block->offset;
    round->outputs = 1;
    round->value = NULL;
    if (value != NULL) {
        round->value = (void *)((char *)value +
                                block->offset * (1 + OPTIM_SLOTS_MAX));
    }
    round->rank[0] = (struct reduce_rank){
        .data = flight->data == NULL ? NULL : flight->data + block->offset,
        .base = flight->base == NULL ? NULL : flight->base + block->offset,
        .weight = flight->weight,
        .length = block->size,
        .op = flight->op,
    };
    reduce_run(round);
    flight->flags |= round->flags;
    flight->contributors = round->contributors;
    flight->bad = reduce_first_bad(flight->bad, round->bad);
}

void solo_post(struct psd_session *session, uint32_t index)
{
    const struct model_tensor *tensor = &session->model.tensors[index];
    struct flight *flight = &session->flights[index];

    if (tensor->kind == PSD_KIND_GATHER) {
        if (flight->length > 0) {
            memmove(flight->out, flight->data, flight->length);
        }
        flight->counts[0] = flight->length / dtype_size(tensor->dtype);
        flight->contributors = 1;
    } else {
        for (uint32_t i = 0; i < tensor->block_count; i++) {
            run_block(session, tensor->block_first + i);
        }
    }
    session_done(session, index);
}
