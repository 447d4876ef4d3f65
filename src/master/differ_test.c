/* differ_test.c: differences between models are told so that a person finds
 * them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>

#include "base/mem.h"
#include "master/differ.h"

static void fill(struct message_table *table, uint32_t count)
{
    table->count = count;
    table->specs = mem_zalloc_array(count, sizeof(*table->specs));
    for (uint32_t i = 0; i < count; i++) {
        snprintf(table->specs[i].name, sizeof(table->specs[i].name),
                 "layer.%" PRIu32, i);
        table->specs[i].dtype = PSD_FLOAT32;
        table->specs[i].count = 1000;
    }
}

static uint32_t compare(struct message_table *left, struct message_table *right,
                        char *text, size_t size)
{
    struct differ_side sides[2] = { { .rank = 0, .table = left },
                                    { .rank = 2, .table = right } };
    struct differ differ;

    differ_init(&differ, text, size);
    assert_int_equal(differ_compare(&differ, &sides[0], &sides[1]), PSD_OK);
    return differ_finish(&differ);
}

static void equal_models_have_no_differences(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[4096];

    (void)state;
    fill(&left, 10);
    fill(&right, 10);
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 0);
    assert_string_equal(text, "");
    message_table_fini(&left);
    message_table_fini(&right);
}

static void a_missing_name_is_one_line_though_all_others_move_up(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[4096];

    (void)state;
    fill(&left, 10);
    fill(&right, 10);
    right.count = 9;
    memmove(&right.specs[0], &right.specs[1], 9 * sizeof(right.specs[0]));
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 1);
    assert_string_equal(text, "tensor 0: worker 0 has \"layer.0\" float32 x "
                              "1000, worker 2 has no such name");
    message_table_fini(&left);
    message_table_fini(&right);
}

static void an_extra_name_is_told_of_the_one_who_has_it(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[4096];

    (void)state;
    fill(&left, 2);
    fill(&right, 3);
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 1);
    assert_string_equal(text, "tensor 2: worker 2 has \"layer.2\" float32 x "
                              "1000, worker 0 has no such name");
    message_table_fini(&left);
    message_table_fini(&right);
}

static void what_is_unusual_about_a_tensor_is_shown(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[4096];

    (void)state;
    fill(&left, 1);
    fill(&right, 1);
    right.specs[0].priority = -3;
    right.specs[0].kind = PSD_KIND_STORE;
    snprintf(right.specs[0].optim, sizeof(right.specs[0].optim), "sgd");
    right.specs[0].rate = 0.5;
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 1);
    assert_non_null(strstr(text, "store priority -3 optim sgd rate 0.5"));
    message_table_fini(&left);
    message_table_fini(&right);
}

static void another_order_is_told_when_nothing_else_differs(void **state)
{
    struct message_table left;
    struct message_table right;
    struct message_spec first;
    char text[4096];

    (void)state;
    fill(&left, 4);
    fill(&right, 4);
    first = right.specs[0];
    right.specs[0] = right.specs[1];
    right.specs[1] = first;
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 2);
    assert_non_null(strstr(text, "worker 0 has \"layer.0\", worker 2 has "
                                 "\"layer.1\": another order"));
    message_table_fini(&left);
    message_table_fini(&right);
}

static void many_differences_are_cut_at_twenty_lines(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[4096];
    uint32_t lines = 1;

    (void)state;
    fill(&left, 1000);
    fill(&right, 1);
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 999);
    assert_non_null(strstr(text, "\n... and 979 more"));
    for (const char *at = text; *at != '\0'; at++) {
        lines += *at == '\n';
    }
    assert_int_equal(lines, 21);
    message_table_fini(&left);
    message_table_fini(&right);
}

static void long_names_never_overflow_the_text(void **state)
{
    struct message_table left;
    struct message_table right;
    char text[600];

    (void)state;
    fill(&left, 100);
    fill(&right, 100);
    for (uint32_t i = 0; i < 100; i++) {
        memset(left.specs[i].name, 'a', WIRE_NAME_MAX);
        memset(right.specs[i].name, 'a', WIRE_NAME_MAX);
        left.specs[i].name[0] = (char)('0' + i % 10);
        left.specs[i].name[1] = (char)('0' + i / 10);
        right.specs[i].name[0] = left.specs[i].name[0];
        right.specs[i].name[1] = left.specs[i].name[1];
        right.specs[i].count = 1;
    }
    assert_int_equal(compare(&left, &right, text, sizeof(text)), 100);
    assert_true(strlen(text) < sizeof(text));
    assert_non_null(strstr(text, "... and "));
    message_table_fini(&left);
    message_table_fini(&right);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_models_have_no_differences),
        cmocka_unit_test(a_missing_name_is_one_line_though_all_others_move_up),
        cmocka_unit_test(an_extra_name_is_told_of_the_one_who_has_it),
        cmocka_unit_test(what_is_unusual_about_a_tensor_is_shown),
        cmocka_unit_test(another_order_is_told_when_nothing_else_differs),
        cmocka_unit_test(many_differences_are_cut_at_twenty_lines),
        cmocka_unit_test(long_names_never_overflow_the_text),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
