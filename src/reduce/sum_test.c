/*
 * sum_test.c: the sums of every type and op against a reference that is
 * written differently: one element at a time, volatile so that nothing is
 * vectorised or contracted, halves decoded and rounded by exact arithmetic.
 */
#include <math.h>

#include "base/claim.h"
#include "base/le.h"
#include "base/mem.h"
#include "reduce/sum.h"

#define RANKS_MAX 9
#define COUNT_MAX 3001

#if defined(__x86_64__)
sum_call sum_elements_avx2;
#endif

/* ---- halves, exactly ---------------------------------------------------- */

struct half_type {
    psd_dtype dtype;
    int exponent_bits;
    int mantissa_bits;
};

static const struct half_type float16 = { PSD_FLOAT16, 5, 10 };
static const struct half_type bfloat16 = { PSD_BFLOAT16, 8, 7 };

static unsigned infinity_of(const struct half_type *type)
{
    return ((1u << type->exponent_bits) - 1) << type->mantissa_bits;
}

/* The value of a half without its sign; what would follow the largest number
 * where the bits say infinity. */
static double magnitude(const struct half_type *type, unsigned bits)
{
    unsigned mantissa = bits & ((1u << type->mantissa_bits) - 1);
    int exponent = (int)(bits >> type->mantissa_bits);
    int bias = (1 << (type->exponent_bits - 1)) - 1;

    if (exponent == 0) {
        return ldexp(mantissa, 1 - bias - type->mantissa_bits);
    }
    return ldexp((double)(mantissa | 1u << type->mantissa_bits),
                 exponent - bias - type->mantissa_bits);
}

static float decode(const struct half_type *type, uint16_t half)
{
    unsigned rest = half & 0x7fffu;
    double value = magnitude(type, rest);

    if (rest > infinity_of(type)) {
        return NAN;
    }
    if (rest == infinity_of(type)) {
        value = (double)INFINITY;
    }
    return (float)((half & 0x8000u) != 0 ? -value : value);
}

/* The nearest half, the even one of two that are equally near. */
static uint16_t encode(const struct half_type *type, float value)
{
    double goal = fabs((double)value);
    unsigned sign = signbit(value) != 0 ? 0x8000u : 0;
    unsigned low = 0;
    unsigned high = infinity_of(type);

    if (isnan(value)) {
        return (uint16_t)(infinity_of(type) + 1);
    }
    if (goal >= magnitude(type, high)) {
        return (uint16_t)(sign | high);
    }
    while (high - low > 1) { /* magnitude(low) <= goal < magnitude(high) */
        unsigned middle = (low + high) / 2;

        if (magnitude(type, middle) <= goal) {
            low = middle;
        } else {
            high = middle;
        }
    }
    /* Both sides of this are exact. */
    if (goal + goal > magnitude(type, low) + magnitude(type, high) ||
        (goal + goal == magnitude(type, low) + magnitude(type, high) &&
         low % 2 == 1)) {
        low = high;
    }
    return (uint16_t)(sign | low);
}

/* What the code makes of a float: the half 1 times a weight is the weight. */
static uint16_t stored(sum_call *call, const struct half_type *type,
                       float value)
{
    uint16_t one = type->dtype == PSD_FLOAT16 ? 0x3c00 : 0x3f80;
    uint16_t out = 0;
    const void *data[] = { &one };
    double weight[] = { (double)value };
    struct sum_inputs inputs = { data, weight, 1 };
    void *outputs[] = { &out };

    call(type->dtype, PSD_OP_MEAN, &inputs, outputs, 1, 1);
    return out;
}

static bool half_is_nan(const struct half_type *type, uint16_t half)
{
    return (half & 0x7fffu) > infinity_of(type);
}

static void check_stored(const struct half_type *type, float value)
{
    uint16_t wanted = encode(type, value);
    uint16_t got = stored(sum_elements, type, value);
    uint16_t plain = stored(sum_elements_base, type, value);

    if (got != plain ||
        (half_is_nan(type, wanted) ? !half_is_nan(type, got)
                                   : wanted != got)) {
        fail_msg("%a becomes 0x%04x, base 0x%04x, it is 0x%04x",
                 (double)value, got, plain, wanted);
    }
}

