/*
 * policy_test.c: one suite over every row of the policy table: any order of
 * arrivals and departures closes the round, and nothing counts twice; where
 * ranks step apart nobody is waited for.
 */
#include "base/claim.h"
#include "policy/policy.h"

#define RANKS 4
#define ALL ((1u << RANKS) - 1)

/* Every order of four ranks. */
static const uint8_t orders[24][RANKS] = {
    { 0, 1, 2, 3 }, { 0, 1, 3, 2 }, { 0, 2, 1, 3 }, { 0, 2, 3, 1 },
    { 0, 3, 1, 2 }, { 0, 3, 2, 1 }, { 1, 0, 2, 3 }, { 1, 0, 3, 2 },
    { 1, 2, 0, 3 }, { 1, 2, 3, 0 }, { 1, 3, 0, 2 }, { 1, 3, 2, 0 },
    { 2, 0, 1, 3 }, { 2, 0, 3, 1 }, { 2, 1, 0, 3 }, { 2, 1, 3, 0 },
    { 2, 3, 0, 1 }, { 2, 3, 1, 0 }, { 3, 0, 1, 2 }, { 3, 0, 2, 1 },
    { 3, 1, 0, 2 }, { 3, 1, 2, 0 }, { 3, 2, 0, 1 }, { 3, 2, 1, 0 },
};

struct round {
    struct psd_tally tally;
    struct rankset live;
    uint64_t turn[RANKS];
};

static void round_open(struct round *round, uint64_t step)
{
    *round = (struct round){ .tally = { .step = step } };
    round->tally.live = &round->live;
    for (uint32_t r = 0; r < RANKS; r++) {
        rankset_add(&round->live, r);
    }
}

/* One round in which the ranks of `leavers` leave instead of pushing. Returns
 * how often it could have been closed. */
static unsigned play(const struct psd_policy *policy, const uint8_t *order,
                     unsigned leavers, uint64_t step)
{
    struct round round;
    unsigned closed = 0;

    round_open(&round, step);
    for (unsigned i = 0; i < RANKS; i++) {
        uint32_t rank = order[i];

        if ((leavers >> rank & 1) != 0) {
            rankset_remove(&round.live, rank);
        } else {
            assert_true(policy->accept(&round.tally, rank, step));
        }
        closed += policy->complete(&round.tally);
    }
    /* Everybody has come or gone: nothing is left to wait for. */
    assert_int_equal(policy->complete(&round.tally), leavers != ALL);
    return closed;
}

static void no_order_of_arrivals_and_departures_blocks_a_round(void **state)
{
    const struct psd_policy *policy = *state;

    for (unsigned leavers = 0; leavers <= ALL; leavers++) {
        for (unsigned i = 0; i < 24; i++) {
            assert_int_equal(play(policy, orders[i], leavers, leavers + i),
                             leavers != ALL);
        }
    }
}

static void a_push_before_leaving_still_counts(void **state)
{
    const struct psd_policy *policy = *state;
    struct round round;

    round_open(&round, 0);
    assert_true(policy->accept(&round.tally, 2, 0));
    rankset_remove(&round.live, 2);
    assert_false(policy->complete(&round.tally));
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r != 2) {
            assert_false(policy->complete(&round.tally));
            assert_true(policy->accept(&round.tally, r, 0));
        }
    }
    assert_true(policy->complete(&round.tally));
    assert_true(rankset_has(&round.tally.arrived, 2));
}

static void a_resend_never_counts_twice(void **state)
{
    const struct psd_policy *policy = *state;

    for (unsigned i = 0; i < 24; i++) {
        struct round round;

        round_open(&round, 5);
        for (unsigned k = 0; k < RANKS; k++) {
            struct rankset before;

            assert_true(policy->accept(&round.tally, orders[i][k], 5));
            before = round.tally.arrived;
            for (unsigned again = 0; again <= k; again++) {
                assert_false(
                    policy->accept(&round.tally, orders[i][again], 5));
            }
            assert_memory_equal(&before, &round.tally.arrived,
                                sizeof(before));
            assert_int_equal(policy->complete(&round.tally), k + 1 == RANKS);
        }
    }
}

static void another_step_is_refused_and_leaves_no_trace(void **state)
{
    static const uint64_t others[] = { 0, 6, 8, UINT64_MAX,
                                       (UINT64_C(1) << 32) + 7 };
    const struct psd_policy *policy = *state;
    struct round round;
    struct rankset nobody = { { 0 } };

    round_open(&round, 7);
    for (size_t i = 0; i < CLAIM_COUNT(others); i++) {
        assert_false(policy->accept(&round.tally, 1, others[i]));
    }
    assert_memory_equal(&round.tally.arrived, &nobody, sizeof(nobody));
    assert_int_equal(round.tally.step, 7);
    assert_true(policy->accept(&round.tally, 1, 7));
}

static void a_round_that_nobody_pushed_stays_open(void **state)
{
    const struct psd_policy *policy = *state;
    struct round round;

    round_open(&round, 0);
    assert_false(policy->complete(&round.tally));
    memset(&round.live, 0, sizeof(round.live));
    assert_false(policy->complete(&round.tally));
}

