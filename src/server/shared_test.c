/*
 * shared_test.c: a shard and a tensor of kind SHARED: ranks on their own
 * clocks, each push counted once, nobody waited for.
 */
#include "server/shard_rig.h"

/* One push of a shared tensor: `number` in every element; op as given. */
static void push_shared(struct bench *bench, uint32_t rank, uint64_t step,
                        int64_t number, unsigned op)
{
    struct frame_header header = push_header(bench, SHARED, step);
    int64_t data[20];

    for (unsigned i = 0; i < 20; i++) {
        data[i] = number + i;
    }
    header.op = (uint8_t)op;
    assert_int_equal(arrive(bench, rank, &header, data), PSD_OK);
}

/* The one answer, to `rank`: each element is `first` + i x `slope`. */
static void assert_shared(struct bench *bench, uint32_t rank, uint64_t step,
                          int64_t first, int64_t slope)
{
    const struct recorder_frame *frame = sent_to(bench, rank);

    assert_int_equal(bench->recorder.count, 1);
    assert_non_null(frame);
    assert_int_equal(frame->header.step, step);
    assert_int_equal(frame->header.length, 20 * sizeof(int64_t));
    for (unsigned i = 0; i < 20; i++) {
        int64_t value;

        memcpy(&value, (const char *)frame->payload + i * sizeof(value),
               sizeof(value));
        assert_int_equal(value, first + (int64_t)i * slope);
    }
    forget(bench);
}

static void a_shared_value_takes_every_push_at_once(void **state)
{
    struct bench *bench = *state;

    push_shared(bench, 1, 0, 1000, WIRE_OP_COPY);
    assert_shared(bench, 1, 0, 1000, 1);
    push_shared(bench, 2, 0, 10, PSD_OP_SUM);
    assert_shared(bench, 2, 0, 1010, 2);
    push_shared(bench, 2, 1, 10, PSD_OP_SUM); /* on its own clock */
    assert_shared(bench, 2, 1, 1020, 3);
    push_shared(bench, 1, 1, 1, PSD_OP_SUM);
    assert_shared(bench, 1, 1, 1021, 4);
    push_absent(bench, 0, SHARED, 0, 0); /* only asks */
    assert_shared(bench, 0, 0, 1021, 4);
}

static void a_shared_push_never_counts_twice(void **state)
{
    struct bench *bench = *state;

    push_shared(bench, 0, 0, 5, PSD_OP_SUM);
    forget(bench);
    push_shared(bench, 1, 0, 7, PSD_OP_SUM);
    forget(bench);
    push_shared(bench, 0, 0, 5, PSD_OP_SUM); /* its answer was lost */
    assert_shared(bench, 0, 0, 5, 1);        /* and comes as it was */
    push_shared(bench, 0, 2, 5, PSD_OP_SUM); /* before its time */
    assert_int_equal(bench->recorder.count, 0);
    push_absent(bench, 2, SHARED, 0, 0);
    assert_shared(bench, 2, 0, 12, 2);
}

static void a_shared_answer_outlasts_the_pushes_of_others(void **state)
{
    struct bench *bench = *state;

    bench->recorder.room = 0;
    push_shared(bench, 0, 0, 5, PSD_OP_SUM);
    push_shared(bench, 1, 0, 7, PSD_OP_SUM);
    assert_int_equal(bench->recorder.count, 0);
    bench->recorder.room = UINT32_MAX;
    bench->links[0]->events->ready(bench->links[0]->user, bench->links[0]);
    assert_shared(bench, 0, 0, 5, 1);
}

static void nobody_waits_for_who_left_a_shared_value(void **state)
{
    struct bench *bench = *state;
    struct psd_link *gone = bench->links[2];

    push_shared(bench, 2, 0, 5, PSD_OP_SUM);
    gone->events->down(gone->user, gone, PSD_ELOST);
    forget(bench);
    push_shared(bench, 1, 0, 7, PSD_OP_SUM);
    assert_shared(bench, 1, 0, 12, 2);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(a_shared_value_takes_every_push_at_once),
        HERE(a_shared_push_never_counts_twice),
        HERE(a_shared_answer_outlasts_the_pushes_of_others),
        HERE(nobody_waits_for_who_left_a_shared_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
