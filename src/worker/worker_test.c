/*
 * worker_test.c: the worker's half of the path over links that write down
 * what it sends; the shards' answers come by hand.
 */
#include "reduce/reduce.h"
#include "worker/worker_rig.h"

/* ---- pushing ------------------------------------------------------------ */

static void every_block_goes_to_its_shard_with_its_bytes(void **state)
{
    struct bench *bench = *state;

    bench->flights[LARGE].step = 12;
    post(bench, LARGE);
    for (uint32_t s = 0; s < SHARDS; s++) {
        uint32_t index = block_of(bench, LARGE, s);
        const struct model_block *block = &bench->model.blocks[index];
        const struct recorder_frame *frame = &bench->recorder[s].frames[0];

        assert_int_equal(bench->recorder[s].count, 1);
        assert_int_equal(frame->header.type, FRAME_PUSH);
        assert_int_equal(frame->header.block, index);
        assert_int_equal(frame->header.epoch, EPOCH);
        assert_int_equal(frame->header.incarnation, INCARNATION);
        assert_int_equal(frame->header.step, 12);
        assert_int_equal(frame->header.rank, RANK);
        assert_int_equal(frame->header.ranks, 1);
        assert_int_equal(frame->header.op, PSD_OP_MEAN);
        assert_true(frame->header.weight == 32);
        assert_int_equal(frame->header.flags, 0);
        assert_int_equal(frame->header.size, block->size);
        assert_memory_equal(frame->payload,
                            bench->data[LARGE] + block->offset, block->size);
        assert_int_equal(bench->recorder[s].flushes, 0); /* small: later */
    }
    worker_flush(&bench->worker);
    for (uint32_t s = 0; s < SHARDS; s++) {
        assert_int_equal(bench->recorder[s].flushes, 1);
    }
}

static void an_answer_is_placed_and_the_last_one_ends_the_flight(void **state)
{
    struct bench *bench = *state;

    post(bench, LARGE);
    answer(bench, LARGE, 1, 0, 0x11);
    assert_int_equal(bench->done[LARGE], 0);
    answer(bench, LARGE, 0, 0, 0x22);
    assert_int_equal(bench->done[LARGE], 1);
    assert_int_equal(bench->flights[LARGE].contributors, RANKS);
    for (uint32_t s = 0; s < SHARDS; s++) {
        const struct model_block *block =
            &bench->model.blocks[block_of(bench, LARGE, s)];

        assert_bytes(bench->data[LARGE] + block->offset,
                     s == 0 ? 0x22 : 0x11, block->size);
    }
}

static void of_the_answers_blocks_the_lowest_bad_rank_is_kept(void **state)
{
    static const uint16_t said[][SHARDS] = { { 0, 0 }, { 2, RANKS + 1 },
                                             { RANKS + 1, 0 }, { 3, 2 } };
    static const uint32_t wanted[] = { 0, 2, RANKS + 1, 2 };
    struct bench *bench = *state;

    for (uint64_t step = 0; step < CLAIM_COUNT(wanted); step++) {
        bench->flights[LARGE].step = step;
        bench->flights[LARGE].bad = 0;
        post(bench, LARGE);
        for (uint32_t s = 0; s < SHARDS; s++) {
            struct frame_header header =
                answer_header(bench, block_of(bench, LARGE, s), step);

            header.ranks = said[step][s];
            assert_int_equal(arrive(bench, s, &header, 0), PSD_OK);
        }
        assert_int_equal(bench->flights[LARGE].bad, wanted[step]);
    }
}

