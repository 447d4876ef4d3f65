/*
 * finite_test.c: the sums tell whose input has a NaN or an infinity: every
 * type, every place in the vectors and their tails, in place.
 */
#include "base/claim.h"
#include "base/mem.h"
#include "reduce/sum.h"

#define RANKS_MAX 9
#define COUNT_MAX 3001
#define ROOM      (COUNT_MAX * 8)

struct bench {
    _Alignas(64) char memory[RANKS_MAX][ROOM];
    char copy[RANKS_MAX][ROOM];
    double weight[RANKS_MAX];
};

static int set_up(void **state)
{
    *state = mem_map(sizeof(struct bench));
    return *state == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    mem_unmap(*state, sizeof(struct bench));
    return 0;
}

/* The floating types, by their bits. */
static const struct {
    psd_dtype dtype;
    size_t size;
    uint64_t infinity;
    uint64_t sign;
} floats[] = {
    {PSD_FLOAT32, 4, 0x7f800000u, 0x80000000u},
    {PSD_FLOAT64, 8, UINT64_C(0x7ff0000000000000), UINT64_C(1) << 63},
    {PSD_FLOAT16, 2, 0x7c00u, 0x8000u},
    {PSD_BFLOAT16, 2, 0x7f80u, 0x8000u},
};

static void set_bits(char *data, size_t size, size_t i, uint64_t bits)
{
    memcpy(data + i * size, &bits, size); /* little-endian */
}

/* Every rank has numbers of all sizes, the largest among them, and signs that
 * keep sums small. */
static void fill_finite(struct bench *bench, size_t type, unsigned ranks,
                        size_t count)
{
    size_t size = floats[type].size;

    for (unsigned r = 0; r < ranks; r++) {
        uint64_t sign = r % 2 == 0 ? 0 : floats[type].sign;

        for (size_t i = 0; i < count; i++) {
            uint64_t rest = claim_mix(i) % (floats[type].infinity / 2);

            set_bits(bench->memory[r], size, i,
                     sign | (i % 7 == 0 ? floats[type].infinity / 2 : rest));
        }
        bench->weight[r] = 1.0 / ranks;
    }
}

/* In place, so that whoever looks too late sees the sum. */
static unsigned bad_of(struct bench *bench, sum_call *call, size_t type,
                       psd_op op, unsigned ranks, size_t count)
{
    const void *data[RANKS_MAX];
    void *outputs[RANKS_MAX];
    struct sum_inputs in = {data, bench->weight, ranks};

    for (unsigned r = 0; r < ranks; r++) {
        memcpy(bench->copy[r], bench->memory[r], count * floats[type].size);
        data[r] = bench->copy[r];
        outputs[r] = bench->copy[r];
    }
    return call(floats[type].dtype, op, &in, outputs, ranks, count);
}

static void assert_bad(struct bench *bench, size_t type, unsigned ranks,
                       size_t count, unsigned wanted)
{
    static const psd_op ops[] = {PSD_OP_MEAN, PSD_OP_SUM};
    sum_call *const calls[] = {sum_elements_base, sum_elements};

    for (size_t k = 0; k < 4; k++) {
        unsigned bad =
            bad_of(bench, calls[k / 2], type, ops[k % 2], ranks, count);

        if (bad != wanted) {
            fail_msg("dtype %d op %d ranks %u count %zu call %zu: %u, it is "
                     "%u",
                     floats[type].dtype, ops[k % 2], ranks, count, k / 2, bad,
                     wanted);
        }
    }
    assert_int_equal(
        bad_of(bench, sum_elements, type, PSD_OP_MAX, ranks, count), 0);
}

