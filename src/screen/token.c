/* token.c: see token.h. */
#include "screen/token.h"

#include <stdint.h>

#include "base/banned.h"

#define ESC      0x1b
#define BEL      0x07
#define MOVE_MAX 9999u

/* ---- characters --------------------------------------------------------- */

struct span {
    uint32_t first;
    uint32_t last;
};

/* Marks that sit on the character before them. */
static const struct span zero[] = {
    {0x0300, 0x036f}, {0x200b, 0x200f}, {0x20d0, 0x20ff},
    {0xfe00, 0xfe0f}, {0xfeff, 0xfeff},
};

/* East Asian wide and full width, and pictographs. */
static const struct span wide[] = {
    {0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0x33ff},
    {0x3400, 0x4dbf},   {0x4e00, 0x9fff},   {0xa000, 0xa4cf},
    {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
    {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
    {0x1f680, 0x1f6ff}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd},
};

static bool within(const struct span *spans, size_t count, uint32_t code)
{
    for (size_t i = 0; i < count; i++) {
        if (code >= spans[i].first && code <= spans[i].last) {
            return true;
        }
    }
    return false;
}

static unsigned width_of(uint32_t code)
{
    if (code < 0x300) {
        return 1;
    }
    if (within(zero, sizeof(zero) / sizeof(zero[0]), code)) {
        return 0;
    }
    return within(wide, sizeof(wide) / sizeof(wide[0]), code) ? 2 : 1;
}

/* A byte that begins or continues no character stands for itself. */
static bool read_character(const unsigned char *at, size_t size,
                           struct token *token)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t need = at[0] < 0x80   ? 1
                  : at[0] < 0xc2 ? 0
                  : at[0] < 0xe0 ? 2
                  : at[0] < 0xf0 ? 3
                  : at[0] < 0xf5 ? 4
                                 : 0;
    uint32_t code = need <= 1 ? at[0] : at[0] & (0x7fu >> need);

    *token = (struct token){.kind = TOKEN_CHARACTER, .size = 1, .width = 1};
    for (size_t i = 1; i < need; i++) {
        if (i == size) {
            return false;
        }
        if ((at[i] & 0xc0) != 0x80) {
            return true;
        }
        code = (code << 6) | (at[i] & 0x3fu);
    }
    if (need > 1 && code >= least[need]) {
        token->size = need;
        token->width = width_of(code);
    }
    return true;
}

/* ---- sequences ---------------------------------------------------------- */

/* ESC [ parameters, then one letter. */
static bool read_csi(const unsigned char *at, size_t size, struct token *token)
{
    unsigned count = 0;
    size_t i = 2;

    while (i < size && at[i] >= 0x20 && at[i] <= 0x3f) {
        if (at[i] >= '0' && at[i] <= '9' && count <= MOVE_MAX) {
            count = count * 10 + (unsigned)(at[i] - '0');
        }
        i++;
    }
    if (i == size) {
        return false;
    }
    *token = (struct token){.kind = TOKEN_ESCAPE, .size = i + 1};
    if (at[i] < 0x40 || at[i] > 0x7e) {
        token->size = i; /* broken off by something else */
    } else if (at[i] == 'm') {
        token->kind = TOKEN_STYLE;
    } else if (at[i] == 'A' || at[i] == 'B' || at[i] == 'E' || at[i] == 'F') {
        token->kind = TOKEN_MOVE;
        token->letter = (char)at[i];
        token->count = count == 0 ? 1 : count < MOVE_MAX ? count : MOVE_MAX;
    }
    return true;
}

/* ESC ] and its like: text up to BEL or ESC \. */
static bool read_string(const unsigned char *at, size_t size,
                        struct token *token)
{
    for (size_t i = 2; i < size; i++) {
        if (at[i] == BEL || (at[i] == '\\' && at[i - 1] == ESC)) {
            *token = (struct token){.kind = TOKEN_ESCAPE, .size = i + 1};
            return true;
        }
    }
    return false;
}

static bool read_escape(const unsigned char *at, size_t size,
                        struct token *token)
{
    size_t i = 1;

    if (size < 2) {
        return false;
    }
    if (at[1] == '[') {
        return read_csi(at, size, token);
    }
    if (at[1] == ']' || at[1] == 'P' || at[1] == '^' || at[1] == '_') {
        return read_string(at, size, token);
    }
    while (i < size && at[i] >= 0x20 && at[i] <= 0x2f) {
        i++;
    }
    if (i == size) {
        return false;
    }
    *token = (struct token){.kind = TOKEN_ESCAPE,
                            .size = at[i] >= 0x30 && at[i] <= 0x7e ? i + 1 : i};
    return true;
}

bool token_read(const char *data, size_t size, struct token *token_p)
{
    const unsigned char *at = (const unsigned char *)data;
    struct token token = {.kind = TOKEN_CONTROL, .size = 1};
    bool whole = true;

    if (at[0] == ESC) {
        whole = read_escape(at, size, &token);
        if (!whole && size >= TOKEN_SIZE_MAX) {
            token = (struct token){.kind = TOKEN_ESCAPE, .size = 1};
            whole = true;
        }
    } else if (at[0] >= 0x20 && at[0] != 0x7f) {
        whole = read_character(at, size, &token);
    }
    if (whole) {
        *token_p = token;
    }
    return whole;
}

/* ---- texts -------------------------------------------------------------- */

size_t token_whole(const char *data, size_t size)
{
    struct token token;
    size_t at = 0;

    while (at < size && token_read(data + at, size - at, &token)) {
        at += token.size;
    }
    return at;
}

size_t token_width(const char *data, size_t size)
{
    struct token token;
    size_t width = 0;

    for (size_t at = 0; at < size; at += token.size) {
        if (!token_read(data + at, size - at, &token)) {
            break;
        }
        width += token.kind == TOKEN_CHARACTER ? token.width : 0;
    }
    return width;
}

size_t token_fit(const char *data, size_t size, size_t width)
{
    struct token token;
    size_t at = 0;

    while (at < size && token_read(data + at, size - at, &token)) {
        size_t more = token.kind == TOKEN_CHARACTER ? token.width : 0;

        if (more > width) {
            break;
        }
        width -= more;
        at += token.size;
    }
    return at;
}
