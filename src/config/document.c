/* document.c: see document.h. */
#define _GNU_SOURCE
#include "config/document.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"

#define FIRST_SIZE 4096

/* Read to the end; a pipe is fine, hence no size is known before. */
static psd_status read_all(int fd, struct document *document, char *error,
                           size_t error_size)
{
    size_t capacity = FIRST_SIZE;
    void *memory = mem_zalloc(capacity);
    size_t size = 0;

    while (memory != NULL) {
        ssize_t got =
            read(fd, (char *)memory + size, capacity - size - 1);

        if (got < 0 && errno == EINTR) {
            continue;
        }
        if (got < 0) {
            snprintf(error, error_size, "cannot read %s: %s", document->path,
                     strerror(errno));
            mem_free(memory);
            return PSD_EINVAL;
        }
        size += (size_t)got;
        if (size > DOCUMENT_SIZE_MAX) {
            snprintf(error, error_size,
                     "%s is larger than %u MiB; is it the right file?",
                     document->path, DOCUMENT_SIZE_MAX >> 20);
            mem_free(memory);
            return PSD_EINVAL;
        }
        if (got == 0) {
            document->memory = memory;
            document->text = memory;
            document->size = size;
            return PSD_OK;
        }
        if (size + 1 == capacity) {
            if (mem_grow(&memory, size, capacity * 2, 1) != PSD_OK) {
                mem_free(memory);
                break;
            }
            capacity *= 2;
        }
    }
    snprintf(error, error_size, "out of memory");
    return PSD_ENOMEM;
}

psd_status document_read(struct document *document, const char *path,
                         char *error, size_t error_size)
{
    struct document read = { .path = path };
    struct stat about;
    psd_status status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        snprintf(error, error_size, "cannot read %s: %s", path,
                 strerror(errno));
        return PSD_EINVAL;
    }
    if (fstat(fd, &about) == 0 && S_ISDIR(about.st_mode)) {
        snprintf(error, error_size, "%s is a folder, not a file", path);
        status = PSD_EINVAL;
    } else {
        status = read_all(fd, &read, error, error_size);
    }
    close(fd);
    if (status == PSD_OK) {
        *document = read;
    }
    return status;
}

void document_fini(struct document *document)
{
    mem_free(document->memory);
    *document = (struct document){ .path = NULL };
}

void document_place(const struct document *document, size_t offset,
                    uint32_t *line_p, uint32_t *column_p)
{
    uint32_t line = 1;
    uint32_t column = 1;

    for (size_t i = 0; i < offset && i < document->size; i++) {
        unsigned char c = (unsigned char)document->text[i];

        if (c == '\n') {
            line++;
            column = 1;
        } else if (c < 0x80 || c >= 0xc0) {
            column++;
        }
    }
    *line_p = line;
    *column_p = column;
}

psd_status document_complain(const struct document *document, size_t offset,
                             char *error, size_t error_size,
                             const char *format, ...)
{
    va_list arguments;
    uint32_t line;
    uint32_t column;
    size_t used;

    document_place(document, offset, &line, &column);
    used = (size_t)snprintf(error, error_size, "%s:%u:%u: ", document->path,
                            line, column);
    if (used < error_size) {
        va_start(arguments, format);
        vsnprintf(error + used, error_size - used, format, arguments);
        va_end(arguments);
    }
    return PSD_EINVAL;
}
