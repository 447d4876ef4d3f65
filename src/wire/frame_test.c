/* frame_test.c: claims about frame.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "wire/wire.h"

static struct frame_header sealed(uint8_t type, uint16_t flags,
                                  const char *payload)
{
    struct frame_header header = {
        .type = type,
        .flags = flags,
        .size = (uint32_t)strlen(payload),
        .length = (uint32_t)strlen(payload),
        .block = 3,
        .step = 17,
        .weight = 32.0,
    };

    frame_seal(&header, payload);
    return header;
}

static void every_type_has_a_name_and_others_have_none(void **state)
{
    (void)state;
#define CHECK(name, value, text) \
    assert_string_equal(frame_type_name(name), text);
    FRAME_TYPE_MAP(CHECK)
#undef CHECK
    assert_string_equal(frame_type_name(0), "unknown");
    assert_string_equal(frame_type_name(15), "unknown");
    assert_string_equal(frame_type_name(255), "unknown");
    assert_string_equal(frame_type_name(70000), "unknown");
}

static void a_sealed_frame_of_every_type_passes(void **state)
{
    (void)state;
#define CHECK(name, value, text)                                            \
    {                                                                       \
        const char *payload = (name) == FRAME_CREDIT ? "" : "payload";      \
        struct frame_header header = sealed(name, 0, payload);              \
                                                                            \
        assert_int_equal(frame_check_header(&header), PSD_OK);              \
        assert_int_equal(frame_check_payload(&header, payload), PSD_OK);    \
    }
    FRAME_TYPE_MAP(CHECK)
#undef CHECK
}

static void the_crc_of_control_frames_covers_the_payload(void **state)
{
    struct frame_header header = sealed(FRAME_END, 0, "reason");

    (void)state;
    assert_int_equal(frame_check_payload(&header, "reasom"), PSD_EPROTO);
}

static void the_crc_of_data_frames_covers_the_payload_on_demand(void **state)
{
    struct frame_header plain = sealed(FRAME_PUSH, 0, "gradient");
    struct frame_header guarded = sealed(FRAME_PUSH, FRAME_FLAG_CRC,
                                         "gradient");

    (void)state;
    assert_int_equal(frame_check_payload(&plain, "gradiemt"), PSD_OK);
    assert_int_equal(frame_check_payload(&guarded, "gradient"), PSD_OK);
    assert_int_equal(frame_check_payload(&guarded, "gradiemt"), PSD_EPROTO);
}

static void a_flipped_bit_anywhere_in_a_header_is_found(void **state)
{
    (void)state;
    for (size_t bit = 0; bit < FRAME_HEADER_SIZE * 8; bit++) {
        struct frame_header data = sealed(FRAME_PUSH, 0, "gradient");
        struct frame_header control = sealed(FRAME_END, 0, "gradient");
        uint8_t mask = (uint8_t)(1u << (bit % 8));

        ((uint8_t *)&data)[bit / 8] ^= mask;
        ((uint8_t *)&control)[bit / 8] ^= mask;
        /* A length or a kind that changed sends us past these 8 bytes, so
         * the payload is looked at only where the header says 8. */
        assert_true(frame_check_header(&data) == PSD_EPROTO ||
                    (data.size == 8 &&
                     frame_check_payload(&data, "gradient") == PSD_EPROTO));
        assert_true(frame_check_header(&control) == PSD_EPROTO ||
                    control.size != 8 ||
                    frame_check_payload(&control, "gradient") == PSD_EPROTO);
    }
}

static void lengths_are_held_against_the_limits(void **state)
{
    struct frame_header header = { .type = FRAME_PUSH,
                                   .size = WIRE_DATA_MAX + 1u };

    (void)state;
    frame_seal(&header, NULL);
    assert_int_equal(frame_check_header(&header), PSD_EPROTO);
    header = (struct frame_header){ .type = FRAME_END,
                                    .version = WIRE_VERSION,
                                    .size = WIRE_CONTROL_MAX + 1u };
    assert_int_equal(frame_check_header(&header), PSD_EPROTO);
    header = (struct frame_header){ .type = FRAME_CREDIT, .size = 1 };
    frame_seal(&header, NULL);
    assert_int_equal(frame_check_header(&header), PSD_EPROTO);
    header = (struct frame_header){ .type = FRAME_PUSH, .size = 8,
                                    .region = 1 };
    frame_seal(&header, NULL);
    assert_int_equal(frame_check_header(&header), PSD_EPROTO);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_has_a_name_and_others_have_none),
        cmocka_unit_test(a_sealed_frame_of_every_type_passes),
        cmocka_unit_test(the_crc_of_control_frames_covers_the_payload),
        cmocka_unit_test(the_crc_of_data_frames_covers_the_payload_on_demand),
        cmocka_unit_test(a_flipped_bit_anywhere_in_a_header_is_found),
        cmocka_unit_test(lengths_are_held_against_the_limits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
