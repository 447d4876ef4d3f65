/*
 * shard_rig.h: a shard with links that write down what it sends, for
 * shard_test.c. Frames arrive by hand.
 */
#ifndef PSD_SERVER_SHARD_RIG_H
#define PSD_SERVER_SHARD_RIG_H

#include "base/claim.h"
#include "base/mem.h"
#include "server/shard.h"
#include "transport/recorder.h"

#define RANKS 3
#define EPOCH 4
#define INCARNATION 2

enum { BARRIER, WEIGHT, BIAS, GATHER, STORE, SHARED, TENSORS };

struct bench {
    struct model model;
    struct shard shard;
    struct recorder recorder;
    struct psd_link *links[RANKS];
    uint32_t block[TENSORS]; /* of each tensor, served here */
    float data[RANKS][4096];
};

/* ---- set up ------------------------------------------------------------ */

static inline void make_model(struct model *model)
{
    struct message_spec specs[] = {
        { .name = "weight", .dtype = PSD_FLOAT32, .count = 2048 },
        { .name = "bias", .dtype = PSD_FLOAT32, .count = 10, .priority = 9 },
        { .name = "gather", .dtype = PSD_INT32, .count = 16,
          .kind = PSD_KIND_GATHER },
        { .name = "store", .dtype = PSD_FLOAT32, .count = 20,
          .kind = PSD_KIND_STORE, .optim = "sgd", .rate = 0.5 },
        { .name = "shared", .dtype = PSD_INT64, .count = 20,
          .kind = PSD_KIND_SHARED },
    };
    struct message_table table = { CLAIM_COUNT(specs), specs };

    assert_int_equal(model_init(model, 2, 1u << 20), PSD_OK);
    assert_int_equal(model_add_builtin(model), PSD_OK);
    assert_int_equal(model_add(model, &table), PSD_OK);
    for (uint32_t i = 0; i < model->block_count; i++) {
        if (model->tensors[model->blocks[i].tensor].block_count == 1) {
            model->blocks[i].shard = 0; /* all that is small is ours */
        }
    }
}

static inline struct psd_link *make_link(struct bench *bench, uint32_t rank,
                                         uint32_t incarnation)
{
    struct psd_link *link = recorder_link(&bench->recorder, NULL, NULL);

    link->identity = (struct auth_identity){ rank, incarnation, 0 };
    return link;
}

static inline int set_up(void **state)
{
    struct bench *bench = mem_zalloc(sizeof(*bench));

    *state = bench;
    make_model(&bench->model);
    for (uint32_t i = 0; i < bench->model.block_count; i++) {
        if (bench->model.blocks[i].shard == 0) {
            bench->block[bench->model.blocks[i].tensor] = i;
        }
    }
    assert_int_equal(shard_init(&bench->shard, &bench->model, 0, RANKS),
                     PSD_OK);
    assert_int_equal(shard_add(&bench->shard), PSD_OK);
    bench->shard.epoch = EPOCH;
    bench->recorder.room = UINT32_MAX;
    for (uint32_t r = 0; r < RANKS; r++) {
        bench->links[r] = make_link(bench, r, INCARNATION);
        assert_int_equal(shard_accept(&bench->shard, bench->links[r]),
                         AUTH_WELCOME);
        for (uint32_t i = 0; i < 4096; i++) {
            uint64_t random = claim_mix(r * 4096 + i);

            bench->data[r][i] = (float)((double)(random >> 20) * 0x1p-43 - 1);
        }
    }
    return 0;
}

static inline int tear_down(void **state)
{
    struct bench *bench = *state;

    shard_fini(&bench->shard);
    model_fini(&bench->model);
    mem_free(bench);
    return 0;
}

/* ---- by hand ----------------------------------------------------------- */

static inline struct frame_header push_header(const struct bench *bench,
                                              uint32_t tensor, uint64_t step)
{
    uint32_t size = bench->model.blocks[bench->block[tensor]].size;

    return (struct frame_header){
        .type = FRAME_PUSH, .epoch = EPOCH, .block = bench->block[tensor],
        .incarnation = INCARNATION, .step = step, .weight = 1, .ranks = 1,
        .op = tensor == GATHER   ? WIRE_OP_GATHER
              : tensor == SHARED ? PSD_OP_SUM
                                 : PSD_OP_MEAN,
        .size = size, .length = size,
    };
}

/* As a stream does it: header, place, bytes, deliver. */
static inline psd_status arrive(struct bench *bench, uint32_t rank,
                                const struct frame_header *header,
                                const void *data)
{
    struct psd_link *link = bench->links[rank];
    void *to = NULL;
    psd_status status = PSD_OK;

    if (header->size > 0) {
        status = link->events->place(link->user, link, header, &to);
        if (status == PSD_OK && to != NULL && data != NULL) {
            memcpy(to, data, header->size);
        }
    }
    return status != PSD_OK
               ? status
               : link->events->deliver(link->user, link, header, to);
}

static inline void push(struct bench *bench, uint32_t rank, uint32_t tensor,
                        uint64_t step)
{
    struct frame_header header = push_header(bench, tensor, step);

    assert_int_equal(arrive(bench, rank, &header, bench->data[rank]), PSD_OK);
}

/* With a weight above 0: zeros. */
static inline void push_absent(struct bench *bench, uint32_t rank,
                               uint32_t tensor, uint64_t step, double weight)
{
    struct frame_header header = push_header(bench, tensor, step);

    header.flags = FRAME_FLAG_ABSENT;
    header.weight = weight;
    header.size = 0;
    header.length = 0;
    assert_int_equal(arrive(bench, rank, &header, NULL), PSD_OK);
}

static inline const struct psd_tally *tally_of(const struct bench *bench,
                                               uint32_t tensor)
{
    uint32_t local = bench->shard.local[bench->block[tensor]] - 1;

    return &bench->shard.blocks[local].tally;
}

/* The frames sent since the last call to one rank, at most one. */
static inline const struct recorder_frame *sent_to(const struct bench *bench,
                                                   uint32_t rank)
{
    const struct recorder_frame *found = NULL;

    for (unsigned i = 0; i < bench->recorder.count; i++) {
        if (bench->recorder.frames[i].link == bench->links[rank]) {
            assert_null(found);
            found = &bench->recorder.frames[i];
        }
    }
    return found;
}

static inline void forget(struct bench *bench)
{
    bench->recorder.count = 0;
}

#endif
