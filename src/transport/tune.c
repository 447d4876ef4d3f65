/* tune.c: see tune.h. */
#include "transport/tune.h"

#include <netinet/in.h>
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
