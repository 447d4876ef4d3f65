/*
 * screen.h: everything that psd_run shows: the workers' output on stdout and
 * stderr, its own words on stderr, and how training goes. A reader that does
 * not keep up never blocks the launcher: bytes wait here, and the agent is
 * told only when they are out. The loop's thread.
 *
 * On a terminal (stderr) a live block stands below everything else (block.h,
 * pane.h): it comes with the first report, or after a second, and is drawn at
 * most ten times a second, together with the output that has gathered, in one
 * write. Not so where TERM is dumb or unset: there, and where stderr is no
 * terminal, a plain line tells the same every ten seconds. NO_COLOR, set to
 * anything, keeps the block without colours. With `quiet` there is neither,
 * only errors and the report at the end; the workers' output is a matter of
 * `tee` alone.
 *
 * The workers' output by `tee`:
 *   FIRST  worker 0 alone, byte by byte as it came. On the terminal its
 *          unfinished line stays where it is, above the block: a bar drawn
 *          with \r, or nested bars, are drawn as without psd_run.
 *   ALL    every worker, by lines with its name in front, in the last state
 *          of the line: what was overwritten after \r does not stack up (see
 *          lines.h). On the terminal the unfinished line of every worker, its
 *          bar, is the first part of the block.
 *   NONE   nobody. The log files have everything in any case.
 */
#ifndef PSD_SCREEN_SCREEN_H
#define PSD_SCREEN_SCREEN_H

#include <stdbool.h>

#include "launch/launch_message.h"
#include "transport/loop.h"

#define SCREEN_PLAIN_MS 10000 /* between plain lines of progress */
#define SCREEN_LIVE_MS  100   /* between two drawings of the block */
#define SCREEN_FIRST_MS 1000  /* until the block comes without a report */

struct screen;

enum screen_tee { SCREEN_TEE_FIRST, SCREEN_TEE_ALL, SCREEN_TEE_NONE };

struct screen_options {
    enum screen_tee tee;
    bool quiet;
    bool verbose;   /* show screen_detail */
    uint64_t steps; /* of the whole training; 0: unknown */
};

struct screen_events {
    void *user;
    /* Everything for stdout (0) or stderr (1) is out. Also called when
     * nothing of the workers was in it. */
    void (*taken)(void *user, unsigned which);
    /* (optional) screen_say has said this, without the plain lines of
     * progress. */
    void (*said)(void *user, const char *line);
};

/* Copies `options` and `events`. */
psd_status screen_create(struct psd_loop *loop, uint32_t workers,
                         const struct screen_options *options,
                         const struct screen_events *events,
                         struct screen **screen_p);
/* Writes what is left, waiting for a slow reader. NULL allowed. */
void screen_destroy(struct screen *screen);

/* Bytes of a worker's stdout or stderr (LAUNCH_STREAM_*). */
void screen_output(struct screen *screen, uint32_t rank, uint32_t stream,
                   const void *data, size_t size);
/* Words of psd_run itself, on stderr: what has to be said in any case, such
 * as an error; what is good to know (not with `quiet`); what only `verbose`
 * shows, and the log has. */
void screen_say(struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void screen_note(struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void screen_detail(struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* How training goes. */
void screen_view(struct screen *screen, const struct launch_view *view);
/* Takes the block away and ends what workers left unfinished. */
void screen_finish(struct screen *screen);

/* "1.5 GB" */
void screen_bytes_text(uint64_t bytes, char *text, size_t size);

#endif