static void check_rounding(const struct half_type *type)
{
    for (unsigned half = 0; half < infinity_of(type); half++) {
        double low = magnitude(type, half);
        double high = magnitude(type, half + 1);
        float middle = (float)((low + high) / 2); /* 12 bits: exact */
        float near[] = { (float)low, nextafterf((float)low, INFINITY),
                         nextafterf(middle, 0.0f), middle,
                         nextafterf(middle, INFINITY) };

        for (size_t i = 0; i < CLAIM_COUNT(near); i++) {
            check_stored(type, near[i]);
            check_stored(type, -near[i]);
        }
    }
    for (uint64_t i = 0; i < 100000; i++) {
        uint32_t bits = (uint32_t)claim_mix(i);
        float value;

        memcpy(&value, &bits, sizeof(value));
        check_stored(type, value);
    }
    check_stored(type, INFINITY);
    check_stored(type, -INFINITY);
    check_stored(type, NAN);
    check_stored(type, 3.4028235e38f);
    check_stored(type, 1e-45f);
}

static void float16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_rounding(&float16);
}

static void bfloat16_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_rounding(&bfloat16);
}

/* All 65536 values, alone and doubled. */
static void check_all_halves(const struct half_type *type, sum_call *call)
{
    uint16_t *in = mem_zalloc_array(65536, sizeof(*in));
    uint16_t *out = mem_zalloc_array(65536, sizeof(*out));
    const void *data[] = { in };
    double weight[] = { 1.0 };
    struct sum_inputs inputs = { data, weight, 1 };
    void *outputs[] = { out };
    static const psd_op ops[] = { PSD_OP_MEAN, PSD_OP_SUM, PSD_OP_MAX };

    for (unsigned i = 0; i < 65536; i++) {
        in[i] = (uint16_t)i;
    }
    for (size_t k = 0; k < CLAIM_COUNT(ops); k++) {
        call(type->dtype, ops[k], &inputs, outputs, 1, 65536);
        for (unsigned i = 0; i < 65536; i++) {
            if (half_is_nan(type, (uint16_t)i)) {
                assert_true(half_is_nan(type, out[i]));
            } else {
                assert_int_equal(out[i], i);
            }
        }
    }
    /* Doubled: what comes out is the float of the half, twice, rounded. */
    weight[0] = 2.0;
    call(type->dtype, PSD_OP_MEAN, &inputs, outputs, 1, 65536);
    for (unsigned i = 0; i < 65536; i++) {
        uint16_t wanted = encode(type, 2.0f * decode(type, (uint16_t)i));

        if (half_is_nan(type, wanted)) {
            assert_true(half_is_nan(type, out[i]));
        } else {
            assert_int_equal(out[i], wanted);
        }
    }
    mem_free(in);
    mem_free(out);
}

static void all_65536_halves_come_back_as_they_went(void **state)
{
    (void)state;
    check_all_halves(&float16, sum_elements);
    check_all_halves(&float16, sum_elements_base);
    check_all_halves(&bfloat16, sum_elements);
    check_all_halves(&bfloat16, sum_elements_base);
}

/* ---- the reference ------------------------------------------------------ */

static const struct {
    psd_dtype dtype;
    size_t size;
} dtypes[] = {
    { PSD_FLOAT32, 4 },  { PSD_FLOAT64, 8 }, { PSD_FLOAT16, 2 },
    { PSD_BFLOAT16, 2 }, { PSD_INT32, 4 },   { PSD_INT64, 8 },
};

static float float_in(psd_dtype dtype, const void *data, size_t i)
{
    const uint16_t *halves = data;

    switch (dtype) {
    case PSD_FLOAT16:
        return decode(&float16, halves[i]);
    case PSD_BFLOAT16:
        return decode(&bfloat16, halves[i]);
    default:
        return ((const float *)data)[i];
    }
}

