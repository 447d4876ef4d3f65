/* sched_test.c: the order of the queue, against a plain list. */
#include "base/claim.h"
#include "base/mem.h"
#include "model/sched.h"

static void the_more_urgent_overtakes(void **state)
{
    static const int32_t priorities[] = { 0, 5, -3, 2147483647, 4,
                                          -2147483647 - 1 };
    static const uint32_t order[] = { 3, 1, 4, 0, 2, 5 };
    struct sched sched = { .items = NULL };

    (void)state;
    assert_int_equal(sched_reserve(&sched, 6), PSD_OK);
    assert_int_equal(sched_peek(&sched), UINT32_MAX);
    for (uint32_t i = 0; i < 6; i++) {
        sched_put(&sched, i, priorities[i]);
    }
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(sched_peek(&sched), order[i]);
        sched_pop(&sched);
    }
    assert_int_equal(sched_peek(&sched), UINT32_MAX);
    sched_fini(&sched);
}

static void among_equals_the_first_stays_first(void **state)
{
    struct sched sched = { .items = NULL };
    uint32_t next = 0;

    (void)state;
    assert_int_equal(sched_reserve(&sched, 100), PSD_OK);
    for (uint32_t i = 0; i < 100; i++) {
        sched_put(&sched, i, 7);
        if (i % 3 == 2) { /* also while it is being emptied */
            assert_int_equal(sched_peek(&sched), next++);
            sched_pop(&sched);
        }
    }
    while (sched_peek(&sched) != UINT32_MAX) {
        assert_int_equal(sched_peek(&sched), next++);
        sched_pop(&sched);
    }
    assert_int_equal(next, 100);
    sched_fini(&sched);
}

#define BLOCKS 200

struct waiting {
    bool there;
    int32_t priority;
    uint64_t order;
};

static uint32_t most_urgent(const struct waiting *waiting)
{
    uint32_t best = UINT32_MAX;

    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (waiting[i].there &&
            (best == UINT32_MAX ||
             waiting[i].priority > waiting[best].priority ||
             (waiting[i].priority == waiting[best].priority &&
              waiting[i].order < waiting[best].order))) {
            best = i;
        }
    }
    return best;
}

static void any_mixture_of_put_and_pop_keeps_the_order(void **state)
{
    struct waiting waiting[BLOCKS] = { { .there = false } };
    struct sched sched = { .items = NULL };
    uint64_t random = 1;

    (void)state;
    assert_int_equal(sched_reserve(&sched, BLOCKS), PSD_OK);
    for (uint64_t i = 0; i < 20000; i++) {
        uint32_t block;

        random = claim_mix(random);
        block = (uint32_t)(random % BLOCKS);
        if (!waiting[block].there) {
            waiting[block] = (struct waiting){
                true, (int32_t)(random >> 20 & 7) - 4, i
            };
            sched_put(&sched, block, waiting[block].priority);
        }
        assert_int_equal(sched_peek(&sched), most_urgent(waiting));
        if ((random >> 40 & 1) != 0) {
            waiting[sched_peek(&sched)].there = false;
            sched_pop(&sched);
            assert_int_equal(sched_peek(&sched), most_urgent(waiting));
        }
    }
    sched_fini(&sched);
}

static void making_room_keeps_what_is_queued(void **state)
{
    struct sched sched = { .items = NULL };

    (void)state;
    assert_int_equal(sched_reserve(&sched, 2), PSD_OK);
    sched_put(&sched, 10, 1);
    sched_put(&sched, 11, 2);
    mem_fail_after(1);
    assert_int_equal(sched_reserve(&sched, 3), PSD_ENOMEM);
    mem_fail_after(0);
    assert_int_equal(sched_reserve(&sched, 1), PSD_OK); /* never shrinks */
    assert_int_equal(sched_reserve(&sched, 3), PSD_OK);
    sched_put(&sched, 12, 3);
    for (uint32_t block = 12; block >= 10; block--) {
        assert_int_equal(sched_peek(&sched), block);
        sched_pop(&sched);
    }
    sched_fini(&sched);
    assert_int_equal(sched_peek(&sched), UINT32_MAX);
    sched_fini(&sched);
}

static void put_one_too_many(void)
{
    struct sched sched = { .items = NULL };

    if (sched_reserve(&sched, 2) == PSD_OK) {
        sched_put(&sched, 0, 0);
        sched_put(&sched, 1, 0);
        sched_put(&sched, 2, 0);
    }
}

static void pop_from_nothing(void)
{
    struct sched sched = { .items = NULL };

    sched_pop(&sched);
}

static void the_bound_is_a_bound(void **state)
{
    (void)state;
    assert_true(claim_aborts(put_one_too_many));
    assert_true(claim_aborts(pop_from_nothing));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_more_urgent_overtakes),
        cmocka_unit_test(among_equals_the_first_stays_first),
        cmocka_unit_test(any_mixture_of_put_and_pop_keeps_the_order),
        cmocka_unit_test(making_room_keeps_what_is_queued),
        cmocka_unit_test(the_bound_is_a_bound),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
