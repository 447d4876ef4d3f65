/* goal_test.c: a command line says how many steps there will be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "screen/goal.h"

#define STEPS(...)                                                             \
    goal_steps((char *const[]){__VA_ARGS__},                                   \
               sizeof((char *const[]){__VA_ARGS__}) / sizeof(char *), 0)
#define LINE_STEPS(line) goal_steps((char *const[]){line}, 1, 1)

static void every_usual_spelling_is_understood(void **state)
{
    (void)state;
    assert_int_equal(STEPS("train", "--steps", "7"), 7);
    assert_int_equal(STEPS("train", "--steps=8"), 8);
    assert_int_equal(STEPS("train", "--max_steps", "9"), 9);
    assert_int_equal(STEPS("train", "--max-steps=10"), 10);
    assert_int_equal(STEPS("train", "--num_steps", "11"), 11);
    assert_int_equal(STEPS("train", "--train_steps=12"), 12);
    assert_int_equal(STEPS("train", "--train-steps", "13"), 13);
}

static void the_last_one_counts(void **state)
{
    (void)state;
    assert_int_equal(STEPS("t", "--steps", "1", "--max_steps=2"), 2);
}

static void what_is_no_number_of_steps_is_none(void **state)
{
    (void)state;
    assert_int_equal(STEPS("train"), 0);
    assert_int_equal(STEPS("train", "--steps"), 0);
    assert_int_equal(STEPS("train", "--steps", "many"), 0);
    assert_int_equal(STEPS("train", "--steps=-3"), 0);
    assert_int_equal(STEPS("train", "--steps=1e5"), 0);
    assert_int_equal(STEPS("train", "--steps_per_epoch", "5"), 0);
    assert_int_equal(STEPS("train", "--save_steps", "5"), 0);
    assert_int_equal(STEPS("train", "-steps", "5"), 0);
    assert_int_equal(STEPS("train", "--steps="), 0);
    assert_int_equal(STEPS("train", "--steps", "12345678901234567890"), 0);
    assert_int_equal(STEPS("", ""), 0);
}

static void a_line_for_the_shell_is_cut_into_words(void **state)
{
    (void)state;
    assert_int_equal(LINE_STEPS("python train.py --max_steps 50 --lr 0.1"), 50);
    assert_int_equal(LINE_STEPS("cd x; python t.py '--steps=60'; echo"), 60);
    assert_int_equal(LINE_STEPS("t --steps  70 "), 70);
    assert_int_equal(LINE_STEPS("t --steps '80'"), 80);
    assert_int_equal(LINE_STEPS(""), 0);
    assert_int_equal(LINE_STEPS("'"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_usual_spelling_is_understood),
        cmocka_unit_test(the_last_one_counts),
        cmocka_unit_test(what_is_no_number_of_steps_is_none),
        cmocka_unit_test(a_line_for_the_shell_is_cut_into_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
