/* lines.c: see lines.h. */
#include "screen/lines.h"

#include "base/mem.h"

void lines_init(struct lines *lines, void *user,
                void (*finished)(void *user, const char *text, size_t size))
{
    *lines = (struct lines){.user = user, .finished = finished, .count = 1};
}

void lines_fini(struct lines *lines)
{
    for (unsigned i = 0; i < LINES_ROWS; i++) {
        mem_free(lines->rows[i].data);
    }
    *lines = (struct lines){.count = 1};
}

static void pass_on(struct lines *lines, struct lines_row *row)
{
    lines->finished(lines->user, row->data == NULL ? "" : row->data, row->used);
    row->used = 0;
    row->again = false;
    row->is_bar = false;
}

/* The first row is finished: it goes, its memory becomes the last row's. */
static void shift(struct lines *lines)
{
    struct lines_row first = lines->rows[0];

    pass_on(lines, &first);
    memmove(lines->rows, lines->rows + 1,
            (LINES_ROWS - 1) * sizeof(lines->rows[0]));
    lines->rows[LINES_ROWS - 1] = first;
    lines->count -= lines->count > 1 ? 1 : 0;
    lines->row -= lines->row > 0 ? 1 : 0;
    lines->bar -= lines->bar > 0 ? 1 : 0;
}

/* ---- tokens ------------------------------------------------------------- */

static void append(struct lines *lines, const char *data, size_t size)
{
    struct lines_row *row = &lines->rows[lines->row];

    if (row->data == NULL) {
        row->data = mem_zalloc(LINES_SIZE);
        if (row->data == NULL) {
            return; /* mem.c has said so; the log files have the bytes */
        }
    }
    if (LINES_SIZE - row->used < size) {
        pass_on(lines, row);
    }
    memcpy(row->data + row->used, data, size);
    row->used += size;
}

static void put_character(struct lines *lines, const char *data, size_t size)
{
    struct lines_row *row = &lines->rows[lines->row];

    if (row->again) {
        row->again = false;
        row->used = 0;
        append(lines, lines->style, lines->style_size);
    }
    lines->style_size = 0;
    lines->bar = lines->row;
    append(lines, data, size);
}

/* Before the row starts anew nobody knows which row a colour is for. */
static void put_style(struct lines *lines, const char *data, size_t size)
{
    if (!lines->rows[lines->row].again) {
        append(lines, data, size);
    } else if (LINES_STYLE_MAX - lines->style_size >= size) {
        memcpy(lines->style + lines->style_size, data, size);
        lines->style_size += size;
    }
}

/* To another row, whose text stays until something is written there. */
static void go_to(struct lines *lines, unsigned row)
{
    lines->row = row;
    lines->rows[row].again = lines->rows[row].used > 0;
    lines->style_size = 0;
}

static void new_line(struct lines *lines)
{
    if (lines->count == 1 && !lines->rows[0].is_bar) {
        pass_on(lines, &lines->rows[0]);
        return;
    }
    if (lines->row + 1 == LINES_ROWS) {
        shift(lines);
    }
    if (lines->row + 1 == lines->count) {
        lines->count++;
    }
    go_to(lines, lines->row + 1);
}

static void move(struct lines *lines, const struct token *token)
{
    bool up = token->letter == 'A' || token->letter == 'F';
    unsigned room = up ? lines->row : lines->count - 1 - lines->row;
    unsigned by = token->count < room ? token->count : room;

    go_to(lines, up ? lines->row - by : lines->row + by);
}

static void put(struct lines *lines, const char *data,
                const struct token *token)
{
    switch (token->kind) {
    case TOKEN_CHARACTER:
        put_character(lines, data, token->size);
        break;
    case TOKEN_CONTROL:
        if (data[0] == '\n') {
            new_line(lines);
        } else if (data[0] == '\r') {
            go_to(lines, lines->row);
            lines->rows[lines->row].is_bar = true;
        } else if (data[0] == '\t') {
            put_character(lines, data, token->size);
        }
        break;
    case TOKEN_STYLE:
        put_style(lines, data, token->size);
        break;
    case TOKEN_MOVE:
        move(lines, token);
        break;
    case TOKEN_ESCAPE:
        break;
    }
}

/* ---- bytes -------------------------------------------------------------- */

/* Bytes in `data` that are taken; what is left is a torn token. */
static size_t put_whole(struct lines *lines, const char *data, size_t size)
{
    struct token token;
    size_t at = 0;

    while (at < size && token_read(data + at, size - at, &token)) {
        put(lines, data + at, &token);
        at += token.size;
    }
    return at;
}

void lines_write(struct lines *lines, const char *data, size_t size)
{
    while (lines->torn_size > 0 && size > 0) {
        size_t taken;

        lines->torn[lines->torn_size++] = *data++;
        size--;
        taken = put_whole(lines, lines->torn, lines->torn_size);
        lines->torn_size -= taken;
        memmove(lines->torn, lines->torn + taken, lines->torn_size);
    }
    if (size > 0) {
        size_t taken = put_whole(lines, data, size);

        lines->torn_size = size - taken;
        memcpy(lines->torn, data + taken, lines->torn_size);
    }
}

bool lines_waiting(const struct lines *lines)
{
    return lines->row > 0;
}

void lines_settle(struct lines *lines)
{
    while (lines->row > 0) {
        shift(lines);
    }
}

void lines_finish(struct lines *lines)
{
    const char *text;
    size_t size;

    lines->row = lines->count - 1;
    lines_settle(lines);
    if (lines->torn_size > 0) {
        append(lines, lines->torn, lines->torn_size);
        lines->torn_size = 0;
    }
    if (lines_bar(lines, &text, &size)) {
        pass_on(lines, &lines->rows[0]);
    }
}

/* A bar that was wiped out leaves blanks. */
static bool is_blank(const struct lines_row *row)
{
    for (size_t i = 0; i < row->used; i++) {
        if (row->data[i] != ' ') {
            return false;
        }
    }
    return true;
}

bool lines_bar(const struct lines *lines, const char **text_p, size_t *size_p)
{
    const struct lines_row *row = &lines->rows[lines->bar];

    if (lines->bar < lines->row || is_blank(row)) {
        return false; /* finished, or nothing there */
    }
    *text_p = row->data;
    *size_p = row->used;
    return true;
}
