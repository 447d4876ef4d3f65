/* utf8.c: see utf8.h. */
#include "report/utf8.h"

#include <stdint.h>

#include "base/mem.h"

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* Bytes of the sequence at `at`; 0: it is none. */
static size_t sequence(const unsigned char *at, size_t left)
{
    static const struct {
        unsigned char low, high; /* of the first byte */
        size_t size;
        uint32_t least; /* shorter would have done */
    } kinds[] = {
        { 0x00, 0x7f, 1, 0 },
        { 0xc2, 0xdf, 2, 0x80 },
        { 0xe0, 0xef, 3, 0x800 },
        { 0xf0, 0xf4, 4, 0x10000 },
    };
    uint32_t value;
    size_t kind = 0;

    while (kind < 4 && (at[0] < kinds[kind].low || at[0] > kinds[kind].high)) {
        kind++;
    }
    if (kind == 4 || kinds[kind].size > left) {
        return 0;
    }
    value = kind == 0 ? at[0] : at[0] & (0x3fu >> kind);
    for (size_t i = 1; i < kinds[kind].size; i++) {
        if ((at[i] & 0xc0) != 0x80) {
            return 0;
        }
        value = value << 6 | (at[i] & 0x3fu);
    }
    if (value < kinds[kind].least || value > 0x10ffff ||
        (value >= 0xd800 && value <= 0xdfff)) {
        return 0;
    }
    return kinds[kind].size;
}

char *utf8_clean(const char *bytes, size_t size)
{
    char *text = mem_zalloc(size * (sizeof(replacement) - 1) + 1);
    char *to = text;
    size_t at = 0;

    while (text != NULL && at < size) {
        size_t step =
            sequence((const unsigned char *)bytes + at, size - at);

        if (step == 0) {
            memcpy(to, replacement, sizeof(replacement) - 1);
            to += sizeof(replacement) - 1;
            at++;
            continue;
        }
        memcpy(to, bytes + at, step);
        if (*to == '\0') {
            *to = '?';
        }
        to += step;
        at += step;
    }
    return text;
}
