/* lines_test.c: bars do not stack up, and no line is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "screen/lines.h"

struct rig {
    struct lines lines;
    char got[64 << 10]; /* lines with a bar behind each */
    size_t size;
};

static void keep(void *user, const char *text, size_t size)
{
    struct rig *rig = user;

    assert_true(rig->size + size + 2 < sizeof(rig->got));
    memcpy(rig->got + rig->size, text, size);
    rig->size += size;
    rig->got[rig->size++] = '|';
    rig->got[rig->size] = '\0';
}

static struct rig *rig_create(void)
{
    static struct rig rig;

    rig.size = 0;
    rig.got[0] = '\0';
    lines_init(&rig.lines, &rig, keep);
    return &rig;
}

static void give(struct rig *rig, const char *text)
{
    lines_write(&rig->lines, text, strlen(text));
}

static void expect(struct rig *rig, const char *text)
{
    assert_string_equal(rig->got, text);
    rig->size = 0;
    rig->got[0] = '\0';
}

static void expect_bar(struct rig *rig, const char *want)
{
    const char *text = NULL;
    size_t size = 0;
    bool there = lines_bar(&rig->lines, &text, &size);

    assert_int_equal(there, want != NULL);
    if (want != NULL) {
        assert_int_equal(size, strlen(want));
        assert_memory_equal(text, want, size);
    }
}

static void plain_lines_pass_at_once(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "one\ntwo\n\nthr");
    expect(rig, "one|two||");
    assert_false(lines_waiting(&rig->lines));
    expect_bar(rig, "thr");
    give(rig, "ee\n");
    expect(rig, "three|");
    expect_bar(rig, NULL);
    lines_finish(&rig->lines);
    expect(rig, "");
    lines_fini(&rig->lines);
}

static void a_bar_is_one_line_in_its_last_state(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\r 10%\r 20%");
    expect_bar(rig, " 20%");
    give(rig, "\r100%\n");
    expect(rig, "");
    expect_bar(rig, NULL);
    assert_true(lines_waiting(&rig->lines));
    lines_settle(&rig->lines);
    expect(rig, "100%|");
    give(rig, "dos\r\n"); /* the end of a line elsewhere */
    lines_settle(&rig->lines);
    expect(rig, "dos|");
    lines_fini(&rig->lines);
}

static void nested_bars_do_not_stack_up(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\router 0");
    for (int i = 0; i < 10; i++) {
        char text[32];

        snprintf(text, sizeof(text), "\rinner %d", i);
        give(rig, "\n");
        give(rig, text);
        give(rig, "\033[A");
        lines_settle(&rig->lines);
    }
    expect(rig, "");
    expect_bar(rig, "inner 9");
    give(rig, "\router 1");
    expect_bar(rig, "outer 1");
    give(rig, "\n\n");
    lines_settle(&rig->lines);
    expect(rig, "outer 1|inner 9|");
    lines_fini(&rig->lines);
}

static void a_bar_that_was_wiped_out_is_none(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\r100%\r    \r");
    expect_bar(rig, NULL);
    lines_finish(&rig->lines);
    expect(rig, "");
    lines_fini(&rig->lines);
}

static void the_end_finishes_everything(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\router\n\rinner\033[A");
    lines_finish(&rig->lines);
    expect(rig, "outer|inner|");
    give(rig, "no end \303");
    lines_finish(&rig->lines);
    expect(rig, "no end \303|");
    lines_fini(&rig->lines);
}

static void colours_stay_and_movements_do_not(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\033[31mred\033[0m\033[K\033]0;x\007\b\n");
    expect(rig, "\033[31mred\033[0m|");
    give(rig, "old\r\033[32mnew\n");
    lines_settle(&rig->lines);
    expect(rig, "\033[32mnew|");
    give(rig, "kept\r\033[0m\n");
    lines_settle(&rig->lines);
    expect(rig, "kept|");
    lines_fini(&rig->lines);
}

static void torn_characters_are_put_together(void **state)
{
    static const char text[] = "a\342\226\210\033[31mb\n";
    struct rig *rig = rig_create();

    (void)state;
    for (size_t i = 0; i + 1 < sizeof(text); i++) {
        lines_write(&rig->lines, text + i, 1);
    }
    expect(rig, "a\342\226\210\033[31mb|");
    lines_fini(&rig->lines);
}

static void a_long_line_is_cut_and_nothing_of_it_lost(void **state)
{
    struct rig *rig = rig_create();
    size_t letters = 0;

    (void)state;
    for (size_t i = 0; i < 3 * LINES_SIZE; i++) {
        give(rig, "x");
    }
    give(rig, "\n");
    for (size_t i = 0; i < rig->size; i++) {
        letters += rig->got[i] == 'x';
    }
    assert_int_equal(letters, 3 * LINES_SIZE);
    lines_fini(&rig->lines);
}

static void more_rows_than_there_are_are_passed_in_order(void **state)
{
    struct rig *rig = rig_create();

    (void)state;
    give(rig, "\r1\n\r2\n\r3\n\r4\n\r5\n\r6\n");
    lines_settle(&rig->lines);
    expect(rig, "1|2|3|4|5|6|");
    give(rig, "\033[9A\033[9B\033[A7\n"); /* nowhere to go */
    lines_finish(&rig->lines);
    expect(rig, "7|");
    lines_fini(&rig->lines);
}

static void any_bytes_do_no_harm(void **state)
{
    static const char often[] = "\033[A]0;mB\r\n\n\303\342\200ab";
    uint32_t seed = 1;

    (void)state;
    for (int turn = 0; turn < 500; turn++) {
        struct rig *rig = rig_create();

        for (int i = 0; i < 200; i++) {
            char text[7];

            for (size_t j = 0; j < sizeof(text); j++) {
                seed = seed * 1664525u + 1013904223u;
                text[j] = often[(seed >> 8) % (sizeof(often) - 1)];
            }
            lines_write(&rig->lines, text, seed % sizeof(text));
            if (seed >> 28 == 0) {
                lines_settle(&rig->lines);
            }
        }
        lines_finish(&rig->lines);
        lines_fini(&rig->lines);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_lines_pass_at_once),
        cmocka_unit_test(a_bar_is_one_line_in_its_last_state),
        cmocka_unit_test(nested_bars_do_not_stack_up),
        cmocka_unit_test(a_bar_that_was_wiped_out_is_none),
        cmocka_unit_test(the_end_finishes_everything),
        cmocka_unit_test(colours_stay_and_movements_do_not),
        cmocka_unit_test(torn_characters_are_put_together),
        cmocka_unit_test(a_long_line_is_cut_and_nothing_of_it_lost),
        cmocka_unit_test(more_rows_than_there_are_are_passed_in_order),
        cmocka_unit_test(any_bytes_do_no_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
