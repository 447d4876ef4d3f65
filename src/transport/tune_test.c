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

static void a_queue_makes_a_link_shallow(void **state)
{
    static const struct {
        unsigned depth;
        uint32_t rtt_us;
        uint32_t min_rtt_us;
        unsigned next;
    } rows[] = {
        { 0, 100, 100, 1 },   /* nothing waits */
        { 0, 900, 100, 1 },   /* little does */
        { 0, 1200, 100, 0 },  /* enough */
        { 0, 50000, 100, 0 }, /* a long queue, already shallow */
        { 1, 5000, 100, 0 },  /* a long queue */
        { 1, 3000, 100, 1 },  /* neither */
        { 2, 9000, 100, 1 },
        { 2, 200, 100, 2 },      /* the last row */
        { 1, 28000, 20000, 2 }, /* far away, 8 ms are little there */
        { 2, 35000, 20000, 2 },
        { 2, 45000, 20000, 1 },
        { 1, 50, 100, 2 }, /* a clock that went back */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(
            tune_depth_next(rows[i].depth, rows[i].rtt_us, rows[i].min_rtt_us),
            rows[i].next);
    }
}

static int send_buffer(int fd)
{
    int size = 0;
    socklen_t length = sizeof(size);

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length), 0);
    return size;
}

static void a_depth_reaches_the_socket(void **state)
{
    int fds[2];
    int pipes[2];
    int shallow;

    (void)state;
    assert_true(connection("127.0.0.1", fds));
    assert_int_equal(tune_depth_first(fds[0]), 0);
    shallow = send_buffer(fds[0]);
    assert_true(shallow < send_buffer(fds[1]));
    assert_int_equal(tune_depth_look(fds[0], 0), 1); /* nothing waits here */
    assert_true(send_buffer(fds[0]) > shallow);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(tune_depth_look(pipes[1], 1), 1); /* not known */
    close(pipes[0]);
    close(pipes[1]);
    close(fds[0]);
    close(fds[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_seen_from_both_ends),
        cmocka_unit_test(below_the_mark_nothing_is_told),
        cmocka_unit_test(the_end_is_told_whatever_is_missing),
        cmocka_unit_test(a_queue_makes_a_link_shallow),
        cmocka_unit_test(a_depth_reaches_the_socket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
