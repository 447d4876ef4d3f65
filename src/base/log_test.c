/* log_test.c: who hears what, and that silence is the default. */
#include <errno.h>

#include "base/claim.h"
#include "base/log.h"

struct heard {
    unsigned lines;
    psd_log_level level;
    char line[2048];
};

static void hear(void *user, psd_log_level level, const char *line)
{
    struct heard *heard = user;

    heard->lines++;
    heard->level = level;
    snprintf(heard->line, sizeof(heard->line), "%s", line);
}

static int silence(void **state)
{
    (void)state;
    psd_log_set(NULL, NULL, PSD_LOG_DEBUG);
    return 0;
}

static void nothing_is_said_without_a_sink(void **state)
{
    (void)state;
    log_error("test: nobody hears %d", 1);
    psd_log_set(NULL, NULL, PSD_LOG_DEBUG);
    log_error("test: nobody hears %d", 2);
}

static void the_sink_hears_the_line_and_its_level(void **state)
{
    struct heard heard = { .lines = 0 };

    (void)state;
    psd_log_set(hear, &heard, PSD_LOG_DEBUG);
    log_error("test: %s has %d bytes", "block", 12);
    assert_int_equal(heard.lines, 1);
    assert_int_equal(heard.level, PSD_LOG_ERROR);
    assert_string_equal(heard.line, "test: block has 12 bytes");
    log_debug("test: fine");
    assert_int_equal(heard.lines, 2);
    assert_int_equal(heard.level, PSD_LOG_DEBUG);
}

static void what_is_below_the_level_is_not_said(void **state)
{
    (void)state;
    for (int level = PSD_LOG_ERROR; level <= PSD_LOG_DEBUG; level++) {
        struct heard heard = { .lines = 0 };

        psd_log_set(hear, &heard, (psd_log_level)level);
        log_error("test: e");
        log_warn("test: w");
        log_info("test: i");
        log_debug("test: d");
        assert_int_equal(heard.lines, level + 1);
    }
}

static void a_sink_that_was_replaced_hears_nothing_more(void **state)
{
    struct heard old = { .lines = 0 };
    struct heard new = { .lines = 0 };

    (void)state;
    psd_log_set(hear, &old, PSD_LOG_INFO);
    psd_log_set(hear, &new, PSD_LOG_INFO);
    log_info("test: to the new one");
    assert_int_equal(old.lines, 0);
    assert_int_equal(new.lines, 1);
    psd_log_set(NULL, NULL, PSD_LOG_INFO);
    log_info("test: to nobody");
    assert_int_equal(new.lines, 1);
}

static void a_long_line_is_cut_and_errno_survives(void **state)
{
    struct heard heard = { .lines = 0 };
    char text[3000];

    (void)state;
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    psd_log_set(hear, &heard, PSD_LOG_INFO);
    log_info("test: %s", text);
    assert_int_equal(heard.lines, 1);
    assert_in_range(strlen(heard.line), 100, sizeof(heard.line) - 1);
    errno = ENOENT;
    log_error("test: %m");
    assert_int_equal(errno, ENOENT);
    assert_string_equal(heard.line, "test: No such file or directory");
}

static void break_an_assumption(void)
{
    PSD_ASSERT(1 + 1 == 3);
}

static void keep_an_assumption(void)
{
    PSD_ASSERT(1 + 1 == 2);
}

static void a_broken_assumption_aborts_in_every_build(void **state)
{
    (void)state;
    assert_true(claim_aborts(break_an_assumption));
    assert_false(claim_aborts(keep_an_assumption));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_said_without_a_sink),
        cmocka_unit_test_teardown(the_sink_hears_the_line_and_its_level,
                                  silence),
        cmocka_unit_test_teardown(what_is_below_the_level_is_not_said,
                                  silence),
        cmocka_unit_test_teardown(a_sink_that_was_replaced_hears_nothing_more,
                                  silence),
        cmocka_unit_test_teardown(a_long_line_is_cut_and_errno_survives,
                                  silence),
        cmocka_unit_test(a_broken_assumption_aborts_in_every_build),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
