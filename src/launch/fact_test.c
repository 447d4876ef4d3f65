/* fact_test.c: what a host has, read from files of our own. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/mem.h"
#include "launch/fact.h"

static void memory_is_read_by_name(void **state)
{
    static const char text[] = "MemTotal:       16384 kB\n"
                               "MemFree:            1 kB\n"
                               "MemAvailable:    8192 kB\n";
    uint64_t total = 0;
    uint64_t left = 0;

    (void)state;
    assert_true(fact_meminfo(text, "MemTotal") == 16384 * 1024);
    assert_true(fact_meminfo(text, "MemAvailable") == 8192 * 1024);
    assert_true(fact_meminfo(text, "Mem") == 0);
    assert_true(fact_meminfo("", "MemTotal") == 0);
    fact_memory(&total, &left);
    assert_true(total > 0 && left <= total);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "we");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void gpus_have_names_in_order(void **state)
{
    static char names[FACT_GPUS_MAX][FACT_GPU_MAX];
    char folder[] = "/tmp/psd-fact-XXXXXX";
    char path[256];
    static const char *const rows[][2] = {
        { "0000:3b:00.0", "IRQ: 5\nModel: \t\t NVIDIA H200\nUUID: x\n" },
        { "0000:1a:00.0", "Model: Tesla\n" },
        { "0000:5c:00.0", "nothing to see" },
    };

    (void)state;
    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, rows[i][0]);
        assert_int_equal(mkdir(path, 0700), 0);
        snprintf(path, sizeof(path), "%s/%s/information", folder, rows[i][0]);
        write_file(path, rows[i][1]);
    }
    assert_int_equal(fact_gpu_names(folder, names), 3);
    assert_string_equal(names[0], "Tesla");
    assert_string_equal(names[1], "NVIDIA H200");
    assert_string_equal(names[2], "unknown");
    for (size_t i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s/%s/information", folder, rows[i][0]);
        unlink(path);
        snprintf(path, sizeof(path), "%s/%s", folder, rows[i][0]);
        rmdir(path);
    }
    rmdir(folder);
    assert_int_equal(fact_gpu_names(folder, names), 0);
}

static void given_gpus_are_the_ones(void **state)
{
    const char *ids[FACT_GPUS_MAX];
    char text[1024];

    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "3,GPU-1", 1);
    assert_int_equal(fact_gpus(text, sizeof(text), ids), 2);
    assert_string_equal(ids[0], "3");
    assert_string_equal(ids[1], "GPU-1");
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(fact_gpus(text, sizeof(text), ids), 0);
    unsetenv("CUDA_VISIBLE_DEVICES");
}

static void a_folder_to_be_made_has_the_disk_above(void **state)
{
    struct fact_disk disk = { .total = 0 };

    (void)state;
    assert_true(fact_disk("/tmp/no such folder/nor this", &disk));
    assert_true(disk.total > 0 && disk.writable);
    assert_true(fact_disk("/nothing", &disk));
    assert_false(fact_disk("nothing", &disk)); /* not from the root */
    assert_false(fact_disk("", &disk));
}

static void home_is_expanded_at_the_front_only(void **state)
{
    char path[64] = "~/x";
    char same[64] = "a~/x";
    char other[64] = "~ann/x";

    (void)state;
    setenv("HOME", "/here", 1);
    fact_expand_home(path, sizeof(path));
    fact_expand_home(same, sizeof(same));
    fact_expand_home(other, sizeof(other));
    assert_string_equal(path, "/here/x");
    assert_string_equal(same, "a~/x");
    assert_string_equal(other, "~ann/x");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_read_by_name),
        cmocka_unit_test(gpus_have_names_in_order),
        cmocka_unit_test(given_gpus_are_the_ones),
        cmocka_unit_test(a_folder_to_be_made_has_the_disk_above),
        cmocka_unit_test(home_is_expanded_at_the_front_only),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
