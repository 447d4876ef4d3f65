/* view_test.c: what the workers report adds up, and the slow one is found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/clock.h"
#include "master/view.h"

#define S  CLOCK_NS_PER_S
#define MS CLOCK_NS_PER_MS

static struct launch_view out;

static void note(struct view *view, uint32_t rank, uint64_t step, double loss,
                 uint64_t samples, uint64_t now_s)
{
    struct message_metrics metrics = {.step = step,
                                      .loss = loss,
                                      .samples = samples,
                                      .exchanged_bytes = 100,
                                      .sent_bytes = 4,
                                      .received_bytes = 6,
                                      .elapsed_ns = 4 * S,
                                      .wait_ns = S / 2};

    view_note(view, rank, &metrics, now_s * S);
}

static void a_view_adds_up_the_workers(void **state)
{
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 3), PSD_OK);
    view_open(&view, S);
    note(&view, 0, 8, (double)NAN, 100, 3);
    note(&view, 1, 7, 0.5, 300, 5);
    view_compose(&view, &out);
    assert_int_equal(out.step, 7); /* worker 2 has not said a word */
    assert_true(out.loss == 0.5);
    assert_int_equal(out.samples, 400);
    assert_true(fabs(out.mean_rate - 100.0) < 1e-9);
    assert_int_equal(out.exchanged_bytes, 200);
    assert_int_equal(out.wire_bytes, 20);
    assert_true(fabs(out.sent_rate - 2.0) < 1e-9);
    assert_true(fabs(out.received_rate - 3.0) < 1e-9);
    assert_true(fabs(out.exchanged_rate - 50.0) < 1e-9);
    assert_true(fabs(out.wait_share - 0.125) < 1e-9);
    assert_int_equal(out.cell_count, 0);
    view_fini(&view);
}

static void the_rate_is_a_recent_one(void **state)
{
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
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 2), PSD_OK);
    view_compose(&view, &out);
    view_cells(&view, S, &out);
    assert_true(isnan(out.loss));
    assert_true(out.rate == 0.0);
    assert_true(out.mean_rate == 0.0);
    assert_true(out.wait_share == 0.0);
    assert_int_equal(out.compute_ns + out.wait_ns, 0);
    assert_int_equal(out.cell_count, 2);
    view_fini(&view);
}

/* ---- step times --------------------------------------------------------- */

/* A worker that has trained for `at_ns` with steps of so many ms. */
static void pace(struct view *view, uint32_t rank, uint64_t at_ns,
                 uint64_t step_ms, uint64_t wait_ms, uint64_t now_ns)
{
    uint64_t step = at_ns / (step_ms * MS);
    struct message_metrics metrics = {.step = 5000 + step, /* resumed */
                                      .elapsed_ns = step * step_ms * MS,
                                      .wait_ns = step * wait_ms * MS};

    view_note(view, rank, &metrics, now_ns);
}

static void everybody_in(struct view *view)
{
    for (uint32_t i = 0; i < view->workers; i++) {
        view_state(view, i, LAUNCH_CELL_IN);
    }
}

static void a_steps_time_is_split_exactly(void **state)
{
    static const uint64_t step_ms[] = {3, 120, 700, 30000};
    struct view view;

    (void)state;
    for (size_t i = 0; i < sizeof(step_ms) / sizeof(step_ms[0]); i++) {
        assert_int_equal(view_init(&view, 1), PSD_OK);
        view_open(&view, S);
        everybody_in(&view);
        for (uint64_t t = 1; t < 100; t++) {
            pace(&view, 0, t * S, step_ms[i], step_ms[i] / 3, (t + 1) * S);
        }
        view_compose(&view, &out);
        assert_int_equal(out.compute_ns + out.wait_ns, step_ms[i] * MS);
        assert_int_equal(out.wait_ns, step_ms[i] / 3 * MS);
        assert_int_equal(out.workers_in, 1);
        view_fini(&view);
    }
}

static void steps_that_run_backwards_start_anew(void **state)
{
    struct view view;
    struct message_metrics metrics = {.step = 90, .elapsed_ns = 9 * S};

    (void)state;
    assert_int_equal(view_init(&view, 1), PSD_OK);
    view_open(&view, S);
    view_note(&view, 0, &metrics, 2 * S);
    metrics = (struct message_metrics){.step = 1, .elapsed_ns = 10 * S};
    view_note(&view, 0, &metrics, 3 * S);
    metrics = (struct message_metrics){.step = 3, .elapsed_ns = 12 * S};
    view_note(&view, 0, &metrics, 4 * S);
    view_compose(&view, &out);
    assert_int_equal(out.compute_ns, S);
    view_fini(&view);
}

/* ---- slow and behind ---------------------------------------------------- */

/* Reports of all, once a second until `seconds`; worker 1 computes for
 * `slow_ms` of 100. Returns the view with cells. */
