/* standing_test.c: what a worker says about its wait arrives whole or not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "wire/standing.h"

/* Pack, unpack, and refuse one byte less and one byte more. */
#define ROUND_TRIP(name, from, to)                                             \
    do {                                                                       \
        struct pack pack;                                                      \
        pack_init(&pack);                                                      \
        message_##name##_pack(&pack, &(from));                                 \
        for (size_t cut = 0; cut < pack.size; cut++) {                         \
            assert_int_equal(message_##name##_unpack(&(to), pack.data, cut),   \
                             PSD_EPROTO);                                      \
        }                                                                      \
        assert_int_equal(message_##name##_unpack(&(to), pack.data, pack.size), \
                         PSD_OK);                                              \
        pack_u8(&pack, 0);                                                     \
        assert_int_equal(message_##name##_unpack(&(to), pack.data, pack.size), \
                         PSD_EPROTO);                                          \
        pack_fini(&pack);                                                      \
    } while (0)

static void each_arrives_whole_or_not_at_all(void **state)
{
    struct message_stuck stuck = { .what = STANDING_TENSOR,
                                   .tensor = 7,
                                   .step = UINT64_C(1) << 40,
                                   .tensors = 3,
                                   .shard = STANDING_NO_SHARD,
                                   .waited_ns = 5 };
    struct message_who who = { .what = STANDING_JOIN, .tensor = 2, .step = 9 };
    struct message_standing standing = { .part = STANDING_PAST };
    struct message_stuck stuck2;
    struct message_who who2;
    struct message_standing standing2;

    (void)state;
    ROUND_TRIP(stuck, stuck, stuck2);
    ROUND_TRIP(who, who, who2);
    ROUND_TRIP(standing, standing, standing2);
}

static void values_arrive_as_they_were_sent(void **state)
{
    struct message_stuck stuck = { .what = STANDING_TENSOR,
                                   .tensor = 7,
                                   .step = UINT64_C(1) << 40,
                                   .tensors = 3,
                                   .shard = 1,
                                   .waited_ns = 5 };
    struct message_stuck got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    message_stuck_pack(&pack, &stuck);
    assert_int_equal(message_stuck_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_int_equal(got.what, STANDING_TENSOR);
    assert_int_equal(got.tensor, 7);
    assert_true(got.step == UINT64_C(1) << 40);
    assert_int_equal(got.tensors, 3);
    assert_int_equal(got.shard, 1);
    assert_int_equal(got.waited_ns, 5);
    pack_fini(&pack);
}

static void values_that_mean_nothing_are_refused(void **state)
{
    struct message_who who = { .what = STANDING_JOIN + 1 };
    struct message_standing standing = { .waiting = 2 };
    struct pack pack;

    (void)state;
    pack_init(&pack);
    message_who_pack(&pack, &who);
    assert_int_equal(message_who_unpack(&who, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
    pack_init(&pack);
    message_standing_pack(&pack, &standing);
    assert_int_equal(message_standing_unpack(&standing, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_arrives_whole_or_not_at_all),
        cmocka_unit_test(values_arrive_as_they_were_sent),
        cmocka_unit_test(values_that_mean_nothing_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