static void float_out(psd_dtype dtype, void *data, size_t i, float value)
{
    switch (dtype) {
    case PSD_FLOAT16:
        ((uint16_t *)data)[i] = encode(&float16, value);
        break;
    case PSD_BFLOAT16:
        ((uint16_t *)data)[i] = encode(&bfloat16, value);
        break;
    default:
        ((float *)data)[i] = value;
    }
}

static float reference_float(psd_dtype dtype, psd_op op,
                             const struct sum_inputs *in, size_t i)
{
    volatile float sum = 0.0f;

    for (unsigned r = 0; r < in->count; r++) {
        volatile float x = float_in(dtype, in->data[r], i);
        volatile float w = (float)in->weight[r];
        volatile float term = op == PSD_OP_MEAN ? w * x : x;

        if (r == 0) {
            sum = term;
        } else if (op == PSD_OP_MAX) {
            sum = isnan(sum) || sum >= term ? sum : term;
        } else {
            sum = sum + term;
        }
    }
    return sum;
}

static double reference_double(psd_op op, const struct sum_inputs *in,
                               size_t i)
{
    volatile double sum = 0.0;

    for (unsigned r = 0; r < in->count; r++) {
        volatile double x = ((const double *)in->data[r])[i];
        volatile double w = in->weight[r];
        volatile double term = op == PSD_OP_MEAN ? w * x : x;

        if (r == 0) {
            sum = term;
        } else if (op == PSD_OP_MAX) {
            sum = isnan(sum) || sum >= term ? sum : term;
        } else {
            sum = sum + term;
        }
    }
    return sum;
}

static uint64_t reference_whole(psd_dtype dtype, psd_op op,
                                const struct sum_inputs *in, size_t i)
{
    volatile uint64_t sum = 0;

    for (unsigned r = 0; r < in->count; r++) {
        volatile int64_t x = dtype == PSD_INT32
                                 ? ((const int32_t *)in->data[r])[i]
                                 : ((const int64_t *)in->data[r])[i];

        if (r == 0) {
            sum = (uint64_t)x;
        } else if (op == PSD_OP_OR) {
            sum |= (uint64_t)x;
        } else if (op == PSD_OP_MAX) {
            sum = (int64_t)sum > x ? sum : (uint64_t)x;
        } else {
            sum += (uint64_t)x;
        }
    }
    return sum;
}

static void reference(psd_dtype dtype, psd_op op, const struct sum_inputs *in,
                      void *out, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (dtype == PSD_FLOAT64) {
            ((double *)out)[i] = reference_double(op, in, i);
        } else if (dtype == PSD_INT32) {
            ((uint32_t *)out)[i] =
                (uint32_t)reference_whole(dtype, op, in, i);
        } else if (dtype == PSD_INT64) {
            ((uint64_t *)out)[i] = reference_whole(dtype, op, in, i);
        } else {
            float_out(dtype, out, i, reference_float(dtype, op, in, i));
        }
    }
}

/* ---- one comparison ----------------------------------------------------- */

#define ROOM ((COUNT_MAX + 8) * 8)

struct bench {
    _Alignas(64) char memory[RANKS_MAX][ROOM];
    char copy[RANKS_MAX][ROOM];
    char wanted[ROOM];
    char out[3][ROOM];
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

/* Ordinary numbers of every sign and size; now and then an infinity, a NaN, a
 * zero or a subnormal. */
static void fill(char *to, psd_dtype dtype, size_t count, uint64_t seed)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t random = claim_mix(seed * 1000003 + i);
        double value = ((double)(random >> 11) * 0x1p-52 - 1.0) *
                       ldexp(1.0, (int)(random & 15) - 8);

        if (random % 61 == 0) {
            static const double rare[] = { 0.0, -0.0, 1e-40, -6e-8, 1e38 };

            value = rare[random / 61 % 5];
        } else if (random % 997 == 1) {
            value = random % 2 == 0 ? (double)INFINITY : (double)NAN;
        }
        if (dtype == PSD_FLOAT64) {
            ((double *)(void *)to)[i] = value;
        } else if (dtype == PSD_INT32) {
            ((uint32_t *)(void *)to)[i] = (uint32_t)random;
        } else if (dtype == PSD_INT64) {
            ((uint64_t *)(void *)to)[i] = random;
        } else {
            float_out(dtype, to, i, (float)value);
        }
    }
}

