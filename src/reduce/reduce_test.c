/*
 * reduce_test.c: one round of one block: weights exactly as promised, who
 * counts, what the flags say, gathering, and values that the server owns.
 */
#include <math.h>

#include "base/le.h"
#include "reduce/reduce_rig.h"

static void the_mean_is_weighted_in_double_and_rounded_once(void **state)
{
    static const double weights[][RANKS] = {
        { 1, 1, 1, 1 },       { 32, 32, 32, 7 },    { 3, 5, 7, 11 },
        { 1, 0, 1, 0 },       { 0, 0, 9, 0 },       { 1e-3, 2, 3e9, 0.7 },
        { 1.0 / 3, 0.1, 2.0 / 7, 1e-9 },            { 0, 1, 2, 3 },
    };
    struct table *table = *state;

    for (size_t k = 0; k < CLAIM_COUNT(weights); k++) {
        uint32_t contributors = 0;

        for (uint32_t r = 0; r < RANKS; r++) {
            table->round.rank[r].weight = weights[k][r];
            contributors += weights[k][r] > 0;
        }
        mean_of(table);
        reduce_run(&table->round);
        assert_outputs(table);
        assert_int_equal(table->round.flags, 0);
        assert_int_equal(table->round.contributors, contributors);
    }
}

static void the_weights_of_float64_are_not_rounded_to_float(void **state)
{
    struct table *table = *state;
    double x[RANKS] = { 1.0, 1.0, 1.0, 1.0 };
    double out[RANKS] = { 0 };
    volatile double wanted = 0;

    table->tensor.dtype = PSD_FLOAT64;
    table->round.size = sizeof(double);
    for (uint32_t r = 0; r < RANKS; r++) {
        volatile double term = (double)(r + 1) / 10.0 * (x[r] + r * 0.1);

        x[r] = x[r] + r * 0.1;
        wanted = r == 0 ? term : wanted + term;
        table->round.rank[r].data = &x[r];
        table->round.rank[r].weight = r + 1;
        table->round.output[r] = &out[r];
    }
    reduce_run(&table->round);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_true(out[r] == wanted);
    }
}

static void a_weight_of_zero_is_skipped_not_multiplied(void **state)
{
    struct table *table = *state;

    for (uint32_t i = 0; i < COUNT; i++) {
        table->data[0][i] = NAN;
        table->data[2][i] = i % 2 == 0 ? INFINITY : NAN;
    }
    table->round.rank[0].weight = 0;
    table->round.rank[2].weight = 0;
    mean_of(table);
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.contributors, 2);
    /* SUM does not look at them either. */
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_SUM;
    }
    reduce_run(&table->round);
    for (uint32_t i = 0; i < COUNT; i++) {
        volatile float sum = table->data[1][i] + table->data[3][i];

        assert_true(table->out[0][i] == sum);
    }
}

static void the_sum_is_not_weighted(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_SUM;
        table->round.rank[r].weight = 10.0 * r + 1;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        volatile float sum = table->data[0][i];

        for (uint32_t r = 1; r < RANKS; r++) {
            sum = sum + table->data[r][i];
        }
        table->wanted[i] = sum;
    }
    reduce_run(&table->round);
    assert_outputs(table);
}

static void all_weights_zero_give_zeros_and_a_flag(void **state)
{
    static const uint8_t ops[] = { PSD_OP_MEAN, PSD_OP_SUM };
    struct table *table = *state;

    for (size_t k = 0; k < CLAIM_COUNT(ops); k++) {
        for (uint32_t r = 0; r < RANKS; r++) {
            table->round.rank[r].weight = 0;
            table->round.rank[r].op = ops[k];
            table->out[r][0] = NAN;
        }
        memset(table->wanted, 0, sizeof(table->wanted));
        reduce_run(&table->round);
        assert_outputs(table);
        assert_int_equal(table->round.flags, FRAME_FLAG_NOWEIGHT);
        assert_int_equal(table->round.contributors, 0);
    }
}

static void nobody_leaves_the_outputs_untouched_and_a_flag(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r] = (struct reduce_rank){ .data = NULL };
    }
    reduce_run(&table->round);
    assert_untouched(table);
    assert_int_equal(table->round.flags, FRAME_FLAG_NOBODY);
    assert_int_equal(table->round.contributors, 0);
}

