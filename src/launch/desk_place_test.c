/* desk_place_test.c: a job is found under its name, a dead one is cleared
 * away, and a folder that is not this user's alone is not used. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/mem.h"
#include "launch/desk_place.h"

static char root[64];
static char folder[96];

static int set_up(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/psd-place-XXXXXX");
    assert_non_null(mkdtemp(root));
    snprintf(folder, sizeof(folder), "%s/poseidon", root);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", root, 1), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(folder);
    rmdir(folder);
    assert_int_equal(rmdir(root), 0);
    return 0;
}

/* Jobs in our folder; others of this user may be elsewhere. */
static size_t count_named(const char *file)
{
    static struct desk_job jobs[DESK_JOBS_MAX];
    size_t count = desk_place_list(jobs, DESK_JOBS_MAX);
    size_t found = 0;

    for (size_t i = 0; i < count; i++) {
        found += strcmp(jobs[i].file, file) == 0;
        close(jobs[i].fd);
    }
    return found;
}

static void a_name_becomes_one_plain_file(void **state)
{
    static const struct {
        const char *name;
        const char *file;
    } rows[] = {
        { "demo", "demo" },         { "a.b_c-9", "a.b_c-9" },
        { ".hidden", "%2Ehidden" }, { "../../x", "%2E.%2F..%2Fx" },
        { "100%", "100%25" },       { "a b\n", "a%20b%0A" },
        { "\xc3\xa9", "%C3%A9" },
    };
    char file[DESK_FILE_MAX];
    char other[DESK_FILE_MAX];
    char name[LAUNCH_NAME_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        desk_place_file(rows[i].name, file, sizeof(file));
        assert_string_equal(file, rows[i].file);
    }
    desk_place_file("", file, sizeof(file));
    assert_string_not_equal(file, "");
    for (size_t size = 1; size < sizeof(name); size++) {
        memset(name, size % 2 == 0 ? 'x' : '/', size);
        name[size] = '\0';
        desk_place_file(name, file, sizeof(file));
        assert_true(strlen(file) < DESK_FILE_MAX);
        assert_null(strchr(file, '/'));
        name[size - 1] = 'y';
        desk_place_file(name, other, sizeof(other));
        assert_string_not_equal(file, other);
    }
}

static void a_place_is_found_and_goes(void **state)
{
    struct desk_place place;
    struct desk_place second;
    struct stat about;
    char error[1024];
    pid_t pid = 0;

    (void)state;
    assert_int_equal(
        desk_place_open(&place, "job", true, error, sizeof(error)), PSD_OK);
    assert_int_equal(stat(folder, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0700);
    assert_true(desk_place_stands(&place));
    assert_int_equal(count_named("job"), 1);
    assert_true(desk_place_taken("job", &pid));
    assert_int_equal(pid, getpid());
    assert_int_equal(
        desk_place_open(&second, "job", true, error, sizeof(error)),
        PSD_EINVAL);
    assert_non_null(strstr(error, "psd stop job"));
    assert_int_equal(
        desk_place_open(&second, "job", false, error, sizeof(error)), PSD_OK);
    assert_string_equal(second.name, "job_2");
    assert_int_equal(count_named("job_2"), 1);
    desk_place_close(&place);
    desk_place_close(&place);
    assert_int_equal(access(folder, F_OK), 0); /* another one is in it */
    desk_place_close(&second);
    assert_int_equal(access(folder, F_OK), -1);
    assert_false(desk_place_taken("job", &pid));
}

/* As kill -9 leaves it: a socket on which nobody listens. */
static void make_dead(const char *file)
{
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", folder, file);
    assert_int_equal(
        bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    close(fd);
}

static void what_is_dead_is_cleared_away(void **state)
{
    struct desk_place place;
    char error[1024];

    (void)state;
    assert_int_equal(mkdir(folder, 0700), 0);
    make_dead("old");
    assert_int_equal(count_named("old"), 0);
    assert_int_equal(access(folder, F_OK), -1);
    assert_int_equal(mkdir(folder, 0700), 0);
    make_dead("old");
    make_dead("older");
    assert_int_equal(
        desk_place_open(&place, "old", true, error, sizeof(error)), PSD_OK);
    assert_int_equal(count_named("old"), 1);
    desk_place_close(&place);
    assert_int_equal(access(folder, F_OK), -1);
}

static void a_place_that_was_taken_away_is_noticed(void **state)
{
    struct desk_place place;
    char path[256];
    char error[1024];

    (void)state;
    assert_int_equal(
        desk_place_open(&place, "job", true, error, sizeof(error)), PSD_OK);
    snprintf(path, sizeof(path), "%s/job", folder);
    assert_int_equal(unlink(path), 0);
    assert_false(desk_place_stands(&place));
    make_dead("job"); /* another one's */
    assert_false(desk_place_stands(&place));
    desk_place_close(&place);
    assert_int_equal(unlink(path), 0);
}

static void a_folder_of_others_is_not_used(void **state)
{
    char error[1024];
    char target[128];
    int fd = -1;

    (void)state;
    assert_int_equal(
        desk_place_folder(folder, false, &fd, error, sizeof(error)),
        PSD_AGAIN);
    snprintf(target, sizeof(target), "%s/target", root);
    assert_int_equal(mkdir(target, 0700), 0);
    assert_int_equal(symlink(target, folder), 0);
    assert_int_equal(desk_place_folder(folder, true, &fd, error,
                                       sizeof(error)),
                     PSD_EAUTH);
    unlink(folder);
    rmdir(target);
    fd = open(folder, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    close(fd);
    assert_int_equal(desk_place_folder(folder, true, &fd, error,
                                       sizeof(error)),
                     PSD_EAUTH);
    unlink(folder);
    assert_int_equal(mkdir(folder, 0700), 0);
    assert_int_equal(chmod(folder, 0755), 0);
    assert_int_equal(desk_place_folder(folder, true, &fd, error,
                                       sizeof(error)),
                     PSD_EAUTH);
    assert_non_null(strstr(error, "open to other users"));
    assert_int_equal(chmod(folder, 0700), 0);
    if (geteuid() == 0) {
        assert_int_equal(chown(folder, 1, 1), 0);
        assert_int_equal(desk_place_folder(folder, true, &fd, error,
                                           sizeof(error)),
                         PSD_EAUTH);
        assert_non_null(strstr(error, "belongs to user 1"));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_becomes_one_plain_file),
        cmocka_unit_test_setup_teardown(a_place_is_found_and_goes, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_dead_is_cleared_away, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_place_that_was_taken_away_is_noticed,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_folder_of_others_is_not_used, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
