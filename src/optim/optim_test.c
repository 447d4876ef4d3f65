/*
 * optim_test.c: the rows with numbers worked out by hand. What holds for
 * every row is in tests/conform/optim_test.c.
 */
#include "base/claim.h"
#include "optim/optim.h"

static void rows_are_found_by_name(void **state)
{
    (void)state;
    assert_ptr_equal(optim_find("add"), &psd_optim_add);
    assert_ptr_equal(optim_find("sgd"), &psd_optim_sgd);
    assert_ptr_equal(optim_find("momentum"), &psd_optim_momentum);
    assert_null(optim_find("adamant"));
    assert_null(optim_find("Add"));
    assert_null(optim_find(""));
}

static void add_adds_and_has_no_knobs(void **state)
{
    struct psd_knobs knobs = { 100.0f, 100.0f };
    float value[] = { 1.0f, -2.0f, 0.5f };
    const float grad[] = { 0.25f, 2.0f, -8.0f };
    const float wanted[] = { 1.25f, 0.0f, -7.5f };

    (void)state;
    psd_optim_add.apply(&knobs, 0, value, grad, NULL, 3);
    assert_memory_equal(value, wanted, sizeof(wanted));
}

static void sgd_goes_down_by_rate_times_gradient(void **state)
{
    struct psd_knobs knobs = { 0.5f, 100.0f };
    float value[] = { 1.0f, -2.0f, 0.5f };
    const float grad[] = { 0.5f, 2.0f, -8.0f };
    const float wanted[] = { 0.75f, -3.0f, 4.5f };

    (void)state;
    psd_optim_sgd.apply(&knobs, 3, value, grad, NULL, 3);
    assert_memory_equal(value, wanted, sizeof(wanted));
}

/* velocity = m velocity + g; value -= rate velocity. */
static void momentum_gathers_speed_step_by_step(void **state)
{
    struct psd_knobs knobs = { 0.5f, 0.5f };
    float value[] = { 1.0f };
    float velocity[] = { 0.0f };
    float *slot[] = { velocity };
    const float grad[] = { 1.0f };
    const float values[] = { 0.5f, -0.25f, -1.125f };
    const float velocities[] = { 1.0f, 1.5f, 1.75f };

    (void)state;
    for (unsigned step = 0; step < 3; step++) {
        psd_optim_momentum.apply(&knobs, step, value, grad, slot, 1);
        assert_true(velocity[0] == velocities[step]);
        assert_true(value[0] == values[step]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_by_name),
        cmocka_unit_test(add_adds_and_has_no_knobs),
        cmocka_unit_test(sgd_goes_down_by_rate_times_gradient),
        cmocka_unit_test(momentum_gathers_speed_step_by_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