static void the_absent_get_the_mean_of_the_others(void **state)
{
    struct table *table = *state;

    table->round.rank[1] = (struct reduce_rank){ .data = NULL };
    table->round.rank[2] = (struct reduce_rank){ .data = NULL };
    mean_of(table);
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.flags, 0);
    assert_int_equal(table->round.contributors, 2);
}

static void ops_that_disagree_change_nothing_and_are_told(void **state)
{
    struct table *table = *state;

    table->round.rank[2].op = PSD_OP_SUM;
    reduce_run(&table->round);
    assert_untouched(table);
    assert_int_equal(table->round.flags, FRAME_FLAG_DISAGREE);
    /* Zeros that are not sent have a say, who is absent has none. */
    table->round.rank[2].data = NULL;
    reduce_run(&table->round);
    assert_untouched(table);
    assert_int_equal(table->round.flags, FRAME_FLAG_DISAGREE);
    table->round.rank[2].weight = 0;
    mean_of(table);
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.flags, 0);
}

static void max_looks_at_everybody_whatever_the_weight(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_MAX;
        table->round.rank[r].weight = r % 2;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        table->wanted[i] = table->data[0][i];
        for (uint32_t r = 1; r < RANKS; r++) {
            if (table->data[r][i] > table->wanted[i]) {
                table->wanted[i] = table->data[r][i];
            }
        }
    }
    reduce_run(&table->round);
    assert_outputs(table);
    assert_int_equal(table->round.contributors, 2);
}

static void a_broadcast_gives_everybody_the_bits_of_the_root(void **state)
{
    struct table *table = *state;

    table->data[2][7] = NAN;
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = WIRE_OP_COPY;
        if (r != 2) {
            table->round.rank[r].data = NULL;
            table->round.rank[r].weight = 0;
        }
    }
    table->round.output[2] = table->data[2]; /* the root's own memory */
    memcpy(table->wanted, table->data[2], sizeof(table->wanted));
    reduce_run(&table->round);
    for (uint32_t r = 0; r < RANKS; r++) {
        assert_memory_equal(table->round.output[r], table->wanted,
                            sizeof(table->wanted));
    }
}

static void gathering_keeps_rank_order_and_lengths(void **state)
{
    static const uint32_t lengths[] = { 12, 0, 4000, 4 };
    struct table *table = *state;
    size_t room = reduce_gather_size(RANKS, 4000);
    char *wanted = mem_zalloc(room);
    char *out[2] = { mem_zalloc(room), mem_zalloc(room) };
    size_t at = RANKS * 8;

    assert_int_equal(room, RANKS * (8 + 4000));
    table->tensor.kind = PSD_KIND_GATHER;
    table->round.size = 4000;
    table->round.outputs = 2;
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = WIRE_OP_GATHER;
        table->round.rank[r].length = lengths[r];
        le_put_u64(wanted + 8 * r, lengths[r]);
        memcpy(wanted + at, table->data[r], lengths[r]);
        at += lengths[r];
        table->round.output[r] = out[r % 2];
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.length, at);
    assert_memory_equal(out[0], wanted, room);
    assert_memory_equal(out[1], wanted, room);
    /* Without rank 2, who has joined. */
    table->round.rank[2].data = NULL;
    reduce_run(&table->round);
    assert_int_equal(table->round.length, RANKS * 8 + 16);
    assert_int_equal(le_get_u64(out[0] + 16), 0);
    assert_memory_equal(out[0] + RANKS * 8 + 12, table->data[3], 4);
    mem_free(wanted);
    mem_free(out[0]);
    mem_free(out[1]);
}

/* ---- values that the server owns ---------------------------------------- */

struct small_model {
    float value[COUNT];
    float velocity[COUNT];
};

static void small_step(struct small_model *model, const char *optim,
                       const float *grad, float rate, float momentum)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        volatile float step = grad[i];

        if (strcmp(optim, "momentum") == 0) {
            volatile float kept = momentum * model->velocity[i];

            model->velocity[i] = kept + grad[i];
            step = model->velocity[i];
        }
        if (strcmp(optim, "add") != 0) {
            volatile float scaled = rate * step;

            model->value[i] = model->value[i] - scaled;
        } else {
            model->value[i] = model->value[i] + step;
        }
    }
}

