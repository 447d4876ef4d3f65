/*
 * shard_test.c: a shard with links that write down what it sends. Exactly
 * once, the fences, and that a malformed push leaves no trace.
 */
#include <math.h>

#include "base/le.h"
#include "server/shard_rig.h"

static float mean_at(const struct bench *bench, uint32_t i, uint32_t ranks)
{
    volatile float sum = 0;

    for (uint32_t r = 0; r < ranks; r++) {
        volatile float w = (float)(1.0 / ranks);
        volatile float term = w * bench->data[r][i];

        sum = r == 0 ? term : sum + term;
    }
    return sum;
}

static void assert_mean(const struct bench *bench, uint32_t rank,
                        uint32_t tensor, uint64_t step, uint32_t ranks)
{
    const struct recorder_frame *frame = sent_to(bench, rank);
    uint32_t size = bench->model.blocks[bench->block[tensor]].size;

    assert_non_null(frame);
    assert_int_equal(frame->header.type, FRAME_ANSWER);
    assert_int_equal(frame->header.epoch, EPOCH);
    assert_int_equal(frame->header.block, bench->block[tensor]);
    assert_int_equal(frame->header.step, step);
    assert_int_equal(frame->header.size, size);
    assert_int_equal(frame->header.flags, 0);
    assert_true(frame->header.weight == ranks);
    for (uint32_t i = 0; i < size / sizeof(float); i++) {
        float wanted = mean_at(bench, i, ranks);

        assert_memory_equal(frame->payload + i * 4, &wanted, 4);
    }
}

/* ---- rounds ------------------------------------------------------------- */

static void every_rank_is_answered_once_with_the_mean(void **state)
{
    static const uint32_t orders[][RANKS] = { { 0, 1, 2 }, { 2, 1, 0 },
                                              { 1, 2, 0 } };
    struct bench *bench = *state;

    for (uint64_t step = 0; step < 3; step++) {
        for (uint32_t i = 0; i < RANKS; i++) {
            assert_int_equal(bench->recorder.count, 0);
            push(bench, orders[step][i], WEIGHT, step);
        }
        assert_int_equal(bench->recorder.count, RANKS);
        for (uint32_t r = 0; r < RANKS; r++) {
            assert_mean(bench, r, WEIGHT, step, RANKS);
        }
        forget(bench);
    }
}

static void a_duplicate_is_not_counted(void **state)
{
    struct bench *bench = *state;
    struct frame_header header = push_header(bench, WEIGHT, 0);

    push(bench, 0, WEIGHT, 0);
    header.weight = 50;
    assert_int_equal(arrive(bench, 0, &header, bench->data[2]), PSD_OK);
    push(bench, 1, WEIGHT, 0);
    assert_int_equal(arrive(bench, 1, &header, bench->data[2]), PSD_OK);
    assert_int_equal(bench->recorder.count, 0);
    push(bench, 2, WEIGHT, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_mean(bench, r, WEIGHT, 0, RANKS);
    }
}

static void an_old_step_is_answered_again_and_changes_nothing(void **state)
{
    struct bench *bench = *state;
    struct frame_header header = push_header(bench, WEIGHT, 0);

    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 0);
    }
    forget(bench);
    push(bench, 2, WEIGHT, 1); /* it has its answer, rank 1 lost its own */
    assert_int_equal(arrive(bench, 1, &header, bench->data[0]), PSD_OK);
    assert_int_equal(bench->recorder.count, 1);
    assert_mean(bench, 1, WEIGHT, 0, RANKS);
    assert_int_equal(tally_of(bench, WEIGHT)->step, 1);
    assert_false(rankset_has(&tally_of(bench, WEIGHT)->arrived, 1));
    forget(bench);
    push(bench, 0, WEIGHT, 1);
    push(bench, 1, WEIGHT, 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_mean(bench, r, WEIGHT, 1, RANKS);
    }
    forget(bench);
    push(bench, 1, WEIGHT, 0); /* nobody can want that any more */
    assert_int_equal(bench->recorder.count, 0);
}

