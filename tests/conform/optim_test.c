/*
 * optim_test.c: one suite over every row of the optim table. A row comes with
 * a reference here, or the suite fails.
 */
#include <math.h>

#include "base/claim.h"
#include "base/mem.h"
#include "optim/optim.h"

#define COUNT 4099
#define STEPS 20

static const struct psd_knobs knobs = { 0.1f, 0.9f };

/* ---- references: one element, one step ---------------------------------- */

typedef void reference_call(float *value, float grad, float slot[]);

static void add_reference(float *value, float grad, float slot[])
{
    (void)slot;
    *value = *value + grad;
}

static void sgd_reference(float *value, float grad, float slot[])
{
    volatile float change = knobs.rate * grad;

    (void)slot;
    *value = *value - change;
}

static void momentum_reference(float *value, float grad, float slot[])
{
    volatile float kept = knobs.momentum * slot[0];
    volatile float change;

    slot[0] = kept + grad;
    change = knobs.rate * slot[0];
    *value = *value - change;
}

static const struct {
    const char *name;
    reference_call *call;
} references[] = {
    { "add", add_reference },
    { "sgd", sgd_reference },
    { "momentum", momentum_reference },
};

/* ---- a block with its state --------------------------------------------- */

struct block {
    float value[COUNT];
    float slots[OPTIM_SLOTS_MAX][COUNT];
};

struct pair {
    struct block one;
    struct block two;
    float grad[COUNT];
};

static void make_grad(float *grad, uint64_t step)
{
    for (uint64_t i = 0; i < COUNT; i++) {
        grad[i] = (float)((double)(claim_mix(step * 1000003 + i) >> 30) *
                              0x1p-33 - 1.0);
    }
}

static struct pair *pair_create(void)
{
    struct pair *pair = mem_zalloc(sizeof(*pair));

    make_grad(pair->one.value, 999);
    memcpy(pair->two.value, pair->one.value, sizeof(pair->one.value));
    return pair;
}

static void apply(const struct psd_optim *optim, struct block *block,
                  const float *grad, uint64_t step, size_t from, size_t count)
{
    float *slot[OPTIM_SLOTS_MAX];

    for (unsigned i = 0; i < OPTIM_SLOTS_MAX; i++) {
        slot[i] = i < optim->slots ? block->slots[i] + from : NULL;
    }
    optim->apply(&knobs, step, block->value + from, grad + from, slot, count);
}

/* ---- claims ------------------------------------------------------------- */

static void the_row_is_complete(void **state)
{
    const struct psd_optim *optim = *state;

    assert_true(strlen(optim->name) > 0 && strlen(optim->name) < 32);
    assert_true(strlen(optim->summary) > 0);
    assert_true(optim->slots <= OPTIM_SLOTS_MAX);
    assert_true(optim->apply != NULL);
    assert_ptr_equal(optim_find(optim->name), optim);
}

static void nothing_happens_to_no_elements(void **state)
{
    struct pair *pair = pair_create();

    apply(*state, &pair->one, pair->grad, 0, 0, 0);
    assert_memory_equal(&pair->one, &pair->two, sizeof(pair->one));
    mem_free(pair);
}

static void each_step_is_the_reference_to_the_bit(void **state)
{
    const struct psd_optim *optim = *state;
    struct pair *pair = pair_create();
    reference_call *reference = NULL;

    for (size_t i = 0; i < CLAIM_COUNT(references); i++) {
        if (strcmp(references[i].name, optim->name) == 0) {
            reference = references[i].call;
        }
    }
    assert_true(reference != NULL);
    for (uint64_t step = 0; step < STEPS; step++) {
        make_grad(pair->grad, step);
        apply(optim, &pair->one, pair->grad, step, 0, COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            float slot[OPTIM_SLOTS_MAX];

            for (unsigned k = 0; k < OPTIM_SLOTS_MAX; k++) {
                slot[k] = pair->two.slots[k][i];
            }
            reference(&pair->two.value[i], pair->grad[i], slot);
            for (unsigned k = 0; k < OPTIM_SLOTS_MAX; k++) {
                pair->two.slots[k][i] = slot[k];
            }
        }
        assert_memory_equal(&pair->one, &pair->two, sizeof(pair->one));
    }
    mem_free(pair);
}

