/* tcp_test.c: what only streams can get wrong: bytes that are no frames,
 * peers that cannot prove themselves, addresses that lead nowhere. */
#define _GNU_SOURCE
#include "transport_rig.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "transport/tcp.h"

/* ---- a raw peer -------------------------------------------------------- */

/* A rig whose server end is an adopted socket; we hold the other end. */
struct raw {
    struct rig rig;
    int fd;
};

static int raw_set_up(void **state)
{
    struct raw *raw = mem_zalloc(sizeof(*raw));
    static const struct rig_row row = { .name = "raw", .stream = true };
    int fds[2];

    assert_non_null(raw);
    raw->rig.row = &row;
    raw->rig.server.rig = &raw->rig;
    raw->rig.server.place = mem_map(RIG_PLACE);
    assert_int_equal(loop_create(&raw->rig.loop), PSD_OK);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
                     0);
    assert_int_equal(link_adopt(raw->rig.loop, fds[1], fds[1], &rig_events,
                                &raw->rig.server, &raw->rig.server.link),
                     PSD_OK);
    raw->fd = fds[0];
    *state = raw;
    return 0;
}

static int raw_tear_down(void **state)
{
    struct raw *raw = *state;

    link_close(raw->rig.server.link);
    loop_destroy(raw->rig.loop);
    mem_unmap(raw->rig.server.place, RIG_PLACE);
    if (raw->fd >= 0) {
        close(raw->fd);
    }
    mem_free(raw);
    return 0;
}

static void raw_write(struct raw *raw, const void *bytes, size_t size)
{
    assert_int_equal(send(raw->fd, bytes, size, MSG_NOSIGNAL), size);
}

static struct frame_header good_header(void)
{
    struct frame_header header = { .type = FRAME_PUSH, .size = 8,
                                   .length = 8 };

    frame_seal(&header, "12345678");
    return header;
}

/* `header` is refused, and never is anything allocated for it. */
static void is_refused(void **state, const struct frame_header *header,
                       const char *payload)
{
    struct raw *raw = *state;

    raw_write(raw, header, sizeof(*header));
    if (payload != NULL) {
        raw_write(raw, payload, strlen(payload));
    }
    mem_path_enter();
    rig_until(&raw->rig, &raw->rig.server.downs, 1);
    mem_path_leave();
    assert_int_equal(raw->rig.server.why, PSD_EPROTO);
    assert_int_equal(raw->rig.server.delivered, 0);
}

static void a_good_frame_arrives_byte_by_byte(void **state)
{
    struct raw *raw = *state;
    struct frame_header header = good_header();
    const char *bytes = (const char *)&header;

    for (size_t i = 0; i < sizeof(header); i++) {
        raw_write(raw, bytes + i, 1);
        rig_turn(&raw->rig);
    }
    for (size_t i = 0; i < 8; i++) {
        raw_write(raw, &"12345678"[i], 1);
        rig_turn(&raw->rig);
    }
    rig_until(&raw->rig, &raw->rig.server.delivered, 1);
    assert_string_equal(raw->rig.server.text, "12345678");
}

static void another_version_is_refused(void **state)
{
    struct frame_header header = good_header();

    header.version = WIRE_VERSION + 1;
    is_refused(state, &header, NULL);
}

static void an_unknown_type_is_refused(void **state)
{
    struct frame_header header = { .type = 15 };

    frame_seal(&header, NULL);
    is_refused(state, &header, NULL);
}

static void a_payload_beyond_the_limit_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_END,
                                   .size = WIRE_CONTROL_MAX + 1u };

    header.version = WIRE_VERSION;
    is_refused(state, &header, NULL);
}

static void a_flipped_bit_of_a_header_is_refused(void **state)
{
    struct frame_header header = good_header();

    header.step ^= 1;
    is_refused(state, &header, NULL);
}

static void a_flipped_bit_of_a_guarded_payload_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_END, .size = 8,
                                   .length = 8 };

    frame_seal(&header, "12345678");
    is_refused(state, &header, "12345679");
}

static void an_unknown_flag_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_PUSH, .flags = 0x8000 };

    frame_seal(&header, NULL);
    is_refused(state, &header, NULL);
}

static void a_span_on_a_stream_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_PUSH, .region = 1,
                                   .length = 100 };

    frame_seal(&header, NULL);
    is_refused(state, &header, NULL);
}

static void credit_for_nothing_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_CREDIT, .credit = 1 };

    frame_seal(&header, NULL);
    is_refused(state, &header, NULL);
}

