/* flow.c: see flow.h. */
#include "screen/flow.h"

#include <stdarg.h>

#include "base/banned.h"
#include "screen/token.h"

#define FIELD_SIZE 160

struct flow flow_start(struct block *block, unsigned columns, bool color,
                       unsigned limit)
{
    columns = columns < BLOCK_COLUMNS ? columns : BLOCK_COLUMNS;

    return (struct flow){.block = block,
                         .limit = limit,
                         .width = columns > 1 ? columns - 1 : 1,
                         .color = color};
}

void block_put(struct block *block, const char *text, size_t size)
{
    if (BLOCK_SIZE - BLOCK_ROWS > block->used + size) {
        memcpy(block->text + block->used, text, size);
        block->used += size;
    }
}

void block_end_line(struct block *block)
{
    block->text[block->used++] = '\n';
    block->lines++;
}

bool flow_fits(const struct flow *flow, size_t width, size_t after)
{
    size_t need = width + (after > 0 ? FLOW_GAP + after : 0);

    if (flow->rows < flow->limit) {
        return true;
    }
    return flow->column > 0 && flow->column + FLOW_GAP + need <= flow->width;
}

void flow_end_row(struct flow *flow)
{
    if (flow->column > 0) {
        block_end_line(flow->block);
        flow->column = 0;
    }
}

bool flow_put(struct flow *flow, const char *style, const char *text)
{
    size_t size = strlen(text);
    size_t width = token_width(text, size);

    if (flow->column > 0 && flow->column + FLOW_GAP + width > flow->width &&
        flow->rows < flow->limit) {
        flow_end_row(flow);
    }
    if (flow->column == 0) {
        if (flow->rows == flow->limit || flow->limit == 0) {
            return false;
        }
        flow->rows++;
    } else if (flow->column + FLOW_GAP + width > flow->width) {
        return false;
    } else {
        block_put(flow->block, "          ", FLOW_GAP);
        flow->column += FLOW_GAP;
    }
    size = token_fit(text, size, flow->width - flow->column);
    if (flow->color && style != NULL) {
        char begin[16];

        snprintf(begin, sizeof(begin), "\033[%sm", style);
        block_put(flow->block, begin, strlen(begin));
        block_put(flow->block, text, size);
        block_put(flow->block, "\033[0m", 4);
    } else {
        block_put(flow->block, text, size);
    }
    flow->column += token_width(text, size);
    return true;
}

void flow_say(struct flow *flow, const char *style, const char *format, ...)
{
    char text[FIELD_SIZE];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    flow_put(flow, style, text);
}
