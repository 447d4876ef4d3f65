/*
 * lines.h: the output of one worker with --tee all, made into lines that can
 * stand between those of other workers. One thread.
 *
 * A line is passed on when it is finished, in its last state: what a worker
 * has overwritten after \r (a progress bar) is not shown line by line. A line
 * that a worker goes back to (nested bars move up again with ESC [ A) is not
 * finished by the \n that left it: where there was a \r, finished lines wait
 * for lines_settle, which the owner calls when LINES_SETTLE_MS have passed, or
 * until LINES_ROWS have gathered. Of escape sequences colours stay; what moves
 * the cursor or erases does not. A line longer than LINES_SIZE is cut in
 * pieces.
 *
 * What is not finished is the worker's bar: lines_bar.
 */
#ifndef PSD_SCREEN_LINES_H
#define PSD_SCREEN_LINES_H

#include <stdbool.h>
#include <stddef.h>

#include "screen/token.h"

#define LINES_ROWS      4
#define LINES_SIZE      4096
#define LINES_SETTLE_MS 100
#define LINES_STYLE_MAX 32

struct lines_row {
    char *data; /* LINES_SIZE bytes, once it was needed */
    size_t used;
    bool again;  /* the next character starts it anew */
    bool is_bar; /* there was a \r in it */
};

struct lines {
    void *user;
    /* One finished line, without its end. Borrows it. */
    void (*finished)(void *user, const char *text, size_t size);
    struct lines_row rows[LINES_ROWS];
    unsigned count;              /* rows in use */
    unsigned row;                /* where the cursor is */
    unsigned bar;                /* that was written last */
    char style[LINES_STYLE_MAX]; /* a colour for the row that starts anew */
    size_t style_size;
    char torn[TOKEN_SIZE_MAX]; /* a token that is not complete */
    size_t torn_size;
};

void lines_init(struct lines *lines, void *user,
                void (*finished)(void *user, const char *text, size_t size));
void lines_fini(struct lines *lines); /* drops what is in it */

void lines_write(struct lines *lines, const char *data, size_t size);
/* Is there a finished line that waits? */
bool lines_waiting(const struct lines *lines);
/* The cursor stayed where it is: what is above it is finished. */
void lines_settle(struct lines *lines);
/* Nothing more comes: everything is finished. */
void lines_finish(struct lines *lines);

/* The line that is being written; false: there is none. */
bool lines_bar(const struct lines *lines, const char **text_p, size_t *size_p);

#endif
