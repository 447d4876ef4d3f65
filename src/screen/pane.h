/*
 * pane.h: the terminal that psd_run shares with the workers' output: their
 * bytes above, one block of our own below, which is taken away before they
 * write and put back after. The loop's thread.
 *
 * The cursor always rests where the next byte of a worker belongs: at the
 * end of its unfinished line (then the block begins in the row below), or in
 * the first column of an empty row (then the block begins there). A worker
 * that draws a bar with \r, or several that it moves between with ESC [ A,
 * finds everything as it left it, its colours too. Where the block is follows
 * from the cursor, so that nothing of it stays behind when the terminal is
 * resized, whether it folds long lines or not. No token (token.h) is torn:
 * an incomplete one is held back until the rest of its stream comes.
 *
 * Everything is added to the sink; the owner flushes it.
 */
#ifndef PSD_SCREEN_PANE_H
#define PSD_SCREEN_PANE_H

#include "screen/block.h"
#include "screen/sink.h"
#include "screen/token.h"

#define PANE_COLUMNS 80 /* when the terminal does not say */
#define PANE_ROWS    24

/* The incomplete token at the end of one worker's stream. */
struct pane_torn {
    char data[TOKEN_SIZE_MAX];
    size_t size;
};

struct pane {
    struct sink *sink;
    int fd;           /* the terminal */
    bool plain;       /* it understands no escape sequences: never a block */
    unsigned columns; /* as they were when we last looked */
    unsigned rows;
    bool drawn;     /* the block is there */
    unsigned below; /* rows from the cursor to its first line */
    /* Where the cursor is, as far as one can tell. */
    bool begun;      /* its row has something in it */
    unsigned depth;  /* rows that a worker has below it */
    unsigned column; /* equals `columns`: the next character wraps */
    char last[8];    /* the last character, which wrapped not yet */
    size_t last_size;
};

void pane_init(struct pane *pane, struct sink *sink, int fd, bool plain);

/* Look at the size of the terminal; true: it has changed. */
bool pane_resize(struct pane *pane);
/* Does the terminal show us, and not a shell that we are behind? */
bool pane_front(const struct pane *pane);
/* Rows that a block may have, at least 1; 0: there is no place for one. */
unsigned pane_room(const struct pane *pane);

/* Bytes of a worker, as they came. */
void pane_put(struct pane *pane, struct pane_torn *torn, const char *data,
              size_t size);
/* Lines of our own, with their ends: an unfinished line is left as it is. */
void pane_put_lines(struct pane *pane, const char *data, size_t size);

/* Take the block away, if it is there. */
void pane_hide(struct pane *pane);
/* Put it there, in place of the one that is there. Nothing in between is
 * seen: it is overwritten, not erased first. */
void pane_draw(struct pane *pane, const struct block *block);

#endif
