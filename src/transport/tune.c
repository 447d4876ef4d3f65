/* tune.c: see tune.h. */
#include "transport/tune.h"

#include <linux/sockios.h>
#include <linux/tcp.h> /* the whole tcp_info, which netinet/tcp.h has not */
#include <netinet/in.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
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

#define LOOK (512u << 10) /* bytes sent in a row between looks at the line */

/* Microseconds that a byte may wait in the line's queue. */
#define QUEUE_SHORT 1000u
#define QUEUE_LONG  4000u

#ifndef SO_BUF_LOCK
#define SO_BUF_LOCK 72
#endif

/* What the kernel is told; it takes twice that, for its own needs too. All
 * links of a process that push against the line have this much together, so
 * that their packets fit into a queue of 1 MiB on the way. */
#define DEPTH_ALL   (384u << 10)
#define DEPTH_LEAST (16u << 10)
#define DEPTH_MOST  (96u << 10)
#define DEPTH_LAST  2u /* left to the kernel */

/* Turns of all links that may be under way together: a queue less the room for
 * headers and acknowledgements; TURNS_OUT of each link. The kernel says that a
 * socket can be written when a third of it is free; told 8/5 of a turn it does
 * when two are under way. A turn is whole segments, at most a full packet. */
#define TURNS_ALL  (940u << 10)
#define TURNS_OUT  3u
#define SEGMENT    1448u /* of TCP over Ethernet */
#define TURN_LEAST (8u * SEGMENT)
#define TURN_MOST  (45u * SEGMENT)

static atomic_uint sharers; /* links that wait for the line now and then */

uint32_t tune_depth_size(unsigned row, uint32_t links)
{
    uint32_t part = DEPTH_ALL / (links == 0 ? 1 : links);

    part = part < DEPTH_LEAST ? DEPTH_LEAST : part;
    part = part > DEPTH_MOST ? DEPTH_MOST : part;
    return row == DEPTH_LAST ? 0 : row == 0 ? part : 2 * part;
}

uint32_t tune_turn_size(uint32_t links)
{
    uint32_t size = TURNS_ALL / TURNS_OUT / (links == 0 ? 1 : links);

    size = size > TURN_MOST ? TURN_MOST : size;
    size = size < TURN_LEAST ? TURN_LEAST : size;
    return size / SEGMENT * SEGMENT;
}

static void take(struct tune_depth *depth)
{
    const int locks = 0;
    uint32_t links = atomic_load(&sharers);
    int size = depth->turns && depth->row == 0
                   ? (int)(tune_turn_size(links) * 8 / 5)
                   : (int)tune_depth_size(depth->row, links);
    int done;

    if (size == depth->size) {
        return;
    }
    done = size == 0 ? setsockopt(depth->fd, SOL_SOCKET, SO_BUF_LOCK, &locks,
                                  sizeof(locks))
                     : setsockopt(depth->fd, SOL_SOCKET, SO_SNDBUF, &size,
                                  sizeof(size));
    if (done != 0) {
        log_debug("link: depth %d: %m", size);
    }
    depth->size = size;
}

void tune_depth_init(struct tune_depth *depth, int fd)
{
    *depth = (struct tune_depth){ .fd = fd, .size = -1 };
    if (fd >= 0) {
        take(depth);
    }
}

void tune_depth_fini(struct tune_depth *depth)
{
    if (depth->shares) {
        depth->shares = false;
        atomic_fetch_sub(&sharers, 1);
    }
}

unsigned tune_depth_next(unsigned row, uint32_t rtt_us, uint32_t min_rtt_us)
{
    uint32_t queue = rtt_us > min_rtt_us ? rtt_us - min_rtt_us : 0;

    if (queue < QUEUE_SHORT || queue < min_rtt_us / 2) {
        return row < DEPTH_LAST ? row + 1 : row;
    }
    if (queue > QUEUE_LONG && queue > min_rtt_us) {
        return row > 0 ? row - 1 : row;
    }
    return row;
}

static void look(struct tune_depth *depth)
{
    struct tcp_info info = { .tcpi_min_rtt = 0 };
    socklen_t size = sizeof(info);

    if (getsockopt(depth->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
        size >= offsetof(struct tcp_info, tcpi_min_rtt) +
                    sizeof(info.tcpi_min_rtt)) {
        depth->row = tune_depth_next(depth->row, info.tcpi_rtt,
                                     info.tcpi_min_rtt);
    }
}

static void share(struct tune_depth *depth)
{
    if (!depth->shares) {
        depth->shares = true;
        atomic_fetch_add(&sharers, 1);
    }
}

void tune_depth_full(struct tune_depth *depth)
{
    if (depth->fd < 0) {
        return;
    }
    share(depth);
    if (depth->sent >= LOOK) {
        depth->sent = 0;
        look(depth);
    }
    take(depth);
}

size_t tune_depth_turn(struct tune_depth *depth)
{
    if (depth->fd < 0 || depth->row > 0) {
        return 0;
    }
    depth->turns = true;
    share(depth);
    take(depth);
    return tune_turn_size(atomic_load(&sharers));
}

/* What the kernel holds counts for more than its bytes, hence this is true
 * whenever the socket can be written: nobody waits in vain. */
bool tune_depth_has_room(const struct tune_depth *depth)
{
    int held = 0;

    return depth->size <= 0 || ioctl(depth->fd, SIOCOUTQ, &held) != 0 ||
           held <= depth->size / 3 * 4;
}
