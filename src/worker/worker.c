/*
 * worker.c: links, answers and joining; the sending half is pump.c. See
 * worker.h.
 */
#include "worker/worker.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "reduce/reduce.h"

psd_status worker_init(struct worker *worker, const struct model *model,
                       uint32_t rank, uint32_t ranks, uint32_t shard_count)
{
    *worker = (struct worker){
        .model = model,
        .rank = rank,
        .ranks = ranks,
        .shard_count = shard_count,
    };
    worker->shards = mem_zalloc_array(shard_count, sizeof(*worker->shards));
    return worker->shards == NULL ? PSD_ENOMEM : PSD_OK;
}

void worker_fini(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->shard_count && worker->shards != NULL;
         i++) {
        link_close(worker->shards[i].link);
        sched_fini(&worker->shards[i].sched);
    }
    mem_free(worker->shards);
    mem_free(worker->state);
    *worker = (struct worker){ .model = NULL };
}

psd_status worker_add(struct worker *worker, struct flight *flights)
{
    const struct model *model = worker->model;
    void *state = worker->state;
    psd_status status;

    status = mem_grow(&state, worker->state_count, model->block_count, 1);
    if (status != PSD_OK) {
        return status;
    }
    worker->state = state;
    worker->state_count = model->block_count;
    worker->flights = flights;
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        uint32_t count = 0;

        for (uint32_t b = 0; b < model->block_count; b++) {
            count += model->blocks[b].shard == i;
        }
        status = sched_reserve(&worker->shards[i].sched, count);
        if (status != PSD_OK) {
            return status;
        }
    }
    return PSD_OK;
}

/* ---- links ------------------------------------------------------------- */

static uint32_t shard_of(const struct worker *worker,
                         const struct psd_link *link)
{
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        if (worker->shards[i].link == link) {
            return i;
        }
    }
    return UINT32_MAX;
}

void worker_link(struct worker *worker, uint32_t shard, struct psd_link *link)
{
    worker->shards[shard].link = link;
    worker->shards[shard].up = false;
    link->turn = link_turn(worker->rank, shard, worker->shard_count);
}

static void requeue(struct worker *worker, uint32_t shard)
{
    const struct model *model = worker->model;

    for (uint32_t b = 0; b < worker->state_count; b++) {
        if (model->blocks[b].shard == shard &&
            worker->state[b] == WORKER_SENT) {
            worker->state[b] = WORKER_QUEUED;
            sched_put(&worker->shards[shard].sched, b,
                      model->tensors[model->blocks[b].tensor].priority);
        }
    }
}

void worker_link_up(struct worker *worker, struct psd_link *link)
{
    uint32_t shard = shard_of(worker, link);

    PSD_ASSERT(shard != UINT32_MAX);
    worker->shards[shard].up = true;
    worker->shards[shard].join_sent = false;
    worker_pump(worker);
}

static void on_up(void *user, struct psd_link *link)
{
    worker_link_up(user, link);
}

static void on_ready(void *user, struct psd_link *link)
{
    (void)link;
    worker_pump(user);
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct worker *worker = user;
    uint32_t shard = shard_of(worker, link);

    if (shard == UINT32_MAX) {
        return;
    }
    worker->shards[shard].up = false;
    worker->shards[shard].link = NULL;
    worker->past_sent += link->sent_bytes;
    worker->past_received += link->received_bytes;
    link_close(link);
    requeue(worker, shard);
    worker->lost(worker->user, shard, why);
}

/* ---- answers ----------------------------------------------------------- */

/* The answer that is waited for, or an old one that came twice? */
static bool expected(const struct worker *worker,
                     const struct frame_header *header)
{
    const struct flight *flight =
        &worker->flights[worker->model->blocks[header->block].tensor];

    return worker->state[header->block] == WORKER_SENT &&
           flight->in_flight && flight->step == header->step;
}

