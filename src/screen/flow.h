/*
 * flow.h: fields that flow into the rows of a block, as words do into those
 * of a page; a field is never broken. Pure.
 */
#ifndef PSD_SCREEN_FLOW_H
#define PSD_SCREEN_FLOW_H

#include "screen/block.h"

#define FLOW_GAP 3 /* columns between fields */

struct flow {
    struct block *block;
    unsigned limit; /* rows at most */
    size_t width;   /* columns of a row */
    size_t column;  /* of the current row; 0: it is not begun */
    unsigned rows;  /* begun */
    bool color;
};

/* The last column of the terminal stays empty, so that nothing wraps. */
struct flow flow_start(struct block *block, unsigned columns, bool color,
                       unsigned limit);
/* Would a field still find a place, and after it one of `after` columns? */
bool flow_fits(const struct flow *flow, size_t width, size_t after);
/* A field; `style` is what stands between ESC [ and m, or NULL. False: there
 * is no room. One that is wider than a row is cut. */
bool flow_put(struct flow *flow, const char *style, const char *text);
void flow_say(struct flow *flow, const char *style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The next field begins a row. */
void flow_end_row(struct flow *flow);

/* Bytes of a line; what does not fit is left out, the ends of lines fit. */
void block_put(struct block *block, const char *text, size_t size);
void block_end_line(struct block *block);

#endif
