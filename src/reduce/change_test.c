/* change_test.c: what became of numbers, and adding it, in every type. */
#include <math.h>
#include <stdint.h>

#include "base/claim.h"
#include "reduce/change.h"

#define COUNT 37 /* more than two groups, and a rest */

#define DEFINE_EXACT(name, type, dtype, much)                                \
    static void name(void **state)                                           \
    {                                                                        \
        type data[COUNT], base[COUNT], value[COUNT], out[COUNT];             \
        struct change change = { data, base, value, out };                   \
                                                                             \
        (void)state;                                                         \
        for (unsigned i = 0; i < COUNT; i++) {                               \
            data[i] = (type)(much) + (type)(2 * i);                          \
            base[i] = (type)(much) + (type)i;                                \
            value[i] = 100;                                                  \
        }                                                                    \
        change_make(dtype, &change, COUNT);                                  \
        for (unsigned i = 0; i < COUNT; i++) {                               \
            assert_true(out[i] == (type)i);                                  \
        }                                                                    \
        change.out = data; /* in place */                                    \
        assert_int_equal(change_add(dtype, &change, COUNT), CHANGE_FINE);    \
        for (unsigned i = 0; i < COUNT; i++) {                               \
            assert_true(value[i] == (type)(100 + i));                        \
            assert_true(data[i] == value[i] && base[i] == value[i]);         \
            data[i] = 1;                                                     \
        }                                                                    \
        change = (struct change){ data, NULL, value, out };                  \
        assert_int_equal(change_add(dtype, &change, COUNT), CHANGE_FINE);    \
        for (unsigned i = 0; i < COUNT; i++) {                               \
            assert_true(value[i] == (type)(101 + i) && out[i] == value[i]);  \
            assert_true(base[i] == (type)(100 + i) && data[i] == 1);         \
        }                                                                    \
    }

DEFINE_EXACT(f32_is_exact, float, PSD_FLOAT32, 1000)
DEFINE_EXACT(f64_is_exact, double, PSD_FLOAT64, 1e9)
DEFINE_EXACT(i32_wraps, uint32_t, PSD_INT32, 0xfffffff0u)
DEFINE_EXACT(i64_wraps, uint64_t, PSD_INT64, 0xfffffffffffffff0u)

static void halves_are_rounded_after_each(void **state)
{
    uint16_t f16[4][2] = { { 0x4000, 0x3c01 }, { 0xbc00, 0x0001 },
                           { 0x3c00, 0x6400 }, { 0, 0 } };
    uint16_t bf16[4][2] = { { 0x4000, 0x3f81 }, { 0xbf80, 0x0001 },
                            { 0x3f80, 0x4380 }, { 0, 0 } };
    struct change narrow = { f16[0], f16[1], f16[2], f16[3] };
    struct change wide = { bf16[0], bf16[1], bf16[2], bf16[3] };

    (void)state;
    assert_int_equal(change_add(PSD_FLOAT16, &narrow, 2), CHANGE_FINE);
    assert_int_equal(change_add(PSD_BFLOAT16, &wide, 2), CHANGE_FINE);
    assert_int_equal(f16[2][0], 0x4400); /* 1 + (2 + 1) */
    assert_int_equal(f16[2][1], 0x6401); /* 1024 + 1.001 */
    assert_int_equal(bf16[2][0], 0x4080);
    assert_int_equal(bf16[2][1], 0x4381); /* 256 + 1.008 */
    assert_memory_equal(f16[1], f16[2], sizeof(f16[1]));
    assert_memory_equal(bf16[3], bf16[2], sizeof(bf16[3]));
}

static void what_is_not_finite_is_told(void **state)
{
    static const struct {
        psd_dtype dtype;
        uint64_t wild; /* the bits of an infinity, of the largest number */
        uint64_t large;
        size_t size;
    } rows[] = {
        { PSD_FLOAT32, 0x7f800000u, 0x7f7fffffu, 4 },
        { PSD_FLOAT64, 0x7ff0000000000000u, 0x7fefffffffffffffu, 8 },
        { PSD_FLOAT16, 0x7c00u, 0x7bffu, 2 },
        { PSD_BFLOAT16, 0x7f80u, 0x7f7fu, 2 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        for (unsigned at = 0; at < COUNT; at++) {
            uint64_t data[COUNT] = { 0 };
            uint64_t value[COUNT] = { 0 };
            uint64_t out[COUNT];
            struct change change = { data, NULL, value, out };
            size_t to = at * rows[i].size;

            memcpy((char *)data + to, &rows[i].large, rows[i].size);
            memcpy((char *)value + to, &rows[i].large, rows[i].size);
            assert_int_equal(change_add(rows[i].dtype, &change, COUNT),
                             CHANGE_TOO_FAR);
            memset(value, 0, sizeof(value));
            memcpy((char *)data + to, &rows[i].wild, rows[i].size);
            assert_int_equal(change_add(rows[i].dtype, &change, COUNT),
                             CHANGE_WILD);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f32_is_exact),
        cmocka_unit_test(f64_is_exact),
        cmocka_unit_test(i32_wraps),
        cmocka_unit_test(i64_wraps),
        cmocka_unit_test(halves_are_rounded_after_each),
        cmocka_unit_test(what_is_not_finite_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
