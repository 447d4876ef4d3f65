/* pane_test.c: what workers write looks the same with the block and without,
 * on a terminal made of paper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "screen/pane.h"

#define COLUMNS PANE_COLUMNS
#define ROWS    PANE_ROWS
#define PAPER   400

/* ---- the terminal ------------------------------------------------------- */

/* Rows that scrolled out stay above `top`. */
struct paper {
    char rows[PAPER][COLUMNS + 1];
    int top;
    int row;
    int column;
    bool wrap;     /* the next character goes to the next row */
    bool keeps;    /* ESC 8 brings `wrap` back */
    int saved_row; /* on the screen */
    int saved_column;
    bool saved_wrap;
};

static void paper_init(struct paper *paper, bool keeps)
{
    memset(paper, 0, sizeof(*paper));
    for (int i = 0; i < PAPER; i++) {
        memset(paper->rows[i], ' ', COLUMNS);
    }
    paper->keeps = keeps;
}

static void row_down(struct paper *paper)
{
    if (paper->row == ROWS - 1) {
        paper->top++;
        assert_true(paper->top + ROWS < PAPER);
    } else {
        paper->row++;
    }
    paper->wrap = false;
}

static void erase(struct paper *paper, bool below)
{
    int row = paper->top + paper->row;

    memset(paper->rows[row] + paper->column, ' ',
           (size_t)(COLUMNS - paper->column));
    for (int i = row + 1; below && i < paper->top + ROWS; i++) {
        memset(paper->rows[i], ' ', COLUMNS);
    }
}

static void type(struct paper *paper, char c)
{
    if (paper->wrap) {
        paper->column = 0;
        row_down(paper);
    }
    paper->rows[paper->top + paper->row][paper->column] = c;
    if (paper->column == COLUMNS - 1) {
        paper->wrap = true;
    } else {
        paper->column++;
    }
}

static void sequence(struct paper *paper, int count, char letter)
{
    int n = count == 0 ? 1 : count;

    switch (letter) {
    case 'A':
        paper->row = n > paper->row ? 0 : paper->row - n;
        paper->wrap = false;
        break;
    case 'B':
        paper->row = paper->row + n < ROWS ? paper->row + n : ROWS - 1;
        paper->wrap = false;
        break;
    case 'G':
        paper->column = (n < COLUMNS ? n : COLUMNS) - 1;
        paper->wrap = false;
        break;
    case 'J':
        erase(paper, true);
        break;
    case 'K':
        erase(paper, false);
        break;
    case 'm':
        break;
    default:
        fail();
    }
}

static void escape(struct paper *paper, char letter)
{
    switch (letter) {
    case 'D':
        row_down(paper);
        break;
    case '7':
        paper->saved_row = paper->row;
        paper->saved_column = paper->column;
        paper->saved_wrap = paper->wrap;
        break;
    case '8':
        paper->row = paper->saved_row;
        paper->column = paper->saved_column;
        paper->wrap = paper->keeps && paper->saved_wrap;
        break;
    default:
        fail();
    }
}

static void paper_write(struct paper *paper, const char *at, size_t size)
{
    const char *end = at + size;

    while (at < end) {
        char c = *at++;

        if (c == '\033' && *at == '[') {
            int count = 0;

            for (at++; *at >= '0' && *at <= '9'; at++) {
                count = count * 10 + (*at - '0');
            }
            sequence(paper, count, *at++);
        } else if (c == '\033') {
            escape(paper, *at++);
        } else if (c == '\n') {
            paper->column = 0;
            row_down(paper);
        } else if (c == '\r') {
            paper->column = 0;
            paper->wrap = false;
        } else {
            type(paper, c);
        }
    }
}

static void paper_compare(const struct paper *a, const struct paper *b)
{
    for (int i = 0; i < PAPER; i++) {
        assert_string_equal(a->rows[i], b->rows[i]);
    }
    assert_int_equal(a->top + a->row, b->top + b->row);
    assert_int_equal(a->column, b->column);
    assert_int_equal(a->wrap, b->wrap);
}