static void twenty_steps_of(struct table *table, const char *optim)
{
    struct small_model *model = mem_zalloc(sizeof(*model));

    store_open(table, optim);
    for (uint64_t step = 0; step < 20; step++) {
        table->round.step = step;
        for (uint32_t r = 0; r < RANKS; r++) {
            table->round.rank[r].weight = (double)((step + r) % 3);
            for (uint32_t i = 0; i < COUNT; i++) {
                table->data[r][i] = (float)((double)(claim_mix(
                    step * 7919 + r * 100003 + i) >> 30) * 0x1p-34 - 0.5);
            }
        }
        mean_of(table);
        small_step(model, optim, table->wanted, 0.1f, 0.9f);
        reduce_run(&table->round);
        memcpy(table->wanted, model->value, sizeof(table->wanted));
        assert_outputs(table);
    }
    mem_free(table->round.value);
    mem_free(model);
}

static void add_follows_its_reference_for_20_steps(void **state)
{
    twenty_steps_of(*state, "add");
}

static void sgd_follows_its_reference_for_20_steps(void **state)
{
    twenty_steps_of(*state, "sgd");
}

static void momentum_follows_its_reference_for_20_steps(void **state)
{
    twenty_steps_of(*state, "momentum");
}

static void a_broadcast_sets_the_value_that_is_owned(void **state)
{
    struct table *table = *state;

    store_open(table, "momentum");
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = WIRE_OP_COPY;
        if (r != 1) {
            table->round.rank[r].data = NULL;
        }
    }
    memcpy(table->wanted, table->data[1], sizeof(table->wanted));
    reduce_run(&table->round);
    assert_outputs(table);
    assert_memory_equal(table->round.value, table->wanted,
                        sizeof(table->wanted));
    mem_free(table->round.value);
}

static void a_step_without_weight_or_data_leaves_the_value(void **state)
{
    struct table *table = *state;

    store_open(table, "sgd");
    for (uint32_t i = 0; i < COUNT; i++) {
        table->round.value[i] = (float)i;
        table->wanted[i] = (float)i;
    }
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].weight = 0;
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.flags, FRAME_FLAG_NOWEIGHT);
    assert_outputs(table); /* the value is the answer */
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].data = NULL;
        memset(table->out[r], 0, sizeof(table->out[r]));
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.flags, FRAME_FLAG_NOBODY);
    assert_int_equal(table->round.length, 0);
    assert_memory_equal(table->round.value, table->wanted,
                        sizeof(table->wanted));
    mem_free(table->round.value);
}

/* ---- not finite --------------------------------------------------------- */

static void the_first_rank_that_is_not_finite_is_named(void **state)
{
    struct table *table = *state;
    struct reduce_rank *rank = table->round.rank;

    for (uint32_t r = 0; r < RANKS; r++) { /* in place */
        table->round.output[r] = table->data[r];
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
    table->data[1][COUNT - 1] = -INFINITY;
    table->data[3][0] = NAN;
    rank[0].data = NULL; /* who is absent does not shift the others */
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 1 + 1);
    assert_int_equal(table->round.flags, 0);
    reduce_run(&table->round); /* all have the sum now */
    assert_int_equal(table->round.bad, 1 + 1);
    rank[1].weight = 0; /* is not looked at */
    table->data[2][0] = 1;
    table->data[2][COUNT - 1] = 1;
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 3 + 1);
}

static void a_sum_that_overflows_is_no_ranks_fault(void **state)
{
    struct table *table = *state;

    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_SUM;
        table->data[r][7] = 3e38f;
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, RANKS + 1);
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_MEAN;
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
}

static void only_sums_are_looked_at(void **state)
{
    struct table *table = *state;

    table->data[2][1] = NAN;
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = PSD_OP_MAX;
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        table->round.rank[r].op = WIRE_OP_COPY;
        table->round.rank[r].data = r == 2 ? table->data[2] : NULL;
        table->round.rank[r].weight = r == 2;
    }
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
    table->round.rank[2].weight = 0;
    table->round.rank[2].op = PSD_OP_MEAN;
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
    assert_int_equal(table->round.flags, FRAME_FLAG_NOWEIGHT);
}

static void what_is_applied_to_a_stored_value_is_looked_at(void **state)
{
    struct table *table = *state;

    table->tensor.kind = PSD_KIND_STORE;
    snprintf(table->tensor.optim, sizeof(table->tensor.optim), "add");
    table->round.value = mem_zalloc(sizeof(table->data[0]));
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 0);
    table->data[3][0] = NAN;
    table->data[1][COUNT - 1] = INFINITY; /* in the last chunk */
    reduce_run(&table->round);
    assert_int_equal(table->round.bad, 1 + 1);
    table->data[3][0] = 1;
    table->data[1][COUNT - 1] = 1;
    reduce_run(&table->round); /* the value is a NaN for ever */
    assert_int_equal(table->round.bad, 0);
    mem_free(table->round.value);
}