static void the_end_inside_a_frame_is_a_loss(void **state)
{
    struct raw *raw = *state;
    struct frame_header header = good_header();

    raw_write(raw, &header, sizeof(header));
    raw_write(raw, "123", 3);
    close(raw->fd);
    raw->fd = -1;
    rig_until(&raw->rig, &raw->rig.server.downs, 1);
    assert_int_equal(raw->rig.server.why, PSD_ELOST);
    assert_int_equal(raw->rig.server.delivered, 0);
}

static void last_words_arrive_although_writing_fails(void **state)
{
    struct raw *raw = *state;
    struct frame_header header = good_header();
    struct frame_header mine = { .type = FRAME_BYE };

    raw_write(raw, &header, sizeof(header));
    raw_write(raw, "12345678", 8);
    close(raw->fd);
    raw->fd = -1;
    assert_int_equal(link_send(raw->rig.server.link, &mine, NULL), PSD_OK);
    link_flush(raw->rig.server.link);
    assert_int_equal(link_send(raw->rig.server.link, &mine, NULL),
                     PSD_ELOST);
    rig_until(&raw->rig, &raw->rig.server.downs, 1);
    assert_int_equal(raw->rig.server.delivered, 1);
    assert_int_equal(raw->rig.server.why, PSD_ELOST);
}

static void a_broken_pipe_is_no_signal(void **state)
{
    struct raw *raw = *state;
    struct rig_end *end = &raw->rig.client;
    struct frame_header mine = { .type = FRAME_BYE };
    int in[2];
    int out[2];

    end->rig = &raw->rig;
    assert_int_equal(pipe(in), 0);
    assert_int_equal(pipe(out), 0);
    assert_int_equal(link_adopt(raw->rig.loop, in[0], out[1], &rig_events,
                                end, &end->link),
                     PSD_OK);
    close(out[0]);
    (void)link_send(end->link, &mine, NULL);
    link_flush(end->link);
    rig_until(&raw->rig, &end->downs, 1);
    assert_int_equal(end->why, PSD_ELOST);
    close(in[1]);
    link_close(end->link);
}

/* ---- handshakes -------------------------------------------------------- */

static struct rig *server_rig(void)
{
    static const struct rig_row row = { .name = "server", .stream = true };
    struct rig *rig = mem_zalloc(sizeof(*rig));

    assert_non_null(rig);
    rig->row = &row;
    rig->client.rig = rig;
    rig->server.rig = rig;
    memset(&rig->job, 0x5a, sizeof(rig->job));
    assert_int_equal(loop_create(&rig->loop), PSD_OK);
    assert_int_equal(listener_open(rig->loop, "127.0.0.1", 0, &rig->job,
                                   &rig_accept, rig, &rig->port,
                                   &rig->listener),
                     PSD_OK);
    return rig;
}

static int server_set_up(void **state)
{
    *state = server_rig();
    return 0;
}

static int server_tear_down(void **state)
{
    tcp_open_limit_set(LINK_OPEN_MS);
    rig_destroy(*state);
    return 0;
}

static psd_status dial(struct rig *rig, const char *host,
                       const struct auth_job *job, uint32_t shard)
{
    struct auth_identity identity = { 7, 2, shard };
    char url[64];

    snprintf(url, sizeof(url), "tcp:%s:%u", host, rig->port);
    return link_open(rig->loop, url, job, &identity, &rig_events,
                     &rig->client, &rig->client.link);
}

static int dial_raw(const struct rig *rig)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET,
        .sin_port = htons(rig->port),
        .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
    };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
    return fd;
}

/* Has the server closed this connection? */
static bool is_gone(int fd)
{
    char byte;
    ssize_t got = recv(fd, &byte, 1, MSG_DONTWAIT);

    return got == 0 || (got < 0 && errno != EAGAIN);
}

static void another_secret_is_refused_by_both(void **state)
{
    struct rig *rig = *state;
    struct auth_job other = rig->job;

    other.secret[31] ^= 1;
    assert_int_equal(dial(rig, "127.0.0.1", &other, 3), PSD_OK);
    rig_until(rig, &rig->client.downs, 1);
    assert_int_equal(rig->client.why, PSD_EAUTH);
    assert_null(rig->server.link);
}

static void another_job_is_refused(void **state)
{
    struct rig *rig = *state;
    struct auth_job other = rig->job;

    other.id[0] ^= 1;
    assert_int_equal(dial(rig, "127.0.0.1", &other, 3), PSD_OK);
    rig_until(rig, &rig->client.downs, 1);
    assert_null(rig->server.link);
}

static void a_shard_that_is_not_here_is_refused(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(dial(rig, "127.0.0.1", &rig->job, 4), PSD_OK);
    rig_until(rig, &rig->client.downs, 1);
    assert_int_equal(rig->client.why, PSD_ELOST);
    assert_null(rig->server.link);
}