static void the_last_rank_of_the_largest_job_is_waited_for(void **state)
{
    const struct psd_policy *policy = *state;
    struct round round;

    round_open(&round, 0);
    for (uint32_t r = 0; r < WIRE_RANKS_MAX; r++) {
        rankset_add(&round.live, r);
    }
    for (uint32_t r = 0; r < WIRE_RANKS_MAX; r++) {
        assert_false(policy->complete(&round.tally));
        assert_true(policy->accept(&round.tally, WIRE_RANKS_MAX - 1 - r, 0));
    }
    assert_true(policy->complete(&round.tally));
}

static void a_row_has_its_name_and_words(void **state)
{
    const struct psd_policy *policy = *state;

    assert_true(strlen(policy->name) > 0);
    assert_true(strlen(policy->summary) > 0);
    assert_true(policy->accept != NULL && policy->complete != NULL);
}

/* ---- rows whose ranks step apart ---------------------------------------- */

static void apart_open(struct round *round, uint64_t first)
{
    round_open(round, 0);
    round->tally.turn = round->turn;
    for (uint32_t r = 0; r < RANKS; r++) {
        round->turn[r] = first + r; /* everybody is somewhere else */
    }
}

/* What the core does when a round is closed. */
static void apart_close(struct round *round, uint32_t rank)
{
    struct rankset alone = { { 0 } };

    rankset_add(&alone, rank);
    assert_memory_equal(&round->tally.arrived, &alone, sizeof(alone));
    memset(&round->tally.arrived, 0, sizeof(round->tally.arrived));
    round->turn[rank]++;
}

static void each_push_closes_a_round_of_its_rank_alone(void **state)
{
    const struct psd_policy *policy = *state;
    struct round round;

    apart_open(&round, 5);
    assert_false(policy->complete(&round.tally));
    for (unsigned i = 0; i < 24; i++) {
        for (unsigned k = 0; k < RANKS; k++) {
            uint32_t rank = orders[i][k] / 2; /* some never come */

            assert_true(policy->accept(&round.tally, rank,
                                       round.turn[rank]));
            assert_true(policy->complete(&round.tally));
            apart_close(&round, rank);
            assert_false(policy->complete(&round.tally));
        }
    }
    assert_int_equal(round.turn[0], 5 + 48);
    assert_int_equal(round.turn[3], 8);
}

static void only_the_next_push_of_a_rank_counts(void **state)
{
    const struct psd_policy *policy = *state;
    struct rankset nobody = { { 0 } };
    struct round round;

    apart_open(&round, 5);
    assert_false(policy->accept(&round.tally, 1, 5)); /* that of rank 0 */
    assert_false(policy->accept(&round.tally, 1, 7));
    assert_memory_equal(&round.tally.arrived, &nobody, sizeof(nobody));
    assert_true(policy->accept(&round.tally, 1, 6));
    assert_false(policy->accept(&round.tally, 1, 6)); /* a resend */
    apart_close(&round, 1);
    assert_false(policy->accept(&round.tally, 1, 6)); /* and later */
}

static void who_left_holds_nobody(void **state)
{
    const struct psd_policy *policy = *state;
    struct round round;

    apart_open(&round, 0);
    rankset_remove(&round.live, 0);
    rankset_remove(&round.live, 3);
    assert_false(policy->complete(&round.tally));
    assert_true(policy->accept(&round.tally, 2, 2));
    assert_true(policy->complete(&round.tally));
}

enum rows { TOGETHER, APART, EVERY };

#define CLAIM(name, rows) { #name, name, rows }

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction call;
        enum rows rows; /* to which it applies */
    } claims[] = {
        CLAIM(no_order_of_arrivals_and_departures_blocks_a_round, TOGETHER),
        CLAIM(a_push_before_leaving_still_counts, TOGETHER),
        CLAIM(a_resend_never_counts_twice, TOGETHER),
        CLAIM(another_step_is_refused_and_leaves_no_trace, TOGETHER),
        CLAIM(a_round_that_nobody_pushed_stays_open, EVERY),
        CLAIM(the_last_rank_of_the_largest_job_is_waited_for, TOGETHER),
        CLAIM(each_push_closes_a_round_of_its_rank_alone, APART),
        CLAIM(only_the_next_push_of_a_rank_counts, APART),
        CLAIM(who_left_holds_nobody, APART),
        CLAIM(a_row_has_its_name_and_words, EVERY),
    };
    enum { CLAIMS = CLAIM_COUNT(claims), ROWS_MAX = 16 };
    static struct CMUnitTest tests[CLAIMS * ROWS_MAX];
    static char names[CLAIMS * ROWS_MAX][128];
    size_t count = 0;

    for (size_t row = 0; psd_policies[row] != NULL && row < ROWS_MAX; row++) {
        for (size_t i = 0; i < CLAIMS; i++) {
            if (claims[i].rows ==
                (psd_policies[row]->apart ? TOGETHER : APART)) {
                continue;
            }
            snprintf(names[count], sizeof(names[count]), "%s: %s",
                     psd_policies[row]->name, claims[i].name);
            tests[count] = (struct CMUnitTest){
                .name = names[count],
                .test_func = claims[i].call,
                .initial_state = (void *)(uintptr_t)psd_policies[row],
            };
            count++;
        }
    }
    return _cmocka_run_group_tests("policy", tests, count, NULL, NULL);
}
