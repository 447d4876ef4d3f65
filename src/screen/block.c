/* block.c: see block.h. */
#define _GNU_SOURCE
#include "screen/block.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>

#include "base/banned.h"
#include "base/clock.h"
#include "screen/flow.h"
#include "screen/phrase.h"
#include "screen/token.h"

#define NARROW     60  /* below this many columns words are short */
#define WIDE       110 /* from here on they are long */
#define FIELD_SIZE 160
#define SHARE      3 /* cells and bars take this part of the screen */
#define NAMED_MAX  8 /* workers that a plain line names */

/* ---- looks of a worker -------------------------------------------------- */

enum look {
    LOOK_LOST,
    LOOK_SLOW,
    LOOK_LAG,
    LOOK_WAITING,
    LOOK_WELL,
    LOOK_DONE
};

struct look_row {
    const char *word;
    const char *style; /* SGR */
};

/* The more urgent come first. */
static const struct look_row looks[] = {
    [LOOK_LOST] = {"LOST", "1;31"}, [LOOK_SLOW] = {"SLOW", "1;33"},
    [LOOK_LAG] = {"", "33"},        [LOOK_WAITING] = {".", "2"},
    [LOOK_WELL] = {"ok", "32"},     [LOOK_DONE] = {"done", "2"},
};
#define LOOKS (sizeof(looks) / sizeof(looks[0]))

static enum look look_of(const struct launch_cell *cell)
{
    switch (cell->state) {
    case LAUNCH_CELL_WAITING:
        return LOOK_WAITING;
    case LAUNCH_CELL_DONE:
        return LOOK_DONE;
    case LAUNCH_CELL_LOST:
        return LOOK_LOST;
    default:
        break;
    }
    if (cell->slow > 0) {
        return LOOK_SLOW;
    }
    return cell->lag > 0 ? LOOK_LAG : LOOK_WELL;
}

static uint32_t count_look(const struct block_input *input, enum look look)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < input->workers; i++) {
        count += look_of(&input->cells[i]) == look;
    }
    return count;
}

/* `brief`: who is well has no word. */
static void cell_text(const struct launch_cell *cell, uint32_t rank, bool brief,
                      char *text, size_t size)
{
    enum look look = look_of(cell);
    char slow[24] = "";
    char lag[24] = "";

    if (look == LOOK_SLOW) {
        snprintf(slow, sizeof(slow), " %.1fx", cell->slow / 100.0);
    }
    if ((look == LOOK_SLOW || look == LOOK_LAG) && cell->lag > 0) {
        snprintf(lag, sizeof(lag), " -%" PRIu32, cell->lag);
    }
    if (look == LOOK_LAG || (look == LOOK_WELL && brief)) {
        snprintf(text, size, "w%" PRIu32 "%s", rank, lag);
    } else {
        snprintf(text, size, "w%" PRIu32 " %s%s%s", rank, looks[look].word,
                 slow, lag);
    }
}

/* ---- the two lines ------------------------------------------------------ */

static double seconds_left(const struct block_input *input)
{
    const struct launch_view *view = input->view;

    if (input->goal <= view->step || view->compute_ns + view->wait_ns == 0) {
        return 0;
    }
    return (double)(input->goal - view->step) *
           (double)(view->compute_ns + view->wait_ns) / (double)CLOCK_NS_PER_S;
}

static void put_progress(const struct block_input *input, struct flow *flow)
{
    const struct launch_view *view = input->view;
    bool narrow = input->columns < NARROW;
    char text[64];

    if (input->goal > 0) {
        flow_say(flow, "1", "step %" PRIu64 "%s%" PRIu64, view->step,
                 narrow ? "/" : " of ", input->goal);
    } else {
        flow_say(flow, "1", "step %" PRIu64, view->step);
    }
    if (!isnan(view->loss)) {
        flow_say(flow, NULL, "loss %.4g", view->loss);
    }
    if (view->samples > 0) {
        phrase_rate(view->rate, text, sizeof(text));
        flow_say(flow, NULL, "%s samples/s", text);
    }
    if (seconds_left(input) > 0) {
        phrase_eta(seconds_left(input), text, sizeof(text));
        flow_say(flow, NULL, "ETA %s", text);
    }
}

