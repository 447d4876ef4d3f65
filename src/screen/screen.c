/*
 * screen.c: see screen.h. Bytes for the terminal go through the pane and wait
 * in its sink until `show` flushes them; stdout and stderr of the same
 * terminal share one sink, so that their order is kept.
 */
#define _GNU_SOURCE
#include "screen/screen.h"

#include <inttypes.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "screen/block.h"
#include "screen/lines.h"
#include "screen/pane.h"
#include "screen/phrase.h"
#include "screen/sink.h"

#define SAY_BYTES  8192
#define BURST_MAX  (32u << 10) /* output that does not wait for the block */
#define SETTLE_NS  (LINES_SETTLE_MS * CLOCK_NS_PER_MS)
#define LIVE_NS    (SCREEN_LIVE_MS * CLOCK_NS_PER_MS)
#define AGE_NS     CLOCK_NS_PER_S /* the block tells how long it waits */
#define STREAMS    2
#define SINK_OUT   0
#define SINK_ERROR 1

/* One worker's stream, with --tee all. */
struct stream {
    struct screen *screen;
    struct lines lines;
    uint32_t rank;
    unsigned which;
    uint64_t written_ns;
};

struct screen {
    struct psd_loop *loop;
    struct screen_events events;
    struct screen_options options;
    struct sink sinks[STREAMS];
    uint32_t workers;
    bool shared;   /* stdout is the terminal of stderr */
    bool terminal; /* stderr is one: `pane` is used */
    bool live;     /* and the block is on it */
    bool color;
    struct pane pane;
    struct pane_torn torn[STREAMS]; /* of worker 0 */
    struct stream *streams;         /* [rank * 2 + which]; --tee all */
    struct block_bar *bars;         /* room for as many */
    struct launch_view view;        /* the latest */
    bool has_view;
    struct launch_cell *cells; /* the latest, by rank */
    struct block block;
    uint64_t opened_ns;
    uint64_t drawn_ns; /* the block was composed */
    bool dirty;        /* something has changed since */
    struct loop_timer tick;
    struct loop_timer plain;
    struct loop_timer settle;
};

/* ---- the block ---------------------------------------------------------- */

/* Unfinished lines on the terminal, one per worker. */
static uint32_t gather_bars(struct screen *screen)
{
    uint32_t count = 0;

    for (uint32_t i = 0; screen->streams != NULL && i < screen->workers; i++) {
        for (unsigned which = STREAMS; which-- > 0;) { /* stderr first */
            struct stream *stream = &screen->streams[i * STREAMS + which];
            struct block_bar *bar = &screen->bars[count];

            if ((which == SINK_ERROR || screen->shared) &&
                lines_bar(&stream->lines, &bar->text, &bar->size)) {
                bar->rank = i;
                count++;
                break;
            }
        }
    }
    return count;
}

static void fill_input(struct screen *screen, struct block_input *input)
{
    *input = (struct block_input){
        .view = &screen->view,
        .has_view = screen->has_view,
        .cells = screen->cells,
        .workers = screen->workers,
        .goal = screen->options.steps,
        .age_ns = clock_ns() - screen->opened_ns,
        .color = screen->color,
    };
}

/* Worth showing: a short command that never joins has no block. */
static bool is_due(const struct screen *screen, uint64_t now_ns)
{
    return screen->live &&
           (screen->has_view ||
            now_ns - screen->opened_ns >= SCREEN_FIRST_MS * CLOCK_NS_PER_MS);
}

static void draw(struct screen *screen, uint64_t now_ns)
{
    struct block_input input;
    unsigned room;

    (void)pane_resize(&screen->pane);
    screen->drawn_ns = now_ns;
    screen->dirty = false;
    room = pane_room(&screen->pane);
    if (room == 0 || !pane_front(&screen->pane)) {
        pane_hide(&screen->pane);
        return;
    }
    fill_input(screen, &input);
    input.columns = screen->pane.columns;
    input.rows = screen->pane.rows;
    input.room = room;
    input.bars = screen->bars;
    input.bar_count = gather_bars(screen);
    block_compose(&input, &screen->block);
    pane_draw(&screen->pane, &screen->block);
}

