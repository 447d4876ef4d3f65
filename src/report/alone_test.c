/* alone_test.c: which commands run Python, and with which options. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "report/alone.h"

static char *text(const char *from)
{
    return (char *)(uintptr_t)from;
}

/* "-": no Python; "": Python; else the letter. */
static void expect_line(const char *line, const char *expected)
{
    char *words[] = {text(line)};
    char flag = '?';
    bool python = alone_is_python(words, 1, true, &flag);

    if (python != (expected[0] != '-') || (python && flag != expected[0])) {
        fail_msg("%s: %d '%c'", line, python, flag);
    }
}

static void python_is_found_in_a_line(void **state)
{
    (void)state;
    expect_line("echo hi", "-");
    expect_line("./train --rate 0.1 -I", "-");
    expect_line("pythonic x", "-");
    expect_line("python", "");
    expect_line("python train.py -I -S", "");
    expect_line("cd x && python3 train.py", "");
    expect_line("/opt/a b/bin/python3.11 -u train.py", "");
    expect_line("./train.py --epochs 3", "");
    expect_line("python -m train -I", "");
    expect_line("python -c 'import sys' -E", "");
    expect_line("python -X dev -W error train.py -S", "");
    expect_line("python -I train.py", "I");
    expect_line("python -uS train.py", "S");
    expect_line("A=1 nice python -X importtime -E train.py", "E");
    expect_line("sh -c \"python -I train.py\"", "I");
    expect_line("python3 -c 'x'; pypy3 -I train.py", "I");
    expect_line("python --version", "");
}

static void python_is_found_in_words(void **state)
{
    char *words[] = {text("python3"), text("-B"), text("-I"),
                     text("my train.py")};
    char *plain[] = {text("train"), text("a python inside")};
    char flag;

    (void)state;
    assert_true(alone_is_python(words, 4, false, &flag));
    assert_int_equal(flag, 'I');
    assert_true(alone_is_python(words, 2, false, &flag));
    assert_int_equal(flag, 0);
    assert_false(alone_is_python(plain, 2, false, &flag));
}

static void only_a_job_that_nobody_joined_is_told(void **state)
{
    struct run_process processes[2] = {{.rank = 0}, {.rank = 1}};
    struct run run = {.workers = 2, .processes = processes};
    char *line[] = {text("python -I x.py")};
    char *other[] = {text("true")};
    char sentence[512];

    (void)state;
    assert_true(alone_text(&run, line, 1, true, sentence, sizeof(sentence)));
    assert_non_null(strstr(sentence, "python -I switches Poseidon off"));
    assert_non_null(strstr(sentence, "each of 2 processes"));
    assert_false(alone_text(&run, other, 1, true, sentence, sizeof(sentence)));
    processes[1].entered = true;
    assert_false(alone_text(&run, line, 1, true, sentence, sizeof(sentence)));
    processes[1].entered = false;
    run.workers = 1;
    assert_false(alone_text(&run, line, 1, true, sentence, sizeof(sentence)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_is_found_in_a_line),
        cmocka_unit_test(python_is_found_in_words),
        cmocka_unit_test(only_a_job_that_nobody_joined_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