static void put_times(const struct block_input *input, struct flow *flow)
{
    const struct launch_view *view = input->view;
    uint64_t step_ns = view->compute_ns + view->wait_ns;
    char step[32];
    char compute[32];
    char wait[32];

    if (step_ns == 0) {
        return;
    }
    phrase_time(step_ns, step, sizeof(step));
    phrase_time(view->compute_ns, compute, sizeof(compute));
    phrase_time(view->wait_ns, wait, sizeof(wait));
    if (input->columns >= WIDE) {
        flow_say(flow, NULL,
                 "step time %s: compute %s, exposed communication %s (%.0f %%)",
                 step, compute, wait,
                 100.0 * (double)view->wait_ns / (double)step_ns);
    } else if (input->columns >= NARROW) {
        flow_say(flow, NULL, "step %s = compute %s + exposed comm. %s", step,
                 compute, wait);
    } else {
        flow_say(flow, NULL, "step time %s", step);
        flow_say(flow, NULL, "compute %s", compute);
        flow_say(flow, NULL, "exposed comm. %s", wait);
    }
}

static void put_traffic(const struct block_input *input, struct flow *flow)
{
    const struct launch_view *view = input->view;
    char in[32];
    char out[32];

    if (view->wire_bytes == 0) {
        phrase_bytes(view->exchanged_rate, in, sizeof(in));
        if (view->exchanged_bytes > 0) {
            flow_say(flow, NULL, "%s %s/s",
                     input->columns >= WIDE ? "through shared memory"
                                            : "memory",
                     in);
        }
        return;
    }
    phrase_bytes(view->received_rate, in, sizeof(in));
    phrase_bytes(view->sent_rate, out, sizeof(out));
    if (input->columns >= WIDE) {
        flow_say(flow, NULL, "network in %s/s, out %s/s", in, out);
    } else {
        flow_say(flow, NULL, "in %s/s out %s/s", in, out);
    }
}

static void put_waiting(const struct block_input *input, struct flow *flow)
{
    uint32_t joined = input->workers - count_look(input, LOOK_WAITING);
    char age[32];

    phrase_eta((double)input->age_ns / (double)CLOCK_NS_PER_S, age,
               sizeof(age));
    if (input->columns < NARROW) {
        flow_say(flow, "1", "%" PRIu32 " of %" PRIu32 " workers in, %s", joined,
                 input->workers, age);
    } else {
        flow_say(flow, "1",
                 "waiting for the workers: %" PRIu32 " of %" PRIu32
                 " have joined, %s",
                 joined, input->workers, age);
    }
}

/* ---- cells -------------------------------------------------------------- */

static bool put_cell(const struct block_input *input, struct flow *flow,
                     uint32_t rank, bool brief)
{
    const struct launch_cell *cell = &input->cells[rank];
    char text[FIELD_SIZE];

    cell_text(cell, rank, brief, text, sizeof(text));
    return flow_put(flow, looks[look_of(cell)].style, text);
}

/* All of them by rank; false: they do not fit, and nothing was put. */
static bool put_all_cells(const struct block_input *input, struct block *block,
                          unsigned limit, bool brief)
{
    struct flow flow = flow_start(block, input->columns, input->color, limit);
    size_t used = block->used;
    unsigned lines = block->lines;

    for (uint32_t i = 0; i < input->workers; i++) {
        if (!put_cell(input, &flow, i, brief)) {
            block->used = used;
            block->lines = lines;
            return false;
        }
    }
    flow_end_row(&flow);
    return true;
}

/* What is said of those that were left out; `left` by look. */
static void rest_text(const struct block_input *input, const uint32_t *left,
                      char *text, size_t size)
{
    bool narrow = input->columns < NARROW;
    uint32_t bad = left[LOOK_LOST] + left[LOOK_SLOW] + left[LOOK_LAG];
    uint32_t all = bad + left[LOOK_WAITING] + left[LOOK_WELL] + left[LOOK_DONE];
    char what[48] = "";

    if (bad > 0) {
        snprintf(what, sizeof(what), ", %" PRIu32 " not well", bad);
    } else if (left[LOOK_WAITING] > 0) {
        snprintf(what, sizeof(what), ", %" PRIu32 " not in yet",
                 left[LOOK_WAITING]);
    } else if (left[LOOK_WELL] == 0) {
        snprintf(what, sizeof(what), ", all done");
    } else {
        snprintf(what, sizeof(what), ", all well");
    }
    snprintf(text, size,
             narrow ? "+%" PRIu32 "%s" : "... and %" PRIu32 " more%s", all,
             what);
}

