/* output.c: see output.h. */
#define _GNU_SOURCE
#include "launch/output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/log.h"

#define DRAIN_MAX (256u << 10) /* a grandchild may write for ever */

void output_pool_init(struct output_pool *pool, struct psd_loop *loop)
{
    *pool = (struct output_pool){ .loop = loop };
    list_init(&pool->captures);
}

static void write_log(struct output *output, const char *data, size_t size)
{
    while (size > 0 && output->file >= 0) {
        ssize_t n = write(output->file, data, size);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n < 0) {
            log_error("output: cannot write %s: %m; what follows is not "
                      "logged",
                      output->path);
            close(output->file);
            output->file = -1;
            return;
        }
        data += n;
        size -= (size_t)n;
    }
}

/* One read; false when there is nothing more for now. */
static bool read_once(struct output *output)
{
    char data[OUTPUT_CHUNK];
    ssize_t n = read(output->fd, data, sizeof(data));

    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        output_close(output);
        return false;
    }
    write_log(output, data, (size_t)n);
    if (output->pass) {
        output->pool->flying += (size_t)n;
        output->pool->forward(output->pool->user, output, data, (size_t)n);
    }
    return true;
}

static bool window_full(const struct output *output)
{
    return output->pass && output->pool->flying >= OUTPUT_WINDOW;
}

static void on_readable(struct loop_watch *watch, uint32_t mask)
{
    struct output *output = list_entry(watch, struct output, watch);

    (void)mask;
    if (window_full(output)) {
        /* Back-pressure: the pipe fills, then the writer waits. */
        loop_unwatch(output->pool->loop, &output->watch);
        output->paused = true;
        return;
    }
    read_once(output);
}

psd_status output_open(struct output *output, struct output_pool *pool,
                       const char *logs, const char *name, int *write_p)
{
    int ends[2];

    output->pool = pool;
    output->fd = -1;
    list_init(&output->node);
    snprintf(output->path, sizeof(output->path), "%s/%s", logs, name);
    output->file =
        open(output->path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (output->file < 0) {
        log_error("output: cannot make %s: %m", output->path);
        return PSD_ESYSTEM;
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        log_error("output: no pipe: %m");
        goto undo_file;
    }
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (loop_watch(pool->loop, &output->watch, ends[0], EPOLLIN, on_readable) !=
        PSD_OK) {
        goto undo_pipe;
    }
    output->fd = ends[0];
    list_append(&pool->captures, &output->node);
    *write_p = ends[1];
    return PSD_OK;

undo_pipe:
    close(ends[0]);
    close(ends[1]);
undo_file:
    close(output->file);
    output->file = -1;
    return PSD_ESYSTEM;
}

void output_drain(struct output *output)
{
    for (size_t i = 0; i < DRAIN_MAX / OUTPUT_CHUNK; i++) {
        if (output->fd < 0 || window_full(output) || !read_once(output)) {
            return;
        }
    }
}

/* Watch again what waited for the window. */
static void resume(struct output_pool *pool)
{
    for (struct list *node = pool->captures.next; node != &pool->captures;
         node = node->next) {
        struct output *output = list_entry(node, struct output, node);

        if (output->paused && loop_watch(pool->loop, &output->watch, output->fd,
                                         EPOLLIN, on_readable) == PSD_OK) {
            output->paused = false;
        }
    }
}

void output_credit(struct output_pool *pool, size_t size)
{
    pool->flying -= size < pool->flying ? size : pool->flying;
    if (pool->flying < OUTPUT_WINDOW) {
        resume(pool);
    }
}

void output_mute(struct output_pool *pool)
{
    for (struct list *node = pool->captures.next; node != &pool->captures;
         node = node->next) {
        list_entry(node, struct output, node)->pass = false;
    }
    pool->flying = 0;
    resume(pool);
}

void output_finish(struct output_pool *pool)
{
    struct list *node = pool->captures.next;

    while (node != &pool->captures) {
        struct output *output = list_entry(node, struct output, node);

        node = node->next;
        output_drain(output);
        if (!window_full(output)) {
            output_close(output);
        }
    }
}

bool output_done(const struct output_pool *pool)
{
    return list_empty(&pool->captures);
}

void output_close(struct output *output)
{
    if (output->fd < 0) {
        return;
    }
    loop_unwatch(output->pool->loop, &output->watch);
    list_remove(&output->node);
    close(output->fd);
    output->fd = -1;
    if (output->file >= 0) {
        close(output->file);
        output->file = -1;
    }
}

void output_tail(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t used = -1;

    text[0] = '\0';
    if (fd < 0) {
        return;
    }
    if (lseek(fd, -(off_t)(size - 1), SEEK_END) < 0) {
        lseek(fd, 0, SEEK_SET); /* shorter than that */
    }
    used = read(fd, text, size - 1);
    close(fd);
    if (used < 0) {
        used = 0;
    }
    text[used] = '\0';
    for (ssize_t i = 0; i < used; i++) {
        if (text[i] == '\0') {
            text[i] = '?';
        }
    }
}
