/* ps_test.c: who waits goes on, also one that comes late. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/claim.h"
#include "launch/ps.h"

static void who_waits_goes_on_whenever_it_comes(void **state)
{
    char folder[] = "/tmp/psd-ps-XXXXXX";
    char path[64];
    int status = -1;
    pid_t child;

    (void)state;
    assert_non_null(mkdtemp(folder));
    assert_int_equal(ps_release(folder), 0);
    assert_int_equal(ps_release("/nowhere/at/all"), 0);
    snprintf(path, sizeof(path), "%s/ps.1", folder);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_int_equal(ps_release(folder), 1); /* nobody reads yet */
    child = fork();
    if (child == 0) {
        _exit(open(path, O_RDONLY) >= 0 ? 7 : 8);
    }
    while (waitpid(child, &status, WNOHANG) == 0) {
        assert_int_equal(ps_release(folder), 1);
        usleep(1000); /* until it has come so far */
    }
    assert_int_equal(WEXITSTATUS(status), 7);
    unlink(path);
    rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_waits_goes_on_whenever_it_comes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
