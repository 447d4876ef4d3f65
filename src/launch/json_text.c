/* json_text.c: see json_text.h. */
#include "launch/json_text.h"

#include <stdint.h>

#include "base/log.h"

/* Bytes of the character that begins here; 0: it is none. */
static size_t utf8_size(const uint8_t *at)
{
    size_t size = at[0] < 0x80                    ? 1
                  : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                  : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                  : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                  : 0;

    for (size_t i = 1; i < size; i++) {
        if ((at[i] & 0xc0) != 0x80) { /* also the end of the text */
            return 0;
        }
    }
    if ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f) ||
        (at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f)) {
        return 0; /* longer than need be, a surrogate, beyond the last */
    }
    return size;
}

void json_text(FILE *file, const char *text)
{
    const uint8_t *at = (const uint8_t *)text;

    fputc('"', file);
    while (*at != '\0') {
        size_t size = utf8_size(at);

        if (size == 0) {
            fputs("\\ufffd", file);
            at++;
        } else if (*at == '"' || *at == '\\') {
            fprintf(file, "\\%c", *at++);
        } else if (*at < ' ' || *at == 127) {
            fprintf(file, "\\u%04x", *at++);
        } else {
            fwrite(at, 1, size, file);
            at += size;
        }
    }
    fputc('"', file);
}
