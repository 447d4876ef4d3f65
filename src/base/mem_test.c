/* mem_test.c: checked allocation, the fault countdown and the sealed path. */
#define _GNU_SOURCE
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/claim.h"
#include "base/mem.h"

static bool all_zero(const char *data, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        if (data[i] != 0) {
            return false;
        }
    }
    return true;
}

static void memory_is_zeroed(void **state)
{
    (void)state;
    for (size_t size = 0; size < 5000; size = size * 2 + 1) {
        char *memory = mem_zalloc(size);

        assert_non_null(memory);
        assert_true(all_zero(memory, size));
        memset(memory, 0xaa, size);
        mem_free(memory);
    }
    mem_free(NULL);
}

static void an_array_that_overflows_is_refused(void **state)
{
    (void)state;
    assert_null(mem_zalloc_array(SIZE_MAX / 2, 3));
    assert_null(mem_zalloc_array(3, SIZE_MAX / 2));
    assert_null(mem_zalloc_array(SIZE_MAX, SIZE_MAX));
}

static void growing_keeps_the_old_and_zeroes_the_new(void **state)
{
    void *array = NULL;
    uint32_t *numbers;

    (void)state;
    assert_int_equal(mem_grow(&array, 0, 10, sizeof(uint32_t)), PSD_OK);
    assert_true(all_zero(array, 10 * sizeof(uint32_t)));
    numbers = array;
    for (uint32_t i = 0; i < 10; i++) {
        numbers[i] = i + 1;
    }
    assert_int_equal(mem_grow(&array, 10, 1000, sizeof(uint32_t)), PSD_OK);
    numbers = array;
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(numbers[i], i < 10 ? i + 1 : 0);
    }
    mem_free(array);
}

static void growing_that_fails_leaves_the_array_alone(void **state)
{
    void *array = NULL;
    void *before;

    (void)state;
    assert_int_equal(mem_grow(&array, 0, 4, 1), PSD_OK);
    memcpy(array, "abc", 4);
    before = array;
    assert_int_equal(mem_grow(&array, 4, SIZE_MAX / 2, 8), PSD_ENOMEM);
    mem_fail_after(1);
    assert_int_equal(mem_grow(&array, 4, 8, 1), PSD_ENOMEM);
    mem_fail_after(0);
    assert_ptr_equal(array, before);
    assert_string_equal(array, "abc");
    mem_free(array);
}

static void the_countdown_fails_one_allocation_and_no_other(void **state)
{
    void *after;

    (void)state;
    for (long n = 1; n <= 5; n++) {
        mem_fail_after(n);
        for (long i = 1; i <= 8; i++) {
            void *memory = i % 2 == 0 ? mem_map(100) : mem_zalloc(100);

            assert_int_equal(memory == NULL, i == n);
            if (i % 2 == 0) {
                mem_unmap(memory, 100);
            } else {
                mem_free(memory);
            }
        }
    }
    mem_fail_after(1);
    mem_fail_after(0);
    after = mem_zalloc_array(0, 8);
    assert_non_null(after);
    mem_free(after);
}

static void a_copied_text_is_equal_and_ones_own(void **state)
{
    char text[] = "layer1.weight";
    char *copy = mem_strdup(text);
    char *empty = mem_strdup("");

    (void)state;
    text[0] = 'L';
    assert_string_equal(copy, "layer1.weight");
    assert_string_equal(empty, "");
    mem_fail_after(1);
    assert_null(mem_strdup(text));
    mem_fail_after(0);
    mem_free(copy);
    mem_free(empty);
}

static void mapped_memory_is_page_aligned_and_zero(void **state)
{
    size_t size = (size_t)3 << 20;
    char *memory = mem_map(size);

    (void)state;
    assert_non_null(memory);
    assert_int_equal((uintptr_t)memory % 4096, 0);
    assert_true(all_zero(memory, size));
    memory[size - 1] = 1;
    mem_unmap(memory, size);
    mem_unmap(NULL, size);
}

/* Do the kernel's flags of the mapping that begins at `memory` have `flag`? */
static bool is_flagged(const void *memory, const char *flag)
{
    FILE *file = fopen("/proc/self/smaps", "re");
    char start[32];
    char line[1024];
    bool inside = false;
    bool found = false;

    assert_non_null(file);
    snprintf(start, sizeof(start), "%" PRIxPTR "-", (uintptr_t)memory);
    while (fgets(line, sizeof(line), file) != NULL && !found) {
        inside = inside || strncmp(line, start, strlen(start)) == 0;
        if (inside && strncmp(line, "VmFlags:", 8) == 0) {
            found = strstr(line, flag) != NULL;
            break;
        }
    }
    fclose(file);
    return found;
}

static void large_mapped_memory_asks_for_huge_pages(void **state)
{
    size_t size = (size_t)8 << 20;
    char *memory;

    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage", F_OK) != 0) {
        print_message("[  SKIPPED ] the kernel has no huge pages\n");
        skip();
    }
    memory = mem_map(size);
    assert_non_null(memory);
    assert_true(is_flagged(memory, " hg"));
    mem_unmap(memory, size);
    memory = mem_map(4096);
    assert_non_null(memory);
    assert_false(is_flagged(memory, " hg"));
    mem_unmap(memory, 4096);
}

static void allocate_on_the_path(void)
{
    mem_path_enter();
    mem_path_enter();
    mem_path_leave();
    (void)mem_zalloc(8);
}

static void map_on_the_path(void)
{
    mem_path_enter();
    (void)mem_map(8);
}

static void allocating_on_the_path_aborts_in_debug_builds(void **state)
{
    void *memory;
    unsigned depth;

    (void)state;
#ifdef NDEBUG
    assert_false(claim_aborts(allocate_on_the_path));
    assert_false(claim_aborts(map_on_the_path));
#else
    assert_true(claim_aborts(allocate_on_the_path));
    assert_true(claim_aborts(map_on_the_path));
#endif
    mem_path_enter();
    depth = mem_path_pause();
    memory = mem_zalloc(8);
    mem_path_resume(depth);
    mem_path_leave();
    assert_non_null(memory);
    mem_free(memory);
    memory = mem_zalloc(8);
    assert_non_null(memory);
    mem_free(memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_zeroed),
        cmocka_unit_test(an_array_that_overflows_is_refused),
        cmocka_unit_test(growing_keeps_the_old_and_zeroes_the_new),
        cmocka_unit_test(growing_that_fails_leaves_the_array_alone),
        cmocka_unit_test(the_countdown_fails_one_allocation_and_no_other),
        cmocka_unit_test(a_copied_text_is_equal_and_ones_own),
        cmocka_unit_test(mapped_memory_is_page_aligned_and_zero),
        cmocka_unit_test(large_mapped_memory_asks_for_huge_pages),
        cmocka_unit_test(allocating_on_the_path_aborts_in_debug_builds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