/* The urgent ones first, then a word about the rest. */
static void put_some_cells(const struct block_input *input, struct block *block,
                           unsigned limit)
{
    struct flow flow = flow_start(block, input->columns, input->color, limit);
    uint32_t left[LOOKS];
    char rest[FIELD_SIZE];
    bool full = false;

    for (size_t look = 0; look < LOOKS; look++) {
        left[look] = count_look(input, (enum look)look);
    }
    for (size_t look = 0; look < LOOKS && !full; look++) {
        for (uint32_t i = 0; i < input->workers && !full; i++) {
            char text[FIELD_SIZE];

            if (look_of(&input->cells[i]) != (enum look)look) {
                continue;
            }
            cell_text(&input->cells[i], i, true, text, sizeof(text));
            rest_text(input, left, rest, sizeof(rest));
            full = !flow_fits(&flow, strlen(text), strlen(rest)) ||
                   !put_cell(input, &flow, i, true);
            left[look] -= full ? 0 : 1;
        }
    }
    if (full) {
        rest_text(input, left, rest, sizeof(rest));
        flow_put(&flow, "2", rest);
    }
    flow_end_row(&flow);
}

static void put_cells(const struct block_input *input, struct block *block,
                      unsigned limit)
{
    if (limit > 0 && !put_all_cells(input, block, limit, false) &&
        !put_all_cells(input, block, limit, true)) {
        put_some_cells(input, block, limit);
    }
}

/* ---- bars --------------------------------------------------------------- */

/* Cut to the width, and nothing in it that moves the cursor. */
static void put_bar(struct block *block, const struct block_bar *bar,
                    size_t width)
{
    char prefix[16];
    size_t used;
    size_t size;
    struct token token;

    snprintf(prefix, sizeof(prefix), "[w%" PRIu32 "] ", bar->rank);
    used = token_fit(prefix, strlen(prefix), width);
    block_put(block, prefix, used);
    width -= used;
    size = token_whole(bar->text, bar->size);
    for (size_t at = 0; at < size; at += token.size) {
        const char *text = bar->text + at;
        size_t more = 1;

        (void)token_read(text, size - at, &token);
        if (token.kind == TOKEN_CHARACTER) {
            more = token.width;
        }
        if (token.kind == TOKEN_STYLE) {
            block_put(block, text, token.size);
        } else if (more > width) {
            break;
        } else {
            width -= more;
            block_put(block, token.kind == TOKEN_CHARACTER ? text : " ",
                      token.kind == TOKEN_CHARACTER ? token.size : 1);
        }
    }
    if (memchr(bar->text, '\033', size) != NULL) {
        block_put(block, "\033[0m", 4);
    }
    block_end_line(block);
}

static void put_bars(const struct block_input *input, struct block *block,
                     unsigned limit)
{
    uint32_t shown = input->bar_count;
    size_t width = flow_start(block, input->columns, input->color, 1).width;

    if (shown > limit) {
        shown = limit > 0 ? limit - 1 : 0;
    }
    for (uint32_t i = 0; i < shown; i++) {
        put_bar(block, &input->bars[i], width);
    }
    if (shown < input->bar_count && limit > 0) {
        struct flow flow = flow_start(block, input->columns, input->color, 1);

        flow_say(&flow, "2", "... and %" PRIu32 " more lines",
                 input->bar_count - shown);
        flow_end_row(&flow);
    }
}

/* ---- all of it ---------------------------------------------------------- */

static void put_status(const struct block_input *input, struct block *block,
                       unsigned room)
{
    unsigned share = input->rows / SHARE > 0 ? input->rows / SHARE : 1;
    struct flow flow = flow_start(block, input->columns, input->color, room);

    if (!input->has_view || count_look(input, LOOK_WAITING) > 0) {
        put_waiting(input, &flow);
        flow_end_row(&flow);
    } else {
        put_progress(input, &flow);
        flow_end_row(&flow);
        put_times(input, &flow);
        put_traffic(input, &flow);
        flow_end_row(&flow);
    }
    room -= block->lines;
    put_cells(input, block, room < share ? room : share);
}