/* Bring what has gathered to the terminal: now with the block, or later with
 * it (on_tick), or, if that is much, now without. */
static void show(struct screen *screen)
{
    struct sink *sink = &screen->sinks[SINK_ERROR];
    uint64_t now_ns = clock_ns();

    screen->dirty = true;
    if (!screen->live) {
        sink_flush(sink);
    } else if (now_ns - screen->drawn_ns >= LIVE_NS && !sink_blocked(sink)) {
        if (is_due(screen, now_ns)) {
            draw(screen, now_ns);
        }
        sink_flush(sink);
    } else if (sink_size(sink) >= BURST_MAX) {
        sink_flush(sink);
    }
}

static void on_tick(struct loop_timer *timer)
{
    struct screen *screen = list_entry(timer, struct screen, tick);
    uint64_t now_ns = clock_ns();

    if (pane_resize(&screen->pane) || screen->dirty ||
        now_ns - screen->drawn_ns >= AGE_NS) {
        show(screen);
    }
    loop_timer_start(screen->loop, timer, LIVE_NS, on_tick);
}

static void put(struct screen *screen, const char *line);

static void on_plain(struct loop_timer *timer)
{
    struct screen *screen = list_entry(timer, struct screen, plain);
    struct block_input input;
    char text[1024];

    fill_input(screen, &input);
    block_plain(&input, text, sizeof(text));
    if (text[0] != '\0' && screen->dirty) {
        put(screen, text);
    }
    screen->dirty = false;
    loop_timer_start(screen->loop, timer, SCREEN_PLAIN_MS * CLOCK_NS_PER_MS,
                     on_plain);
}

void screen_view(struct screen *screen, const struct launch_view *view)
{
    screen->view = *view;
    screen->has_view = true;
    if (view->cell_count == screen->workers) {
        memcpy(screen->cells, view->cells,
               screen->workers * sizeof(*screen->cells));
    }
    screen->dirty = true;
    if (screen->live) {
        show(screen);
    }
}

/* ---- words of our own --------------------------------------------------- */

static void put(struct screen *screen, const char *line)
{
    char text[SAY_BYTES];
    size_t size;

    snprintf(text, sizeof(text) - 1, "psd_run: %s", line);
    size = strlen(text);
    text[size++] = '\n';
    if (screen->terminal) {
        pane_put_lines(&screen->pane, text, size);
        show(screen);
    } else {
        sink_write(&screen->sinks[SINK_ERROR], text, size);
    }
}

static void say(struct screen *screen, const char *format, va_list args)
{
    char line[SAY_BYTES - 16];

    vsnprintf(line, sizeof(line), format, args);
    put(screen, line);
    if (screen->events.said != NULL) {
        screen->events.said(screen->events.user, line);
    }
}

void screen_say(struct screen *screen, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(screen, format, args);
    va_end(args);
}

void screen_note(struct screen *screen, const char *format, ...)
{
    va_list args;

    if (screen->options.quiet) {
        return;
    }
    va_start(args, format);
    say(screen, format, args);
    va_end(args);
}

void screen_detail(struct screen *screen, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    log_info("run: %s", text);
    if (screen->options.verbose) {
        screen_say(screen, "%s", text);
    }
}

void screen_bytes_text(uint64_t bytes, char *text, size_t size)
{
    phrase_bytes((double)bytes, text, size);
}

/* ---- words of the workers ----------------------------------------------- */

static bool on_terminal(const struct screen *screen, unsigned which)
{
    return screen->terminal && (which == SINK_ERROR || screen->shared);
}

/* One finished line of a worker, with its name. */
static void on_line(void *user, const char *data, size_t size)
{
    struct stream *stream = user;
    struct screen *screen = stream->screen;
    char line[LINES_SIZE + 32];
    size_t used;

    snprintf(line, sizeof(line), "[w%" PRIu32 "] ", stream->rank);
    used = strlen(line);
    memcpy(line + used, data, size);
    used += size;
    if (on_terminal(screen, stream->which)) {
        if (memchr(data, '\033', size) != NULL) {
            memcpy(line + used, "\033[0m", 4);
            used += 4;
        }
        line[used++] = '\n';
        pane_put_lines(&screen->pane, line, used);
    } else {
        line[used++] = '\n';
        sink_add(&screen->sinks[stream->which], line, used);
    }
}

