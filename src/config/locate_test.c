/* locate_test.c: every key and value of a text is found where it lies. */
#include "base/claim.h"
#include "base/mem.h"
#include "config/locate.h"

static const char text[] = " {\n"
                           "  \"a\\\"b\": [1, {\"x\": \"]}\"}, [2,3]],\n"
                           "  \"c\" :\n"
                           "    {\"d\":null,\"e\":{\"f\":[ ]}},\"g\": -1.5e3\n"
                           "}\n";

/* What does the path with these steps lead to? */
static const char *at(bool key, unsigned depth, size_t a, size_t b, size_t c)
{
    struct locate_path path = { .depth = 0 };
    size_t steps[] = { a, b, c };

    for (unsigned i = 0; i < depth; i++) {
        path = locate_step(path, steps[i], key && i + 1 == depth);
    }
    return text + locate_find(text, sizeof(text) - 1, &path);
}

#define assert_begins(found, part) \
    assert_memory_equal(found, part, sizeof(part) - 1)

static void values_and_keys_are_found(void **state)
{
    (void)state;
    assert_begins(at(false, 0, 0, 0, 0), "{\n  \"a");
    assert_begins(at(true, 1, 0, 0, 0), "\"a\\\"b\":");
    assert_begins(at(false, 1, 0, 0, 0), "[1, {");
    assert_begins(at(false, 2, 0, 0, 0), "1, {");
    assert_begins(at(false, 2, 0, 1, 0), "{\"x\"");
    assert_begins(at(false, 3, 0, 1, 0), "\"]}\"");
    assert_begins(at(true, 3, 0, 1, 0), "\"x\":");
    assert_begins(at(false, 3, 0, 2, 1), "3]]");
    assert_begins(at(true, 1, 1, 0, 0), "\"c\" :");
    assert_begins(at(false, 1, 1, 0, 0), "{\"d\":null");
    assert_begins(at(false, 2, 1, 0, 0), "null");
    assert_begins(at(false, 2, 1, 1, 0), "{\"f\"");
    assert_begins(at(false, 3, 1, 1, 0), "[ ]");
    assert_begins(at(true, 1, 2, 0, 0), "\"g\":");
    assert_begins(at(false, 1, 2, 0, 0), "-1.5e3");
}

static void a_path_into_nothing_stops_where_it_ends(void **state)
{
    (void)state;
    assert_begins(at(false, 1, 3, 0, 0), "{\n");
    assert_begins(at(false, 2, 0, 7, 0), "[1, {");
    assert_begins(at(false, 3, 2, 0, 0), "-1.5e3");
}

static void text_that_breaks_off_is_not_read_beyond(void **state)
{
    (void)state;
    for (size_t size = 0; size < sizeof(text); size++) {
        char *part = mem_zalloc(size + 1);

        memcpy(part, text, size);
        for (unsigned steps = 0; steps < 64; steps++) {
            struct locate_path path = { .depth = 0 };

            path = locate_step(path, steps & 3, false);
            path = locate_step(path, (steps >> 2) & 3, false);
            path = locate_step(path, steps >> 4, (steps & 1) != 0);
            assert_true(locate_find(part, size, &path) <= size);
        }
        mem_free(part);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_and_keys_are_found),
        cmocka_unit_test(a_path_into_nothing_stops_where_it_ends),
        cmocka_unit_test(text_that_breaks_off_is_not_read_beyond),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
