/*
 * outbox_test.c: whatever a write may carry at most, the bytes are those of
 * the frames, in order, and no more are offered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/outbox.h"

#define FRAMES 40u
#define BYTES_MAX 65536u

/* Payloads of 0, 1, 37, ... bytes; sized so that limits fall into headers,
 * between frames and into payloads. */
static size_t fill_box(struct outbox *outbox, uint8_t *expected)
{
    static uint8_t data[FRAMES * 37];
    size_t size = 0;

    for (size_t i = 0; i < sizeof(data); i++) {
        data[i] = (uint8_t)(i * 7);
    }
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct frame_header header = { .type = FRAME_PUSH, .block = i,
                                       .size = i < 2 ? i : (i - 1) * 37 };

        assert_int_equal(outbox_push(outbox, &header, data), PSD_OK);
        memcpy(expected + size, &header, FRAME_HEADER_SIZE);
        memcpy(expected + size + FRAME_HEADER_SIZE, data, header.size);
        size += FRAME_HEADER_SIZE + header.size;
    }
    assert_true(size <= BYTES_MAX);
    return size;
}

static void a_write_goes_no_further_than_it_may(void **state)
{
    static const size_t limits[] = { 1, FRAME_HEADER_SIZE - 1,
                                     FRAME_HEADER_SIZE, FRAME_HEADER_SIZE + 1,
                                     100, 1448, SIZE_MAX };
    static uint8_t expected[BYTES_MAX];
    static uint8_t got[BYTES_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
        struct outbox outbox;
        size_t size;
        size_t done = 0;
        int fds[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
        assert_int_equal(outbox_init(&outbox, FRAMES, FRAMES), PSD_OK);
        size = fill_box(&outbox, expected);
        while (outbox.count > 0) {
            size_t left = size - done;
            size_t offered;
            ssize_t written = outbox_write(&outbox, fds[0], true, limits[i],
                                           &offered);

            assert_true(written > 0);
            assert_int_equal(offered, limits[i] < left ? limits[i] : left);
            assert_int_equal(read(fds[1], got + done, BYTES_MAX - done),
                             written);
            done += (size_t)written;
            assert_int_equal(outbox.pending, size - done);
        }
        assert_int_equal(done, size);
        assert_memory_equal(got, expected, size);
        outbox_fini(&outbox);
        close(fds[0]);
        close(fds[1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_write_goes_no_further_than_it_may),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
