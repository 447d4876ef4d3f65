/* document_test.c: what can be read, and where in it a sentence points. */
#include <fcntl.h>
#include <sys/stat.h>

#include "base/claim.h"
#include "base/mem.h"
#include "config/document.h"

static char folder[] = "/tmp/psd_document.XXXXXX";
static char path[100];
static char error[300];

static void write_file(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "w");

    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void a_file_is_read_whole(void **state)
{
    static const size_t sizes[] = { 0, 1, 4095, 4096, 100000 };
    struct document document;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(sizes); i++) {
        char *bytes = mem_zalloc(sizes[i] + 1);

        memset(bytes, 'x', sizes[i]);
        write_file(bytes, sizes[i]);
        assert_int_equal(document_read(&document, path, error, sizeof(error)),
                         PSD_OK);
        assert_int_equal(document.size, sizes[i]);
        assert_memory_equal(document.text, bytes, sizes[i]);
        assert_int_equal(document.text[sizes[i]], 0);
        document_fini(&document);
        mem_free(bytes);
    }
}

static void what_cannot_be_read_is_named(void **state)
{
    struct document document = { .size = 77 };

    (void)state;
    assert_int_equal(document_read(&document, "/nowhere/x.json", error,
                                   sizeof(error)),
                     PSD_EINVAL);
    assert_string_equal(error,
                        "cannot read /nowhere/x.json: No such file or "
                        "directory");
    assert_int_equal(document_read(&document, "/tmp", error, sizeof(error)),
                     PSD_EINVAL);
    assert_string_equal(error, "/tmp is a folder, not a file");
    assert_int_equal(document.size, 77);
    write_file("x", 1);
    if (geteuid() != 0) {
        assert_int_equal(chmod(path, 0), 0);
        assert_int_equal(document_read(&document, path, error, sizeof(error)),
                         PSD_EINVAL);
        assert_non_null(strstr(error, "Permission denied"));
        chmod(path, 0600);
    }
}

static void what_is_too_large_is_refused(void **state)
{
    struct document document;

    (void)state;
    write_file("", 0);
    assert_int_equal(truncate(path, DOCUMENT_SIZE_MAX), 0);
    assert_int_equal(document_read(&document, path, error, sizeof(error)),
                     PSD_OK);
    assert_int_equal(document.size, DOCUMENT_SIZE_MAX);
    document_fini(&document);
    assert_int_equal(truncate(path, DOCUMENT_SIZE_MAX + 1), 0);
    assert_int_equal(document_read(&document, path, error, sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, "is larger than 16 MiB"));
}

static void no_memory_is_a_status(void **state)
{
    struct document document;
    psd_status status = PSD_ENOMEM;
    long n = 0;
    char bytes[20000];

    (void)state;
    memset(bytes, 'x', sizeof(bytes));
    write_file(bytes, sizeof(bytes));
    while (status != PSD_OK) {
        mem_fail_after(++n);
        status = document_read(&document, path, error, sizeof(error));
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
    }
    assert_true(n > 3);
    document_fini(&document);
}

static void places_count_lines_and_characters(void **state)
{
    static const char text[] = "a\n\xc3\xbc" "b\n\nc";
    struct document document = { .path = "x.json",
                                 .text = text,
                                 .size = sizeof(text) - 1 };
    static const struct {
        size_t offset;
        uint32_t line, column;
    } places[] = { { 0, 1, 1 }, { 1, 1, 2 }, { 2, 2, 1 }, { 4, 2, 2 },
                   { 6, 3, 1 }, { 7, 4, 1 }, { 8, 4, 2 }, { 99, 4, 2 } };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(places); i++) {
        uint32_t line;
        uint32_t column;

        document_place(&document, places[i].offset, &line, &column);
        assert_int_equal(line, places[i].line);
        assert_int_equal(column, places[i].column);
    }
    assert_int_equal(document_complain(&document, 4, error, sizeof(error),
                                       "%d is wrong", 3),
                     PSD_EINVAL);
    assert_string_equal(error, "x.json:2:2: 3 is wrong");
    document_complain(&document, 4, error, 6, "%d is wrong", 3);
    assert_string_equal(error, "x.jso");
}

static int make_folder(void **state)
{
    (void)state;
    if (mkdtemp(folder) == NULL) {
        return 1;
    }
    snprintf(path, sizeof(path), "%s/file", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_read_whole),
        cmocka_unit_test(what_cannot_be_read_is_named),
        cmocka_unit_test(what_is_too_large_is_refused),
        cmocka_unit_test(no_memory_is_a_status),
        cmocka_unit_test(places_count_lines_and_characters),
    };

    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