/* ---- a pane on it ------------------------------------------------------- */

struct rig {
    struct sink sink;
    struct pane pane;
    struct pane_torn torn;
    struct block block;
    struct paper paper; /* what the pane made of it */
    struct paper bare;  /* the worker's bytes alone */
};

static void set_block(struct block *block, unsigned lines)
{
    block->used = 0;
    block->lines = lines;
    for (unsigned i = 0; i < lines; i++) {
        block->used +=
            (size_t)snprintf(block->text + block->used,
                             BLOCK_SIZE - block->used, "block %u\n", i);
    }
}

static struct rig *rig_create(bool keeps)
{
    static struct rig rig;

    rig = (struct rig){.sink = {.fd = -1}};
    pane_init(&rig.pane, &rig.sink, -1, false);
    set_block(&rig.block, 3);
    paper_init(&rig.paper, keeps);
    paper_init(&rig.bare, keeps);
    return &rig;
}

/* What was added to the sink, onto the paper. */
static void rig_flush(struct rig *rig)
{
    paper_write(&rig->paper, rig->sink.data + rig->sink.start,
                sink_size(&rig->sink));
    rig->sink.start = 0;
    rig->sink.end = 0;
}

static void rig_put(struct rig *rig, const char *data, size_t size)
{
    pane_put(&rig->pane, &rig->torn, data, size);
    rig_flush(rig);
}

static void rig_draw(struct rig *rig)
{
    pane_draw(&rig->pane, &rig->block);
    rig_flush(rig);
}

static void rig_end(struct rig *rig)
{
    pane_hide(&rig->pane);
    rig_flush(rig);
    paper_compare(&rig->paper, &rig->bare);
    rig->sink.broken = true; /* nothing to write to */
    sink_fini(&rig->sink);
}

static const char *row_of(const struct rig *rig, int row)
{
    static char text[COLUMNS + 1];
    size_t size = COLUMNS;

    memcpy(text, rig->paper.rows[rig->paper.top + row], sizeof(text));
    while (size > 0 && text[size - 1] == ' ') {
        text[--size] = '\0';
    }
    return text;
}

/* ---- claims ------------------------------------------------------------- */

static void the_block_stands_below_the_output(void **state)
{
    struct rig *rig = rig_create(false);

    (void)state;
    rig_put(rig, "one\ntwo\n", 8);
    rig_draw(rig);
    assert_string_equal(row_of(rig, 1), "two");
    assert_string_equal(row_of(rig, 2), "block 0");
    assert_string_equal(row_of(rig, 4), "block 2");
    rig_put(rig, "three\n", 6);
    rig_draw(rig);
    assert_string_equal(row_of(rig, 2), "three");
    assert_string_equal(row_of(rig, 3), "block 0");
    assert_string_equal(row_of(rig, 6), "");
    paper_write(&rig->bare, "one\ntwo\nthree\n", 14);
    rig_end(rig);
}

static void an_unfinished_line_stays_above_it_and_goes_on(void **state)
{
    struct rig *rig = rig_create(false);

    (void)state;
    rig_put(rig, " 10%", 4);
    rig_draw(rig);
    rig_put(rig, "\r 20%", 5);
    rig_draw(rig);
    assert_string_equal(row_of(rig, 0), " 20%");
    assert_string_equal(row_of(rig, 1), "block 0");
    rig_put(rig, " done\r", 6); /* the cursor in front of it */
    rig_draw(rig);
    assert_string_equal(row_of(rig, 0), " 20% done");
    paper_write(&rig->bare, " 20% done\r", 10);
    rig_end(rig);
}

