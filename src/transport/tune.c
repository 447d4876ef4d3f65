/* tune.c: see tune.h. */
#include "transport/tune.h"

#include <linux/tcp.h> /* the whole tcp_info, which netinet/tcp.h has not */
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "base/log.h"

bool tune_is_loopback(int fd)
{
    struct sockaddr_storage address = { .ss_family = AF_UNSPEC };
    socklen_t size = sizeof(address);
    const struct sockaddr_in *v4 = (const void *)&address;
    const struct sockaddr_in6 *v6 = (const void *)&address;

    if (getpeername(fd, (struct sockaddr *)&address, &size) != 0) {
        return false;
    }
    if (address.ss_family == AF_INET) {
        return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    return address.ss_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

void tune_low_mark(int fd, int size)
{
    if (setsockopt(fd, SOL_SOCKET, SO_RCVLOWAT, &size, sizeof(size)) != 0) {
        log_debug("link: no low mark: %m"); /* it tells more often then */
    }
}

/* Microseconds that a byte may wait in the line's queue. */
#define QUEUE_SHORT 1000u
#define QUEUE_LONG  4000u

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

/* What the kernel is told; it counts its own needs on top. More than the second
 * row needs a privilege, the last one leaves it to the kernel. */
static const int depths[] = { 96 << 10, 192 << 10, 0 };
#define DEPTH_LAST (sizeof(depths) / sizeof(depths[0]) - 1)

static unsigned take_depth(int fd, unsigned depth)
{
    const int locks = 0;
    int done =
        depths[depth] == 0
            ? setsockopt(fd, SOL_SOCKET, SO_BUF_LOCK, &locks, sizeof(locks))
            : setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &depths[depth],
                         sizeof(depths[depth]));

    if (done != 0) {
        log_debug("link: depth %u: %m", depth);
    }
    return depth;
}

unsigned tune_depth_first(int fd)
{
    return take_depth(fd, 0);
}

unsigned tune_depth_next(unsigned depth, uint32_t rtt_us, uint32_t min_rtt_us)
{
    uint32_t queue = rtt_us > min_rtt_us ? rtt_us - min_rtt_us : 0;

    if (queue < QUEUE_SHORT || queue < min_rtt_us / 2) {
        return depth < DEPTH_LAST ? depth + 1 : depth;
    }
    if (queue > QUEUE_LONG && queue > min_rtt_us) {
        return depth > 0 ? depth - 1 : depth;
    }
    return depth;
}

unsigned tune_depth_look(int fd, unsigned depth)
{
    struct tcp_info info = { .tcpi_min_rtt = 0 };
    socklen_t size = sizeof(info);
    unsigned next;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_min_rtt) +
                   sizeof(info.tcpi_min_rtt)) {
        return depth; /* not known */
    }
    next = tune_depth_next(depth, info.tcpi_rtt, info.tcpi_min_rtt);
    return next == depth ? depth : take_depth(fd, next);
}
