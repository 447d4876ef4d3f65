/* address.c: see address.h. */
#define _GNU_SOURCE
#include "config/address.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/banned.h"

#define ADDRESS_MAX 64 /* numeric, with a scope */

static socklen_t length_of(const struct sockaddr *address)
{
    return address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                          : sizeof(struct sockaddr_in);
}

static bool is_inet(const struct sockaddr *address)
{
    return address != NULL &&
           (address->sa_family == AF_INET || address->sa_family == AF_INET6);
}

/* IPv4 as IPv6 has it (::ffff:a.b.c.d), so that there is one form. */
static struct in6_addr flatten(const struct sockaddr *address)
{
    struct in6_addr flat = IN6ADDR_ANY_INIT;

    if (address->sa_family == AF_INET) {
        struct sockaddr_in v4;

        memcpy(&v4, address, sizeof(v4));
        flat.s6_addr[10] = 0xff;
        flat.s6_addr[11] = 0xff;
        memcpy(&flat.s6_addr[12], &v4.sin_addr, sizeof(v4.sin_addr));
    } else {
        struct sockaddr_in6 v6;

        memcpy(&v6, address, sizeof(v6));
        flat = v6.sin6_addr;
    }
    return flat;
}

/* 127/8, ::1, and what stands for any address. */
static bool is_loopback(const struct sockaddr *address)
{
    struct in6_addr flat = flatten(address);
    bool v4 = IN6_IS_ADDR_V4MAPPED(&flat) != 0;

    return IN6_IS_ADDR_LOOPBACK(&flat) || IN6_IS_ADDR_UNSPECIFIED(&flat) ||
           (v4 && (flat.s6_addr[12] == 127 || flat.s6_addr[12] == 0));
}

static bool is_link_local(const struct sockaddr *address)
{
    struct in6_addr flat = flatten(address);

    return IN6_IS_ADDR_LINKLOCAL(&flat) != 0;
}

static bool same(const struct sockaddr *a, const struct sockaddr *b)
{
    struct in6_addr left = flatten(a);
    struct in6_addr right = flatten(b);

    return memcmp(&left, &right, sizeof(left)) == 0;
}

static bool to_text(const struct sockaddr *address, char *text, size_t size)
{
    return getnameinfo(address, length_of(address), text, (socklen_t)size, NULL,
                       0, NI_NUMERICHOST) == 0;
}

static struct addrinfo *resolve(const char *name)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;

    return getaddrinfo(name, "1", &hints, &found) == 0 ? found : NULL;
}

static bool is_own(const struct sockaddr *address,
                   const struct ifaddrs *interfaces)
{
    if (is_loopback(address)) {
        return true;
    }
    for (const struct ifaddrs *at = interfaces; at != NULL; at = at->ifa_next) {
        if (is_inet(at->ifa_addr) && same(at->ifa_addr, address)) {
            return true;
        }
    }
    return false;
}

bool address_is_own(const char *name)
{
    struct ifaddrs *interfaces = NULL;
    struct addrinfo *found = resolve(name);
    bool own = false;

    if (found != NULL && getifaddrs(&interfaces) == 0) {
        for (const struct addrinfo *at = found; at != NULL && !own;
             at = at->ai_next) {
            own = is_inet(at->ai_addr) && is_own(at->ai_addr, interfaces);
        }
        freeifaddrs(interfaces);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return own;
}

/* Where both lead here: a packet of IPv4 has 20 bytes more for the payload,
 * 1.4 % of an Ethernet frame. */
static const int families[] = {AF_INET, AF_INET6};

#define FAMILIES (sizeof(families) / sizeof(families[0]))

/* IPv4 before IPv6, no link-local address. */
static bool of_interface(const struct ifaddrs *interfaces, const char *name,
                         char *address, size_t size)
{
    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct ifaddrs *at = interfaces; at != NULL;
             at = at->ifa_next) {
            if (strcmp(at->ifa_name, name) == 0 && is_inet(at->ifa_addr) &&
                at->ifa_addr->sa_family == families[i] &&
                !is_link_local(at->ifa_addr)) {
                return to_text(at->ifa_addr, address, size);
            }
        }
    }
    return false;
}

/* `name` stands for an address of ours that others can reach. */
static bool of_name(const struct ifaddrs *interfaces, const char *name,
                    char *address, size_t size)
{
    struct addrinfo *found = resolve(name);
    bool good = false;

    for (size_t i = 0; i < FAMILIES; i++) {
        for (const struct addrinfo *at = found; at != NULL && !good;
             at = at->ai_next) {
            good = at->ai_family == families[i] && !is_loopback(at->ai_addr) &&
                   !is_link_local(at->ai_addr) &&
                   is_own(at->ai_addr, interfaces) &&
                   to_text(at->ai_addr, address, size);
        }
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return good;
}

/* "client port server port": the third is where ssh came in. */
static bool of_ssh(const struct ifaddrs *interfaces, char *address, size_t size)
{
    const char *connection = getenv("SSH_CONNECTION");
    char server[ADDRESS_MAX];

    return connection != NULL &&
           sscanf(connection, "%*s %*s %63s", server) == 1 &&
           of_name(interfaces, server, address, size);
}

/* The address that the kernel would send from. Nothing is sent. */
static bool of_route(const char *peer, char *address, size_t size)
{
    struct addrinfo *found = resolve(peer);
    bool good = false;

    for (const struct addrinfo *at = found; at != NULL && !good;
         at = at->ai_next) {
        struct sockaddr_storage own = {.ss_family = AF_UNSPEC};
        socklen_t length = sizeof(own);
        int fd = socket(at->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        if (fd < 0) {
            continue;
        }
        good = connect(fd, at->ai_addr, at->ai_addrlen) == 0 &&
               getsockname(fd, (struct sockaddr *)&own, &length) == 0 &&
               is_inet((struct sockaddr *)&own) &&
               !is_loopback((struct sockaddr *)&own) &&
               to_text((struct sockaddr *)&own, address, size);
        close(fd);
    }
    if (found != NULL) {
        freeaddrinfo(found);
    }
    return good;
}

psd_status address_choose(const char *host, const char *interface,
                          const char *peer, char *address, size_t size,
                          char *error, size_t error_size)
{
    struct ifaddrs *interfaces = NULL;
    bool good;

    if (getifaddrs(&interfaces) != 0) {
        snprintf(error, error_size, "cannot list the network interfaces: %s",
                 strerror(errno));
        return PSD_ESYSTEM;
    }
    if (interface[0] != '\0') {
        good = of_interface(interfaces, interface, address, size);
        snprintf(error, error_size,
                 "there is no interface %s with an address; `ip -brief addr` "
                 "lists them",
                 interface);
    } else {
        good = of_name(interfaces, host, address, size) ||
               of_ssh(interfaces, address, size) ||
               (peer[0] != '\0' && of_route(peer, address, size));
        snprintf(error, error_size,
                 "%s is no address of this machine that other hosts reach; "
                 "name its address in the cluster file, or its interface "
                 "(\"interface\": \"eth0\")",
                 host);
    }
    freeifaddrs(interfaces);
    return good ? PSD_OK : PSD_EINVAL;
}
