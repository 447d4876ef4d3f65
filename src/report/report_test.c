/* report_test.c: a report names culprit, last lines, victims and logs. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <signal.h>

#include "base/banned.h"
#include "report/report.h"

static void an_exit_is_one_sentence(void **state)
{
    struct run_process killed = {
        .rank = 1, .pid = 4242, .exited = true, .signal = SIGKILL
    };
    struct run_process failed = {
        .is_server = true, .pid = 7, .exited = true, .code = 3
    };
    char text[256];

    (void)state;
    report_exit(&killed, text, sizeof(text));
    assert_string_equal(text,
                        "worker 1 (pid 4242) was killed by signal 9 (SIGKILL)"
                        ": killed; out of memory?");
    killed.memory = LAUNCH_MEMORY_KILLED;
    killed.memory_size = 3 << 20;
    killed.host = "b";
    report_exit(&killed, text, sizeof(text));
    assert_string_equal(text, "worker 1 (pid 4242 on b) was killed by the "
                              "kernel: out of memory (it had 3.0 MiB)");
    report_exit(&failed, text, sizeof(text));
    assert_string_equal(text, "server 0 (pid 7) ended with exit code 3");
}

static void a_failure_shows_the_last_twenty_lines_and_the_victims(void **state)
{
    char tail[1024] = "";
    struct run_process processes[3] = {
        { .rank = 0, .pid = 10, .exited = true, .code = 1, .victim = true },
        { .rank = 1, .pid = 11, .exited = true, .code = 7, .tail = tail },
        { .rank = 2, .pid = 12, .exited = true },
    };
    struct run run = { .workers = 3,
                       .processes = processes,
                       .logs = "somewhere",
                       .code = 7,
                       .culprit = &processes[1] };
    char text[REPORT_SIZE];

    (void)state;
    for (unsigned i = 0; i < 30; i++) {
        size_t used = strlen(tail);

        snprintf(tail + used, sizeof(tail) - used, "line %u\n", i);
    }
    report_exit(&processes[1], run.reason, sizeof(run.reason));
    report_failure(&run, text, sizeof(text));
    assert_non_null(strstr(text, "exit code 7"));
    assert_non_null(strstr(text, "    | line 29\n"));
    assert_non_null(strstr(text, "    | line 10\n"));
    assert_null(strstr(text, "line 9\n"));
    assert_non_null(strstr(text, "victims: worker 0 ended with exit code 1\n"));
    assert_null(strstr(text, "worker 2"));
    assert_non_null(strstr(text, "logs: somewhere"));
}

static void a_tail_of_one_long_line_is_shown(void **state)
{
    char tail[] = "no newline at the end";
    struct run_process process = { .exited = true, .code = 1, .tail = tail };
    struct run run = { .workers = 1,
                       .processes = &process,
                       .logs = "x",
                       .code = 1,
                       .culprit = &process,
                       .reason = "why" };
    char text[REPORT_SIZE];

    (void)state;
    report_failure(&run, text, sizeof(text));
    assert_non_null(strstr(text, "    | no newline at the end\n"));
    assert_non_null(strstr(text, "  culprit: worker 0 (pid 0) ended"));
}

static void a_success_says_what_is_known_and_no_more(void **state)
{
    struct run run = { .workers = 2, .logs = "x" };
    char text[REPORT_SIZE];

    (void)state;
    report_success(&run, text, sizeof(text));
    assert_string_equal(text, "2 workers done; logs in x");
    run.has_view = true;
    run.view = (struct launch_view){ .step = 9,
                                     .samples = 100,
                                     .mean_rate = 50.0,
                                     .exchanged_bytes = 1500000,
                                     .compared = 12 };
    report_success(&run, text, sizeof(text));
    assert_string_equal(text, "2 workers done at step 9, 50 samples/s, 1.5 MB "
                              "exchanged; replicas equal: 12 digests "
                              "compared, 0 differences; logs in x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_exit_is_one_sentence),
        cmocka_unit_test(a_failure_shows_the_last_twenty_lines_and_the_victims),
        cmocka_unit_test(a_tail_of_one_long_line_is_shown),
        cmocka_unit_test(a_success_says_what_is_known_and_no_more),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