static void absent_ranks_get_the_mean_of_the_others(void **state)
{
    struct bench *bench = *state;

    push_absent(bench, 2, WEIGHT, 0, 0);
    push(bench, 0, WEIGHT, 0);
    push(bench, 1, WEIGHT, 0);
    assert_mean(bench, 2, WEIGHT, 0, 2);
    forget(bench);
    for (uint32_t r = 0; r < RANKS; r++) {
        push_absent(bench, r, WEIGHT, 1, 1);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct recorder_frame *frame = sent_to(bench, r);

        assert_int_equal(frame->header.flags, FRAME_FLAG_NOBODY);
        assert_int_equal(frame->header.size, 0);
        assert_int_equal(frame->header.step, 1);
    }
}

static void zeros_that_are_not_sent_count_in_the_mean(void **state)
{
    struct bench *bench = *state;
    const struct recorder_frame *frame;
    float got;

    push_absent(bench, 1, WEIGHT, 0, 0);
    push_absent(bench, 2, WEIGHT, 0, 3);
    push(bench, 0, WEIGHT, 0); /* its weight is 1 */
    frame = sent_to(bench, 0);
    assert_int_equal(frame->header.flags, 0);
    assert_true(frame->header.weight == 2);
    memcpy(&got, frame->payload, sizeof(got));
    assert_true(got == 0.25f * bench->data[0][0]);
}

static void a_gather_is_answered_in_rank_order(void **state)
{
    static const uint32_t lengths[RANKS] = { 8, 0, 64 };
    struct bench *bench = *state;
    const struct recorder_frame *frame;

    for (uint32_t r = 0; r < RANKS; r++) {
        struct frame_header header = push_header(bench, GATHER, 0);

        header.size = lengths[r];
        header.length = lengths[r];
        assert_int_equal(arrive(bench, r, &header, bench->data[r]), PSD_OK);
    }
    frame = sent_to(bench, 1);
    assert_int_equal(frame->header.size, RANKS * 8 + 72);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(le_get_u64(frame->payload + 8 * r), lengths[r]);
    }
    assert_memory_equal(frame->payload + RANKS * 8, bench->data[0], 8);
    assert_memory_equal(frame->payload + RANKS * 8 + 8, bench->data[2], 64);
}

static void a_stored_value_moves_from_step_to_step(void **state)
{
    struct bench *bench = *state;
    float value[20] = { 0 };

    for (uint64_t step = 0; step < 5; step++) {
        forget(bench);
        for (uint32_t r = 0; r < RANKS; r++) {
            push(bench, r, STORE, step);
        }
        for (uint32_t i = 0; i < 20; i++) {
            volatile float change = 0.5f * mean_at(bench, i, RANKS);

            value[i] = value[i] - change;
        }
        assert_memory_equal(sent_to(bench, 0)->payload, value,
                            sizeof(value));
    }
}

/* The answer names the first rank; so does one that is sent again. The next
 * round is clean. */
static void who_was_not_finite_is_in_every_answer(void **state)
{
    struct bench *bench = *state;
    struct frame_header header = push_header(bench, WEIGHT, 0);

    bench->data[1][3] = NAN;
    bench->data[2][0] = INFINITY;
    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 0);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(sent_to(bench, r)->header.ranks, 1 + 1);
        assert_int_equal(sent_to(bench, r)->header.flags, 0);
    }
    forget(bench);
    assert_int_equal(arrive(bench, 2, &header, bench->data[2]), PSD_OK);
    assert_int_equal(sent_to(bench, 2)->header.ranks, 1 + 1);
    forget(bench);
    bench->data[1][3] = 1;
    bench->data[2][0] = 1;
    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 1);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_mean(bench, r, WEIGHT, 1, RANKS);
        assert_int_equal(sent_to(bench, r)->header.ranks, 0);
    }
}

