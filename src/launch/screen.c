/* screen.c: see screen.h. */
#define _GNU_SOURCE
#include "launch/screen.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "launch/sink.h"

#define LINE_BYTES 4096 /* a longer line of a worker is cut in pieces */
#define SAY_BYTES  8192
#define ERASE      "\r\033[K"

/* The unfinished line of one worker's stream, with --tee all. */
struct piece {
    char *data; /* LINE_BYTES, when it was needed */
    size_t used;
};

struct screen {
    struct screen_events events;
    struct sink sinks[2]; /* stdout, stderr */
    size_t owed[2];       /* workers' bytes in them */
    uint32_t workers;
    bool tee_all;
    struct piece *pieces; /* [rank * 2 + stream] */
    bool live;            /* stderr is a terminal */
    bool drawn;           /* the live line is on it */
    bool mid_line;        /* a worker's line on it is not finished */
    char line[512];       /* the live line */
    uint64_t shown_ns;
};

static void repay(struct screen *screen, unsigned which)
{
    size_t owed = screen->owed[which];

    screen->owed[which] = 0;
    if (owed > 0) {
        screen->events.taken(screen->events.user, owed);
    }
}

static void on_stdout_empty(void *user)
{
    repay(user, 0);
}

static void on_stderr_empty(void *user)
{
    repay(user, 1);
}

psd_status screen_create(struct psd_loop *loop, uint32_t workers, bool tee_all,
                         const struct screen_events *events,
                         struct screen **screen_p)
{
    struct screen *screen = mem_zalloc(sizeof(*screen));
    const char *terminal = getenv("TERM");

    if (screen == NULL) {
        return PSD_ENOMEM;
    }
    screen->events = *events;
    screen->workers = workers;
    screen->tee_all = tee_all;
    screen->live = isatty(STDERR_FILENO) && terminal != NULL &&
                   strcmp(terminal, "dumb") != 0;
    screen->pieces =
        mem_zalloc_array((size_t)workers * 2, sizeof(*screen->pieces));
    if (screen->pieces == NULL) {
        mem_free(screen);
        return PSD_ENOMEM;
    }
    (void)sink_init(&screen->sinks[0], loop, STDOUT_FILENO, screen,
                    on_stdout_empty);
    (void)sink_init(&screen->sinks[1], loop, STDERR_FILENO, screen,
                    on_stderr_empty);
    *screen_p = screen;
    return PSD_OK;
}

void screen_destroy(struct screen *screen)
{
    if (screen == NULL) {
        return;
    }
    screen->sinks[0].empty = NULL;
    screen->sinks[1].empty = NULL;
    sink_fini(&screen->sinks[0]);
    sink_fini(&screen->sinks[1]);
    for (size_t i = 0; i < (size_t)screen->workers * 2; i++) {
        mem_free(screen->pieces[i].data);
    }
    mem_free(screen->pieces);
    mem_free(screen);
}

/* ---- the live line ------------------------------------------------------ */

static void hide(struct screen *screen)
{
    if (screen->drawn) {
        sink_write(&screen->sinks[1], ERASE, strlen(ERASE));
        screen->drawn = false;
    }
}

static void draw(struct screen *screen)
{
    struct winsize window = { .ws_col = 80 };
    size_t width;
    size_t size = strlen(screen->line);

    if (!screen->live || screen->mid_line || size == 0 ||
        !sink_idle(&screen->sinks[1])) {
        return;
    }
    if (ioctl(STDERR_FILENO, TIOCGWINSZ, &window) != 0 || window.ws_col < 2) {
        window.ws_col = 80;
    }
    width = (size_t)window.ws_col - 1;
    sink_write(&screen->sinks[1], ERASE, strlen(ERASE));
    sink_write(&screen->sinks[1], screen->line, size < width ? size : width);
    screen->drawn = true;
}

