/* token_test.c: output is cut where it may be cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "screen/token.h"

static struct token first(const char *text)
{
    struct token token = {.size = 0};

    assert_true(token_read(text, strlen(text), &token));
    return token;
}

static void characters_have_their_size_and_width(void **state)
{
    (void)state;
    assert_int_equal(first("a").width, 1);
    assert_int_equal(first("\303\251x").size, 2);     /* e acute */
    assert_int_equal(first("\342\226\210x").size, 3); /* a full block */
    assert_int_equal(first("\342\226\210x").width, 1);
    assert_int_equal(first("\346\274\242x").width, 2);    /* a han sign */
    assert_int_equal(first("\360\237\232\200x").size, 4); /* a rocket */
    assert_int_equal(first("\360\237\232\200x").width, 2);
    assert_int_equal(first("\314\201").width, 0); /* an accent */
}

static void stray_bytes_stand_for_themselves(void **state)
{
    (void)state;
    assert_int_equal(first("\200a").size, 1);
    assert_int_equal(first("\377a").size, 1);
    assert_int_equal(first("\303a").size, 1);
    assert_int_equal(first("\340\200\200").size, 1); /* too long a form */
    assert_int_equal(first("\303a").kind, TOKEN_CHARACTER);
}

static void sequences_are_known_by_their_end(void **state)
{
    (void)state;
    assert_int_equal(first("\033[1;31mx").kind, TOKEN_STYLE);
    assert_int_equal(first("\033[1;31mx").size, 7);
    assert_int_equal(first("\033[Ax").kind, TOKEN_MOVE);
    assert_int_equal(first("\033[Ax").count, 1);
    assert_int_equal(first("\033[12Bx").count, 12);
    assert_int_equal(first("\033[99999999999999Bx").count, 9999);
    assert_int_equal(first("\033[2Kx").kind, TOKEN_ESCAPE);
    assert_int_equal(first("\033]0;title\007x").size, 10);
    assert_int_equal(first("\033]0;title\033\\x").size, 11);
    assert_int_equal(first("\033(Bx").size, 3);
    assert_int_equal(first("\0337x").size, 2);
    assert_int_equal(first("\033[1\nx").size, 3); /* broken off */
    assert_int_equal(first("\033\nx").size, 1);
    assert_int_equal(first("\r").kind, TOKEN_CONTROL);
}

static void what_is_not_complete_is_held_back_but_not_for_ever(void **state)
{
    char text[TOKEN_SIZE_MAX + 1] = "\033]";

    (void)state;
    assert_int_equal(token_whole("ab\303", 3), 2);
    assert_int_equal(token_whole("ab\342\226", 4), 2);
    assert_int_equal(token_whole("ab\033", 3), 2);
    assert_int_equal(token_whole("ab\033[3", 5), 2);
    assert_int_equal(token_whole("ab\033[31", 6), 2);
    assert_int_equal(token_whole("ab\033[31m", 7), 7);
    memset(text + 2, 'x', sizeof(text) - 2);
    assert_int_equal(token_whole(text, TOKEN_SIZE_MAX - 1), 0);
    assert_int_equal(token_whole(text, TOKEN_SIZE_MAX), TOKEN_SIZE_MAX);
}

static void a_text_is_measured_and_cut_by_columns(void **state)
{
    static const char text[] = "\033[1ma\346\274\242b\033[0m";

    (void)state;
    assert_int_equal(token_width(text, strlen(text)), 4);
    assert_int_equal(token_fit(text, strlen(text), 2), 5);
    assert_int_equal(token_fit(text, strlen(text), 3), 8);
    assert_int_equal(token_fit(text, strlen(text), 4), strlen(text));
    assert_int_equal(token_fit("abc", 3, 0), 0);
}

static void any_bytes_are_cut_without_harm(void **state)
{
    uint32_t seed = 1;

    (void)state;
    for (int turn = 0; turn < 20000; turn++) {
        char text[40];

        for (size_t i = 0; i < sizeof(text); i++) {
            static const char often[] = "\033[]0;mAB\r\n\303\342\360\200";

            seed = seed * 1664525u + 1013904223u;
            text[i] = seed >> 31 ? (char)(seed >> 16)
                                 : often[(seed >> 8) % (sizeof(often) - 1)];
        }
        assert_true(token_whole(text, sizeof(text)) <= sizeof(text));
        assert_true(token_fit(text, sizeof(text), 10) <= sizeof(text));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(characters_have_their_size_and_width),
        cmocka_unit_test(stray_bytes_stand_for_themselves),
        cmocka_unit_test(sequences_are_known_by_their_end),
        cmocka_unit_test(what_is_not_complete_is_held_back_but_not_for_ever),
        cmocka_unit_test(a_text_is_measured_and_cut_by_columns),
        cmocka_unit_test(any_bytes_are_cut_without_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
