/*
 * output.h: what a process writes: read from its pipe, written to its log
 * file, and passed on when somebody watches. A pipe is read no faster than
 * the screen takes it, so that nothing piles up and nothing is lost. The
 * loop's thread.
 */
#ifndef PSD_LAUNCH_OUTPUT_H
#define PSD_LAUNCH_OUTPUT_H

#include "transport/loop.h"

#define OUTPUT_WINDOW (1u << 20)  /* bytes on their way to the screen */
#define OUTPUT_CHUNK  (64u << 10) /* of one read, and of one frame */

struct output;

/* What all pipes of an agent share. */
struct output_pool {
    struct psd_loop *loop;
    struct list captures; /* that are open */
    size_t flying;        /* passed on and not yet acknowledged */
    void *user;
    /* Pass bytes on; borrows them. */
    void (*forward)(void *user, struct output *output, const void *data,
                    size_t size);
};

struct output {
    struct list node;
    struct output_pool *pool;
    struct loop_watch watch;
    int fd;      /* pipe; -1: closed */
    int file;    /* log; -1: none */
    bool pass;   /* forward it too */
    bool paused; /* waits for the window */
    bool is_server;
    uint32_t rank;
    uint32_t stream; /* LAUNCH_STREAM_* */
    char path[4096]; /* of the log */
};

void output_pool_init(struct output_pool *pool, struct psd_loop *loop);

/* Make the log file and a pipe; `*write_p` is the process's end, to be closed
 * by the caller. The fields that describe the stream are set already. */
psd_status output_open(struct output *output, struct output_pool *pool,
                       const char *logs, const char *name, int *write_p);
/* Read what is there now, without waiting. */
void output_drain(struct output *output);
/* The screen has taken `size` bytes. */
void output_credit(struct output_pool *pool, size_t size);
/* Nobody watches any more: everything goes to the files alone. */
void output_mute(struct output_pool *pool);
/* Every writer is dead: close what is read to the end, though somebody out of
 * reach may still hold the other end. */
void output_finish(struct output_pool *pool);
/* Is every pipe at its end? */
bool output_done(const struct output_pool *pool);
/* Idempotent. */
void output_close(struct output *output);

/* The end of a log, at most `size` - 1 bytes, without NUL bytes. */
void output_tail(const char *path, char *text, size_t size);

#endif