static void the_urgent_overtakes_and_equals_keep_their_order(void **state)
{
    struct bench *bench = *state;
    struct recorder *recorder = &bench->recorder[0];

    recorder->room = 0; /* no credit yet */
    post(bench, LARGE);
    post(bench, LATER);
    post(bench, MIDDLE);
    post(bench, URGENT);
    assert_int_equal(recorder->count, 0);
    recorder->room = 3;
    bench->links[0]->events->ready(&bench->worker, bench->links[0]);
    assert_int_equal(recorder->count, 3);
    recorder->room = UINT32_MAX;
    bench->links[0]->events->ready(&bench->worker, bench->links[0]);
    assert_int_equal(recorder->count, 4);
    assert_int_equal(recorder->frames[0].header.block,
                     block_of(bench, URGENT, 0));
    assert_int_equal(recorder->frames[1].header.block,
                     block_of(bench, LARGE, 0));
    assert_int_equal(recorder->frames[2].header.block,
                     block_of(bench, LATER, 0));
    assert_int_equal(recorder->frames[3].header.block,
                     block_of(bench, MIDDLE, 0));
}

static void an_absent_push_has_no_payload_but_gets_the_answer(void **state)
{
    struct bench *bench = *state;
    struct flight *flight = &bench->flights[MIDDLE];
    const struct recorder_frame *frame = &bench->recorder[0].frames[0];

    flight->out = bench->data[MIDDLE];
    flight->in_flight = true;
    worker_post(&bench->worker, MIDDLE);
    worker_pump(&bench->worker);
    assert_int_equal(bench->recorder[0].count, 1);
    assert_int_equal(frame->header.flags, FRAME_FLAG_ABSENT);
    assert_int_equal(frame->header.size, 0);
    assert_true(frame->header.weight == 0);
    answer(bench, MIDDLE, 0, 0, 0x33);
    assert_int_equal(bench->done[MIDDLE], 1);
    assert_bytes(bench->data[MIDDLE], 0x33, 400);
}

static void zeros_are_not_sent_but_their_weight_is(void **state)
{
    struct bench *bench = *state;
    struct flight *flight = &bench->flights[MIDDLE];
    const struct recorder_frame *frame = &bench->recorder[0].frames[0];

    flight->out = bench->data[MIDDLE];
    flight->weight = 7;
    flight->op = PSD_OP_MEAN;
    flight->in_flight = true;
    worker_post(&bench->worker, MIDDLE);
    worker_pump(&bench->worker);
    assert_int_equal(bench->recorder[0].count, 1);
    assert_int_equal(frame->header.flags, FRAME_FLAG_ABSENT);
    assert_int_equal(frame->header.size, 0);
    assert_int_equal(frame->header.op, PSD_OP_MEAN);
    assert_true(frame->header.weight == 7);
    answer(bench, MIDDLE, 0, 0, 0x33);
    assert_bytes(bench->data[MIDDLE], 0x33, 400);
}

static void nobody_leaves_the_memory_untouched(void **state)
{
    struct bench *bench = *state;
    struct frame_header header =
        answer_header(bench, block_of(bench, MIDDLE, 0), 0);
    char before[400];

    memcpy(before, bench->data[MIDDLE], sizeof(before));
    post(bench, MIDDLE);
    header.flags = FRAME_FLAG_NOBODY;
    header.size = 0;
    header.length = 0;
    assert_int_equal(arrive(bench, 0, &header, 0), PSD_OK);
    assert_int_equal(bench->done[MIDDLE], 1);
    assert_int_equal(bench->flights[MIDDLE].flags, FRAME_FLAG_NOBODY);
    assert_memory_equal(bench->data[MIDDLE], before, sizeof(before));
}

static void a_mapped_link_sends_the_span_itself(void **state)
{
    struct bench *bench = *state;
    const struct recorder_frame *frame = &bench->recorder[0].frames[0];
    struct frame_header header =
        answer_header(bench, block_of(bench, MIDDLE, 0), 0);

    bench->links[0]->mapped = true;
    post(bench, MIDDLE);
    assert_int_equal(frame->header.flags, FRAME_FLAG_INPLACE);
    assert_ptr_equal(frame->span, bench->data[MIDDLE]);
    memset(bench->data[MIDDLE], 0x44, 400); /* the shard's doing */
    header.flags = FRAME_FLAG_INPLACE;
    header.size = 0;
    header.length = 0;
    assert_int_equal(arrive(bench, 0, &header, 0), PSD_OK);
    assert_int_equal(bench->done[MIDDLE], 1);
    assert_bytes(bench->data[MIDDLE], 0x44, 400);
}

