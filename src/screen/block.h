/*
 * block.h: the live block as text: how far training is, where a step's time
 * goes, one cell per worker. Pure: everything it says is in its input.
 *
 *     step 1200 of 5000   loss 0.4312   812 samples/s   ETA 12 min
 *     step time 120 ms: compute 90 ms, exposed communication 30 ms (25 %)
 *     w0 ok   w1 SLOW 1.8x   w2 -3   w3 .
 *
 * A cell is `.` until its worker joins, then ok, -N when it is N steps behind,
 * SLOW with its compute time as a multiple of the median (the rule stands in
 * master/view.h), done, or LOST. Fields flow into as many rows as the width
 * asks for. Cells take a third of the screen at most: where they do not fit
 * those that are well lose their word, and then their place ("... and 56 more,
 * all well"). Above these lines stand the unfinished lines of workers
 * (--tee all), one for each, a third of the screen at most. When rows are
 * short the bars go first, then the cells, then the second line.
 */
#ifndef PSD_SCREEN_BLOCK_H
#define PSD_SCREEN_BLOCK_H

#include "launch/launch_message.h"

#define BLOCK_SIZE    (64u << 10)
#define BLOCK_ROWS    64  /* never more */
#define BLOCK_COLUMNS 400 /* what is wider is left empty */

/* A worker's unfinished line; may have colours. */
struct block_bar {
    uint32_t rank;
    const char *text;
    size_t size;
};

struct block_input {
    const struct launch_view *view; /* its cells are not looked at */
    bool has_view;
    const struct launch_cell *cells; /* of every worker */
    uint32_t workers;
    uint64_t goal;   /* steps of the whole training; 0: unknown */
    uint64_t age_ns; /* of the job */
    bool color;
    unsigned columns; /* of the terminal */
    unsigned rows;
    unsigned room; /* rows that the block may take, at least 1 */
    const struct block_bar *bars;
    uint32_t bar_count;
};

struct block {
    char text[BLOCK_SIZE]; /* lines end in \n, the last one too */
    size_t used;
    unsigned lines;
};

void block_compose(const struct block_input *input, struct block *block);
/* The same as one line without colours; "": there is nothing to say. */
void block_plain(const struct block_input *input, char *text, size_t size);

#endif
