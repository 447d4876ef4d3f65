/* folder_test.c: the private folder of an agent goes with all that is in it,
 * and nothing else does. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "launch/folder.h"

static void make_file(const char *folder, const char *name)
{
    char path[FOLDER_PATH_MAX + 64];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    close(fd);
}

static void it_goes_with_the_files_of_the_workers(void **state)
{
    char path[FOLDER_PATH_MAX];

    (void)state;
    assert_int_equal(folder_make_run(path, sizeof(path)), PSD_OK);
    make_file(path, FOLDER_SOCKET);
    for (int i = 0; i < 300; i++) { /* more than one read of the folder */
        char name[32];

        snprintf(name, sizeof(name), "save-%d", i);
        make_file(path, name);
    }
    folder_remove_run(path);
    assert_int_equal(access(path, F_OK), -1);
    folder_remove_run(path); /* twice is fine */
}

static void links_are_removed_and_not_followed(void **state)
{
    char path[FOLDER_PATH_MAX], other[FOLDER_PATH_MAX];
    char link[FOLDER_PATH_MAX + 64];

    (void)state;
    assert_int_equal(folder_make_run(path, sizeof(path)), PSD_OK);
    assert_int_equal(folder_make_run(other, sizeof(other)), PSD_OK);
    make_file(other, "kept");
    snprintf(link, sizeof(link), "%s/link", path);
    assert_int_equal(symlink(other, link), 0);
    folder_remove_run(link); /* itself a link: no folder of ours */
    assert_int_equal(access(other, F_OK), 0);
    folder_remove_run(path);
    assert_int_equal(access(path, F_OK), -1);
    snprintf(link, sizeof(link), "%s/kept", other);
    assert_int_equal(access(link, F_OK), 0);
    folder_remove_run(other);
}

static void a_folder_open_to_others_is_left_alone(void **state)
{
    char path[FOLDER_PATH_MAX];
    char name[FOLDER_PATH_MAX + 64];

    (void)state;
    assert_int_equal(folder_make_run(path, sizeof(path)), PSD_OK);
    make_file(path, "kept");
    assert_int_equal(chmod(path, 0755), 0);
    folder_remove_run(path);
    snprintf(name, sizeof(name), "%s/kept", path);
    assert_int_equal(access(name, F_OK), 0);
    assert_int_equal(chmod(path, 0700), 0);
    folder_remove_run(path);
    assert_int_equal(access(path, F_OK), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_goes_with_the_files_of_the_workers),
        cmocka_unit_test(links_are_removed_and_not_followed),
        cmocka_unit_test(a_folder_open_to_others_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
