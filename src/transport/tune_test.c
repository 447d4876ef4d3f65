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

static void the_parts_of_all_links_fit_into_a_queue(void **state)
{
    (void)state;
    assert_int_equal(tune_depth_size(0, 0), tune_depth_size(0, 1));
    for (uint32_t links = 1; links < 1000; links++) {
        uint32_t size = tune_depth_size(0, links);

        assert_in_range(size, 16 << 10, 96 << 10);
        assert_true(size <= tune_depth_size(0, links - 1));
        assert_int_equal(tune_depth_size(1, links), 2 * size);
        assert_int_equal(tune_depth_size(2, links), 0); /* the kernel's */
        if (links <= 32) {
            assert_true(2 * links * size <= 1 << 20);
        }
    }
}

static void the_turns_of_all_links_fit_into_a_queue(void **state)
{
    (void)state;
    assert_int_equal(tune_turn_size(0), tune_turn_size(1));
    for (uint32_t links = 1; links < 1000; links++) {
        uint32_t size = tune_turn_size(links);

        assert_in_range(size, 8 * 1448, 45 * 1448);
        assert_int_equal(size % 1448, 0); /* whole segments */
        if (links <= 27) {
            assert_true(3 * links * size <= 1 << 20);
        }
    }
}

static void there_is_room_until_nobody_reads(void **state)
{
    static char bytes[45 * 1448];
    struct tune_depth depth;
    struct tune_depth none;
    int fds[2];
    int sent = 0;

    (void)state;
    assert_true(connection("127.0.0.1", fds));
    tune_depth_init(&depth, fds[0]);
    tune_depth_init(&none, -1);
    assert_int_equal(tune_depth_turn(&none), 0);
    assert_int_equal(tune_depth_turn(&depth), sizeof(bytes));
    while (tune_depth_has_room(&depth) && sent < 1000) {
        assert_true(send(fds[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0);
        sent++;
    }
    assert_in_range(sent, 3, 999);
    depth.row = 1; /* the line has no queue */
    assert_int_equal(tune_depth_turn(&depth), 0);
    tune_depth_fini(&depth);
    close(fds[0]);
    close(fds[1]);
}

static int send_buffer(int fd)
{
    int size = 0;
    socklen_t length = sizeof(size);

    assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, &length), 0);
    return size;
}

static void full(struct tune_depth *depth, size_t sent)
{
    depth->sent += sent;
    tune_depth_full(depth);
}

static void a_depth_reaches_the_socket(void **state)
{
    struct tune_depth depth;
    struct tune_depth none;
    int fds[2];
    int pipes[2];
    int shallow;

    (void)state;
    assert_true(connection("127.0.0.1", fds));
    tune_depth_init(&depth, fds[0]);
    shallow = send_buffer(fds[0]);
    assert_true(shallow < send_buffer(fds[1]));
    full(&depth, 511 << 10);
    assert_int_equal(depth.row, 0);
    full(&depth, 1 << 10); /* enough to know: nothing waits here */
    assert_int_equal(depth.row, 1);
    assert_true(send_buffer(fds[0]) > shallow);
    assert_int_equal(pipe(pipes), 0);
    tune_depth_init(&none, pipes[1]);
    full(&none, 1 << 20);
    assert_int_equal(none.row, 0); /* not known */
    tune_depth_fini(&none);
    tune_depth_fini(&depth);
    close(pipes[0]);
    close(pipes[1]);
    close(fds[0]);
    close(fds[1]);
}

/* Who is gone leaves its part to the others. */
static void links_have_equal_parts(void **state)
{
    enum { LINKS = 8 };
    struct tune_depth depths[LINKS];
    int fds[LINKS][2];
    int alone = 0;

    (void)state;
    for (int i = 0; i < LINKS; i++) {
        assert_true(connection("127.0.0.1", fds[i]));
        tune_depth_init(&depths[i], fds[i][0]);
        full(&depths[i], 1);
        alone = i == 0 ? send_buffer(fds[0][0]) : alone;
    }
    full(&depths[0], 1);
    assert_true(send_buffer(fds[0][0]) < alone);
    assert_int_equal(send_buffer(fds[0][0]), send_buffer(fds[LINKS - 1][0]));
    for (int i = 1; i < LINKS; i++) {
        tune_depth_fini(&depths[i]);
        tune_depth_fini(&depths[i]); /* is no other link's end */
        close(fds[i][0]);
        close(fds[i][1]);
    }
    full(&depths[0], 1);
    assert_int_equal(send_buffer(fds[0][0]), alone);
    tune_depth_fini(&depths[0]);
    close(fds[0][0]);
    close(fds[0][1]);
}

static void what_stays_on_the_host_is_left_alone(void **state)
{
    struct tune_depth depth;

    (void)state;
    tune_depth_init(&depth, -1);
    full(&depth, 1 << 20);
    assert_false(depth.shares);
    tune_depth_fini(&depth);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_seen_from_both_ends),
        cmocka_unit_test(below_the_mark_nothing_is_told),
        cmocka_unit_test(the_end_is_told_whatever_is_missing),
        cmocka_unit_test(a_queue_makes_a_link_shallow),
        cmocka_unit_test(the_parts_of_all_links_fit_into_a_queue),
        cmocka_unit_test(the_turns_of_all_links_fit_into_a_queue),
        cmocka_unit_test(there_is_room_until_nobody_reads),
        cmocka_unit_test(a_depth_reaches_the_socket),
        cmocka_unit_test(links_have_equal_parts),
        cmocka_unit_test(what_stays_on_the_host_is_left_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