static void a_made_up_proof_is_refused(void **state)
{
    struct rig *rig = *state;
    struct auth_identity identity = { 7, 2, 3 };
    uint8_t hello[AUTH_HELLO_SIZE];
    uint8_t reply[AUTH_CHALLENGE_SIZE];
    uint8_t proof[AUTH_PROOF_SIZE] = { 0 };
    size_t got = 0;
    int fd = dial_raw(rig);

    assert_int_equal(auth_hello(&rig->job, &identity, hello), PSD_OK);
    assert_int_equal(send(fd, hello, sizeof(hello), 0), sizeof(hello));
    for (unsigned i = 0; i < RIG_ROUNDS && got < sizeof(reply); i++) {
        rig_turn(rig);
        (void)tcp_read_small(fd, reply, sizeof(reply), &got);
    }
    assert_int_equal(got, sizeof(reply));
    assert_int_equal(send(fd, proof, sizeof(proof), 0), sizeof(proof));
    got = 0;
    for (unsigned i = 0; i < RIG_ROUNDS && got < 1; i++) {
        rig_turn(rig);
        (void)tcp_read_small(fd, reply, 1, &got);
    }
    assert_int_equal(reply[0], AUTH_REFUSED_PROOF);
    assert_null(rig->server.link);
    close(fd);
}

static void a_silent_peer_is_dropped_in_time(void **state)
{
    struct rig *rig = *state;
    unsigned turns = 0;
    int fd;

    tcp_open_limit_set(20);
    fd = dial_raw(rig);
    for (turns = 0; turns < 500 && !is_gone(fd); turns++) {
        struct loop_events events;

        loop_wait(rig->loop, &events, 10);
        (void)loop_dispatch(rig->loop, &events);
    }
    assert_true(turns < 500);
    close(fd);
}

static void a_silent_server_is_given_up_in_time(void **state)
{
    struct rig *rig = *state;

    listener_close(rig->listener);
    rig->listener = NULL;
    assert_int_equal(listener_open(rig->loop, "127.0.0.1", 0, &rig->job,
                                   &rig_accept, rig, &rig->port,
                                   &rig->listener),
                     PSD_OK);
    tcp_open_limit_set(30);
    assert_int_equal(dial(rig, "127.0.0.1", &rig->job, 3), PSD_OK);
    /* Only timers run: the listener's events are thrown away. */
    for (unsigned i = 0; i < 500 && rig->client.downs == 0; i++) {
        struct timespec pause = { .tv_nsec = 2000000 };

        nanosleep(&pause, NULL);
        (void)loop_dispatch(rig->loop, NULL);
    }
    assert_int_equal(rig->client.downs, 1);
    assert_int_equal(rig->client.why, PSD_ETIME);
}

static void half_open_peers_are_bounded_and_others_wait(void **state)
{
    struct rig *rig = *state;
    int fds[LISTEN_HALF_OPEN_MAX + 6];
    size_t count = sizeof(fds) / sizeof(fds[0]);

    tcp_open_limit_set(50);
    for (size_t i = 0; i < count; i++) {
        fds[i] = dial_raw(rig);
        rig_turn(rig);
    }
    /* A good one waits behind them, and gets in once they are dropped. */
    tcp_open_limit_set(LINK_OPEN_MS);
    assert_int_equal(dial(rig, "127.0.0.1", &rig->job, 3), PSD_OK);
    for (unsigned i = 0; i < 10; i++) {
        rig_turn(rig);
    }
    assert_int_equal(rig->client.ups, 0);
    for (unsigned i = 0; i < 1000 && rig->client.ups == 0; i++) {
        struct loop_events events;

        loop_wait(rig->loop, &events, 10);
        (void)loop_dispatch(rig->loop, &events);
    }
    assert_int_equal(rig->client.ups, 1);
    for (size_t i = 0; i < count; i++) {
        close(fds[i]);
    }
}

static void a_port_that_is_taken_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct psd_listener *listener = NULL;
    uint16_t port = 0;

    assert_int_equal(listener_open(rig->loop, "127.0.0.1", rig->port,
                                   &rig->job, &rig_accept, rig, &port,
                                   &listener),
                     PSD_ESYSTEM);
    assert_null(listener);
}

static void a_name_that_is_none_is_an_error(void **state)
{
    struct rig *rig = *state;
    struct psd_listener *listener = NULL;
    uint16_t port = 0;

    assert_int_equal(dial(rig, "no.such.host.invalid", &rig->job, 3),
                     PSD_ESYSTEM);
    assert_int_equal(listener_open(rig->loop, "no.such.host.invalid", 0,
                                   &rig->job, &rig_accept, rig, &port,
                                   &listener),
                     PSD_ESYSTEM);
}

