/* schedule_test.c: the tournament of psd check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "check/schedule.h"

#define HOSTS_MAX 67

static void every_pair_meets_once_and_nobody_twice_at_a_time(void **state)
{
    static unsigned met[HOSTS_MAX][HOSTS_MAX];

    (void)state;
    for (uint32_t count = 0; count <= HOSTS_MAX; count++) {
        memset(met, 0, sizeof(met));
        for (uint32_t round = 0; round < schedule_rounds(count); round++) {
            bool busy[HOSTS_MAX] = { false };

            for (uint32_t slot = 0; slot < schedule_slots(count); slot++) {
                uint32_t a = HOSTS_MAX;
                uint32_t b = HOSTS_MAX;

                if (!schedule_pair(count, round, slot, &a, &b)) {
                    assert_int_equal(count % 2, 1); /* who sits out */
                    continue;
                }
                assert_true(a < b && b < count);
                assert_false(busy[a] || busy[b]);
                busy[a] = true;
                busy[b] = true;
                met[a][b]++;
            }
        }
        for (uint32_t a = 0; a < count; a++) {
            for (uint32_t b = a + 1; b < count; b++) {
                assert_int_equal(met[a][b], 1);
            }
        }
    }
}

static void rounds_are_as_few_as_can_be(void **state)
{
    (void)state;
    assert_int_equal(schedule_rounds(0), 0);
    assert_int_equal(schedule_rounds(1), 0);
    assert_int_equal(schedule_rounds(2), 1);
    assert_int_equal(schedule_rounds(3), 3);
    assert_int_equal(schedule_rounds(8), 7);
    assert_int_equal(schedule_rounds(9), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_pair_meets_once_and_nobody_twice_at_a_time),
        cmocka_unit_test(rounds_are_as_few_as_can_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
