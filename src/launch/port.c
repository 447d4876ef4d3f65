/* port.c: see port.h. */
#define _GNU_SOURCE
#include "launch/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

static bool is_free(uint32_t port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;
    bool good = fd >= 0;

    if (good) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
        good = bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
        close(fd);
    }
    return good;
}

uint16_t port_find(uint16_t first, uint32_t count)
{
    uint32_t begin = first;

    for (uint32_t port = first; port <= UINT16_MAX; port++) {
        if (!is_free(port)) {
            begin = port + 1;
        } else if (port - begin + 1 >= count) {
            return (uint16_t)begin;
        }
    }
    return 0;
}
