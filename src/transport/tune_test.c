/* tune_test.c: claims about tune.c, on sockets of this host. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/tune.h"

#define LOW (64 << 10)

/* A connection over `address`: [0] connected, [1] accepted. False: the host
 * has no such address. */
static bool connection(const char *address, int fds[2])
{
    struct sockaddr_in v4 = { .sin_family = AF_INET };
    struct sockaddr_in6 v6 = { .sin6_family = AF_INET6 };
    bool is_v4 = inet_pton(AF_INET, address, &v4.sin_addr) == 1;
    struct sockaddr *at = is_v4 ? (void *)&v4 : (void *)&v6;
    socklen_t size = is_v4 ? sizeof(v4) : sizeof(v6);
    int server;

    assert_true(is_v4 || inet_pton(AF_INET6, address, &v6.sin6_addr) == 1);
    server = socket(at->sa_family, SOCK_STREAM, 0);
    if (server < 0 || bind(server, at, size) != 0) {
        close(server);
        return false;
    }
    assert_int_equal(listen(server, 1), 0);
    assert_int_equal(getsockname(server, at, &size), 0);
    fds[0] = socket(at->sa_family, SOCK_STREAM, 0);
    assert_int_equal(connect(fds[0], at, size), 0);
    fds[1] = accept(server, NULL, NULL);
    assert_true(fds[1] >= 0);
    close(server);
    return true;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd look = { .fd = fd, .events = POLLIN };

    return poll(&look, 1, timeout_ms) == 1 && (look.revents & POLLIN) != 0;
}

static void loopback_is_seen_from_both_ends(void **state)
{
    static const char *const addresses[] = { "127.0.0.1", "127.1.2.3", "::1" };
    int pipes[2];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        int fds[2];

        if (connection(addresses[i], fds)) {
            assert_true(tune_is_loopback(fds[0]));
            assert_true(tune_is_loopback(fds[1]));
            close(fds[0]);
            close(fds[1]);
        }
    }
    assert_int_equal(pipe(pipes), 0);
    assert_false(tune_is_loopback(pipes[0]));
    close(pipes[0]);
    close(pipes[1]);
}

static void below_the_mark_nothing_is_told(void **state)
{
    static char bytes[LOW];
    int fds[2];

    (void)state;
    assert_true(connection("127.0.0.1", fds));
    tune_low_mark(fds[1], LOW);
    assert_int_equal(send(fds[0], bytes, LOW - 1, 0), LOW - 1);
    assert_false(readable(fds[1], 20));
    assert_int_equal(send(fds[0], bytes, 1, 0), 1);
    assert_true(readable(fds[1], 5000));
    assert_int_equal(recv(fds[1], bytes, LOW, MSG_WAITALL), LOW);
    assert_int_equal(send(fds[0], bytes, 1, 0), 1);
    assert_false(readable(fds[1], 20));
    tune_low_mark(fds[1], 1);
    assert_true(readable(fds[1], 5000));
    close(fds[0]);
    close(fds[1]);
}

static void the_end_is_told_whatever_is_missing(void **state)
{
    int fds[2];

    (void)state;
    assert_true(connection("127.0.0.1", fds));
    tune_low_mark(fds[1], LOW);
    assert_int_equal(send(fds[0], "x", 1, 0), 1);
    assert_false(readable(fds[1], 20));
    close(fds[0]);
    assert_true(readable(fds[1], 5000));
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_seen_from_both_ends),
        cmocka_unit_test(below_the_mark_nothing_is_told),
        cmocka_unit_test(the_end_is_told_whatever_is_missing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
