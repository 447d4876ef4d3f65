/* transport_test.c: one suite over every row of the transport table. */
#include "transport_rig.h"

#include "base/log.h"
#include "base/mem.h"

static int set_up(void **state)
{
    *state = rig_create(*state);
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;

    *state = (void *)(uintptr_t)rig->row;
    rig_destroy(rig);
    return 0;
}

/* Send frame `block`, and let the loop turn as long as the link is full. The
 * memory of a payload is used again, so it has to arrive first. */
static void send_now(struct rig_end *from, const struct rig_end *to,
                     uint32_t block, uint32_t size)
{
    unsigned readies = from->readies;
    psd_status status = rig_send(from, block, size);

    while (status == PSD_AGAIN) {
        rig_until(from->rig, &from->readies, readies + 1);
        readies = from->readies;
        status = rig_send(from, block, size);
    }
    assert_int_equal(status, PSD_OK);
    if (block % 3 == 2) {
        rig_until(from->rig, &to->delivered, block + 1);
    }
}

static void frames_arrive_in_order_with_equal_bytes(void **state)
{
    struct rig *rig = *state;
    uint32_t size = 1;

    rig->client.check_bytes = true;
    rig->server.check_bytes = true;
    for (uint32_t i = 0; i < 300; i++) {
        size = (size * 1103515245u + 12345u) & 0x1ffff;
        send_now(&rig->client, &rig->server, i, size);
        send_now(&rig->server, &rig->client, i, size / 3);
    }
    rig_until(rig, &rig->server.delivered, 300);
    rig_until(rig, &rig->client.delivered, 300);
    assert_int_equal(rig->server.downs + rig->client.downs, 0);
}

static void empty_and_huge_payloads_arrive(void **state)
{
    static const uint32_t sizes[] = {
        0,     1,      63,     64,     65,     4095,    4096,     4097,
        65535, 65536,  262080, 262143, 262144, 262145,  0,        8u << 20,
        0,     64,     1u << 20, 9u << 20,
    };
    struct rig *rig = *state;
    uint32_t count = sizeof(sizes) / sizeof(sizes[0]);

    rig->client.check_bytes = true;
    rig->server.check_bytes = true;
    for (uint32_t i = 0; i < count; i++) {
        send_now(&rig->client, &rig->server, i, sizes[i]);
        rig_until(rig, &rig->server.delivered, i + 1);
        assert_int_equal(rig->server.last.length, sizes[i]);
        assert_int_equal(rig->server.last.size,
                         rig->row->stream ? sizes[i] : 0);
    }
}

static void a_full_link_says_again_and_ready_and_loses_nothing(void **state)
{
    struct rig *rig = *state;
    uint32_t sent = 0;

    for (unsigned round = 0; round < 3; round++) {
        unsigned readies = rig->client.readies;
        psd_status status;

        while ((status = rig_send(&rig->client, sent, 100)) == PSD_OK) {
            sent++;
            assert_true(sent < 10 * LINK_ADOPTED_FRAMES_MAX);
        }
        assert_int_equal(status, PSD_AGAIN);
        rig_until(rig, &rig->client.readies, readies + 1);
    }
    rig_until(rig, &rig->server.delivered, sent);
    rig_turn(rig);
    assert_int_equal(rig->server.delivered, sent);
    assert_int_equal(rig->server.bytes, (uint64_t)sent * 100);
}

static void a_payload_beyond_the_window_still_goes(void **state)
{
    struct rig *rig = *state;

    send_now(&rig->client, &rig->server, 0, 1u << 20);
    send_now(&rig->client, &rig->server, 1, 12u << 20);
    send_now(&rig->client, &rig->server, 2, 12u << 20);
    rig_until(rig, &rig->server.delivered, 3);
}