static void of_several_blocks_the_lowest_rank_counts(void **state)
{
    (void)state;
    assert_int_equal(reduce_first_bad(0, 0), 0);
    assert_int_equal(reduce_first_bad(0, 5), 5);
    assert_int_equal(reduce_first_bad(5, 0), 5);
    assert_int_equal(reduce_first_bad(5, 2), 2);
    assert_int_equal(reduce_first_bad(2, 5), 2);
}

/* ---- the rest ----------------------------------------------------------- */

static void ops_fit_types_and_kinds(void **state)
{
    static const struct {
        psd_dtype dtype;
        psd_kind kind;
        bool fits[8]; /* by op */
    } rows[] = {
        { PSD_FLOAT32, PSD_KIND_REDUCE, { 0, 1, 1, 1, 0, 1, 0, 0 } },
        { PSD_FLOAT64, PSD_KIND_REDUCE, { 0, 1, 1, 1, 0, 1, 0, 0 } },
        { PSD_FLOAT16, PSD_KIND_REDUCE, { 0, 1, 1, 1, 0, 1, 0, 0 } },
        { PSD_BFLOAT16, PSD_KIND_REDUCE, { 0, 1, 1, 1, 0, 1, 0, 0 } },
        { PSD_INT32, PSD_KIND_REDUCE, { 0, 0, 1, 1, 1, 1, 0, 0 } },
        { PSD_INT64, PSD_KIND_REDUCE, { 0, 0, 1, 1, 1, 1, 0, 0 } },
        { PSD_FLOAT32, PSD_KIND_STORE, { 0, 1, 1, 0, 0, 1, 0, 0 } },
        { PSD_FLOAT32, PSD_KIND_GATHER, { 0, 0, 0, 0, 0, 0, 1, 0 } },
        { PSD_INT64, PSD_KIND_GATHER, { 0, 0, 0, 0, 0, 0, 1, 0 } },
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(rows); i++) {
        struct model_tensor tensor = { .dtype = rows[i].dtype,
                                       .kind = rows[i].kind };

        for (unsigned op = 0; op < 8; op++) {
            assert_int_equal(reduce_op_fits(&tensor, op), rows[i].fits[op]);
            assert_int_equal(reduce_zeros_fit(&tensor, op),
                             rows[i].fits[op] && op <= PSD_OP_OR &&
                                 op != PSD_OP_MAX);
        }
        assert_false(reduce_op_fits(&tensor, 255));
    }
}

static void out_of_memory_is_told_and_leaves_nothing(void **state)
{
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    while (status != PSD_OK) {
        struct reduce_round round;

        mem_fail_after(++n);
        status = reduce_round_init(&round, 3);
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        reduce_round_fini(&round);
    }
    assert_true(n > 1 && n < 20);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(the_mean_is_weighted_in_double_and_rounded_once),
        HERE(the_weights_of_float64_are_not_rounded_to_float),
        HERE(a_weight_of_zero_is_skipped_not_multiplied),
        HERE(the_sum_is_not_weighted),
        HERE(all_weights_zero_give_zeros_and_a_flag),
        HERE(nobody_leaves_the_outputs_untouched_and_a_flag),
        HERE(the_absent_get_the_mean_of_the_others),
        HERE(ops_that_disagree_change_nothing_and_are_told),
        HERE(max_looks_at_everybody_whatever_the_weight),
        HERE(a_broadcast_gives_everybody_the_bits_of_the_root),
        HERE(gathering_keeps_rank_order_and_lengths),
        HERE(add_follows_its_reference_for_20_steps),
        HERE(sgd_follows_its_reference_for_20_steps),
        HERE(momentum_follows_its_reference_for_20_steps),
        HERE(a_broadcast_sets_the_value_that_is_owned),
        HERE(a_step_without_weight_or_data_leaves_the_value),
        HERE(the_first_rank_that_is_not_finite_is_named),
        HERE(a_sum_that_overflows_is_no_ranks_fault),
        HERE(only_sums_are_looked_at),
        HERE(what_is_applied_to_a_stored_value_is_looked_at),
        cmocka_unit_test(of_several_blocks_the_lowest_rank_counts),
        cmocka_unit_test(ops_fit_types_and_kinds),
        cmocka_unit_test(out_of_memory_is_told_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