/* After bytes were added for `which`. */
static void bring(struct screen *screen, unsigned which)
{
    if (on_terminal(screen, which)) {
        show(screen);
    } else {
        sink_flush(&screen->sinks[which]);
    }
}

/* Lines that wait are finished when their worker has been quiet a while. */
static void on_settle(struct loop_timer *timer)
{
    struct screen *screen = list_entry(timer, struct screen, settle);
    uint64_t now_ns = clock_ns();
    bool again = false;
    bool moved[STREAMS] = {false, false};

    for (size_t i = 0; i < (size_t)screen->workers * STREAMS; i++) {
        struct stream *stream = &screen->streams[i];

        if (!lines_waiting(&stream->lines)) {
            continue;
        }
        if (now_ns - stream->written_ns < SETTLE_NS / 2) {
            again = true;
        } else {
            lines_settle(&stream->lines);
            moved[stream->which] = true;
        }
    }
    for (unsigned which = 0; which < STREAMS; which++) {
        if (moved[which]) {
            bring(screen, which);
        }
    }
    if (again) {
        loop_timer_start(screen->loop, timer, SETTLE_NS, on_settle);
    }
}

static void take_lines(struct screen *screen, uint32_t rank, unsigned which,
                       const char *data, size_t size)
{
    struct stream *stream = &screen->streams[rank * STREAMS + which];

    lines_write(&stream->lines, data, size);
    stream->written_ns = clock_ns();
    if (lines_waiting(&stream->lines) && screen->settle.due_ns == 0) {
        loop_timer_start(screen->loop, &screen->settle, SETTLE_NS, on_settle);
    }
}

void screen_output(struct screen *screen, uint32_t rank, uint32_t stream,
                   const void *data, size_t size)
{
    unsigned which = stream == LAUNCH_STREAM_STDERR ? SINK_ERROR : SINK_OUT;

    if (rank >= screen->workers || size == 0) {
        return;
    }
    if (screen->options.tee == SCREEN_TEE_NONE) {
        sink_flush(&screen->sinks[screen->shared ? SINK_ERROR : which]);
        return;
    }
    if (screen->options.tee == SCREEN_TEE_ALL) {
        take_lines(screen, rank, which, data, size);
    } else if (rank == 0) {
        if (on_terminal(screen, which)) {
            pane_put(&screen->pane, &screen->torn[which], data, size);
        } else {
            sink_add(&screen->sinks[which], data, size);
        }
    }
    bring(screen, which);
}

void screen_finish(struct screen *screen)
{
    loop_timer_stop(&screen->tick);
    loop_timer_stop(&screen->plain);
    loop_timer_stop(&screen->settle);
    for (size_t i = 0;
         screen->streams != NULL && i < (size_t)screen->workers * STREAMS;
         i++) {
        lines_finish(&screen->streams[i].lines);
    }
    for (unsigned which = 0; which < STREAMS; which++) {
        struct pane_torn *torn = &screen->torn[which];

        sink_add(&screen->sinks[screen->shared ? SINK_ERROR : which],
                 torn->data, torn->size);
        torn->size = 0;
    }
    if (screen->terminal) {
        pane_hide(&screen->pane);
    }
    screen->live = false;
    sink_flush(&screen->sinks[SINK_OUT]);
    sink_flush(&screen->sinks[SINK_ERROR]);
}

/* ---- life --------------------------------------------------------------- */

static void on_stdout_empty(void *user)
{
    struct screen *screen = user;

    screen->events.taken(screen->events.user, SINK_OUT);
}

static void on_stderr_empty(void *user)
{
    struct screen *screen = user;

    if (screen->shared) {
        screen->events.taken(screen->events.user, SINK_OUT);
    }
    screen->events.taken(screen->events.user, SINK_ERROR);
}