static void control_payloads_are_copied(void **state)
{
    struct rig *rig = *state;
    struct frame_header header = { .type = FRAME_END, .size = 5, .step = 9 };
    char *text = (char *)rig->arena;

    rig->server.link->events = &rig_control_events;
    memcpy(text, "hello", 5);
    assert_int_equal(link_send(rig->client.link, &header, text), PSD_OK);
    memcpy(text, "wrong", 5);
    rig_until(rig, &rig->server.delivered, 1);
    assert_string_equal(rig->server.text, "hello");
    assert_int_equal(rig->server.last.type, FRAME_END);
    assert_int_equal(rig->server.last.step, 9);
}

static void a_large_control_payload_is_gathered(void **state)
{
    struct rig *rig = *state;
    struct frame_header header = { .type = FRAME_TABLE, .size = 3u << 20 };

    rig->server.link->events = &rig_control_events;
    rig->server.check_bytes = true;
    for (uint32_t i = 0; i < 3; i++) {
        for (size_t at = 0; at < header.size; at++) {
            rig->arena[at] = rig_byte(i, at);
        }
        header.block = i;
        assert_int_equal(link_send(rig->client.link, &header, rig->arena),
                         PSD_OK);
        rig_until(rig, &rig->server.delivered, i + 1);
        header.size = header.size / 20;
    }
}

static void a_handler_may_close_its_link(void **state)
{
    struct rig *rig = *state;

    rig->server.close_on_deliver = true;
    for (uint32_t i = 0; i < 5; i++) {
        assert_int_equal(rig_send(&rig->client, i, 1000), PSD_OK);
    }
    link_flush(rig->client.link);
    rig_until(rig, &rig->client.downs, 1);
    for (unsigned i = 0; i < 10; i++) {
        rig_turn(rig);
    }
    assert_int_equal(rig->server.delivered, 1);
    assert_int_equal(rig->server.downs, 0);
    assert_int_equal(rig->client.downs, 1);
    assert_int_equal(rig->client.why, PSD_ELOST);
}

static void the_other_end_closing_is_told_once_after_its_frames(void **state)
{
    struct rig *rig = *state;

    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(rig_send(&rig->client, i, 0), PSD_OK);
    }
    link_close(rig->client.link);
    rig->client.link = NULL;
    rig_until(rig, &rig->server.downs, 1);
    for (unsigned i = 0; i < 10; i++) {
        rig_turn(rig);
    }
    assert_int_equal(rig->server.delivered, 20);
    assert_int_equal(rig->server.downs, 1);
    assert_int_equal(rig->server.why, PSD_ELOST);
    assert_int_equal(rig_send(&rig->server, 0, 0), PSD_ELOST);
}

static void a_handler_that_refuses_takes_the_link_down(void **state)
{
    struct rig *rig = *state;

    rig->server.deliver_says = PSD_EPROTO;
    assert_int_equal(rig_send(&rig->client, 0, 100), PSD_OK);
    assert_int_equal(rig_send(&rig->client, 1, 100), PSD_OK);
    rig_until(rig, &rig->server.downs, 1);
    assert_int_equal(rig->server.why, PSD_EPROTO);
    assert_int_equal(rig->server.delivered, 1);
    rig_until(rig, &rig->client.downs, 1);
    assert_int_equal(rig->client.why, PSD_ELOST);
}

static void a_payload_without_a_place_is_thrown_away(void **state)
{
    struct rig *rig = *state;

    rig->server.throw_away = true;
    send_now(&rig->client, &rig->server, 0, 1u << 20);
    send_now(&rig->client, &rig->server, 1, 10);
    rig_until(rig, &rig->server.delivered, 2);
    rig->server.throw_away = false;
    rig->server.check_bytes = true;
    rig->client.check_bytes = true;
    send_now(&rig->client, &rig->server, 2, 1000);
    rig->server.place_says = PSD_EDIFFER;
    assert_int_equal(rig_send(&rig->client, 3, 10), PSD_OK);
    rig_until(rig, &rig->server.downs, 1);
    assert_int_equal(rig->server.why, PSD_EDIFFER);
    assert_int_equal(rig->server.delivered, 3);
}

