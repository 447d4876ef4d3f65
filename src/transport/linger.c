/* linger.c: see linger.h. */
#define _GNU_SOURCE
#include "transport/linger.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

struct linger_fd {
    struct psd_loop *loop;
    int fd;
    uint64_t limit_ns;
    struct loop_watch watch;
    struct loop_timer timer;
    struct loop_ending ending;
};

/* Throw away what the peer says. True when the socket may be closed. */
static bool is_done(int fd)
{
    char scratch[4096];
    int unacknowledged = 0;
    ssize_t got;

    do {
        got = recv(fd, scratch, sizeof(scratch), MSG_DONTWAIT);
    } while (got > 0);
    return got == 0 || ioctl(fd, SIOCOUTQ, &unacknowledged) != 0 ||
           unacknowledged == 0;
}

static void finish(struct linger_fd *linger)
{
    loop_unwatch(linger->loop, &linger->watch);
    loop_timer_stop(&linger->timer);
    loop_ending_remove(&linger->ending);
    close(linger->fd);
    mem_free(linger);
}

static void on_input(struct loop_watch *watch, uint32_t mask)
{
    struct linger_fd *linger = list_entry(watch, struct linger_fd, watch);

    if (is_done(linger->fd) || (mask & (EPOLLERR | EPOLLHUP)) != 0) {
        finish(linger);
    }
}

static void on_look(struct loop_timer *timer)
{
    struct linger_fd *linger = list_entry(timer, struct linger_fd, timer);

    if (is_done(linger->fd) || clock_ns() >= linger->limit_ns) {
        finish(linger);
        return;
    }
    loop_timer_start(linger->loop, timer, LINGER_LOOK_MS * CLOCK_NS_PER_MS,
                     on_look);
}

/* The loop goes: nobody will look any more, so wait here. */
static void on_end(struct loop_ending *ending)
{
    struct linger_fd *linger = list_entry(ending, struct linger_fd, ending);

    while (!is_done(linger->fd) && clock_ns() < linger->limit_ns) {
        struct pollfd look = { .fd = linger->fd, .events = POLLIN };

        if (poll(&look, 1, 1) > 0 &&
            (look.revents & (POLLERR | POLLHUP)) != 0) {
            break;
        }
    }
    finish(linger);
}

void linger_close(struct psd_loop *loop, int fd)
{
    struct linger_fd *linger;

    if (is_done(fd)) {
        close(fd);
        return;
    }
    linger = mem_zalloc(sizeof(*linger));
    if (linger == NULL) {
        close(fd);
        return;
    }
    linger->loop = loop;
    linger->fd = fd;
    linger->limit_ns = clock_ns() + LINGER_LIMIT_MS * CLOCK_NS_PER_MS;
    (void)shutdown(fd, SHUT_WR);
    if (loop_watch(loop, &linger->watch, fd, EPOLLIN, on_input) != PSD_OK) {
        close(fd);
        mem_free(linger);
        return;
    }
    loop_timer_start(loop, &linger->timer, LINGER_LOOK_MS * CLOCK_NS_PER_MS,
                     on_look);
    loop_ending_add(loop, &linger->ending, on_end);
}