void screen_bytes_text(uint64_t bytes, char *text, size_t size)
{
    static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB" };
    double value = (double)bytes;
    size_t unit = 0;

    while (value >= 1000.0 && unit + 1 < sizeof(units) / sizeof(units[0])) {
        value /= 1000.0;
        unit++;
    }
    snprintf(text, size, unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
}

void screen_view_text(const struct launch_view *view, char *text, size_t size)
{
    char bytes[32];
    char loss[32] = "";

    screen_bytes_text(view->exchanged_bytes, bytes, sizeof(bytes));
    if (!isnan(view->loss)) {
        snprintf(loss, sizeof(loss), ", loss %.4g", view->loss);
    }
    snprintf(text, size,
             "step %" PRIu64 "%s, %.0f samples/s, %s exchanged, waiting "
             "%.0f %%",
             view->step, loss, view->rate, bytes, 100.0 * view->wait_share);
}

void screen_view(struct screen *screen, const struct launch_view *view)
{
    uint64_t now_ns = clock_ns();
    uint64_t every_ms = screen->live ? SCREEN_LIVE_MS : SCREEN_PLAIN_MS;

    if (screen->shown_ns == 0) {
        screen->shown_ns = now_ns; /* plain lines begin after a while */
        if (!screen->live) {
            return;
        }
    } else if (now_ns - screen->shown_ns < every_ms * CLOCK_NS_PER_MS) {
        return;
    }
    screen->shown_ns = now_ns;
    screen_view_text(view, screen->line, sizeof(screen->line));
    if (screen->live) {
        draw(screen);
    } else {
        screen_say(screen, "%s", screen->line);
    }
}

/* ---- lines -------------------------------------------------------------- */

void screen_say(struct screen *screen, const char *format, ...)
{
    char text[SAY_BYTES] = "psd_run: ";
    size_t head = strlen(text);
    va_list args;
    size_t size;

    va_start(args, format);
    vsnprintf(text + head, sizeof(text) - head - 1, format, args);
    va_end(args);
    size = strlen(text);
    text[size++] = '\n';
    hide(screen);
    if (screen->live && screen->mid_line) {
        sink_write(&screen->sinks[1], "\n", 1);
        screen->mid_line = false;
    }
    sink_write(&screen->sinks[1], text, size);
    draw(screen);
}

static void write_line(struct screen *screen, uint32_t rank, unsigned which,
                       const struct piece *piece)
{
    char prefix[16];
    struct sink *sink = &screen->sinks[which];

    snprintf(prefix, sizeof(prefix), "[w%" PRIu32 "] ", rank);
    sink_write(sink, prefix, strlen(prefix));
    sink_write(sink, piece->data, piece->used);
    sink_write(sink, "\n", 1);
}

/* Whole lines only, each with its worker in front. */
static void write_prefixed(struct screen *screen, uint32_t rank, unsigned which,
                           const char *data, size_t size)
{
    struct piece *piece = &screen->pieces[(size_t)rank * 2 + which];

    if (piece->data == NULL) {
        piece->data = mem_zalloc(LINE_BYTES);
        if (piece->data == NULL) {
            return;
        }
    }
    while (size > 0) {
        const char *end = memchr(data, '\n', size);
        size_t part = end == NULL ? size : (size_t)(end - data);
        size_t room = LINE_BYTES - piece->used;
        bool whole = end != NULL && part <= room;

        part = part < room ? part : room;
        memcpy(piece->data + piece->used, data, part);
        piece->used += part;
        if (whole || piece->used == LINE_BYTES) {
            write_line(screen, rank, which, piece);
            piece->used = 0;
        }
        part += whole ? 1 : 0;
        data += part;
        size -= part;
    }
}

void screen_output(struct screen *screen, uint32_t rank, uint32_t stream,
                   const void *data, size_t size)
{
    unsigned which = stream == LAUNCH_STREAM_STDERR ? 1 : 0;

    if (rank >= screen->workers || size == 0) {
        return;
    }
    screen->owed[which] += size;
    hide(screen);
    if (screen->tee_all) {
        write_prefixed(screen, rank, which, data, size);
        sink_write(&screen->sinks[which], NULL, 0);
    } else {
        sink_write(&screen->sinks[which], data, size);
        screen->mid_line = ((const char *)data)[size - 1] != '\n';
    }
    draw(screen);
}

void screen_finish(struct screen *screen)
{
    hide(screen);
    screen->line[0] = '\0';
    for (uint32_t i = 0; i < screen->workers * 2; i++) {
        struct piece *piece = &screen->pieces[i];

        if (piece->used > 0) {
            write_line(screen, i / 2, i % 2, piece);
            piece->used = 0;
        }
    }
}