/* Equal to the bit, except that a NaN is as good as another. */
static bool same(psd_dtype dtype, const char *a, const char *b, size_t size,
                 size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (memcmp(a + i * size, b + i * size, size) == 0) {
            continue;
        }
        if (dtype == PSD_INT32 || dtype == PSD_INT64) {
            return false;
        }
        if (dtype == PSD_FLOAT64
                ? !(isnan(le_get_f64(a + i * size)) &&
                    isnan(le_get_f64(b + i * size)))
                : !(isnan(float_in(dtype, a, i)) &&
                    isnan(float_in(dtype, b, i)))) {
            return false;
        }
    }
    return true;
}

static bool op_fits(psd_dtype dtype, psd_op op)
{
    bool whole = dtype == PSD_INT32 || dtype == PSD_INT64;

    return op == PSD_OP_MEAN ? !whole : op != PSD_OP_OR || whole;
}

static void compare(struct bench *bench, size_t type, psd_op op,
                    unsigned ranks, size_t count)
{
    psd_dtype dtype = dtypes[type].dtype;
    size_t size = dtypes[type].size;
    size_t skip = size * (1 + ranks % 3); /* aligned to an element only */
    const void *data[RANKS_MAX];
    void *outputs[3];
    struct sum_inputs in = { data, bench->weight, ranks };

    for (unsigned r = 0; r < ranks; r++) {
        fill(bench->memory[r] + skip, dtype, count, r + 100 * ranks + op);
        data[r] = bench->memory[r] + skip;
        bench->weight[r] = (double)(r * r + 1) / (3.0 + ranks);
    }
    for (unsigned i = 0; i < 3; i++) {
        outputs[i] = bench->out[i] + size * i;
        memset(bench->out[i], 0x77, (count + 4) * size);
    }
    reference(dtype, op, &in, bench->wanted, count);
    sum_elements_base(dtype, op, &in, outputs, 1, count);
    sum_elements(dtype, op, &in, outputs + 1, 2, count);
    for (unsigned i = 0; i < 3; i++) {
        if (!same(dtype, outputs[i], bench->wanted, size, count)) {
            fail_msg("dtype %d op %d ranks %u count %zu output %u", dtype, op,
                     ranks, count, i);
        }
        /* Not a byte beyond the end. */
        assert_int_equal((uint8_t)bench->out[i][size * i + count * size],
                         0x77);
    }
    /* Every output of one call gets the same bits, NaN or not. */
    assert_memory_equal(outputs[1], outputs[2], count * size);
}

static void every_type_and_op_is_the_reference_to_the_bit(void **state)
{
    static const size_t counts[] = { 1,    2,    3,    7,    8,    9,   15,
                                     31,   33,   63,   127,  1023, 1024,
                                     1025, 2049, COUNT_MAX };

    for (size_t type = 0; type < CLAIM_COUNT(dtypes); type++) {
        for (psd_op op = PSD_OP_MEAN; op <= PSD_OP_OR; op++) {
            for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++) {
                for (size_t i = 0; i < CLAIM_COUNT(counts) &&
                                   op_fits(dtypes[type].dtype, op);
                     i++) {
                    compare(*state, type, op, ranks, counts[i]);
                }
            }
        }
    }
}

