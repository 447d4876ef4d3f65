/* cause_test.c: an end is told in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "base/banned.h"
#include "report/cause.h"

static const char *told(struct run_process process)
{
    static char text[CAUSE_SIZE];

    process.exited = true;
    cause_text(&process, text, sizeof(text));
    return text;
}

static void signals_have_a_meaning(void **state)
{
    (void)state;
    assert_string_equal(told((struct run_process){ .signal = SIGSEGV }),
                        "invalid memory access");
    assert_string_equal(told((struct run_process){ .signal = SIGKILL }),
                        "killed; out of memory?");
    assert_string_equal(told((struct run_process){ .signal = SIGUSR2 }), "");
}

static void codes_of_a_shell_have_a_meaning(void **state)
{
    (void)state;
    assert_string_equal(told((struct run_process){ .code = 127 }),
                        "command not found");
    assert_string_equal(told((struct run_process){ .code = 126 }),
                        "a command that cannot be executed");
    assert_string_equal(told((struct run_process){ .code = 139 }),
                        "a process below it was killed by SIGSEGV: invalid "
                        "memory access");
    assert_string_equal(told((struct run_process){ .code = 128 + 12 }),
                        "a process below it was killed by SIGUSR2");
    assert_string_equal(told((struct run_process){ .code = 128 }), "");
    assert_string_equal(told((struct run_process){ .code = 255 }), "");
    assert_string_equal(told((struct run_process){ .code = 3 }), "");
}

static void a_python_exception_is_found_behind_its_traceback(void **state)
{
    char two[] = "Traceback (most recent call last):\n"
                 "  File \"a.py\", line 1, in <module>\n"
                 "    int('x')\n"
                 "ValueError: not a number\n\n"
                 "During handling of the above exception, another exception "
                 "occurred:\n\n"
                 "Traceback (most recent call last):\n"
                 "  File \"a.py\", line 3, in <module>\n"
                 "    raise my.Error('two\\nlines')\n"
                 "my.Error: two\nlines\n";
    char cut[] = "Traceback (most recent call last):\n  File";
    char none[] = "Traceback (most recent call last):";
    char large[1024];
    size_t head;

    (void)state;
    assert_string_equal(told((struct run_process){ .code = 1, .tail = two }),
                        "Python exception my.Error: two");
    assert_string_equal(told((struct run_process){ .code = 1, .tail = cut }),
                        "");
    assert_string_equal(told((struct run_process){ .code = 1, .tail = none }),
                        "");
    snprintf(large, sizeof(large), "%s\n", none);
    head = strlen(large);
    memset(large + head, 'E', sizeof(large) - head);
    large[sizeof(large) - 1] = '\0';
    assert_true(
        strlen(told((struct run_process){ .code = 1, .tail = large })) < 230);
}

static void want_of_memory_is_said_with_its_size(void **state)
{
    (void)state;
    assert_string_equal(
        told((struct run_process){ .signal = SIGKILL,
                                   .memory = LAUNCH_MEMORY_KILLED,
                                   .memory_size = UINT64_C(3435973837) }),
        "out of memory (it had 3.2 GiB)");
    assert_string_equal(
        told((struct run_process){ .signal = SIGKILL,
                                   .memory = LAUNCH_MEMORY_KILLED }),
        "out of memory");
    assert_string_equal(
        told((struct run_process){ .code = 1,
                                   .memory = LAUNCH_MEMORY_BELOW }),
        "the kernel has killed a process of this job here: out of memory");
}

static void signals_have_names(void **state)
{
    char text[32];

    (void)state;
    cause_signal_name(SIGBUS, text, sizeof(text));
    assert_string_equal(text, "SIGBUS");
    cause_signal_name((unsigned)SIGRTMIN + 5, text, sizeof(text));
    assert_string_equal(text, "SIGRTMIN+5");
    cause_signal_name(200, text, sizeof(text));
    assert_string_equal(text, "signal 200");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(signals_have_a_meaning),
        cmocka_unit_test(codes_of_a_shell_have_a_meaning),
        cmocka_unit_test(a_python_exception_is_found_behind_its_traceback),
        cmocka_unit_test(want_of_memory_is_said_with_its_size),
        cmocka_unit_test(signals_have_names),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