/* ---- fences ------------------------------------------------------------- */

static void assert_no_trace(struct bench *bench, const struct psd_tally *was)
{
    assert_memory_equal(tally_of(bench, WEIGHT), was, sizeof(*was));
    assert_int_equal(bench->recorder.count, 0);
}

static void another_epoch_or_incarnation_is_refused(void **state)
{
    struct bench *bench = *state;
    struct psd_tally before = *tally_of(bench, WEIGHT);
    struct frame_header header = push_header(bench, WEIGHT, 0);

    header.epoch = EPOCH - 1;
    assert_int_equal(arrive(bench, 0, &header, bench->data[0]), PSD_OK);
    header.epoch = EPOCH + 1;
    assert_int_equal(arrive(bench, 0, &header, bench->data[0]), PSD_OK);
    header = push_header(bench, WEIGHT, 0);
    header.incarnation = INCARNATION - 1;
    assert_int_equal(arrive(bench, 0, &header, bench->data[0]), PSD_OK);
    header.incarnation = INCARNATION + 1;
    assert_int_equal(arrive(bench, 0, &header, bench->data[0]), PSD_OK);
    /* Also without a payload, where nothing had to be placed. */
    header.flags = FRAME_FLAG_ABSENT;
    header.size = 0;
    header.length = 0;
    assert_int_equal(arrive(bench, 0, &header, NULL), PSD_OK);
    header.incarnation = INCARNATION;
    header.epoch = EPOCH - 1;
    assert_int_equal(arrive(bench, 0, &header, NULL), PSD_OK);
    assert_no_trace(bench, &before);
}

static void a_step_too_early_is_never_counted(void **state)
{
    struct bench *bench = *state;
    struct frame_header early = push_header(bench, WEIGHT, 1);
    struct psd_link *link = bench->links[0];
    void *to = bench;

    push(bench, 0, WEIGHT, 0);
    assert_int_equal(link->events->place(link->user, link, &early, &to),
                     PSD_OK);
    assert_null(to); /* its bytes are thrown away ... */
    push(bench, 1, WEIGHT, 0);
    push(bench, 2, WEIGHT, 0);
    forget(bench);
    assert_int_equal(link->events->deliver(link->user, link, &early, NULL),
                     PSD_OK);
    /* ... so it must not count, although its step has come meanwhile. */
    assert_false(rankset_has(&tally_of(bench, WEIGHT)->arrived, 0));
}

static void a_newer_link_of_a_rank_replaces_the_older(void **state)
{
    struct bench *bench = *state;
    struct psd_link *link;

    link = make_link(bench, 1, INCARNATION - 1); /* a ghost */
    assert_int_equal(shard_accept(&bench->shard, link), AUTH_REFUSED_SHARD);
    link_close(link);
    link = make_link(bench, RANKS, INCARNATION);
    assert_int_equal(shard_accept(&bench->shard, link), AUTH_REFUSED_SHARD);
    link_close(link);
    link = make_link(bench, 1, INCARNATION);
    link->identity.shard = 1;
    assert_int_equal(shard_accept(&bench->shard, link), AUTH_REFUSED_SHARD);
    link_close(link);
    assert_int_equal(bench->recorder.closes, 3);
    link = make_link(bench, 1, INCARNATION);
    assert_int_equal(shard_accept(&bench->shard, link), AUTH_WELCOME);
    assert_int_equal(bench->recorder.closes, 4);
    bench->links[1] = link;
    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 0);
    }
    assert_mean(bench, 1, WEIGHT, 0, RANKS);
}

