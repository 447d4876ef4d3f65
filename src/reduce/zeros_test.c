/*
 * zeros_test.c: a rank that stands for zeros without sending them: it counts
 * in the mean, and where data is somebody else's.
 */
#include "reduce/reduce_rig.h"

static void zeros_that_are_not_sent_count_in_the_mean(void **state)
{
    struct table *table = *state;

    table->round.rank[1].data = NULL;
    table->round.rank[1].weight = 5;
    table->round.rank[3] = (struct reduce_rank){ .data = NULL };
    mean_of(table);
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.flags, 0);
    assert_int_equal(table->round.contributors, 3);
    /* Data of no weight beside them: zeros, which somebody gave. */
    table->round.rank[0].weight = 0;
    table->round.rank[2].weight = 0;
    memset(table->wanted, 0, sizeof(table->wanted));
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.flags, 0);
    assert_int_equal(table->round.contributors, 1);
}

static void zeros_from_everybody_are_nobody(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].data = NULL;
    }
    reduce_run(&table->round);
    assert_untouched(table);
    assert_int_equal(table->round.flags, FRAME_FLAG_NOBODY);
    assert_int_equal(table->round.contributors, 0);
}

static void zeros_that_are_not_sent_add_nothing_to_a_sum(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_SUM;
        if (r > 0) {
            table->round.rank[r].data = NULL;
        }
    }
    memcpy(table->wanted, table->data[0], sizeof(table->wanted));
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.contributors, RANKS);
}

static void zeros_move_a_value_that_has_momentum(void **state)
{
    struct table *table = *state;

    store_open(table, "momentum");
    table->tensor.rate = 0.5;
    table->tensor.momentum = 0.5;
    reduce_run(&table->round);
    for (uint32_t i = 0; i < COUNT; i++) {
        float speed = 0.5f * table->round.value[COUNT + i];

        table->wanted[i] = table->round.value[i] - 0.5f * speed;
    }
    table->round.rank[0].weight = 0;
    for (uint32_t r = 1; r < RANKS; r++) {
        table->round.rank[r].data = NULL;
    }
    reduce_run(&table->round);
    assert_outputs(table);
    mem_free(table->round.value);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(zeros_that_are_not_sent_count_in_the_mean),
        HERE(zeros_from_everybody_are_nobody),
        HERE(zeros_that_are_not_sent_add_nothing_to_a_sum),
        HERE(zeros_move_a_value_that_has_momentum),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