static void a_gather_sends_what_there_is(void **state)
{
    struct bench *bench = *state;
    struct flight *flight = &bench->flights[GATHER];
    const struct recorder_frame *frame = &bench->recorder[0].frames[0];
    struct frame_header header =
        answer_header(bench, block_of(bench, GATHER, 0), 0);

    flight->data = bench->data[GATHER];
    flight->out = bench->data[LATER];
    flight->staged = bench->staged;
    flight->length = 20;
    flight->op = WIRE_OP_GATHER;
    flight->in_flight = true;
    worker_post(&bench->worker, GATHER);
    worker_pump(&bench->worker);
    assert_int_equal(frame->header.size, 20);
    assert_memory_equal(frame->payload, bench->data[GATHER], 20);
    header.size = (uint32_t)reduce_gather_size(RANKS, 64);
    header.length = header.size;
    assert_int_equal(arrive(bench, 0, &header, 0x55), PSD_OK);
    assert_int_equal(bench->done[GATHER], 1);
    assert_bytes(bench->staged, 0x55, header.size);
}

/* ---- links that come and go --------------------------------------------- */

static void a_lost_link_sends_again_what_was_not_answered(void **state)
{
    struct bench *bench = *state;
    struct recorder *recorder = &bench->recorder[0];

    post(bench, LARGE);
    post(bench, MIDDLE);
    post(bench, URGENT);
    answer(bench, MIDDLE, 0, 0, 1);
    go_down(bench, 0);
    assert_int_equal(bench->lost[0], 1);
    assert_int_equal(recorder->closes, 1);
    post(bench, LATER); /* waits for the link */
    recorder->count = 0;
    connect(bench, 0);
    worker_pump(&bench->worker);
    assert_int_equal(recorder->count, 0); /* it is not up yet */
    come_up(bench, 0);
    assert_int_equal(recorder->count, 3);
    assert_int_equal(recorder->frames[0].header.block,
                     block_of(bench, URGENT, 0));
    assert_int_equal(recorder->frames[0].header.step, 0);
    answer(bench, LARGE, 0, 0, 2);
    answer(bench, URGENT, 0, 0, 2);
    answer(bench, LATER, 0, 0, 2);
    assert_int_equal(bench->done[LARGE], 0); /* shard 1 has not answered */
    answer(bench, LARGE, 1, 0, 2);
    for (uint32_t t = LARGE; t <= LATER; t++) {
        assert_int_equal(bench->done[t], 1);
    }
    assert_int_equal(bench->recorder[1].count, 1);
}

static void a_link_lost_again_and_again_loses_nothing(void **state)
{
    struct bench *bench = *state;

    post(bench, MIDDLE);
    for (unsigned i = 1; i <= 20; i++) {
        go_down(bench, 0);
        assert_int_equal(bench->lost[0], i);
        connect(bench, 0);
        if (i % 3 != 0) { /* now and then it never comes up */
            bench->recorder[0].count = 0;
            come_up(bench, 0);
            assert_int_equal(bench->recorder[0].count, 1);
        }
    }
    answer(bench, MIDDLE, 0, 0, 9);
    assert_int_equal(bench->done[MIDDLE], 1);
}

/* ---- answers that are not wanted ---------------------------------------- */