static bool same_terminal(int a, int b)
{
    struct stat first;
    struct stat second;

    return isatty(a) && isatty(b) && fstat(a, &first) == 0 &&
           fstat(b, &second) == 0 && first.st_rdev == second.st_rdev;
}

static psd_status make_room(struct screen *screen)
{
    size_t streams = (size_t)screen->workers * STREAMS;

    screen->cells = mem_zalloc_array(screen->workers, sizeof(*screen->cells));
    if (screen->cells == NULL) {
        return PSD_ENOMEM;
    }
    if (screen->options.tee != SCREEN_TEE_ALL) {
        return PSD_OK;
    }
    screen->streams = mem_zalloc_array(streams, sizeof(*screen->streams));
    screen->bars = mem_zalloc_array(screen->workers, sizeof(*screen->bars));
    if (screen->streams == NULL || screen->bars == NULL) {
        return PSD_ENOMEM;
    }
    for (size_t i = 0; i < streams; i++) {
        struct stream *stream = &screen->streams[i];

        stream->screen = screen;
        stream->rank = (uint32_t)(i / STREAMS);
        stream->which = (unsigned)(i % STREAMS);
        lines_init(&stream->lines, stream, on_line);
    }
    return PSD_OK;
}

static void open_terminal(struct screen *screen)
{
    const char *name = getenv("TERM");
    const char *no_color = getenv("NO_COLOR");
    bool dumb = name == NULL || name[0] == '\0' || strcmp(name, "dumb") == 0;

    screen->terminal = isatty(STDERR_FILENO);
    screen->shared = same_terminal(STDOUT_FILENO, STDERR_FILENO);
    screen->live = screen->terminal && !dumb && !screen->options.quiet;
    screen->color = no_color == NULL || no_color[0] == '\0';
    if (screen->terminal) {
        pane_init(&screen->pane, &screen->sinks[SINK_ERROR], STDERR_FILENO,
                  dumb);
    }
    if (screen->live) {
        loop_timer_start(screen->loop, &screen->tick, LIVE_NS, on_tick);
    } else if (!screen->options.quiet) {
        loop_timer_start(screen->loop, &screen->plain,
                         SCREEN_PLAIN_MS * CLOCK_NS_PER_MS, on_plain);
    }
}

psd_status screen_create(struct psd_loop *loop, uint32_t workers,
                         const struct screen_options *options,
                         const struct screen_events *events,
                         struct screen **screen_p)
{
    struct screen *screen = mem_zalloc(sizeof(*screen));

    if (screen == NULL) {
        return PSD_ENOMEM;
    }
    screen->loop = loop;
    screen->events = *events;
    screen->options = *options;
    screen->workers = workers;
    screen->opened_ns = clock_ns();
    (void)sink_init(&screen->sinks[SINK_OUT], loop, STDOUT_FILENO, screen,
                    on_stdout_empty);
    (void)sink_init(&screen->sinks[SINK_ERROR], loop, STDERR_FILENO, screen,
                    on_stderr_empty);
    if (make_room(screen) != PSD_OK) {
        screen_destroy(screen);
        return PSD_ENOMEM;
    }
    open_terminal(screen);
    *screen_p = screen;
    return PSD_OK;
}

void screen_destroy(struct screen *screen)
{
    if (screen == NULL) {
        return;
    }
    loop_timer_stop(&screen->tick);
    loop_timer_stop(&screen->plain);
    loop_timer_stop(&screen->settle);
    screen->sinks[SINK_OUT].empty = NULL;
    screen->sinks[SINK_ERROR].empty = NULL;
    sink_fini(&screen->sinks[SINK_OUT]);
    sink_fini(&screen->sinks[SINK_ERROR]);
    for (size_t i = 0;
         screen->streams != NULL && i < (size_t)screen->workers * STREAMS;
         i++) {
        lines_fini(&screen->streams[i].lines);
    }
    mem_free(screen->streams);
    mem_free(screen->bars);
    mem_free(screen->cells);
    mem_free(screen);
}
