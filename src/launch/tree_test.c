/* tree_test.c: every descendant is found, however it hides. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/banned.h"
#include "launch/tree.h"

#define WAIT_MS 10000

/* Tell through `tell` that it is there, and stay. */
static void stay(int tell)
{
    (void)!write(tell, "x", 1);
    for (;;) {
        pause();
    }
}

static void wait_for(int from, unsigned count)
{
    char byte;

    while (count-- > 0) {
        assert_int_equal(read(from, &byte, 1), 1);
    }
}

static void hidden_descendants_are_found_and_ended(void **state)
{
    int ends[2];
    pid_t child;

    (void)state;
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    assert_int_equal(pipe(ends), 0);
    assert_int_equal(tree_signal(0), 0);
    child = fork();
    if (child == 0) {
        signal(SIGTERM, SIG_IGN);
        if (fork() == 0) { /* in a session of its own */
            setsid();
            stay(ends[1]);
        }
        if (fork() == 0) { /* forked twice: falls to the subreaper */
            if (fork() == 0) {
                setsid();
                stay(ends[1]);
            }
            _exit(0);
        }
        stay(ends[1]);
    }
    wait_for(ends[0], 3);
    assert_in_range(tree_signal(0), 3, 4);
    tree_end(WAIT_MS);
    assert_int_equal(tree_signal(0), 0);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    close(ends[0]);
    close(ends[1]);
}

static void a_descendant_is_told_from_a_stranger(void **state)
{
    int ends[2];
    pid_t child;
    pid_t other;

    (void)state;
    assert_int_equal(pipe(ends), 0);
    child = fork();
    if (child == 0) {
        stay(ends[1]);
    }
    other = fork();
    if (other == 0) {
        stay(ends[1]);
    }
    wait_for(ends[0], 2);
    assert_true(tree_descends(child, child));
    assert_true(tree_descends(child, getpid()));
    assert_false(tree_descends(child, other));
    assert_false(tree_descends(getpid(), child));
    tree_end(WAIT_MS);
    close(ends[0]);
    close(ends[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hidden_descendants_are_found_and_ended),
        cmocka_unit_test(a_descendant_is_told_from_a_stranger),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