static void train(struct view *view, uint64_t from, uint64_t seconds,
                  uint64_t slow_ms)
{
    for (uint64_t t = from; t < seconds; t++) {
        for (uint32_t i = 0; i < view->workers; i++) {
            pace(view, i, t * S, 100, i == 1 ? 100 - slow_ms : 60, (t + 1) * S);
        }
        view_cells(view, (t + 1) * S, &out);
    }
}

static void a_worker_is_slow_after_some_seconds_and_no_longer(void **state)
{
    struct view view;

    (void)state;
    for (uint32_t workers = 2; workers < 6; workers++) {
        assert_int_equal(view_init(&view, workers), PSD_OK);
        view_open(&view, S);
        everybody_in(&view);
        train(&view, 1, 4, 90);
        assert_int_equal(out.cells[1].slow, 0); /* not at once */
        train(&view, 4, 12, 90);
        assert_int_equal(out.cells[1].slow, 225);
        assert_int_equal(out.cells[0].slow, 0);
        assert_int_equal(out.cells[1].compute_ns, 90 * MS);
        assert_int_equal(out.cells[1].lag, 0);
        view_fini(&view);
    }
}

static void a_little_slower_is_not_slow(void **state)
{
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 4), PSD_OK);
    view_open(&view, S);
    everybody_in(&view);
    train(&view, 1, 30, 52); /* exactly 1.3 x 40 */
    assert_int_equal(out.cells[1].slow, 0);
    view_fini(&view);
}

static void nobody_is_slow_alone_or_gone(void **state)
{
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 3), PSD_OK);
    view_open(&view, S);
    view_state(&view, 1, LAUNCH_CELL_IN);
    train(&view, 1, 20, 90);
    assert_int_equal(out.cells[1].slow, 0);
    everybody_in(&view);
    view_state(&view, 1, LAUNCH_CELL_DONE);
    train(&view, 20, 40, 90);
    assert_int_equal(out.cells[1].slow, 0);
    assert_int_equal(out.cells[1].state, LAUNCH_CELL_DONE);
    view_fini(&view);
}

static void reports_at_different_moments_are_no_lag(void **state)
{
    static const uint64_t step_ms[] = {1, 10, 100, 900, 5000};
    struct view view;

    (void)state;
    for (size_t i = 0; i < sizeof(step_ms) / sizeof(step_ms[0]); i++) {
        assert_int_equal(view_init(&view, 2), PSD_OK);
        view_open(&view, S);
        everybody_in(&view);
        for (uint64_t t = 1; t < 30; t++) { /* half a second apart */
            pace(&view, 0, t * S, step_ms[i], 0, t * S);
            view_cells(&view, t * S, &out);
            assert_int_equal(out.cells[0].lag + out.cells[1].lag, 0);
            pace(&view, 1, t * S + S / 2, step_ms[i], 0, t * S + S / 2);
            view_cells(&view, t * S + S / 2, &out);
            assert_int_equal(out.cells[0].lag + out.cells[1].lag, 0);
        }
        view_fini(&view);
    }
}

static void who_stays_behind_lags(void **state)
{
    struct view view;

    (void)state;
    assert_int_equal(view_init(&view, 2), PSD_OK);
    view_open(&view, S);
    everybody_in(&view);
    for (uint64_t t = 1; t < 30; t++) {
        pace(&view, 0, t * S, 100, 0, t * S);
        pace(&view, 1, t * S, 200, 0, t * S); /* half as fast */
    }
    view_cells(&view, 29 * S, &out);
    assert_int_equal(out.cells[0].lag, 0);
    assert_int_equal(out.cells[1].lag, 145);
    for (uint64_t t = 30; t < 60; t++) { /* and then not at all */
        pace(&view, 0, t * S, 100, 0, t * S);
    }
    view_cells(&view, 59 * S, &out);
    assert_in_range(out.cells[1].lag, 437, 445);
    view_fini(&view);
}

static void views_and_cells_have_their_rhythm(void **state)
{
    struct view view;
    unsigned views = 0;
    unsigned cells = 0;

    (void)state;
    assert_int_equal(view_init(&view, 1), PSD_OK);
    for (uint64_t t = 1; t <= 10000; t++) {
        if (view_due(&view, t * MS)) {
            views++;
            cells += view_cells_due(&view, t * MS);
        }
    }
    assert_in_range(views, 99, 101);
    assert_in_range(cells, 9, 11);
    view_fini(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_adds_up_the_workers),
        cmocka_unit_test(the_rate_is_a_recent_one),
        cmocka_unit_test(nothing_known_is_no_division_by_zero),
        cmocka_unit_test(a_steps_time_is_split_exactly),
        cmocka_unit_test(steps_that_run_backwards_start_anew),
        cmocka_unit_test(a_worker_is_slow_after_some_seconds_and_no_longer),
        cmocka_unit_test(a_little_slower_is_not_slow),
        cmocka_unit_test(nobody_is_slow_alone_or_gone),
        cmocka_unit_test(reports_at_different_moments_are_no_lag),
        cmocka_unit_test(who_stays_behind_lags),
        cmocka_unit_test(views_and_cells_have_their_rhythm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
