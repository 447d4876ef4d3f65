/* utf8_test.c: whatever comes in, UTF-8 comes out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>

#include "base/mem.h"
#include "report/utf8.h"

#define BAD "\xef\xbf\xbd"

static void clean_is(const char *bytes, size_t size, const char *want)
{
    char *text = utf8_clean(bytes, size);

    assert_string_equal(text, want);
    mem_free(text);
}

static void what_is_valid_stays(void **state)
{
    (void)state;
    clean_is("", 0, "");
    clean_is("a\n\t", 3, "a\n\t");
    clean_is("\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80", 9,
             "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    clean_is("\xf4\x8f\xbf\xbf", 4, "\xf4\x8f\xbf\xbf");
}

static void what_is_not_becomes_a_mark(void **state)
{
    (void)state;
    clean_is("a\0b", 3, "a?b");
    clean_is("\xff", 1, BAD);
    clean_is("\xc3", 1, BAD);
    clean_is("\xe2\x82", 2, BAD BAD);
    clean_is("\xc0\x80", 2, BAD BAD);                 /* overlong */
    clean_is("\xe0\x80\x80", 3, BAD BAD BAD);
    clean_is("\xed\xa0\x80", 3, BAD BAD BAD);         /* a surrogate */
    clean_is("\xf4\x90\x80\x80", 4, BAD BAD BAD BAD); /* too far */
    clean_is("\xc3(", 2, BAD "(");
}

static void the_json_library_takes_any_bytes_after_it(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int round = 0; round < 20000; round++) {
        char bytes[16];
        char *text;
        json_t *value;

        for (size_t i = 0; i < sizeof(bytes); i++) {
            seed = seed * 1664525u + 1013904223u;
            bytes[i] = (char)(seed >> 24 | (seed & 0x80 ? 0x80 : 0));
        }
        text = utf8_clean(bytes, sizeof(bytes));
        value = json_string(text);
        assert_non_null(value);
        json_decref(value);
        mem_free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_valid_stays),
        cmocka_unit_test(what_is_not_becomes_a_mark),
        cmocka_unit_test(the_json_library_takes_any_bytes_after_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
