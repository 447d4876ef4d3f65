/* tail_test.c: where the last lines of a log begin, and JSON strings. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/mem.h"
#include "launch/json_text.h"
#include "launch/tail.h"

static int file_with(const void *data, size_t size)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, data, size), size);
    return fd;
}

static void the_last_lines_are_found(void **state)
{
    static const struct {
        const char *text;
        uint64_t lines;
        uint64_t at;
    } rows[] = {
        { "", 0, 0 },         { "", 5, 0 },         { "a\nb\nc\n", 0, 6 },
        { "a\nb\nc\n", 1, 4 }, { "a\nb\nc\n", 2, 2 }, { "a\nb\nc\n", 3, 0 },
        { "a\nb\nc\n", 9, 0 }, { "a\nb\nc", 1, 4 },   { "a\nb\nc", 3, 0 },
        { "\n\n\n", 2, 1 },    { "abc", 1, 0 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int fd = file_with(rows[i].text, strlen(rows[i].text));

        assert_int_equal(tail_offset(fd, rows[i].lines), rows[i].at);
        close(fd);
    }
}

static void lines_longer_than_a_block_are_found(void **state)
{
    size_t size = 3 * TAIL_CHUNK;
    char *data = mem_zalloc(size);
    int fd;

    (void)state;
    memset(data, 'x', size);
    data[TAIL_CHUNK - 1] = '\n'; /* the last byte of a block */
    data[size - 1] = '\n';
    fd = file_with(data, size);
    assert_int_equal(tail_offset(fd, 1), TAIL_CHUNK);
    assert_int_equal(tail_offset(fd, 2), 0);
    close(fd);
    mem_free(data);
}

/* A log without lines is not read to its start, however large it is. */
static void the_search_has_an_end(void **state)
{
    int fd = memfd_create("log", MFD_CLOEXEC);

    (void)state;
    assert_int_equal(ftruncate(fd, (off_t)TAIL_SCAN_MAX * 3), 0);
    assert_int_equal(tail_offset(fd, 1), (uint64_t)TAIL_SCAN_MAX * 2);
    close(fd);
}

static void json_strings_are_valid_whatever_is_in_them(void **state)
{
    static const struct {
        const char *text;
        const char *json;
    } rows[] = {
        { "", "\"\"" },
        { "a\"b\\c", "\"a\\\"b\\\\c\"" },
        { "\x01\n\x7f", "\"\\u0001\\u000a\\u007f\"" },
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80",
          "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\"" },
        { "\xff", "\"\\ufffd\"" },
        { "x\xc3", "\"x\\ufffd\"" },
        { "\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\"" },
        { "\xc0\xaf", "\"\\ufffd\\ufffd\"" },
        { "\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\"" },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[256] = "";
        FILE *file = fmemopen(text, sizeof(text), "w");

        json_text(file, rows[i].text);
        fclose(file);
        assert_string_equal(text, rows[i].json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_lines_are_found),
        cmocka_unit_test(lines_longer_than_a_block_are_found),
        cmocka_unit_test(the_search_has_an_end),
        cmocka_unit_test(json_strings_are_valid_whatever_is_in_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
