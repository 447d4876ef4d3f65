/*
 * document.h: a file that a person wrote, read whole, and sentences about it
 * that begin with file:line:column. One thread.
 */
#ifndef PSD_CONFIG_DOCUMENT_H
#define PSD_CONFIG_DOCUMENT_H

#include <stddef.h>
#include <stdint.h>

#include "poseidon.h"

#define DOCUMENT_SIZE_MAX (16u << 20)

struct document {
    const char *path; /* as the user gave it; borrowed */
    const char *text; /* with a NUL behind it, and perhaps some within */
    size_t size;
    char *memory; /* that document_read took; NULL: the text is borrowed */
};

/* PSD_EINVAL with a sentence: not there, not readable, a folder, too large.
 * PSD_ENOMEM. */
psd_status document_read(struct document *document, const char *path,
                         char *error, size_t error_size);
void document_fini(struct document *document);

/* Line and column of the byte at `offset`, both from 1; a column is a
 * character of UTF-8. */
void document_place(const struct document *document, size_t offset,
                    uint32_t *line_p, uint32_t *column_p);
/* Writes "path:line:column: " and the sentence. Returns PSD_EINVAL. */
psd_status document_complain(const struct document *document, size_t offset,
                             char *error, size_t error_size,
                             const char *format, ...)
    __attribute__((format(printf, 5, 6)));

#endif
