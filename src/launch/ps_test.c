/* ps_test.c: who waits goes on, who does not holds nobody up. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/claim.h"
#include "launch/ps.h"

static void who_waits_goes_on_and_is_counted(void **state)
{
    char folder[] = "/tmp/psd-ps-XXXXXX";
    char path[64];
    unsigned released = 0;
    int status = -1;
    pid_t child;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(ps_release(folder), 0);
    assert_int_equal(ps_release("/nowhere/at/all"), 0);
    snprintf(path, sizeof(path), "%s/ps.1", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ps_release(folder), 0); /* nobody reads */
    child = fork();
    if (child == 0) {
        _exit(open(path, O_RDONLY) >= 0 ? 7 : 8);
    }
    while (released == 0) { /* until it has come so far */
        released = ps_release(folder);
        usleep(1000);
    }
    assert_int_equal(released, 1);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(WEXITSTATUS(status), 7);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_goes_on_and_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