static void nested_bars_keep_their_rows(void **state)
{
    static const char inner[] = "\n\r inner\033[A";
    struct rig *rig = rig_create(false);

    (void)state;
    rig_put(rig, "\r outer", 7);
    rig_draw(rig);
    for (int i = 0; i < 3; i++) {
        for (size_t j = 0; j + 1 < sizeof(inner); j++) {
            rig_put(rig, inner + j, 1);
            rig_draw(rig);
        }
    }
    assert_string_equal(row_of(rig, 0), " outer");
    assert_string_equal(row_of(rig, 1), " inner");
    assert_string_equal(row_of(rig, 2), "block 0");
    assert_string_equal(row_of(rig, 4), "block 2");
    paper_write(&rig->bare, "\r outer", 7);
    paper_write(&rig->bare, inner, sizeof(inner) - 1);
    rig_end(rig);
}

static void a_smaller_block_leaves_nothing_of_a_larger_one(void **state)
{
    struct rig *rig = rig_create(false);

    (void)state;
    set_block(&rig->block, 5);
    rig_draw(rig);
    set_block(&rig->block, 2);
    rig_draw(rig);
    assert_string_equal(row_of(rig, 1), "block 1");
    assert_string_equal(row_of(rig, 2), "");
    rig_end(rig);
}

static void our_own_lines_do_not_tear_a_bar(void **state)
{
    struct rig *rig = rig_create(false);

    (void)state;
    rig_put(rig, "bar", 3);
    rig_draw(rig);
    pane_put_lines(&rig->pane, "psd_run: so\n", 12);
    rig_draw(rig);
    assert_string_equal(row_of(rig, 0), "bar");
    assert_string_equal(row_of(rig, 1), "psd_run: so");
    assert_string_equal(row_of(rig, 2), "block 0");
    paper_write(&rig->bare, "bar\npsd_run: so\n", 16);
    rig_end(rig);
}

static uint32_t draw_number(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* One thing that a worker might write. */
static size_t compose(uint32_t *seed, unsigned *up, char *text)
{
    size_t size = draw_number(seed) % 100;

    switch (draw_number(seed) % 8) {
    case 0:
        text[0] = '\n';
        *up -= *up > 0 ? 1 : 0;
        return 1;
    case 1:
        text[0] = '\r';
        return 1;
    case 2:
        if (*up >= 2) {
            return 0;
        }
        memcpy(text, "\n\n\033[2A\n\033[A\r", 11);
        *up = 2;
        return 11;
    case 3:
        memcpy(text, "\033[31m", 5);
        return 5;
    case 4:
        size = COLUMNS; /* to the very edge */
        break;
    default:
        break;
    }
    *up = 0; /* a long text may move down by itself */
    memset(text, 'a' + (char)(draw_number(seed) % 26), size);
    return size;
}

static void any_output_looks_as_it_does_without_the_block(void **state)
{
    (void)state;
    for (uint32_t turn = 0; turn < 300; turn++) {
        struct rig *rig = rig_create(turn % 2 == 1);
        uint32_t seed = turn;
        unsigned up = 0;

        for (int i = 0; i < 60; i++) {
            char text[128];
            size_t size = compose(&seed, &up, text);
            size_t cut = size == 0 ? 0 : draw_number(&seed) % (size + 1);

            set_block(&rig->block, 1 + draw_number(&seed) % 6);
            rig_put(rig, text, cut);
            rig_draw(rig);
            rig_put(rig, text + cut, size - cut);
            if (draw_number(&seed) % 3 == 0) {
                rig_draw(rig);
            }
            paper_write(&rig->bare, text, size);
        }
        /* Held back or not, an end ends it. */
        rig_put(rig, "\033[0m\n", 5);
        paper_write(&rig->bare, "\033[0m\n", 5);
        rig_end(rig);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_block_stands_below_the_output),
        cmocka_unit_test(an_unfinished_line_stays_above_it_and_goes_on),
        cmocka_unit_test(nested_bars_keep_their_rows),
        cmocka_unit_test(a_smaller_block_leaves_nothing_of_a_larger_one),
        cmocka_unit_test(our_own_lines_do_not_tear_a_bar),
        cmocka_unit_test(any_output_looks_as_it_does_without_the_block),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
