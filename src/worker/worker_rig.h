/*
 * worker_rig.h: a worker with links that write down what it sends, for
 * worker_test.c. The shards' answers arrive by hand.
 */
#ifndef PSD_WORKER_WORKER_RIG_H
#define PSD_WORKER_WORKER_RIG_H

#include "base/claim.h"
#include "base/mem.h"
#include "transport/recorder.h"
#include "worker/worker.h"

#define SHARDS 2
#define RANK 1
#define RANKS 3
#define EPOCH 5
#define INCARNATION 7

enum { BARRIER, LARGE, MIDDLE, URGENT, LATER, GATHER, TENSORS };

struct bench {
    struct model model;
    struct worker worker;
    struct flight flights[TENSORS];
    struct recorder recorder[SHARDS];
    struct psd_link *links[SHARDS];
    char data[TENSORS][8192];
    char staged[8192];
    unsigned done[TENSORS];
    unsigned lost[SHARDS];
};

/* ---- set up ------------------------------------------------------------ */

static inline void make_model(struct model *model)
{
    struct message_spec specs[] = {
        { .name = "large", .dtype = PSD_FLOAT32, .count = 2048 },
        { .name = "middle", .dtype = PSD_FLOAT32, .count = 100 },
        { .name = "urgent", .dtype = PSD_FLOAT32, .count = 50,
          .priority = 10 },
        { .name = "later", .dtype = PSD_FLOAT32, .count = 60 },
        { .name = "gather", .dtype = PSD_INT32, .count = 16,
          .kind = PSD_KIND_GATHER },
    };
    struct message_table table = { CLAIM_COUNT(specs), specs };

    assert_int_equal(model_init(model, SHARDS, 1u << 20), PSD_OK);
    assert_int_equal(model_add_builtin(model), PSD_OK);
    assert_int_equal(model_add(model, &table), PSD_OK);
    for (uint32_t i = 0; i < model->block_count; i++) {
        if (model->tensors[model->blocks[i].tensor].block_count == 1) {
            model->blocks[i].shard = 0; /* what is small goes to shard 0 */
        }
    }
}

static inline void on_done(void *user, uint32_t tensor)
{
    struct bench *bench = user;

    bench->done[tensor]++;
    bench->flights[tensor].in_flight = false;
    bench->flights[tensor].step++;
}

static inline void on_lost(void *user, uint32_t shard, psd_status why)
{
    struct bench *bench = user;

    assert_int_equal(why, PSD_ELOST);
    bench->lost[shard]++;
    bench->links[shard] = NULL;
}

static inline void connect(struct bench *bench, uint32_t shard)
{
    struct psd_link *link = recorder_link(&bench->recorder[shard],
                                          &worker_link_events,
                                          &bench->worker);

    bench->links[shard] = link;
    worker_link(&bench->worker, shard, link);
}

static inline void come_up(struct bench *bench, uint32_t shard)
{
    bench->links[shard]->events->up(&bench->worker, bench->links[shard]);
}

static inline void go_down(struct bench *bench, uint32_t shard)
{
    struct psd_link *link = bench->links[shard];

    link->events->down(&bench->worker, link, PSD_ELOST);
}

static inline int set_up(void **state)
{
    struct bench *bench = mem_zalloc(sizeof(*bench));

    *state = bench;
    make_model(&bench->model);
    assert_int_equal(worker_init(&bench->worker, &bench->model, RANK, RANKS,
                                 SHARDS),
                     PSD_OK);
    assert_int_equal(worker_add(&bench->worker, bench->flights), PSD_OK);
    bench->worker.epoch = EPOCH;
    bench->worker.incarnation = INCARNATION;
    bench->worker.user = bench;
    bench->worker.done = on_done;
    bench->worker.lost = on_lost;
    for (uint32_t i = 0; i < SHARDS; i++) {
        bench->recorder[i].room = UINT32_MAX;
        connect(bench, i);
        come_up(bench, i);
    }
    for (size_t i = 0; i < sizeof(bench->data); i++) {
        (&bench->data[0][0])[i] = (char)claim_mix(i);
    }
    return 0;
}

static inline int tear_down(void **state)
{
    struct bench *bench = *state;

    worker_fini(&bench->worker);
    model_fini(&bench->model);
    mem_free(bench);
    return 0;
}

/* ---- by hand ----------------------------------------------------------- */

static inline void post(struct bench *bench, uint32_t tensor)
{
    struct flight *flight = &bench->flights[tensor];

    flight->data = bench->data[tensor];
    flight->out = bench->data[tensor];
    flight->weight = 32;
    flight->op = PSD_OP_MEAN;
    flight->flags = 0;
    flight->in_flight = true;
    worker_post(&bench->worker, tensor);
    worker_pump(&bench->worker);
}

static inline uint32_t block_of(const struct bench *bench, uint32_t tensor,
                                uint32_t shard)
{
    const struct model_tensor *shape = &bench->model.tensors[tensor];

    for (uint32_t i = 0; i < shape->block_count; i++) {
        if (bench->model.blocks[shape->block_first + i].shard == shard) {
            return shape->block_first + i;
        }
    }
    fail();
    return 0;
}

static inline struct frame_header answer_header(const struct bench *bench,
                                                uint32_t block, uint64_t step)
{
    uint32_t size = bench->model.blocks[block].size;

    return (struct frame_header){
        .type = FRAME_ANSWER, .epoch = EPOCH, .block = block, .step = step,
        .weight = RANKS, .rank = RANK, .size = size, .length = size,
    };
}

/* As a stream does it. All bytes of the payload are `byte`. */
static inline psd_status arrive(struct bench *bench, uint32_t shard,
                                const struct frame_header *header, int byte)
{
    struct psd_link *link = bench->links[shard];
    void *to = NULL;
    psd_status status = PSD_OK;

    if (header->size > 0) {
        status = link->events->place(link->user, link, header, &to);
        if (status == PSD_OK && to != NULL) {
            memset(to, byte, header->size);
        }
    }
    return status != PSD_OK
               ? status
               : link->events->deliver(link->user, link, header, to);
}

static inline void answer(struct bench *bench, uint32_t tensor, uint32_t shard,
                          uint64_t step, int byte)
{
    struct frame_header header =
        answer_header(bench, block_of(bench, tensor, shard), step);

    assert_int_equal(arrive(bench, shard, &header, byte), PSD_OK);
}

static inline void assert_bytes(const char *data, int byte, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(data[i], (char)byte);
    }
}

#endif