static void what_a_lost_link_had_pushed_stays_and_is_answered(void **state)
{
    struct bench *bench = *state;
    struct psd_link *old = bench->links[0];

    push(bench, 0, WEIGHT, 0);
    old->events->down(old->user, old, PSD_ELOST);
    assert_int_equal(bench->recorder.closes, 1);
    push(bench, 1, WEIGHT, 0);
    push(bench, 2, WEIGHT, 0);
    assert_int_equal(bench->recorder.count, 2); /* rank 0 is not there */
    forget(bench);
    bench->links[0] = make_link(bench, 0, INCARNATION);
    assert_int_equal(shard_accept(&bench->shard, bench->links[0]),
                     AUTH_WELCOME);
    assert_int_equal(bench->recorder.count, 0);
    push(bench, 0, WEIGHT, 0); /* sent again, as the worker does */
    assert_int_equal(bench->recorder.count, 1);
    assert_mean(bench, 0, WEIGHT, 0, RANKS);
}

static void answers_queued_on_a_lost_link_are_forgotten(void **state)
{
    struct bench *bench = *state;
    struct psd_link *old = bench->links[0];

    bench->recorder.room = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 0);
        push(bench, r, BIAS, 0);
    }
    old->events->down(old->user, old, PSD_ELOST);
    bench->recorder.room = UINT32_MAX;
    bench->links[0] = make_link(bench, 0, INCARNATION);
    assert_int_equal(shard_accept(&bench->shard, bench->links[0]),
                     AUTH_WELCOME);
    push(bench, 0, BIAS, 0); /* the worker asks for one of them only */
    assert_int_equal(bench->recorder.count, 1);
    assert_mean(bench, 0, BIAS, 0, RANKS);
}

/* ---- malformed ---------------------------------------------------------- */

static void refuse(struct bench *bench, struct frame_header header)
{
    struct psd_tally before = *tally_of(bench, WEIGHT);
    struct psd_link *link = bench->links[0];
    void *to = NULL;

    if (header.size > 0) {
        assert_int_equal(link->events->place(link->user, link, &header, &to),
                         PSD_EPROTO);
        assert_null(to);
    }
    assert_int_equal(link->events->deliver(link->user, link, &header,
                                           bench->data[0]),
                     PSD_EPROTO);
    assert_no_trace(bench, &before);
}

static void a_malformed_push_leaves_no_trace(void **state)
{
    struct bench *bench = *state;
    const struct frame_header good = push_header(bench, WEIGHT, 0);
    static const uint8_t ops[] = { 0, PSD_OP_OR, WIRE_OP_GATHER, 7, 255 };
    const double weights[] = { -1.0, (double)NAN, (double)INFINITY };
    struct frame_header bad;
    uint32_t foreign = 0;

    while (bench->model.blocks[foreign].shard != 1) {
        foreign++;
    }
    for (int off = -4; off <= 4; off += 8) {
        bad = good;
        bad.size = (uint32_t)((int)bad.size + off);
        bad.length = bad.size;
        refuse(bench, bad);
    }
    for (size_t i = 0; i < CLAIM_COUNT(ops); i++) {
        bad = good;
        bad.op = ops[i];
        refuse(bench, bad);
    }
    for (size_t i = 0; i < CLAIM_COUNT(weights); i++) {
        bad = good;
        bad.weight = weights[i];
        refuse(bench, bad);
    }
    bad = good;
    bad.block = foreign; /* served elsewhere */
    refuse(bench, bad);
    bad.block = bench->model.block_count;
    refuse(bench, bad);
    bad.block = UINT32_MAX;
    refuse(bench, bad);
    bad = good;
    bad.flags = FRAME_FLAG_ABSENT; /* and yet it has a payload */
    refuse(bench, bad);
    bad.size = 0; /* zeros of a wrong weight, or for an op that needs them */
    bad.length = 0;
    bad.weight = -1;
    refuse(bench, bad);
    bad.weight = 1;
    bad.op = PSD_OP_MAX;
    refuse(bench, bad);
    bad = push_header(bench, GATHER, 0);
    bad.size += 4;
    bad.length += 4;
    refuse(bench, bad);
    bad = push_header(bench, GATHER, 0);
    bad.op = PSD_OP_SUM;
    refuse(bench, bad);
}