static void a_block_cut_into_parts_gets_the_same_bits(void **state)
{
    static const size_t parts[] = { 1, 3, 8, 17, 1024, COUNT - 1 };

    for (size_t k = 0; k < CLAIM_COUNT(parts); k++) {
        struct pair *pair = pair_create();

        for (uint64_t step = 0; step < 5; step++) {
            make_grad(pair->grad, step);
            apply(*state, &pair->one, pair->grad, step, 0, COUNT);
            for (size_t from = 0; from < COUNT; from += parts[k]) {
                size_t left = COUNT - from;

                apply(*state, &pair->two, pair->grad, step, from,
                      left < parts[k] ? left : parts[k]);
            }
            assert_memory_equal(&pair->one, &pair->two, sizeof(pair->one));
        }
        mem_free(pair);
    }
}

static void the_gradient_and_its_neighbours_are_left_alone(void **state)
{
    struct pair *pair = pair_create();
    float before[COUNT];

    make_grad(pair->grad, 1);
    memcpy(before, pair->grad, sizeof(before));
    apply(*state, &pair->one, pair->grad, 0, 10, 20);
    assert_memory_equal(pair->grad, before, sizeof(before));
    assert_memory_equal(pair->one.value, pair->two.value, 10 * 4);
    assert_memory_equal(pair->one.value + 30, pair->two.value + 30,
                        (COUNT - 30) * 4);
    for (unsigned k = 0; k < OPTIM_SLOTS_MAX; k++) {
        assert_memory_equal(pair->one.slots[k], pair->two.slots[k], 10 * 4);
        assert_memory_equal(pair->one.slots[k] + 30, pair->two.slots[k] + 30,
                            (COUNT - 30) * 4);
    }
    mem_free(pair);
}

static void a_zero_gradient_from_zeroed_slots_moves_nothing(void **state)
{
    struct pair *pair = pair_create();

    memset(pair->grad, 0, sizeof(pair->grad));
    for (uint64_t step = 0; step < 3; step++) {
        apply(*state, &pair->one, pair->grad, step, 0, COUNT);
    }
    assert_memory_equal(pair->one.value, pair->two.value,
                        sizeof(pair->one.value));
    mem_free(pair);
}

static void a_nan_stays_in_its_element(void **state)
{
    struct pair *pair = pair_create();

    make_grad(pair->grad, 1);
    pair->grad[5] = NAN;
    apply(*state, &pair->one, pair->grad, 0, 0, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_int_equal(isnan(pair->one.value[i]) != 0, i == 5);
    }
    mem_free(pair);
}

#define CLAIM(name) { #name, name }

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction call;
    } claims[] = {
        CLAIM(the_row_is_complete),
        CLAIM(nothing_happens_to_no_elements),
        CLAIM(each_step_is_the_reference_to_the_bit),
        CLAIM(a_block_cut_into_parts_gets_the_same_bits),
        CLAIM(the_gradient_and_its_neighbours_are_left_alone),
        CLAIM(a_zero_gradient_from_zeroed_slots_moves_nothing),
        CLAIM(a_nan_stays_in_its_element),
    };
    enum { CLAIMS = CLAIM_COUNT(claims), ROWS_MAX = 16 };
    static struct CMUnitTest tests[CLAIMS * ROWS_MAX];
    static char names[CLAIMS * ROWS_MAX][128];
    size_t count = 0;

    for (size_t row = 0; psd_optims[row] != NULL && row < ROWS_MAX; row++) {
        for (size_t i = 0; i < CLAIMS; i++, count++) {
            snprintf(names[count], sizeof(names[count]), "%s: %s",
                     psd_optims[row]->name, claims[i].name);
            tests[count] = (struct CMUnitTest){
                .name = names[count],
                .test_func = claims[i].call,
                .initial_state = (void *)(uintptr_t)psd_optims[row],
            };
        }
    }
    return _cmocka_run_group_tests("optim", tests, count, NULL, NULL);
}