static psd_status check_answer(const struct worker *worker,
                               const struct psd_link *link,
                               const struct frame_header *header)
{
    const struct model_block *block;
    const struct model_tensor *tensor;
    unsigned empty = FRAME_FLAG_NOBODY | FRAME_FLAG_DISAGREE |
                     FRAME_FLAG_FOLLOW |
                     (link->mapped ? FRAME_FLAG_INPLACE : 0);

    if (header->block >= worker->state_count ||
        worker->shards[worker->model->blocks[header->block].shard].link !=
            link) {
        log_error("worker: answer for block %" PRIu32
                  ", which is not of that shard",
                  header->block);
        return PSD_EPROTO;
    }
    block = &worker->model->blocks[header->block];
    tensor = &worker->model->tensors[block->tensor];
    if (header->ranks > worker->ranks + 1) {
        log_error("worker: answer for %s names rank %u as not finite",
                  tensor->name, header->ranks - 1u);
        return PSD_EPROTO;
    }
    if (header->length == 0 && (header->flags & empty) != 0) {
        return PSD_OK; /* it says why there is nothing in it */
    }
    if (tensor->kind == PSD_KIND_GATHER
            ? header->length == 0 ||
                  header->length >
                      reduce_gather_size(worker->ranks, block->size)
            : header->length != block->size) {
        log_error("worker: answer of %" PRIu32 " bytes for %s",
                  header->length, tensor->name);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

/* Where the path puts an answer: staged memory, or the caller's. */
static char *answer_at(const struct worker *worker, uint32_t index)
{
    const struct model_block *block = &worker->model->blocks[index];
    const struct flight *flight = &worker->flights[block->tensor];

    return (flight->staged != NULL ? flight->staged : flight->out) +
           block->offset;
}

static psd_status on_place(void *user, struct psd_link *link,
                           const struct frame_header *header, void **to_p)
{
    struct worker *worker = user;
    psd_status status;

    if (header->type != FRAME_ANSWER) {
        log_error("worker: a shard sent a %s frame with a payload",
                  frame_type_name(header->type));
        return PSD_EPROTO;
    }
    status = check_answer(worker, link, header);
    if (status != PSD_OK) {
        return status;
    }
    *to_p = expected(worker, header) ? answer_at(worker, header->block) : NULL;
    return PSD_OK;
}

static void finish_block(struct worker *worker,
                         const struct frame_header *header,
                         const void *payload)
{
    uint32_t tensor = worker->model->blocks[header->block].tensor;
    struct flight *flight = &worker->flights[tensor];
    char *to = answer_at(worker, header->block);

    if (payload != NULL && payload != to && header->length > 0) {
        memcpy(to, payload, header->length); /* a span: same process */
    }
    worker->state[header->block] = WORKER_IDLE;
    flight->flags |= header->flags & (FRAME_FLAG_NOBODY | FRAME_FLAG_NOWEIGHT |
                                      FRAME_FLAG_DISAGREE);
    flight->contributors = (uint32_t)header->weight;
    flight->bad = reduce_first_bad(flight->bad, header->ranks);
    if (--flight->blocks_left == 0) {
        worker->done(worker->user, tensor);
    } else {
        worker_release(worker, tensor);
    }
}

static psd_status on_answer(struct worker *worker, struct psd_link *link,
                            const struct frame_header *header,
                            const void *payload)
{
    psd_status status = check_answer(worker, link, header);
    struct flight *flight;

    if (status != PSD_OK) {
        return status;
    }
    flight = &worker->flights[worker->model->blocks[header->block].tensor];
    if ((header->flags & FRAME_FLAG_FOLLOW) != 0) {
        if (worker->joining && header->step > flight->step) {
            flight->step = header->step;
        }
        return PSD_OK;
    }
    if (!expected(worker, header)) {
        return PSD_OK; /* came twice */
    }
    finish_block(worker, header, payload);
    return PSD_OK;
}

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct worker *worker = user;
    uint32_t shard = shard_of(worker, link);
    psd_status status = PSD_OK;

    mem_path_enter();
    if (header->epoch != worker->epoch) {
        log_debug("worker: a frame of epoch %" PRIu32 ", it is %" PRIu32,
                  header->epoch, worker->epoch);
    } else if (header->type == FRAME_ANSWER) {
        status = on_answer(worker, link, header, payload);
    } else if (header->type == FRAME_JOINED) {
        worker->shards[shard].joined |= header->step == worker->generation;
    } else {
        log_error("worker: a shard sent a %s frame",
                  frame_type_name(header->type));
        status = PSD_EPROTO;
    }
    mem_path_leave();
    return status;
}

const struct link_events worker_link_events = {
    .place = on_place,
    .deliver = on_deliver,
    .ready = on_ready,
    .up = on_up,
    .down = on_down,
};

/* ---- joining ----------------------------------------------------------- */

void worker_join(struct worker *worker)
{
    worker->joining = true;
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        worker->shards[i].joined = false;
        worker->shards[i].join_sent = false;
    }
    worker_pump(worker);
}

bool worker_joined(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->shard_count; i++) {
        if (!worker->shards[i].joined) {
            return false;
        }
    }
    if (worker->joining) {
        worker->joining = false;
        worker->generation++;
    }
    return true;
}
