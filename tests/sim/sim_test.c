/*
 * sim_test.c: many jobs, each with the faults of its seed. A failure prints
 * the seed; `test_sim SEED` runs that one alone, `test_sim FROM COUNT` more,
 * and so does PSD_TEST_SEEDS=COUNT.
 */
#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "cluster.h"

#define SEEDS 240

static uint64_t first_seed = 1;
static uint64_t seed_count = SEEDS;

/* A small cluster with the faults of `seed`. */
static struct cluster_plan plan_of(uint64_t seed)
{
    struct cluster_plan plan = {
        .seed = seed,
        .workers = 1 + (uint32_t)(seed % 6),
        .shards = 1 + (uint32_t)(seed / 6 % 4),
        .tensors = 1 + (uint32_t)(seed / 24 % 5),
        .tensor_max = 6000,
        .steps = 4 + (uint32_t)(seed % 3),
        .spread = (uint32_t)(seed / 2 % 3),
        .faults = {
            .seed = seed,
            .lose_link = seed % 3 == 0 ? 0 : 400,
            .duplicate = seed % 4 == 0 ? 0 : 3000,
            .delay_max_ns = seed % 5 == 0 ? 0 : 20000,
            .mapped = seed % 2 == 0,
        },
    };

    return plan;
}

static void report(uint64_t seed, const struct cluster_result *result)
{
    print_message("# seed %llu: answers %llu wrong %llu finished %u told %u "
                  "lost %u hung %d %s\n",
                  (unsigned long long)seed,
                  (unsigned long long)result->answers,
                  (unsigned long long)result->wrong, result->finished,
                  result->told, result->links_lost, result->hung,
                  result->reason);
}

static void every_answer_is_the_reference_to_the_bit(void **state)
{
    uint32_t links_lost = 0;

    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + seed_count; seed++) {
        struct cluster_plan plan = plan_of(seed);
        struct cluster_result result;

        cluster_run(&plan, &result);
        if (result.wrong != 0 || result.hung ||
            result.finished != plan.workers || result.answers == 0) {
            report(seed, &result);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
        links_lost += result.links_lost;
    }
    if (seed_count == SEEDS) {
        assert_true(links_lost > 50); /* the faults do happen */
    }
}

/* Tensors of many more blocks than a worker may be ahead, pushed by each rank
 * in an order of its own: nobody waits for what another holds back. */
static void large_tensors_in_any_order_are_all_answered(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 24; seed++) {
        struct cluster_plan plan = plan_of(seed);
        struct cluster_result result;

        plan.workers = 2 + (uint32_t)(seed % 3);
        plan.tensors = 3;
        plan.tensor_max = 200000;
        plan.steps = 2;
        plan.spread = 0;
        plan.faults.lose_link /= 4; /* per frame, and these are many */
        cluster_run(&plan, &result);
        if (result.wrong != 0 || result.hung ||
            result.answers != plan.workers * plan.tensors * plan.steps) {
            report(seed, &result);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
    }
}

static void the_same_seed_gives_the_same_bits(void **state)
{
    (void)state;
    for (uint64_t seed = 100; seed < 110; seed++) {
        struct cluster_plan plan = plan_of(seed);
        struct cluster_result one;
        struct cluster_result two;

        cluster_run(&plan, &one);
        cluster_run(&plan, &two);
        assert_int_equal(one.digest, two.digest);
    }
}

static void a_death_is_told_to_every_survivor_and_nobody_hangs(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        struct cluster_plan plan = plan_of(seed);
        struct cluster_result result;

        plan.workers = 2 + (uint32_t)(seed % 4);
        plan.steps = 6;
        plan.spread = 0;
        plan.dies_at = 1 + (uint32_t)(seed % 13);
        plan.shard_dies = seed % 2 == 0;
        cluster_run(&plan, &result);
        if (result.hung || result.wrong != 0 ||
            result.told + result.finished + 1 < plan.workers) {
            report(seed, &result);
            fail_msg("seed %llu", (unsigned long long)seed);
        }
    }
}

static void a_different_model_ends_the_job_and_names_the_tensor(void **state)
{
    struct cluster_plan plan = plan_of(5);
    struct cluster_result result;

    (void)state;
    plan.workers = 3;
    plan.tensors = 4;
    plan.differ = true;
    cluster_run(&plan, &result);
    assert_false(result.hung);
    assert_int_equal(result.told, 3);
    assert_int_equal(result.answers, 0);
    assert_non_null(strstr(result.reason, "layer3"));
}

static void sixty_four_workers_register_1000_tensors_in_2_seconds(void **state)
{
    struct cluster_plan plan = { .seed = 1, .workers = 64, .shards = 4,
                                 .tensors = 1000, .tensor_max = 8,
                                 .steps = 1, .faults = { .mapped = true } };
    struct cluster_result result;
    uint64_t started;

    (void)state;
    clock_replace(NULL);
    started = clock_ns();
    cluster_run(&plan, &result);
    print_message("# 64 workers, 1000 tensors: %.2f s with one step\n",
                  (double)(clock_ns() - started) / 1e9);
    assert_int_equal(result.finished, 64);
    assert_int_equal(result.wrong, 0);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_answer_is_the_reference_to_the_bit),
        cmocka_unit_test(large_tensors_in_any_order_are_all_answered),
        cmocka_unit_test(the_same_seed_gives_the_same_bits),
        cmocka_unit_test(a_death_is_told_to_every_survivor_and_nobody_hangs),
        cmocka_unit_test(a_different_model_ends_the_job_and_names_the_tensor),
        cmocka_unit_test(
            sixty_four_workers_register_1000_tensors_in_2_seconds),
    };

    if (getenv("PSD_TEST_SEEDS") != NULL) {
        seed_count = strtoull(getenv("PSD_TEST_SEEDS"), NULL, 10);
    }
    if (argc > 1) {
        first_seed = strtoull(argv[1], NULL, 10);
        seed_count = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
