/* word_test.c: what was meant, and what may be shown. */
#include "base/claim.h"
#include "base/word.h"

static bool near(const char *word, const char *name)
{
    size_t best = WORD_FAR;

    return word_nearer(word, strlen(word), name, strlen(name), &best);
}

static void a_slip_or_two_is_near(void **state)
{
    (void)state;
    assert_true(near("wroker_nodes", "worker_nodes"));
    assert_true(near("worker_node", "worker_nodes"));
    assert_true(near("worker-nodes", "worker_nodes"));
    assert_true(near("Worker_Nodes", "worker_nodes"));
    assert_true(near("al", "all"));
    assert_true(near("", "ab") == false);
    assert_false(near("master_node", "worker_nodes"));
    assert_false(near("x", "0"));
    assert_false(near("no", "all"));
    assert_false(near("frobnicate", "digest"));
}

static void the_nearest_wins_and_long_words_are_far(void **state)
{
    char word[200];
    size_t best = WORD_FAR;

    (void)state;
    assert_true(word_nearer("rotata", 6, "notate", 6, &best));
    assert_true(word_nearer("rotata", 6, "rotate", 6, &best));
    assert_int_equal(best, 1);
    assert_false(word_nearer("rotata", 6, "rotati", 6, &best));
    memset(word, 'a', sizeof(word));
    best = WORD_FAR;
    assert_false(word_nearer(word, sizeof(word), word, sizeof(word), &best));
    assert_false(word_nearer(word, 64, word, 63, &best));
    assert_true(word_nearer(word, 63, word, 63, &best));
}

static void what_is_shown_is_printable_and_short(void **state)
{
    char out[12];

    (void)state;
    assert_string_equal(word_show("plain", 5, out, sizeof(out)), "plain");
    assert_string_equal(word_show("", 0, out, sizeof(out)), "");
    assert_string_equal(word_show("a\x1b[1m\n", 6, out, sizeof(out)),
                        "a?[1m?");
    assert_string_equal(word_show("a\0b", 3, out, sizeof(out)), "a?b");
    assert_string_equal(word_show("m\xc3\xbcn", 4, out, sizeof(out)), "m?n");
    assert_string_equal(word_show("0123456789abcdef", 16, out, sizeof(out)),
                        "01234567...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_slip_or_two_is_near),
        cmocka_unit_test(the_nearest_wins_and_long_words_are_far),
        cmocka_unit_test(what_is_shown_is_printable_and_short),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
