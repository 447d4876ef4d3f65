/*
 * screen.h: everything that psd_run shows: the workers' output on stdout and
 * stderr as it came, one live line when stderr is a terminal, plain lines
 * otherwise. A reader that does not keep up never blocks the launcher: bytes
 * wait here, and the agent is told only when they are out. The loop's thread.
 */
#ifndef PSD_LAUNCH_SCREEN_H
#define PSD_LAUNCH_SCREEN_H

#include <stdbool.h>

#include "launch/launch_message.h"
#include "transport/loop.h"

#define SCREEN_PLAIN_MS 10000 /* between plain lines of progress */
#define SCREEN_LIVE_MS  100

struct screen;

struct screen_events {
    void *user;
    /* `size` bytes of workers' output are out. */
    void (*taken)(void *user, size_t size);
};

/* `tee_all`: lines of every worker, with a prefix. Copies `events`. */
psd_status screen_create(struct psd_loop *loop, uint32_t workers, bool tee_all,
                         const struct screen_events *events,
                         struct screen **screen_p);
/* Writes what is left, waiting for a slow reader. NULL allowed. */
void screen_destroy(struct screen *screen);

/* Bytes of a worker's stdout or stderr (LAUNCH_STREAM_*). */
void screen_output(struct screen *screen, uint32_t rank, uint32_t stream,
                   const void *data, size_t size);
/* One line of psd_run itself, on stderr. */
void screen_say(struct screen *screen, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* How training goes. */
void screen_view(struct screen *screen, const struct launch_view *view);
/* Takes the live line away and ends what workers left unfinished. */
void screen_finish(struct screen *screen);

/* "step 120, loss 0.25, ..." */
void screen_view_text(const struct launch_view *view, char *text, size_t size);
/* "1.5 GB" */
void screen_bytes_text(uint64_t bytes, char *text, size_t size);

#endif
