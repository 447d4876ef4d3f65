/*
 * pane.c: see pane.h. The sequences are those of the VT100: ESC D (a row
 * down, the last one scrolls), ESC 7 and ESC 8 (keep and restore cursor and
 * colours), ESC [ n A and B (up, down), K and J (erase to the end of the line,
 * of the screen).
 */
#define _GNU_SOURCE
#include "screen/pane.h"

#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/banned.h"

#define SAVE      "\0337\033[0m"
#define RESTORE   "\0338"
#define ROW_DOWN  "\033D"
#define TAB_WIDTH 8u

void pane_init(struct pane *pane, struct sink *sink, int fd, bool plain)
{
    *pane = (struct pane){.sink = sink, .fd = fd, .plain = plain};
    (void)pane_resize(pane);
}

static void say(struct pane *pane, const char *text)
{
    sink_add(pane->sink, text, strlen(text));
}

/* ESC [ n `letter`; nothing for 0. */
static void say_move(struct pane *pane, unsigned count, char letter)
{
    char text[32];

    if (count > 0) {
        snprintf(text, sizeof(text), "\033[%u%c", count, letter);
        say(pane, text);
    }
}

/* ---- the terminal ------------------------------------------------------- */

bool pane_resize(struct pane *pane)
{
    struct winsize window = {.ws_col = 0};
    unsigned columns = PANE_COLUMNS;
    unsigned rows = PANE_ROWS;

    if (ioctl(pane->fd, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 &&
        window.ws_row > 0) {
        columns = window.ws_col;
        rows = window.ws_row;
    }
    if (columns == pane->columns && rows == pane->rows) {
        return false;
    }
    pane->columns = columns;
    pane->rows = rows;
    pane->column = 0; /* not known any more */
    if (pane->depth >= rows) {
        pane->depth = rows - 1;
    }
    return true;
}

bool pane_front(const struct pane *pane)
{
    pid_t front = tcgetpgrp(pane->fd);

    return front < 0 || front == getpgrp(); /* not our own: a test, a tool */
}

unsigned pane_room(const struct pane *pane)
{
    unsigned taken = pane->begun || pane->depth > 0 ? pane->depth + 1 : 1;

    if (pane->plain) {
        return 0;
    }
    if (pane->rows > taken) {
        return pane->rows - taken;
    }
    return taken == 1 && !pane->begun ? 1 : 0;
}

/* ---- following the cursor ----------------------------------------------- */

static void follow_character(struct pane *pane, const char *data,
                             const struct token *token)
{
    if (pane->column + token->width > pane->columns) {
        pane->column = 0; /* it wraps */
        pane->depth -= pane->depth > 0 ? 1 : 0;
    }
    pane->column += token->width;
    pane->begun = true;
    if (token->width > 0 && token->size <= sizeof(pane->last)) {
        memcpy(pane->last, data, token->size);
        pane->last_size = token->size;
    }
}

static void follow_control(struct pane *pane, char what)
{
    switch (what) {
    case '\n':
    case '\v':
    case '\f':
        if (pane->depth > 0) {
            pane->depth--;
        } else {
            pane->begun = false;
        }
        pane->column = 0;
        break;
    case '\r':
        pane->column = 0;
        break;
    case '\b':
        pane->column -= pane->column > 0 ? 1 : 0;
        break;
    case '\t':
        pane->column = (pane->column / TAB_WIDTH + 1) * TAB_WIDTH;
        if (pane->column >= pane->columns) {
            pane->column = pane->columns - 1;
        }
        pane->begun = true;
        break;
    default:
        break;
    }
}

static void follow_move(struct pane *pane, const struct token *token)
{
    if (token->letter == 'A' || token->letter == 'F') {
        pane->depth += token->count;
        if (pane->depth >= pane->rows) {
            pane->depth = pane->rows - 1;
        }
        pane->begun = true;
    } else {
        pane->depth -= token->count < pane->depth ? token->count : pane->depth;
    }
    if (token->letter == 'E' || token->letter == 'F') {
        pane->column = 0;
    } else if (pane->column == pane->columns) {
        pane->column--; /* it does not wrap any more */
    }
}

static void follow(struct pane *pane, const char *data, size_t size)
{
    struct token token;

    for (size_t at = 0; at < size; at += token.size) {
        if (!token_read(data + at, size - at, &token)) {
            return;
        }
        switch (token.kind) {
        case TOKEN_CHARACTER:
            follow_character(pane, data + at, &token);
            break;
        case TOKEN_CONTROL:
            follow_control(pane, data[at]);
            break;
        case TOKEN_MOVE:
            follow_move(pane, &token);
            break;
        case TOKEN_STYLE:
        case TOKEN_ESCAPE:
            break;
        }
    }
}

/* ---- bytes -------------------------------------------------------------- */

static void pass(struct pane *pane, const char *data, size_t size)
{
    if (size > 0) {
        follow(pane, data, size);
        sink_add(pane->sink, data, size);
    }
}

void pane_put(struct pane *pane, struct pane_torn *torn, const char *data,
              size_t size)
{
    size_t whole;

    pane_hide(pane);
    while (torn->size > 0 && size > 0) {
        torn->data[torn->size++] = *data++;
        size--;
        whole = token_whole(torn->data, torn->size);
        pass(pane, torn->data, whole);
        torn->size -= whole;
        memmove(torn->data, torn->data + whole, torn->size);
    }
    whole = size == 0 ? 0 : token_whole(data, size);
    pass(pane, data, whole);
    if (size > whole) {
        torn->size = size - whole;
        memcpy(torn->data, data + whole, torn->size);
    }
}

void pane_put_lines(struct pane *pane, const char *data, size_t size)
{
    pane_hide(pane);
    if (pane->begun || pane->depth > 0) {
        if (!pane->plain) {
            say_move(pane, pane->depth, 'B');
            say(pane, "\033[0m");
        }
        say(pane, "\r\n");
        pane->begun = false;
        pane->depth = 0;
        pane->column = 0;
    }
    sink_add(pane->sink, data, size);
}

/* ---- the block ---------------------------------------------------------- */

/* RESTORE may have forgotten that the next character wraps. */
static void come_back(struct pane *pane)
{
    say(pane, RESTORE);
    if (!pane->begun && pane->depth == 0) {
        say(pane, "\r"); /* over the ^C that the terminal has echoed */
    }
    if (pane->begun && pane->column == pane->columns && pane->last_size > 0) {
        say_move(pane, pane->columns, 'G');
        sink_add(pane->sink, pane->last, pane->last_size);
    }
}

void pane_hide(struct pane *pane)
{
    if (!pane->drawn) {
        return;
    }
    pane->drawn = false;
    if (!pane_front(pane)) {
        return; /* what is below the cursor is not ours */
    }
    say(pane, SAVE);
    say_move(pane, pane->below, 'B');
    say(pane, "\r\033[J");
    come_back(pane);
}

void pane_draw(struct pane *pane, const struct block *block)
{
    unsigned below = pane->begun || pane->depth > 0 ? pane->depth + 1 : 0;
    unsigned rows = below + block->lines - 1;
    const char *at = block->text;
    const char *end = at + block->used;

    if (block->lines == 0 || pane->plain) {
        pane_hide(pane);
        return;
    }
    for (unsigned i = 0; i < rows; i++) {
        say(pane, ROW_DOWN); /* makes room at the end of the screen */
    }
    say_move(pane, rows, 'A');
    say(pane, SAVE);
    say_move(pane, below, 'B');
    say(pane, "\r");
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));

        sink_add(pane->sink, at, (size_t)(line_end - at));
        at = line_end + 1;
        say(pane, at < end ? "\033[K\r\n" : "\033[J");
    }
    come_back(pane);
    pane->drawn = true;
    pane->below = below;
}
