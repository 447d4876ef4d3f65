/* launch_view_test.c: a view arrives whole, with as many cells as a job may
 * have, or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "launch/launch_message.h"

#define FRONT_SIZE 129 /* everything before the cells */
#define CELL_SIZE  47

static struct launch_view view;
static struct launch_view got;

static void fill(uint32_t count)
{
    view = (struct launch_view){.workers_in = 3,
                                .step = 3,
                                .loss = 0.5,
                                .sent_rate = 7,
                                .compute_ns = 8,
                                .compared = 9,
                                .cell_count = count};
    for (uint32_t i = 0; i < count; i++) {
        view.cells[i] = (struct launch_cell){.state = (uint8_t)(i % 4),
                                             .slow = (uint16_t)(i * 3),
                                             .lag = i * 5,
                                             .step = i * 7,
                                             .compute_ns = i * 11,
                                             .wait_ns = i * 13,
                                             .sent_bytes = i * 17,
                                             .received_bytes = i * 19};
    }
}

static void a_view_of_every_worker_arrives_as_it_was_sent(void **state)
{
    struct pack pack;

    (void)state;
    fill(WIRE_RANKS_MAX);
    pack_init(&pack);
    launch_view_pack(&pack, &view);
    assert_int_equal(pack.size, FRONT_SIZE + WIRE_RANKS_MAX * CELL_SIZE);
    assert_int_equal(launch_view_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_int_equal(got.cell_count, WIRE_RANKS_MAX);
    for (uint32_t i = 0; i < WIRE_RANKS_MAX; i++) {
        assert_int_equal(got.cells[i].state, view.cells[i].state);
        assert_int_equal(got.cells[i].slow, view.cells[i].slow);
        assert_int_equal(got.cells[i].lag, view.cells[i].lag);
        assert_int_equal(got.cells[i].step, view.cells[i].step);
        assert_int_equal(got.cells[i].compute_ns, view.cells[i].compute_ns);
        assert_int_equal(got.cells[i].wait_ns, view.cells[i].wait_ns);
        assert_int_equal(got.cells[i].sent_bytes, view.cells[i].sent_bytes);
        assert_int_equal(got.cells[i].received_bytes,
                         view.cells[i].received_bytes);
    }
    pack_fini(&pack);
}

static void a_view_cut_anywhere_is_refused(void **state)
{
    struct pack pack;

    (void)state;
    fill(2);
    pack_init(&pack);
    launch_view_pack(&pack, &view);
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(launch_view_unpack(&got, pack.data, size), PSD_EPROTO);
    }
    pack_fini(&pack);
}

static void more_cells_than_a_job_may_have_are_refused(void **state)
{
    struct pack pack;

    (void)state;
    fill(0);
    pack_init(&pack);
    launch_view_pack(&pack, &view);
    for (uint32_t i = 0; i < WIRE_RANKS_MAX + 1; i++) {
        pack_bytes(&pack, (uint8_t[CELL_SIZE]){0}, CELL_SIZE);
    }
    pack.data[FRONT_SIZE - 4] = (WIRE_RANKS_MAX + 1) & 0xff;
    pack.data[FRONT_SIZE - 3] = (WIRE_RANKS_MAX + 1) >> 8;
    assert_int_equal(launch_view_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    memset(pack.data + FRONT_SIZE - 4, 0xff, 4);
    assert_int_equal(launch_view_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

static void a_state_that_is_none_is_refused(void **state)
{
    struct pack pack;

    (void)state;
    fill(1);
    view.cells[0].state = LAUNCH_CELL_LOST + 1;
    pack_init(&pack);
    launch_view_pack(&pack, &view);
    assert_int_equal(launch_view_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_of_every_worker_arrives_as_it_was_sent),
        cmocka_unit_test(a_view_cut_anywhere_is_refused),
        cmocka_unit_test(more_cells_than_a_job_may_have_are_refused),
        cmocka_unit_test(a_state_that_is_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
