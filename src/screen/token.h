/*
 * token.h: what a program writes to a terminal, cut into the smallest parts
 * that may not be torn apart: a character of UTF-8 with its width, a control
 * character, an escape sequence. Pure.
 */
#ifndef PSD_SCREEN_TOKEN_H
#define PSD_SCREEN_TOKEN_H

#include <stdbool.h>
#include <stddef.h>

#define TOKEN_SIZE_MAX 256 /* a longer escape sequence is taken apart */

enum token_kind {
    TOKEN_CHARACTER, /* takes `width` columns; a stray byte takes one */
    TOKEN_CONTROL,   /* one byte below space, or DEL */
    TOKEN_STYLE,     /* ESC [ ... m */
    TOKEN_MOVE,      /* ESC [ n `letter` with a letter out of ABEF: n rows up,
                      * down, and to the first column of these */
    TOKEN_ESCAPE,    /* any other sequence */
};

struct token {
    enum token_kind kind;
    size_t size;    /* bytes */
    unsigned width; /* CHARACTER: 0, 1 or 2 */
    unsigned count; /* MOVE: n, at least 1 */
    char letter;    /* MOVE */
};

/* The first token of `size` > 0 bytes. False: it is not complete yet; at
 * most TOKEN_SIZE_MAX bytes are held back so. */
bool token_read(const char *data, size_t size, struct token *token_p);

/* How many bytes of `data` are whole tokens. */
size_t token_whole(const char *data, size_t size);

/* Columns that a text takes; escape sequences take none. */
size_t token_width(const char *data, size_t size);

/* How many bytes of `data` fit into `width` columns. */
size_t token_fit(const char *data, size_t size, size_t width);

#endif