static void note_wrong(void *user, uint32_t rank)
{
    *(uint32_t *)user |= 1u << rank;
}

static void who_makes_no_sense_is_told_of_but_not_who_is_lost(void **state)
{
    struct bench *bench = *state;
    uint32_t wrong = 0;

    bench->shard.wrong = note_wrong;
    bench->shard.user = &wrong;
    bench->links[0]->events->down(bench->links[0]->user, bench->links[0],
                                  PSD_ELOST);
    assert_int_equal(wrong, 0);
    bench->links[2]->events->down(bench->links[2]->user, bench->links[2],
                                  PSD_EPROTO);
    assert_int_equal(wrong, 1u << 2);
    assert_int_equal(bench->recorder.closes, 2);
}

static void a_frame_of_another_type_is_refused(void **state)
{
    static const uint8_t types[] = { FRAME_ANSWER, FRAME_JOINED, FRAME_HELLO,
                                     FRAME_END };
    struct bench *bench = *state;
    struct frame_header bad = push_header(bench, WEIGHT, 0);

    for (size_t i = 0; i < CLAIM_COUNT(types); i++) {
        bad.type = types[i];
        refuse(bench, bad);
    }
    bad = (struct frame_header){ .type = FRAME_JOIN, .epoch = EPOCH,
                                 .step = 1 }; /* a generation to come */
    refuse(bench, bad);
}

/* ---- sending ------------------------------------------------------------ */

static void a_full_link_gets_the_urgent_answers_first_later(void **state)
{
    struct bench *bench = *state;

    bench->recorder.room = 0;
    for (uint32_t r = 0; r < RANKS; r++) {
        push(bench, r, WEIGHT, 0);
        push(bench, r, STORE, 0);
        push(bench, r, BIAS, 0);
    }
    assert_int_equal(bench->recorder.count, 0);
    assert_true(shard_busy(&bench->shard));
    bench->recorder.room = UINT32_MAX;
    bench->links[1]->events->ready(&bench->shard, bench->links[1]);
    assert_int_equal(bench->recorder.count, 3);
    assert_int_equal(bench->recorder.frames[0].header.block,
                     bench->block[BIAS]);
    assert_int_equal(bench->recorder.frames[1].header.block,
                     bench->block[WEIGHT]);
    assert_int_equal(bench->recorder.frames[2].header.block,
                     bench->block[STORE]);
    for (uint32_t r = 0; r < RANKS; r++) {
        bench->links[r]->events->ready(&bench->shard, bench->links[r]);
    }
    assert_int_equal(bench->recorder.count, 9);
    assert_false(shard_busy(&bench->shard));
}

static void a_mapped_answer_is_written_over_the_span(void **state)
{
    struct bench *bench = *state;
    uint32_t size = bench->model.blocks[bench->block[WEIGHT]].size;
    float wanted[1024];

    for (uint32_t i = 0; i < size / 4; i++) {
        wanted[i] = mean_at(bench, i, RANKS);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        struct frame_header header = push_header(bench, WEIGHT, 0);

        header.size = 0;
        header.flags = r == 1 ? 0 : FRAME_FLAG_INPLACE;
        bench->links[r]->mapped = true;
        assert_int_equal(
            bench->links[r]->events->deliver(&bench->shard, bench->links[r],
                                             &header, bench->data[r]),
            PSD_OK);
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct recorder_frame *frame = sent_to(bench, r);

        if (r == 1) {
            assert_memory_equal(frame->payload, wanted, size);
            continue;
        }
        assert_int_equal(frame->header.flags, FRAME_FLAG_INPLACE);
        assert_null(frame->span);
        assert_memory_equal(bench->data[r], wanted, size);
    }
}

/* ---- joining ------------------------------------------------------------ */

