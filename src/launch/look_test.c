/* look_test.c: /proc tells what a process does and whether it has a handler;
 * a shell's only child is the one to look at. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/banned.h"
#include "launch/look.h"

static void nothing(int signo)
{
    (void)signo;
}

/* A child that sleeps, with a handler if asked for, once it is ready. */
static pid_t start(bool handler, bool grandchild)
{
    char byte;
    int ends[2];
    pid_t pid;

    assert_int_equal(pipe(ends), 0);
    pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        prctl(PR_SET_NAME, "a) S (b");
        if (handler) {
            signal(look_signal(), nothing);
        }
        if (!grandchild || fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            (void)!write(ends[1], "x", 1);
        }
        for (;;) {
            pause();
        }
    }
    assert_int_equal(read(ends[0], &byte, 1), 1);
    close(ends[0]);
    close(ends[1]);
    return pid;
}

/* The state changes a moment after the signal. */
static struct launch_look look_until(pid_t pid, uint8_t state, bool *catches_p)
{
    struct timespec moment = { .tv_nsec = 1000000 };
    struct launch_look look;

    for (int i = 0; i < 5000; i++) {
        look_at(pid, look_signal(), &look, catches_p);
        if (look.state == state) {
            break;
        }
        nanosleep(&moment, NULL);
    }
    return look;
}

static void the_state_and_the_name_are_read(void **state)
{
    pid_t pid = start(false, false);
    struct launch_look look;
    bool catches;

    (void)state;
    look = look_until(pid, 'S', &catches);
    assert_int_equal(look.state, 'S');
    assert_string_equal(look.name, "a) S (b");
    assert_int_equal(look.pid, pid);
    assert_false(catches);
    kill(pid, SIGSTOP);
    assert_int_equal(look_until(pid, 'T', &catches).state, 'T');
    kill(pid, SIGKILL);
    assert_int_equal(look_until(pid, 0, &catches).state, 0);
    waitpid(pid, NULL, 0);
    assert_int_equal(look_until(pid, 0, &catches).state, 0);
    assert_false(catches);
}

static void a_handler_is_seen(void **state)
{
    pid_t pid = start(true, false);
    bool catches;

    (void)state;
    (void)look_until(pid, 'S', &catches);
    assert_true(catches);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void an_only_child_is_the_one_to_look_at(void **state)
{
    pid_t lone = start(false, false);
    pid_t parent = start(false, true);
    pid_t below = look_below(parent);

    (void)state;
    if (access("/proc/self/task", F_OK) == 0 && below == parent) {
        char path[64];

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent,
                 (int)parent);
        assert_int_not_equal(access(path, R_OK), 0); /* an old kernel */
    }
    assert_int_equal(look_below(lone), lone);
    kill(lone, SIGKILL);
    kill(parent, SIGKILL);
    waitpid(lone, NULL, 0);
    waitpid(parent, NULL, 0);
    assert_int_equal(look_below(0x7ffffffe), 0x7ffffffe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_state_and_the_name_are_read),
        cmocka_unit_test(a_handler_is_seen),
        cmocka_unit_test(an_only_child_is_the_one_to_look_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