static void an_answer_that_comes_twice_is_ignored(void **state)
{
    struct bench *bench = *state;

    post(bench, MIDDLE);
    answer(bench, MIDDLE, 0, 0, 0x10);
    answer(bench, MIDDLE, 0, 0, 0x20);
    assert_int_equal(bench->done[MIDDLE], 1);
    assert_bytes(bench->data[MIDDLE], 0x10, 400);
    post(bench, MIDDLE);
    answer(bench, MIDDLE, 0, 0, 0x30); /* once more, of the step before */
    assert_int_equal(bench->done[MIDDLE], 1);
    assert_bytes(bench->data[MIDDLE], 0x10, 400);
    answer(bench, MIDDLE, 0, 1, 0x40);
    assert_int_equal(bench->done[MIDDLE], 2);
    assert_bytes(bench->data[MIDDLE], 0x40, 400);
}

static void an_answer_of_another_epoch_is_ignored(void **state)
{
    struct bench *bench = *state;
    struct psd_link *link = bench->links[0];
    struct frame_header header =
        answer_header(bench, block_of(bench, MIDDLE, 0), 0);

    post(bench, MIDDLE);
    header.epoch = EPOCH - 1;
    assert_int_equal(link->events->deliver(link->user, link, &header, NULL),
                     PSD_OK);
    assert_int_equal(bench->done[MIDDLE], 0);
    answer(bench, MIDDLE, 0, 0, 1);
    assert_int_equal(bench->done[MIDDLE], 1);
}

static void refuse(struct bench *bench, uint32_t shard,
                   struct frame_header header)
{
    struct psd_link *link = bench->links[shard];
    char before[sizeof(bench->data)];
    void *to = NULL;

    memcpy(before, bench->data, sizeof(before));
    if (header.size > 0) {
        assert_int_equal(link->events->place(link->user, link, &header, &to),
                         PSD_EPROTO);
        assert_null(to);
    }
    assert_int_equal(link->events->deliver(link->user, link, &header,
                                           header.size > 0 ? bench->staged
                                                           : NULL),
                     PSD_EPROTO);
    assert_memory_equal(bench->data, before, sizeof(before));
    assert_int_equal(bench->done[MIDDLE], 0);
}

static void a_malformed_answer_is_refused_and_changes_nothing(void **state)
{
    static const uint8_t types[] = { FRAME_PUSH, FRAME_JOIN, FRAME_END };
    struct bench *bench = *state;
    struct frame_header good =
        answer_header(bench, block_of(bench, MIDDLE, 0), 0);
    struct frame_header bad = good;

    post(bench, MIDDLE);
    refuse(bench, 1, good); /* from a shard that does not own it */
    bad.block = bench->model.block_count;
    refuse(bench, 0, bad);
    bad.block = UINT32_MAX;
    refuse(bench, 0, bad);
    bad = good;
    bad.size -= 4;
    bad.length -= 4;
    refuse(bench, 0, bad);
    bad.size += 8;
    bad.length += 8;
    refuse(bench, 0, bad);
    bad = good; /* empty without a reason */
    bad.size = 0;
    bad.length = 0;
    refuse(bench, 0, bad);
    bad.flags = FRAME_FLAG_INPLACE; /* nothing is mapped */
    refuse(bench, 0, bad);
    bad = good; /* a rank that is none is called not finite */
    bad.ranks = RANKS + 2;
    refuse(bench, 0, bad);
    for (size_t i = 0; i < CLAIM_COUNT(types); i++) {
        bad = good;
        bad.type = types[i];
        refuse(bench, 0, bad);
    }
    answer(bench, MIDDLE, 0, 0, 1); /* the right one is still taken */
    assert_int_equal(bench->done[MIDDLE], 1);
}

/* ---- joining ------------------------------------------------------------ */

static void joined(struct bench *bench, uint32_t shard, uint64_t generation)
{
    struct frame_header header = { .type = FRAME_JOINED, .epoch = EPOCH,
                                   .step = generation };

    assert_int_equal(arrive(bench, shard, &header, 0), PSD_OK);
}

static void follow(struct bench *bench, uint32_t tensor, uint64_t step)
{
    struct frame_header header =
        answer_header(bench, block_of(bench, tensor, 0), step);

    header.flags = FRAME_FLAG_FOLLOW;
    header.size = 0;
    header.length = 0;
    assert_int_equal(arrive(bench, 0, &header, 0), PSD_OK);
}