static void join(struct bench *bench, uint32_t rank, uint64_t generation)
{
    struct frame_header header = { .type = FRAME_JOIN, .epoch = EPOCH,
                                   .incarnation = INCARNATION,
                                   .step = generation };

    assert_int_equal(arrive(bench, rank, &header, NULL), PSD_OK);
}

/* Frames of `type` sent to `rank` since the last forget. */
static unsigned heard(const struct bench *bench, uint32_t rank, uint8_t type)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bench->recorder.count; i++) {
        count += bench->recorder.frames[i].link == bench->links[rank] &&
                 bench->recorder.frames[i].header.type == type;
    }
    return count;
}

static void a_round_closes_without_those_who_have_joined(void **state)
{
    struct bench *bench = *state;

    push(bench, 0, WEIGHT, 0);
    push(bench, 1, WEIGHT, 0);
    join(bench, 2, 0); /* completes the round that was open */
    assert_mean(bench, 0, WEIGHT, 0, 2);
    assert_mean(bench, 1, WEIGHT, 0, 2);
    forget(bench);
    push(bench, 1, WEIGHT, 1);
    push(bench, 0, WEIGHT, 1);
    assert_mean(bench, 0, WEIGHT, 1, 2);
    /* Who has joined hears how far the others are, without data. */
    assert_int_equal(sent_to(bench, 2)->header.flags, FRAME_FLAG_FOLLOW);
    assert_int_equal(sent_to(bench, 2)->header.step, 2);
    assert_int_equal(sent_to(bench, 2)->header.size, 0);
}

static void when_all_have_joined_all_are_back(void **state)
{
    struct bench *bench = *state;

    join(bench, 2, 0);
    join(bench, 0, 0);
    join(bench, 0, 0); /* again: its link was lost */
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(heard(bench, r, FRAME_JOINED), 0);
    }
    join(bench, 1, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_int_equal(heard(bench, r, FRAME_JOINED), 1);
    }
    forget(bench);
    push(bench, 0, WEIGHT, 0);
    push(bench, 1, WEIGHT, 0);
    assert_int_equal(bench->recorder.count, 0); /* rank 2 is waited for */
    push(bench, 2, WEIGHT, 0);
    assert_mean(bench, 2, WEIGHT, 0, RANKS);
}

static void out_of_memory_is_told_and_leaves_nothing(void **state)
{
    struct model model;
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    make_model(&model);
    while (status != PSD_OK) {
        struct shard shard;

        mem_fail_after(++n);
        status = shard_init(&shard, &model, 0, RANKS);
        if (status == PSD_OK) {
            status = shard_add(&shard);
        }
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        shard_fini(&shard);
    }
    assert_true(n > 10 && n < 100);
    model_fini(&model);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(every_rank_is_answered_once_with_the_mean),
        HERE(a_duplicate_is_not_counted),
        HERE(an_old_step_is_answered_again_and_changes_nothing),
        HERE(absent_ranks_get_the_mean_of_the_others),
        HERE(zeros_that_are_not_sent_count_in_the_mean),
        HERE(a_gather_is_answered_in_rank_order),
        HERE(a_stored_value_moves_from_step_to_step),
        HERE(who_was_not_finite_is_in_every_answer),
        HERE(another_epoch_or_incarnation_is_refused),
        HERE(a_step_too_early_is_never_counted),
        HERE(a_newer_link_of_a_rank_replaces_the_older),
        HERE(what_a_lost_link_had_pushed_stays_and_is_answered),
        HERE(answers_queued_on_a_lost_link_are_forgotten),
        HERE(a_malformed_push_leaves_no_trace),
        HERE(who_makes_no_sense_is_told_of_but_not_who_is_lost),
        HERE(a_frame_of_another_type_is_refused),
        HERE(a_full_link_gets_the_urgent_answers_first_later),
        HERE(a_mapped_answer_is_written_over_the_span),
        HERE(a_round_closes_without_those_who_have_joined),
        HERE(when_all_have_joined_all_are_back),
        cmocka_unit_test(out_of_memory_is_told_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
