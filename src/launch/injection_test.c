/* injection_test.c: what a Python worker finds, from trees of our own. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/banned.h"
#include "launch/injection.h"

static char root[64];

static void make(const char *path, int is_folder)
{
    char full[256];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    if (is_folder) {
        assert_int_equal(mkdir(full, 0700), 0);
    } else {
        FILE *file = fopen(full, "w");

        assert_non_null(file);
        fclose(file);
    }
}

static void discard(const char *path)
{
    char full[256];

    snprintf(full, sizeof(full), "%s/%s", root, path);
    assert_int_equal(remove(full), 0);
}

/* The value of `name`; NULL: there is none. It must be there once at most. */
static const char *value_of(const struct launch_words *words, const char *name)
{
    const char *value = NULL;
    size_t size = strlen(name);

    for (uint32_t i = 0; i < words->count; i++) {
        if (strncmp(words->words[i], name, size) == 0 &&
            words->words[i][size] == '=') {
            assert_null(value);
            value = words->words[i] + size + 1;
        }
    }
    return value;
}

/* With `python_path` before, both below the root after; NULL: none. */
static void expect(const char *python_path, const char *tree,
                   const char *library)
{
    struct launch_words words = {.count = 0};
    char bin[96];
    char expected[512];

    snprintf(bin, sizeof(bin), "%s/bin", root);
    assert_int_equal(launch_words_add(&words, "PSD_BOOT", "1:2"), PSD_OK);
    if (python_path[0] != '\0') {
        assert_int_equal(launch_words_add(&words, "PYTHONPATH", python_path),
                         PSD_OK);
    }
    assert_int_equal(injection_add_from(bin, &words), PSD_OK);
    assert_string_equal(value_of(&words, "PSD_BOOT"), "");
    if (tree != NULL) {
        snprintf(expected, sizeof(expected), "%s/%s/boot:%s/%s%s%s", root, tree,
                 root, tree, python_path[0] == '\0' ? "" : ":", python_path);
        assert_string_equal(value_of(&words, "PYTHONPATH"), expected);
    } else {
        assert_null(value_of(&words, "PYTHONPATH"));
    }
    if (library != NULL) {
        snprintf(expected, sizeof(expected), "%s/%s", root, library);
        assert_string_equal(value_of(&words, "PSD_LIBRARY"), expected);
    } else {
        assert_null(value_of(&words, "PSD_LIBRARY"));
    }
    launch_words_fini(&words);
}

static void worker_finds_the_tree_beside_the_program(void **state)
{
    (void)state;
    snprintf(root, sizeof(root), "/tmp/psd_injection.XXXXXX");
    assert_non_null(mkdtemp(root));
    make("bin", 1);
    expect("", NULL, NULL);
    make("python", 1); /* of somebody else */
    expect("", NULL, NULL);
    make("python/boot", 1);
    make("python/boot/sitecustomize.py", 0);
    make("libposeidon.so.0", 0);
    expect("", "python", "libposeidon.so.0");
    expect("/a:/b", "python", "libposeidon.so.0");
    make("lib", 1);
    make("lib/libposeidon.so.0", 0);
    make("lib/poseidon", 1);
    make("lib/poseidon/python", 1);
    make("lib/poseidon/python/boot", 1);
    make("lib/poseidon/python/boot/sitecustomize.py", 0);
    expect("/a", "lib/poseidon/python", "lib/libposeidon.so.0");
    discard("lib/poseidon/python/boot/sitecustomize.py");
    discard("lib/poseidon/python/boot");
    discard("lib/poseidon/python");
    discard("lib/poseidon");
    discard("lib/libposeidon.so.0");
    discard("lib");
    discard("libposeidon.so.0");
    discard("python/boot/sitecustomize.py");
    discard("python/boot");
    discard("python");
    discard("bin");
    discard("");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(worker_finds_the_tree_beside_the_program),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