static void joining_is_told_to_every_shard_and_confirmed_by_all(void **state)
{
    struct bench *bench = *state;

    for (uint64_t generation = 0; generation < 3; generation++) {
        worker_join(&bench->worker);
        assert_false(worker_joined(&bench->worker));
        for (uint32_t s = 0; s < SHARDS; s++) {
            struct recorder *recorder = &bench->recorder[s];

            assert_int_equal(recorder->count, 1);
            assert_int_equal(recorder->frames[0].header.type, FRAME_JOIN);
            assert_int_equal(recorder->frames[0].header.step, generation);
            recorder->count = 0;
        }
        joined(bench, 1, generation);
        joined(bench, 1, generation);
        assert_false(worker_joined(&bench->worker));
        joined(bench, 0, generation + 1); /* not the one that is meant */
        assert_false(worker_joined(&bench->worker));
        joined(bench, 0, generation);
        assert_true(worker_joined(&bench->worker));
    }
}

static void a_joined_worker_follows_the_steps_of_the_others(void **state)
{
    struct bench *bench = *state;

    follow(bench, MIDDLE, 5); /* not joined: not meant */
    assert_int_equal(bench->flights[MIDDLE].step, 0);
    worker_join(&bench->worker);
    follow(bench, MIDDLE, 5);
    follow(bench, MIDDLE, 4); /* never back */
    assert_int_equal(bench->flights[MIDDLE].step, 5);
    assert_int_equal(bench->done[MIDDLE], 0);
    bench->recorder[0].count = 0;
    go_down(bench, 0);
    connect(bench, 0);
    come_up(bench, 0);
    assert_int_equal(bench->recorder[0].count, 1); /* said again */
    assert_int_equal(bench->recorder[0].frames[0].header.type, FRAME_JOIN);
    joined(bench, 0, 0);
    joined(bench, 1, 0);
    assert_true(worker_joined(&bench->worker));
    bench->recorder[0].count = 0;
    post(bench, MIDDLE);
    assert_int_equal(bench->recorder[0].frames[0].header.step, 5);
}

static void out_of_memory_is_told_and_leaves_nothing(void **state)
{
    struct flight flights[TENSORS];
    struct model model;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    make_model(&model);
    while (status != PSD_OK) {
        struct worker worker;

        mem_fail_after(++n);
        status = worker_init(&worker, &model, RANK, RANKS, SHARDS);
        if (status == PSD_OK) {
            status = worker_add(&worker, flights);
        }
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        worker_fini(&worker);
    }
    assert_true(n > 3 && n < 50);
    model_fini(&model);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(every_block_goes_to_its_shard_with_its_bytes),
        HERE(an_answer_is_placed_and_the_last_one_ends_the_flight),
        HERE(of_the_answers_blocks_the_lowest_bad_rank_is_kept),
        HERE(the_urgent_overtakes_and_equals_keep_their_order),
        HERE(an_absent_push_has_no_payload_but_gets_the_answer),
        HERE(zeros_are_not_sent_but_their_weight_is),
        HERE(nobody_leaves_the_memory_untouched),
        HERE(a_mapped_link_sends_the_span_itself),
        HERE(a_gather_sends_what_there_is),
        HERE(a_lost_link_sends_again_what_was_not_answered),
        HERE(a_link_lost_again_and_again_loses_nothing),
        HERE(an_answer_that_comes_twice_is_ignored),
        HERE(an_answer_of_another_epoch_is_ignored),
        HERE(a_malformed_answer_is_refused_and_changes_nothing),
        HERE(joining_is_told_to_every_shard_and_confirmed_by_all),
        HERE(a_joined_worker_follows_the_steps_of_the_others),
        cmocka_unit_test(out_of_memory_is_told_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