void block_compose(const struct block_input *input, struct block *block)
{
    static struct block status; /* one thread */
    unsigned share = input->rows / SHARE > 0 ? input->rows / SHARE : 1;
    unsigned room = input->room < BLOCK_ROWS ? input->room : BLOCK_ROWS;

    status.used = 0;
    status.lines = 0;
    block->used = 0;
    block->lines = 0;
    put_status(input, &status, room);
    room -= status.lines;
    put_bars(input, block, room < share ? room : share);
    if (BLOCK_SIZE - block->used < status.used) {
        block->used = 0; /* bars of nothing but colours */
        block->lines = 0;
    }
    memcpy(block->text + block->used, status.text, status.used);
    block->used += status.used;
    block->lines += status.lines;
}

/* ---- plain lines -------------------------------------------------------- */

struct plain {
    char *text;
    size_t size;
    size_t used;
};

static void add(struct plain *plain, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void add(struct plain *plain, const char *format, ...)
{
    size_t room = plain->size - plain->used;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(plain->text + plain->used, room, format, args);
    va_end(args);
    if (n > 0) {
        plain->used += (size_t)n < room ? (size_t)n : room - 1;
    }
}

/* "; SLOW: w3 1.8x, w7 2.0x" */
static void add_named(struct plain *plain, const struct block_input *input,
                      enum look look, const char *title)
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < input->workers; i++) {
        const struct launch_cell *cell = &input->cells[i];

        if (look_of(cell) != look || ++found > NAMED_MAX) {
            continue;
        }
        add(plain, "%s w%" PRIu32, found == 1 ? title : ",", i);
        if (look == LOOK_SLOW) {
            add(plain, " %.1fx", cell->slow / 100.0);
        } else if (look == LOOK_LAG) {
            add(plain, " -%" PRIu32, cell->lag);
        }
    }
    if (found > NAMED_MAX) {
        add(plain, " and %" PRIu32 " more", found - NAMED_MAX);
    }
}

static void add_progress(struct plain *plain, const struct block_input *input)
{
    const struct launch_view *view = input->view;
    char text[64];

    add(plain, "step %" PRIu64, view->step);
    if (input->goal > 0) {
        add(plain, " of %" PRIu64, input->goal);
    }
    if (!isnan(view->loss)) {
        add(plain, ", loss %.4g", view->loss);
    }
    if (view->samples > 0) {
        phrase_rate(view->rate, text, sizeof(text));
        add(plain, ", %s samples/s", text);
    }
    if (view->compute_ns + view->wait_ns > 0) {
        phrase_time(view->compute_ns + view->wait_ns, text, sizeof(text));
        add(plain, ", %s a step", text);
        phrase_time(view->compute_ns, text, sizeof(text));
        add(plain, " (compute %s", text);
        phrase_time(view->wait_ns, text, sizeof(text));
        add(plain, ", exposed communication %s)", text);
    }
    if (view->wire_bytes > 0) {
        phrase_bytes(view->received_rate, text, sizeof(text));
        add(plain, ", network in %s/s", text);
        phrase_bytes(view->sent_rate, text, sizeof(text));
        add(plain, ", out %s/s", text);
    }
    if (seconds_left(input) > 0) {
        phrase_eta(seconds_left(input), text, sizeof(text));
        add(plain, ", ETA %s", text);
    }
}

void block_plain(const struct block_input *input, char *text, size_t size)
{
    struct plain plain = {.text = text, .size = size};
    uint32_t waiting = count_look(input, LOOK_WAITING);

    text[0] = '\0';
    if (waiting == input->workers || !input->has_view) {
        return; /* nobody waits for anybody */
    }
    if (waiting > 0) {
        add(&plain, "%" PRIu32 " of %" PRIu32 " workers have joined",
            input->workers - waiting, input->workers);
        add_named(&plain, input, LOOK_WAITING, "; missing:");
        return;
    }
    add_progress(&plain, input);
    add_named(&plain, input, LOOK_LOST, "; LOST:");
    add_named(&plain, input, LOOK_SLOW, "; SLOW:");
    add_named(&plain, input, LOOK_LAG, "; behind:");
}