static void both_instruction_sets_give_the_same_bits(void **state)
{
#if defined(__x86_64__)
    struct bench *bench = *state;
    const void *data[RANKS_MAX];
    void *one[] = { bench->out[0] };
    void *two[] = { bench->out[1] };

    if (!__builtin_cpu_supports("avx2")) {
        skip();
    }
    for (size_t type = 0; type < CLAIM_COUNT(dtypes); type++) {
        psd_dtype dtype = dtypes[type].dtype;

        for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++) {
            struct sum_inputs in = { data, bench->weight, ranks };

            for (unsigned r = 0; r < ranks; r++) {
                fill(bench->memory[r], dtype, COUNT_MAX, r + 31 * ranks);
                data[r] = bench->memory[r];
                bench->weight[r] = 1.0 / (r + 3);
            }
            for (psd_op op = PSD_OP_MEAN; op <= PSD_OP_OR; op++) {
                if (op_fits(dtype, op)) {
                    sum_elements_base(dtype, op, &in, one, 1, COUNT_MAX);
                    sum_elements_avx2(dtype, op, &in, two, 1, COUNT_MAX);
                    assert_true(same(dtype, one[0], two[0],
                                     dtypes[type].size, COUNT_MAX));
                }
            }
        }
    }
#else
    (void)state;
    skip();
#endif
}

static void outputs_may_be_the_inputs(void **state)
{
    struct bench *bench = *state;

    for (size_t type = 0; type < CLAIM_COUNT(dtypes); type++) {
        psd_dtype dtype = dtypes[type].dtype;
        psd_op op = op_fits(dtype, PSD_OP_MEAN) ? PSD_OP_MEAN : PSD_OP_SUM;
        size_t size = dtypes[type].size * COUNT_MAX;

        for (unsigned ranks = 1; ranks <= RANKS_MAX; ranks++) {
            const void *data[RANKS_MAX];
            void *outputs[RANKS_MAX];
            struct sum_inputs in = { data, bench->weight, ranks };

            for (unsigned r = 0; r < ranks; r++) {
                fill(bench->memory[r], dtype, COUNT_MAX, r + 77 * ranks);
                memcpy(bench->copy[r], bench->memory[r], size);
                bench->weight[r] = 1.0 / ranks;
                data[r] = bench->copy[r];
            }
            reference(dtype, op, &in, bench->wanted, COUNT_MAX);
            for (unsigned r = 0; r < ranks; r++) { /* in another order */
                data[r] = bench->memory[r];
                outputs[ranks - 1 - r] = bench->memory[r];
            }
            sum_elements(dtype, op, &in, outputs, ranks, COUNT_MAX);
            for (unsigned r = 0; r < ranks; r++) {
                assert_true(same(dtype, bench->memory[r], bench->wanted,
                                 dtypes[type].size, COUNT_MAX));
            }
        }
    }
}

static void cutting_into_parts_changes_no_bit(void **state)
{
    struct bench *bench = *state;
    const void *data[5];
    struct sum_inputs in = { data, bench->weight, 5 };
    void *whole[] = { bench->out[0] };

    for (unsigned r = 0; r < 5; r++) {
        fill(bench->memory[r], PSD_FLOAT32, COUNT_MAX, r);
        bench->weight[r] = 0.1 * (r + 1);
        data[r] = bench->memory[r];
    }
    sum_elements(PSD_FLOAT32, PSD_OP_MEAN, &in, whole, 1, COUNT_MAX);
    for (size_t part = 1; part < COUNT_MAX; part = part * 2 + 1) {
        for (size_t from = 0; from < COUNT_MAX; from += part) {
            size_t left = COUNT_MAX - from;
            void *to[] = { bench->out[1] + from * 4 };

            for (unsigned r = 0; r < 5; r++) {
                data[r] = bench->memory[r] + from * 4;
            }
            sum_elements(PSD_FLOAT32, PSD_OP_MEAN, &in, to, 1,
                         left < part ? left : part);
        }
        assert_true(same(PSD_FLOAT32, bench->out[0], bench->out[1], 4,
                         COUNT_MAX));
    }
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(float16_rounds_to_nearest_even),
        cmocka_unit_test(bfloat16_rounds_to_nearest_even),
        cmocka_unit_test(all_65536_halves_come_back_as_they_went),
        HERE(every_type_and_op_is_the_reference_to_the_bit),
        HERE(both_instruction_sets_give_the_same_bits),
        HERE(outputs_may_be_the_inputs),
        HERE(cutting_into_parts_changes_no_bit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
