/* memory_kill_test.c: a kill for want of memory is recognised from a tree of
 * files as the kernel has them, and nothing else is taken for one. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/banned.h"
#include "base/clock.h"
#include "launch/memory_kill.h"

#define GROUP "/sys/fs/cgroup/job"
#define LINE                                                                  \
    "6,1,1,-;Memory cgroup out of memory: Killed process 4242 (python) "      \
    "total-vm:9000kB, anon-rss:2048kB, file-rss:4kB, UID:0\n"

static char root[64];
static uint64_t now;

static void put(const char *path, const char *text, int flags)
{
    char whole[256];
    int fd;

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    fd = open(whole, O_WRONLY | O_CREAT | flags, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

static void make(const char *path)
{
    char whole[256];

    snprintf(whole, sizeof(whole), "%s%s", root, path);
    assert_int_equal(mkdir(whole, 0700), 0);
}

static int set_up(void **state)
{
    static const char *const folders[] = {
        "/proc", "/proc/self", "/dev", "/sys", "/sys/fs", "/sys/fs/cgroup",
        GROUP, "/sys/fs/cgroup/memory", "/sys/fs/cgroup/memory/a"
    };

    (void)state;
    snprintf(root, sizeof(root), "/tmp/psd-memory-XXXXXX");
    assert_non_null(mkdtemp(root));
    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        make(folders[i]);
    }
    now = CLOCK_NS_PER_S;
    clock_replace(&now);
    return 0;
}

static int tear_down(void **state)
{
    static const char *const names[] = {
        "/proc/self/cgroup", "/dev/kmsg", GROUP "/memory.events",
        "/sys/fs/cgroup/memory/a/memory.oom_control",
        "/sys/fs/cgroup/memory/a", "/sys/fs/cgroup/memory", GROUP,
        "/sys/fs/cgroup", "/sys/fs", "/sys", "/dev", "/proc/self", "/proc", ""
    };
    char whole[256];

    (void)state;
    clock_replace(NULL);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        snprintf(whole, sizeof(whole), "%s%s", root, names[i]);
        if (unlink(whole) != 0) {
            (void)rmdir(whole);
        }
    }
    return 0;
}

static enum launch_memory check(struct memory_kill *watch, pid_t pid,
                                bool killed, uint64_t *size_p)
{
    pid_t pids[] = { pid, 0 };

    *size_p = 7;
    return memory_kill_check(watch, pids, 2, killed, size_p);
}

static void a_counter_that_rises_explains_a_kill_for_a_while(void **state)
{
    struct memory_kill watch;
    uint64_t size;

    (void)state;
    put("/proc/self/cgroup", "0::/job\n", O_TRUNC);
    put(GROUP "/memory.events", "low 0\noom 3\noom_kill 2\n", O_TRUNC);
    memory_kill_init(&watch, root, "");
    assert_int_equal(watch.file_count, 1);
    assert_int_equal(check(&watch, 1, true, &size), LAUNCH_MEMORY_FINE);
    put(GROUP "/memory.events", "low 0\noom 3\noom_kill 3\n", O_TRUNC);
    assert_int_equal(check(&watch, 1, true, &size), LAUNCH_MEMORY_KILLED);
    assert_int_equal(size, 7); /* nobody knows better */
    assert_int_equal(check(&watch, 2, false, &size), LAUNCH_MEMORY_BELOW);
    now += 10 * CLOCK_NS_PER_S;
    assert_int_equal(check(&watch, 3, true, &size), LAUNCH_MEMORY_FINE);
    memory_kill_fini(&watch);
}

static void the_older_kind_of_group_counts_too(void **state)
{
    struct memory_kill watch;
    uint64_t size;

    (void)state;
    put("/proc/self/cgroup", "9:cpu:/\n4:memory:/a\n0::/\n", O_TRUNC);
    put("/sys/fs/cgroup/memory/a/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n", O_TRUNC);
    memory_kill_init(&watch, root, "");
    assert_int_equal(watch.file_count, 1);
    put("/sys/fs/cgroup/memory/a/memory.oom_control",
        "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n", O_TRUNC);
    assert_int_equal(check(&watch, 1, true, &size), LAUNCH_MEMORY_KILLED);
    memory_kill_fini(&watch);
}

static void the_group_that_workers_enter_comes_first(void **state)
{
    struct memory_kill watch;
    uint64_t size;

    (void)state;
    put(GROUP "/memory.events", "oom_kill 0\n", O_TRUNC);
    memory_kill_init(&watch, root, GROUP);
    put(GROUP "/memory.events", "oom_kill 1\n", O_TRUNC);
    assert_int_equal(check(&watch, 1, true, &size), LAUNCH_MEMORY_KILLED);
    memory_kill_fini(&watch);
}

static void the_kernels_log_names_the_process_and_its_size(void **state)
{
    struct memory_kill watch;
    uint64_t size;

    (void)state;
    put("/dev/kmsg", LINE, O_TRUNC); /* before our time */
    memory_kill_init(&watch, root, "");
    assert_int_equal(check(&watch, 4242, true, &size), LAUNCH_MEMORY_FINE);
    put("/dev/kmsg", "6,2,2,-;something else\n" LINE, O_APPEND);
    assert_int_equal(check(&watch, 4243, true, &size), LAUNCH_MEMORY_FINE);
    assert_int_equal(check(&watch, 4242, false, &size), LAUNCH_MEMORY_FINE);
    assert_int_equal(check(&watch, 4242, true, &size), LAUNCH_MEMORY_KILLED);
    assert_int_equal(size, 2048 * 1024);
    memory_kill_fini(&watch);
}

static void without_any_of_these_files_nothing_is_claimed(void **state)
{
    struct memory_kill watch;
    uint64_t size;

    (void)state;
    memory_kill_init(&watch, root, "/nowhere");
    assert_int_equal(watch.file_count, 0);
    assert_int_equal(check(&watch, 1, true, &size), LAUNCH_MEMORY_FINE);
    memory_kill_fini(&watch);
    memory_kill_fini(&watch);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(a_counter_that_rises_explains_a_kill_for_a_while),
        ROW(the_older_kind_of_group_counts_too),
        ROW(the_group_that_workers_enter_comes_first),
        ROW(the_kernels_log_names_the_process_and_its_size),
        ROW(without_any_of_these_files_nothing_is_claimed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