static void checksums_cover_data_when_asked(void **state)
{
    struct rig *rig = *state;

    rig->client.link->crc = true;
    rig->client.check_bytes = true;
    rig->server.check_bytes = true;
    send_now(&rig->client, &rig->server, 0, 300000);
    send_now(&rig->client, &rig->server, 1, 0);
    rig_until(rig, &rig->server.delivered, 2);
}

static void what_cannot_be_sent_is_refused(void **state)
{
    struct rig *rig = *state;
    struct frame_header header = { .type = FRAME_PUSH, .size = 8 };

    assert_int_equal(link_send(rig->client.link, &header, NULL), PSD_EINVAL);
    header.size = WIRE_DATA_MAX + 1u;
    assert_int_equal(link_send(rig->client.link, &header, rig->arena),
                     PSD_EINVAL);
    assert_int_equal(rig_send(&rig->client, 0, 10), PSD_OK);
    rig_until(rig, &rig->server.delivered, 1);
}

static void opening_without_memory_fails_cleanly(void **state)
{
    const struct rig_row *row = ((struct rig *)*state)->row;
    long n = 0;
    bool done = false;

    (void)row;
    /* The rig itself asserts what it opens; here only the ends again. */
    while (!done) {
        struct rig *rig = *state;
        struct psd_link *link = NULL;
        psd_status status = PSD_ENOSUP;

        mem_fail_after(++n);
        if (rig->hub != NULL) {
            status = link_open(rig->loop, "inproc:nobody", NULL, NULL,
                               &rig_events, &rig->client, &link);
        } else if (rig->board_memory != NULL) {
            status = shm_link_open(rig->loop, &rig->board, 0, 0, false,
                                   &rig_events, &rig->client, &link);
        }
        mem_fail_after(0);
        done = status != PSD_ENOMEM;
        link_close(link);
    }
    assert_true(n < 100);
}

static bool any(const struct rig_row *row)
{
    (void)row;
    return true;
}

static bool copies(const struct rig_row *row)
{
    return strcmp(row->name, "shm") != 0; /* everything is a span there */
}

static bool places(const struct rig_row *row)
{
    return row->stream;
}

#define CLAIM(name, fits) { #name, name, fits }

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction call;
        bool (*fits)(const struct rig_row *row);
    } claims[] = {
        CLAIM(frames_arrive_in_order_with_equal_bytes, any),
        CLAIM(empty_and_huge_payloads_arrive, any),
        CLAIM(a_full_link_says_again_and_ready_and_loses_nothing, any),
        CLAIM(a_payload_beyond_the_window_still_goes, any),
        CLAIM(control_payloads_are_copied, copies),
        CLAIM(a_large_control_payload_is_gathered, any),
        CLAIM(a_handler_may_close_its_link, any),
        CLAIM(the_other_end_closing_is_told_once_after_its_frames, any),
        CLAIM(a_handler_that_refuses_takes_the_link_down, any),
        CLAIM(a_payload_without_a_place_is_thrown_away, places),
        CLAIM(checksums_cover_data_when_asked, any),
        CLAIM(what_cannot_be_sent_is_refused, any),
        CLAIM(opening_without_memory_fails_cleanly, any),
    };
    enum { CLAIMS = sizeof(claims) / sizeof(claims[0]), ROWS_MAX = 8 };
    static struct CMUnitTest tests[CLAIMS * ROWS_MAX];
    static char names[CLAIMS * ROWS_MAX][128];
    size_t count = 0;

    for (const struct rig_row *row = rig_rows; row->name != NULL; row++) {
        for (size_t i = 0; i < CLAIMS; i++) {
            if ((row->there != NULL && !row->there()) ||
                !claims[i].fits(row)) {
                continue;
            }
            snprintf(names[count], sizeof(names[count]), "%s: %s", row->name,
                     claims[i].name);
            tests[count] = (struct CMUnitTest){
                .name = names[count],
                .test_func = claims[i].call,
                .setup_func = set_up,
                .teardown_func = tear_down,
                .initial_state = (void *)(uintptr_t)row,
            };
            count++;
        }
    }
    return _cmocka_run_group_tests("transport", tests, count, NULL, NULL);
}
