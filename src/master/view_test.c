/* view_test.c: what the workers report adds up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/clock.h"
#include "master/view.h"

static void note(struct view *view, uint32_t rank, uint64_t step, double loss,
                 uint64_t samples, uint64_t now_s)
{
    struct message_metrics metrics = { .step = step,
                                       .loss = loss,
                                       .samples = samples,
                                       .exchanged_bytes = 100,
                                       .wire_bytes = 10,
                                       .wait_ns = CLOCK_NS_PER_S / 2 };

    view_note(view, rank, &metrics, now_s * CLOCK_NS_PER_S);
}

static void a_view_adds_up_the_workers(void **state)
{
    struct launch_view out;
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 3), PSD_OK);
    view_open(&view, CLOCK_NS_PER_S);
    note(&view, 0, 8, (double)NAN, 100, 3);
    note(&view, 1, 7, 0.5, 300, 5);
    view_compose(&view, &out);
    assert_int_equal(out.step, 7); /* worker 2 has not said a word */
    assert_true(out.loss == 0.5);
    assert_int_equal(out.samples, 400);
    assert_true(fabs(out.mean_rate - 100.0) < 1e-9);
    assert_int_equal(out.exchanged_bytes, 200);
    assert_int_equal(out.wire_bytes, 20);
    assert_true(fabs(out.wait_share - 0.125) < 1e-9);
    view_fini(&view);
}

static void the_rate_is_a_recent_one(void **state)
{
    struct launch_view out;
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 1), PSD_OK);
    view_open(&view, 0);
    for (uint64_t i = 1; i <= 100; i++) { /* fast, then slow */
        note(&view, 0, i, 1.0, i < 50 ? i * 1000 : 50000 + i, i);
    }
    view_compose(&view, &out);
    assert_true(fabs(out.rate - 1.0) < 1e-9);
    assert_true(out.mean_rate > 500.0);
    view_fini(&view);
}

static void nothing_known_is_no_division_by_zero(void **state)
{
    struct launch_view out;
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 2), PSD_OK);
    view_compose(&view, &out);
    assert_true(isnan(out.loss));
    assert_true(out.rate == 0.0);
    assert_true(out.mean_rate == 0.0);
    assert_true(out.wait_share == 0.0);
    view_fini(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_adds_up_the_workers),
        cmocka_unit_test(the_rate_is_a_recent_one),
        cmocka_unit_test(nothing_known_is_no_division_by_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
