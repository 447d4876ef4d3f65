/*
 * agree_test.c: the header and the agreed set: what is marked is found, what
 * the workers know follows from the answers alone.
 */
#include "base/claim.h"
#include "step/agree.h"

#define SLOTS 200

static void or_into(uint64_t *all, const uint64_t *one, uint32_t words)
{
    for (uint32_t i = 0; i < words; i++) {
        all[i] |= one[i];
    }
}

static void the_capacity_grows_by_doubling(void **state)
{
    (void)state;
    assert_int_equal(agree_capacity(0), AGREE_SLOTS_MIN);
    assert_int_equal(agree_capacity(AGREE_SLOTS_MIN), AGREE_SLOTS_MIN);
    assert_int_equal(agree_capacity(AGREE_SLOTS_MIN + 1), 2 * AGREE_SLOTS_MIN);
    assert_int_equal(agree_capacity(70000), 131072);
    assert_int_equal(agree_words(1024), 2 + 2 * 16);
}

static void what_is_marked_is_found_and_nothing_else(void **state)
{
    static const uint32_t marks[] = {0, 1, 63, 64, 130, 1023};
    uint64_t header[2 + 2 * 16] = {0};
    uint32_t at = 0;

    (void)state;
    for (unsigned i = 0; i < CLAIM_COUNT(marks); i++) {
        agree_mark(header, 1024, AGREE_SPARSE, marks[i]);
    }
    assert_int_equal(agree_next(header, 1024, AGREE_DENSE, 0), UINT32_MAX);
    for (unsigned i = 0; i < CLAIM_COUNT(marks); i++) {
        assert_true(agree_marked(header, 1024, AGREE_SPARSE, marks[i]));
        assert_false(agree_marked(header, 1024, AGREE_DENSE, marks[i]));
        assert_int_equal(agree_next(header, 1024, AGREE_SPARSE, at), marks[i]);
        at = marks[i] + 1;
    }
    assert_int_equal(agree_next(header, 1024, AGREE_SPARSE, at), UINT32_MAX);
    assert_false(agree_marked(header, 1024, AGREE_SPARSE, 2));
    assert_false(agree_marked(header, 1024, AGREE_SPARSE, 1024));
    assert_int_equal(agree_flags(header), 0);
    assert_int_equal(agree_notice(header), 0);
}

static void a_slot_of_both_kinds_is_a_conflict(void **state)
{
    uint64_t header[2 + 2 * 16] = {0};

    (void)state;
    agree_mark(header, 1024, AGREE_DENSE, 7);
    agree_mark(header, 1024, AGREE_SPARSE, 8);
    assert_int_equal(agree_conflict(header, 1024), UINT32_MAX);
    agree_mark(header, 1024, AGREE_SPARSE, 700);
    agree_mark(header, 1024, AGREE_DENSE, 700);
    assert_int_equal(agree_conflict(header, 1024), 700);
    agree_mark(header, 1024, AGREE_DENSE, 8);
    assert_int_equal(agree_conflict(header, 1024), 8);
}

static void a_slot_is_remembered_for_a_while(void **state)
{
    uint64_t header[2 + 2 * 16] = {0};
    uint64_t none[2 + 2 * 16] = {0};
    uint64_t used[3] = {0};
    uint64_t pass = 1;

    (void)state;
    assert_false(agree_has(used[1], pass));
    agree_mark(header, 1024, AGREE_DENSE, 1);
    agree_mark(header, 1024, AGREE_DENSE, 900); /* not ours to write */
    agree_learn(header, 1024, pass, used, 3);
    for (pass = 2; pass <= 1 + PSD_STEP_MEMORY; pass++) {
        assert_true(agree_has(used[1], pass));
        assert_false(agree_has(used[0], pass));
        agree_learn(none, 1024, pass, used, 3);
    }
    assert_false(agree_has(used[1], pass));
    agree_learn(header, 1024, pass, used, 3);
    assert_true(agree_has(used[1], pass + 1));
}

static void sparse_use_ends_the_memory(void **state)
{
    uint64_t header[2 + 2 * 16] = {0};
    uint64_t used[3] = {5, 5, 5};

    (void)state;
    agree_mark(header, 1024, AGREE_SPARSE, 1);
    agree_learn(header, 1024, 6, used, 3);
    assert_true(agree_has(used[0], 7));
    assert_false(agree_has(used[1], 7));
    assert_true(agree_has(used[2], 7));
}

/* Workers that use what they like: their sets are equal in every pass, and
 * exactly what was used lately. */
static void every_worker_has_the_same_set(void **state)
{
    enum { WORKERS = 4, PASSES = 200 };
    uint64_t used[WORKERS][SLOTS] = {{0}};
    uint64_t last[SLOTS] = {0};

    (void)state;
    for (uint64_t pass = 1; pass <= PASSES; pass++) {
        uint64_t all[2 + 2 * 16] = {0};

        for (uint32_t w = 0; w < WORKERS; w++) {
            uint64_t header[2 + 2 * 16] = {0};

            for (uint32_t s = 0; s < SLOTS; s++) {
                if (claim_mix(pass * 1000000 + w * 1000 + s) % 97 == 0) {
                    agree_mark(header, 1024, AGREE_DENSE, s);
                    last[s] = pass;
                }
            }
            or_into(all, header, agree_words(1024));
        }
        for (uint32_t w = 0; w < WORKERS; w++) {
            agree_learn(all, 1024, pass, used[w], SLOTS);
            for (uint32_t s = 0; s < SLOTS; s++) {
                assert_int_equal(agree_has(used[w][s], pass + 1),
                                 last[s] != 0 &&
                                     pass + 1 - last[s] <= PSD_STEP_MEMORY);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_capacity_grows_by_doubling),
        cmocka_unit_test(what_is_marked_is_found_and_nothing_else),
        cmocka_unit_test(a_slot_of_both_kinds_is_a_conflict),
        cmocka_unit_test(a_slot_is_remembered_for_a_while),
        cmocka_unit_test(sparse_use_ends_the_memory),
        cmocka_unit_test(every_worker_has_the_same_set),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
