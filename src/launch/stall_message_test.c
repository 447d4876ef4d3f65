/* stall_message_test.c: stalls and looks arrive whole or not at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "launch/stall_message.h"

static void a_stall_arrives_whole_or_not_at_all(void **state)
{
    struct launch_stall stall = { .kind = LAUNCH_STALL_TENSOR,
                                  .waited_ms = 61000,
                                  .waiters = 3,
                                  .step = 12,
                                  .tensors = 2,
                                  .tensor = "fc.weight",
                                  .more = 1,
                                  .count = 2,
                                  .stalled = { { 0, 1, 1 }, { 1, 4, 0 } } };
    struct launch_stall got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    launch_stall_pack(&pack, &stall);
    assert_int_equal(launch_stall_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_string_equal(got.tensor, "fc.weight");
    assert_int_equal(got.waited_ms, 61000);
    assert_int_equal(got.count, 2);
    assert_int_equal(got.stalled[1].rank, 4);
    assert_int_equal(got.stalled[1].is_server, 1);
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(launch_stall_unpack(&got, pack.data, size),
                         PSD_EPROTO);
    }
    pack_u8(&pack, 0);
    assert_int_equal(launch_stall_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

/* The count is the last number before the entries. */
static void a_stall_with_values_out_of_range_is_refused(void **state)
{
    struct launch_stall stall = { .kind = LAUNCH_STALL_SILENT + 1 };
    struct launch_stall got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    launch_stall_pack(&pack, &stall);
    assert_int_equal(launch_stall_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
    stall.kind = LAUNCH_STALL_TENSOR;
    pack_init(&pack);
    launch_stall_pack(&pack, &stall);
    memset(pack.data + pack.size - 4, 0xff, 4);
    assert_int_equal(launch_stall_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
    stall.count = 1;
    stall.stalled[0].how = LAUNCH_STALL_SUSPECT + 1;
    pack_init(&pack);
    launch_stall_pack(&pack, &stall);
    assert_int_equal(launch_stall_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

static void a_look_arrives_whole_or_not_at_all(void **state)
{
    struct launch_look look = { .pid = 7,
                                .state = 'S',
                                .stack_is = LAUNCH_STACK_SHOWN,
                                .name = "python3",
                                .where = "do_poll",
                                .stack = "File \"a.py\"\n" };
    static struct launch_look got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    launch_look_pack(&pack, &look);
    assert_int_equal(launch_look_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_int_equal(got.state, 'S');
    assert_string_equal(got.where, "do_poll");
    assert_string_equal(got.stack, "File \"a.py\"\n");
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(launch_look_unpack(&got, pack.data, size),
                         PSD_EPROTO);
    }
    pack.data[5] = LAUNCH_STACK_SILENT + 1;
    assert_int_equal(launch_look_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stall_arrives_whole_or_not_at_all),
        cmocka_unit_test(a_stall_with_values_out_of_range_is_refused),
        cmocka_unit_test(a_look_arrives_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