static void nobody_at_the_port_is_a_loss(void **state)
{
    struct rig *rig = *state;
    psd_status status;

    listener_close(rig->listener);
    rig->listener = NULL;
    status = dial(rig, "127.0.0.1", &rig->job, 3);
    if (status == PSD_OK) {
        rig_until(rig, &rig->client.downs, 1);
        status = rig->client.why;
    }
    assert_int_equal(status, PSD_ELOST);
}

static void a_malformed_url_is_refused(void **state)
{
    static const char *const urls[] = {
        "tcp:", "tcp:host", "tcp:host:", "tcp::7", "tcp:[::1:7", "tcp:h:7x",
        "udp:host:7", "tcp", "", "shm:3", "inproc:nowhere",
    };
    struct rig *rig = *state;

    for (size_t i = 0; i < sizeof(urls) / sizeof(urls[0]); i++) {
        assert_int_equal(link_open(rig->loop, urls[i], &rig->job, NULL,
                                   &rig_events, &rig->client,
                                   &rig->client.link),
                         PSD_EINVAL);
    }
    assert_null(rig->client.link);
}

static void a_host_name_is_an_address(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(dial(rig, "localhost", &rig->job, 3), PSD_OK);
    rig_until(rig, &rig->client.ups, 1);
    rig_until(rig, &rig->server.ups, 1);
    rig->client.check_bytes = true;
    rig->arena = mem_map(RIG_ARENA);
    rig->server.place = mem_map(RIG_PLACE);
    assert_int_equal(rig_send(&rig->client, 0, 5), PSD_OK);
    rig_until(rig, &rig->server.delivered, 1);
}

/* Unread bytes at the closing end would make the kernel reset the connection
 * and drop what the other end has not read yet. */
static void what_was_handed_over_survives_the_close(void **state)
{
    struct rig *rig = *state;

    assert_int_equal(dial(rig, "127.0.0.1", &rig->job, 3), PSD_OK);
    rig_until(rig, &rig->client.ups, 1);
    rig_until(rig, &rig->server.ups, 1);
    rig->arena = mem_map(RIG_ARENA);
    rig->server.place = mem_map(RIG_PLACE);
    rig->client.check_bytes = true;
    rig->server.check_bytes = true;
    assert_int_equal(rig_send(&rig->client, 0, 300000), PSD_OK);
    link_flush(rig->client.link);
    assert_int_equal(link_pending(rig->client.link), 0);
    assert_int_equal(rig_send(&rig->server, 0, 0), PSD_OK);
    link_flush(rig->server.link);
    link_close(rig->client.link);
    rig->client.link = NULL;
    rig_until(rig, &rig->server.downs, 1);
    assert_int_equal(rig->server.delivered, 1);
}

#define RAW(name) cmocka_unit_test_setup_teardown(name, raw_set_up, \
                                                  raw_tear_down)
#define SERVER(name) cmocka_unit_test_setup_teardown(name, server_set_up, \
                                                     server_tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        RAW(a_good_frame_arrives_byte_by_byte),
        RAW(another_version_is_refused),
        RAW(an_unknown_type_is_refused),
        RAW(a_payload_beyond_the_limit_is_refused),
        RAW(a_flipped_bit_of_a_header_is_refused),
        RAW(a_flipped_bit_of_a_guarded_payload_is_refused),
        RAW(an_unknown_flag_is_refused),
        RAW(a_span_on_a_stream_is_refused),
        RAW(credit_for_nothing_is_refused),
        RAW(the_end_inside_a_frame_is_a_loss),
        RAW(last_words_arrive_although_writing_fails),
        RAW(a_broken_pipe_is_no_signal),
        SERVER(another_secret_is_refused_by_both),
        SERVER(another_job_is_refused),
        SERVER(a_shard_that_is_not_here_is_refused),
        SERVER(a_made_up_proof_is_refused),
        SERVER(a_silent_peer_is_dropped_in_time),
        SERVER(a_silent_server_is_given_up_in_time),
        SERVER(half_open_peers_are_bounded_and_others_wait),
        SERVER(a_port_that_is_taken_is_an_error),
        SERVER(a_name_that_is_none_is_an_error),
        SERVER(nobody_at_the_port_is_a_loss),
        SERVER(a_malformed_url_is_refused),
        SERVER(a_host_name_is_an_address),
        SERVER(what_was_handed_over_survives_the_close),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
