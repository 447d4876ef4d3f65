/*
 * pump.c: the sending half of the worker's path: schedule, encode, transport.
 * `raw` is the one codec so far and encodes to the span of the gradient
 * itself; another codec goes where the payload is chosen.
 */
#include "base/log.h"
#include "reduce/reduce.h"
#include "worker/worker.h"

static void push_header(const struct worker *worker, uint32_t index,
                        struct frame_header *header)
{
    const struct model_block *block = &worker->model->blocks[index];
    const struct model_tensor *tensor =
        &worker->model->tensors[block->tensor];
    const struct flight *flight = &worker->flights[block->tensor];

    *header = (struct frame_header){
        .type = FRAME_PUSH,
        .epoch = worker->epoch,
        .block = index,
        .incarnation = worker->incarnation,
        .step = flight->step,
        .weight = flight->weight,
        .rank = (uint16_t)worker->rank,
        .ranks = 1,
        .op = flight->op,
        .length = tensor->kind == PSD_KIND_GATHER ? flight->length
                                                  : block->size,
    };
    if (flight->data == NULL) {
        header->flags |= FRAME_FLAG_ABSENT;
    }
    if (flight->staged != NULL || flight->data == flight->out) {
        header->flags |= FRAME_FLAG_INPLACE;
    }
}

/* What a push carries: the span that the shard reads and, where the link maps
 * memory, writes the answer to. */
static const char *push_payload(const struct worker *worker,
                                struct psd_link *link,
                                struct frame_header *header)
{
    const struct model_block *block = &worker->model->blocks[header->block];
    const struct flight *flight = &worker->flights[block->tensor];
    const char *at = flight->staged != NULL ? flight->staged : flight->data;

    if (!link->mapped && flight->data == NULL) {
        header->length = 0;
        return NULL;
    }
    if (at == NULL) {
        header->length = 0; /* absent: the answer comes as a span */
        header->flags &= (uint16_t)~FRAME_FLAG_INPLACE;
        return NULL;
    }
    if (!link->mapped) {
        header->flags &= (uint16_t)~FRAME_FLAG_INPLACE;
        header->size = header->length;
        return flight->data + block->offset;
    }
    if (worker->model->tensors[block->tensor].kind == PSD_KIND_GATHER) {
        /* The answer's room comes first, see reduce.h. */
        return at + reduce_gather_size(worker->ranks, block->size);
    }
    return at + block->offset;
}

/* Send what is most urgent until the link pushes back. */
static void pump_shard(struct worker *worker, struct worker_shard *shard)
{
    uint32_t index;

    while ((index = sched_peek(&shard->sched)) != UINT32_MAX) { /* schedule */
        struct frame_header header;
        const char *payload;
        psd_status status;

        push_header(worker, index, &header);
        payload = push_payload(worker, shard->link, &header); /* encode    */
        status = link_send(shard->link, &header, payload);    /* transport */
        if (status != PSD_OK) {
            break; /* no credit: `ready` comes; or down: `down` comes */
        }
        worker->state[index] = WORKER_SENT;
        sched_pop(&shard->sched);
    }
    if (worker->joining && !shard->join_sent && shard->sched.count == 0) {
        struct frame_header header = {
            .type = FRAME_JOIN,
            .epoch = worker->epoch,
            .incarnation = worker->incarnation,
            .step = worker->generation,
            .rank = (uint16_t)worker->rank,
        };

        shard->join_sent = link_send(shard->link, &header, NULL) == PSD_OK;
    }
    link_flush_large(shard->link);
}

void worker_pump(struct worker *worker)
{
    /* Start behind the own rank, so that receivers are not swamped. */
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        struct worker_shard *shard =
            &worker->shards[(worker->rank + 1 + i) % worker->shard_count];

        if (shard->up &&
            (shard->sched.count > 0 ||
             (worker->joining && !shard->join_sent))) {
            pump_shard(worker, shard);
        }
    }
}

void worker_flush(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        if (worker->shards[i].up) {
            link_flush(worker->shards[i].link);
        }
    }
}

/* ---- releasing ---------------------------------------------------------
 *
 * Links between hosts do not share a line fairly. If every block were queued
 * at once, one shard would hear from one rank long before the others, could
 * not answer yet, and at the end some lines would stand still while others
 * carry what was left behind. So a block waits until the answers have come
 * near it; the shards of a tensor then advance together. How far ahead of the
 * answers a worker may be grows with what is left: far from the end it costs
 * nothing. Within a host there is no line to share, and all go at once.
 *
 * Nobody waits for ever: every rank releases the blocks of a tensor in the
 * same order and no tensor waits for another. When all before some block are
 * answered every rank has released that block.
 */

static struct worker_shard *release_block(struct worker *worker,
                                          uint32_t block, int32_t priority)
{
    struct worker_shard *shard =
        &worker->shards[worker->model->blocks[block].shard];

    PSD_ASSERT(worker->state[block] == WORKER_IDLE);
    worker->state[block] = WORKER_QUEUED;
    sched_put(&shard->sched, block, priority);
    return shard;
}

/* Blocks of the tensor that may be released by now. */
static uint32_t released(const struct worker *worker,
                         const struct model_tensor *tensor,
                         const struct flight *flight)
{
    uint64_t ahead = (uint64_t)WORKER_AHEAD * worker->shard_count;
    uint32_t part = flight->blocks_left / WORKER_AHEAD_PART;

    ahead = part > ahead ? part : ahead;
    return worker->paced && ahead < flight->blocks_left
               ? tensor->block_count - flight->blocks_left + (uint32_t)ahead
               : tensor->block_count;
}

void worker_post(struct worker *worker, uint32_t index)
{
    const struct model_tensor *tensor = &worker->model->tensors[index];
    struct flight *flight = &worker->flights[index];
    uint32_t end;

    flight->blocks_left = tensor->block_count;
    end = released(worker, tensor, flight);
    for (uint32_t i = 0; i < end; i++) {
        release_block(worker, tensor->block_first + i, tensor->priority);
    }
    flight->blocks_next = end;
}

void worker_release(struct worker *worker, uint32_t index)
{
    const struct model_tensor *tensor = &worker->model->tensors[index];
    struct flight *flight = &worker->flights[index];
    uint32_t end = released(worker, tensor, flight);

    while (flight->blocks_next < end) {
        struct worker_shard *shard =
            release_block(worker, tensor->block_first + flight->blocks_next++,
                          tensor->priority);

        if (shard->up) {
            pump_shard(worker, shard);
        }
    }
}
