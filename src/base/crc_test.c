/* crc_test.c: the checksum against published values and a bitwise one. */
#include "base/claim.h"
#include "base/crc.h"

#define LONGEST 20000
#define ROOM (LONGEST + 64)

static uint8_t bytes[ROOM];

/* One bit at a time, straight from the definition. */
static uint32_t bitwise(const uint8_t *data, size_t size)
{
    uint32_t crc = 0xffffffffu;

    for (size_t i = 0; i < size; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 1) != 0 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
        }
    }
    return crc ^ 0xffffffffu;
}

static int make_bytes(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROOM; i++) {
        bytes[i] = (uint8_t)claim_mix(i);
    }
    return 0;
}

static void the_published_values_come_out(void **state)
{
    uint8_t block[32];

    (void)state;
    assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c_portable(0, "123456789", 9), 0xe3069283u);
    assert_int_equal(crc32c(0, "", 0), 0);
    /* RFC 3720, appendix B.4. */
    memset(block, 0, sizeof(block));
    assert_int_equal(crc32c(0, block, sizeof(block)), 0x8a9136aau);
    memset(block, 0xff, sizeof(block));
    assert_int_equal(crc32c(0, block, sizeof(block)), 0x62a8ab43u);
    for (uint8_t i = 0; i < 32; i++) {
        block[i] = i;
    }
    assert_int_equal(crc32c(0, block, sizeof(block)), 0x46dd794eu);
    for (uint8_t i = 0; i < 32; i++) {
        block[i] = (uint8_t)(31 - i);
    }
    assert_int_equal(crc32c(0, block, sizeof(block)), 0x113fdb5cu);
}

static void the_instruction_agrees_with_the_tables(void **state)
{
    (void)state;
    for (size_t size = 0; size <= LONGEST; size++) {
        size_t offset = (size % 64) | 1;

        assert_int_equal(crc32c(0, bytes + 1, size),
                         crc32c_portable(0, bytes + 1, size));
        assert_int_equal(crc32c(7, bytes + offset, size),
                         crc32c_portable(7, bytes + offset, size));
    }
}

static void the_tables_agree_with_the_definition(void **state)
{
    (void)state;
    for (size_t size = 0; size < 300; size++) {
        assert_int_equal(crc32c_portable(0, bytes + size % 7, size),
                         bitwise(bytes + size % 7, size));
    }
    assert_int_equal(crc32c(0, bytes + 3, LONGEST),
                     bitwise(bytes + 3, LONGEST));
}

static void parts_one_after_the_other_are_the_whole(void **state)
{
    uint32_t whole = crc32c(0, bytes, LONGEST);

    (void)state;
    for (size_t cut = 0; cut <= LONGEST; cut += 37) {
        uint32_t first = crc32c(0, bytes, cut);

        assert_int_equal(crc32c(first, bytes + cut, LONGEST - cut), whole);
        assert_int_equal(
            crc32c_portable(first, bytes + cut, LONGEST - cut), whole);
    }
}

static void one_changed_bit_is_seen_wherever_it_is(void **state)
{
    uint32_t whole = crc32c(0, bytes, LONGEST);

    (void)state;
    for (size_t i = 0; i < LONGEST; i += 61) {
        bytes[i] ^= (uint8_t)(1u << i % 8);
        assert_int_not_equal(crc32c(0, bytes, LONGEST), whole);
        bytes[i] ^= (uint8_t)(1u << i % 8);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_published_values_come_out),
        cmocka_unit_test(the_instruction_agrees_with_the_tables),
        cmocka_unit_test(the_tables_agree_with_the_definition),
        cmocka_unit_test(parts_one_after_the_other_are_the_whole),
        cmocka_unit_test(one_changed_bit_is_seen_wherever_it_is),
    };

    return cmocka_run_group_tests(tests, make_bytes, NULL);
}