static void check_wild(struct bench *bench, size_t type, unsigned ranks,
                       size_t count)
{
    size_t size = floats[type].size;
    const uint64_t wild[] = {
        floats[type].infinity,        floats[type].infinity + 1,
        floats[type].sign - 1,        floats[type].sign | floats[type].infinity,
        (floats[type].sign << 1) - 1,
    };

    fill_finite(bench, type, ranks, count);
    assert_bad(bench, type, ranks, count, 0);
    for (unsigned r = 0; r < ranks; r++) {
        size_t places[] = {0, count / 2, count - 1, count - 1 - count % 8};
        size_t place = places[(r + count) % 4] % count;
        uint64_t was = 0;

        memcpy(&was, bench->memory[r] + place * size, size);
        set_bits(bench->memory[r], size, place,
                 wild[(r + ranks + count) % CLAIM_COUNT(wild)]);
        assert_bad(bench, type, ranks, count, r + 1);
        if (r + 1 < ranks) { /* one before it in memory changes nothing */
            set_bits(bench->memory[ranks - 1], size, 0, floats[type].infinity);
            assert_bad(bench, type, ranks, count, r + 1);
            set_bits(bench->memory[ranks - 1], size, 0,
                     (ranks - 1) % 2 == 0
                         ? floats[type].infinity / 2
                         : floats[type].sign | floats[type].infinity / 2);
        }
        set_bits(bench->memory[r], size, place, was);
    }
    assert_bad(bench, type, ranks, count, 0);
}

static void the_first_input_that_is_not_finite_is_named(void **state)
{
    static const size_t counts[] = {
        1, 2, 3, 7, 8, 9, 15, 17, 31, 33, 1023, 1024, 1025, 2049, COUNT_MAX};

    for (size_t type = 0; type < CLAIM_COUNT(floats); type++) {
        for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++) {
            for (size_t i = 0; i < CLAIM_COUNT(counts); i++) {
                check_wild(*state, type, ranks, counts[i]);
            }
        }
    }
}

/* The largest number of everybody, summed: nobody's fault. Beside a NaN it is
 * not told. */
static void a_sum_that_is_too_large_names_nobody(void **state)
{
    struct bench *bench = *state;

    for (size_t type = 0; type < CLAIM_COUNT(floats); type++) {
        for (unsigned ranks = 2; ranks <= RANKS_MAX; ranks++) {
            size_t size = floats[type].size;

            fill_finite(bench, type, ranks, COUNT_MAX);
            for (unsigned r = 0; r < ranks; r++) {
                set_bits(bench->memory[r], size, COUNT_MAX - 1,
                         floats[type].sign | (floats[type].infinity - 1));
            }
            assert_int_equal(
                bad_of(bench, sum_elements, type, PSD_OP_SUM, ranks, COUNT_MAX),
                ranks + 1);
            assert_int_equal(bad_of(bench, sum_elements_base, type, PSD_OP_SUM,
                                    ranks, COUNT_MAX),
                             ranks + 1);
            assert_int_equal(
                bad_of(bench, sum_elements, type, PSD_OP_SUM, 1, COUNT_MAX), 0);
            set_bits(bench->memory[1], size, 5, floats[type].infinity);
            assert_int_equal(
                bad_of(bench, sum_elements, type, PSD_OP_SUM, ranks, COUNT_MAX),
                2);
        }
    }
}

/* What is finite as a float may be none as a half. */
static void a_half_overflows_where_it_is_rounded(void **state)
{
    static const struct {
        size_t type;
        uint16_t one;
        double largest;
    } rows[] = {{2, 0x3c00, 65519.99609375}, {3, 0x3f80, 0x1.feffcp127}};
    struct bench *bench = *state;

    for (size_t i = 0; i < CLAIM_COUNT(rows); i++) {
        set_bits(bench->memory[0], 2, 0, rows[i].one);
        bench->weight[0] = rows[i].largest;
        assert_int_equal(
            bad_of(bench, sum_elements, rows[i].type, PSD_OP_MEAN, 1, 1), 0);
        bench->weight[0] = rows[i].largest * (1 + 0x1p-7);
        assert_int_equal(
            bad_of(bench, sum_elements, rows[i].type, PSD_OP_MEAN, 1, 1), 2);
    }
}

static void integers_are_never_called_infinite(void **state)
{
    struct bench *bench = *state;
    const void *data[] = {bench->memory[0]};
    struct sum_inputs in = {data, bench->weight, 1};
    void *outputs[] = {bench->copy[0]};

    memset(bench->memory[0], 0xff, ROOM);
    assert_int_equal(
        sum_elements(PSD_INT32, PSD_OP_SUM, &in, outputs, 1, COUNT_MAX), 0);
    assert_int_equal(
        sum_elements(PSD_INT64, PSD_OP_OR, &in, outputs, 1, COUNT_MAX), 0);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(the_first_input_that_is_not_finite_is_named),
        HERE(a_sum_that_is_too_large_names_nobody),
        HERE(a_half_overflows_where_it_is_rounded),
        HERE(integers_are_never_called_infinite),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
