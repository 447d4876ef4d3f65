/* pack_test.c: claims about pack.c. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/mem.h"
#include "wire/pack.h"

static void what_is_packed_is_unpacked(void **state)
{
    struct pack pack;
    struct unpack unpack;
    char text[16];

    (void)state;
    pack_init(&pack);
    pack_u8(&pack, 0xfe);
    pack_u16(&pack, 0xfedc);
    pack_u32(&pack, 0xfedcba98u);
    pack_u64(&pack, UINT64_C(0xfedcba9876543210));
    pack_f64(&pack, -0.0);
    pack_text(&pack, "poseidon");
    pack_text(&pack, "");
    pack_bytes(&pack, "xyz", 3);
    assert_false(pack.failed);
    unpack_init(&unpack, pack.data, pack.size);
    assert_int_equal(unpack_u8(&unpack), 0xfe);
    assert_int_equal(unpack_u16(&unpack), 0xfedc);
    assert_int_equal(unpack_u32(&unpack), 0xfedcba98u);
    assert_int_equal(unpack_u64(&unpack), UINT64_C(0xfedcba9876543210));
    assert_true(signbit(unpack_f64(&unpack)));
    unpack_text(&unpack, text, sizeof(text));
    assert_string_equal(text, "poseidon");
    unpack_text(&unpack, text, sizeof(text));
    assert_string_equal(text, "");
    assert_false(unpack_done(&unpack));
    assert_memory_equal(unpack_bytes(&unpack, 3), "xyz", 3);
    assert_true(unpack_done(&unpack));
    pack_fini(&pack);
}

static void bytes_are_little_endian(void **state)
{
    struct pack pack;

    (void)state;
    pack_init(&pack);
    pack_u32(&pack, 0x04030201u);
    pack_text(&pack, "ab");
    assert_int_equal(pack.size, 10);
    assert_memory_equal(pack.data, "\1\2\3\4\2\0\0\0ab", 10);
    pack_fini(&pack);
}

static void a_reader_that_failed_stays_failed(void **state)
{
    static const uint8_t bytes[3] = { 1, 2, 3 };
    struct unpack unpack;

    (void)state;
    unpack_init(&unpack, bytes, sizeof(bytes));
    assert_int_equal(unpack_u32(&unpack), 0);
    assert_true(unpack.failed);
    assert_int_equal(unpack_u8(&unpack), 0);
    assert_null(unpack_bytes(&unpack, 0));
    assert_false(unpack_done(&unpack));
}

static void a_text_must_fit_and_have_no_nul(void **state)
{
    struct unpack unpack;
    char text[4];

    (void)state;
    unpack_init(&unpack, "\3\0\0\0abc", 7);
    unpack_text(&unpack, text, sizeof(text));
    assert_true(unpack_done(&unpack));
    unpack_init(&unpack, "\4\0\0\0abcd", 8);
    unpack_text(&unpack, text, sizeof(text));
    assert_true(unpack.failed);
    assert_string_equal(text, "");
    unpack_init(&unpack, "\3\0\0\0a\0c", 7);
    unpack_text(&unpack, text, sizeof(text));
    assert_true(unpack.failed);
    unpack_init(&unpack, "\377\377\377\377ab", 6);
    unpack_text(&unpack, text, sizeof(text));
    assert_true(unpack.failed);
}

static void a_writer_without_memory_stays_failed(void **state)
{
    struct pack pack;

    (void)state;
    pack_init(&pack);
    mem_fail_after(1);
    pack_u8(&pack, 1);
    mem_fail_after(0);
    assert_true(pack.failed);
    pack_u8(&pack, 2);
    assert_int_equal(pack.size, 0);
    pack_fini(&pack);
}

static void a_pack_grows_to_any_size(void **state)
{
    static const char chunk[1000];
    struct pack pack;

    (void)state;
    pack_init(&pack);
    for (unsigned i = 0; i < 1000; i++) {
        pack_bytes(&pack, chunk, sizeof(chunk));
    }
    assert_false(pack.failed);
    assert_int_equal(pack.size, 1000000);
    pack_fini(&pack);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_packed_is_unpacked),
        cmocka_unit_test(bytes_are_little_endian),
        cmocka_unit_test(a_reader_that_failed_stays_failed),
        cmocka_unit_test(a_text_must_fit_and_have_no_nul),
        cmocka_unit_test(a_writer_without_memory_stays_failed),
        cmocka_unit_test(a_pack_grows_to_any_size),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
