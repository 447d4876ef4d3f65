/*
 * frames_test.c: the bytes of version 1 of the protocol, kept as a file. What
 * this build encodes is what the file holds, and what the file holds is what
 * this build decodes. `test_golden_frames --write FILE` makes the file anew;
 * once a version is released its file stays as it is.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/log.h"
#include "base/mem.h"
#include "wire/message.h"
#include "wire/standing.h"

#define FILE_MAX (1u << 20)

static const char *golden_path;

/* ---- the sample -------------------------------------------------------- */

/* Those by which the members come together. */
static void pack_entry(struct pack *pack, unsigned type)
{
    static char urls[2][MESSAGE_URL_MAX] = { "tcp:10.0.0.1:7000", "shm:" };
    const struct message_enter enter = { 9, 2, 65536, 2, urls };
    const struct message_shape shape = { 2, 65536 };
    const struct message_shards shards = { 2, urls };
    const struct message_members members = { 1, 4, 65536, 2, urls };

    switch (type) {
    case FRAME_ENTER:
        message_enter_pack(pack, &enter);
        break;
    case FRAME_SHAPE:
        message_shape_pack(pack, &shape);
        break;
    case FRAME_SHARDS:
        message_shards_pack(pack, &shards);
        break;
    default:
        message_members_pack(pack, &members);
        break;
    }
}

static void pack_member(struct pack *pack, unsigned type)
{
    static struct message_spec specs[1] = {
        { .name = "fc1/weight", .dtype = PSD_FLOAT32, .kind = PSD_KIND_STORE,
          .count = 1000, .priority = -3, .optim = "momentum", .rate = 0.125,
          .momentum = 0.5 },
    };
    static struct message_proof proofs[1] = { { 1, 0, 7, 0xdeadbeefu } };
    const struct message_hello hello = { 1, 2, 3, 4, "0.1.0" };
    const struct message_welcome welcome = {
        .job = { "0123456789abcde", "0123456789abcdef0123456789abcde" },
        .workers = 4, .shards = 2, .local_workers = 3, .local_rank = 1,
        .server_threads = 2, .board_size = 4096, .arena_size = 8192,
        .host = "10.0.0.1", .ports = "7000-7100",
    };
    const struct message_table table = { 1, specs };
    const struct message_digest digest = { 1, proofs };
    const struct message_metrics metrics = { 5, 0.25, 320, 1, 2, 3, 5, 4, 6 };
    const struct message_end end = { PSD_ELOST, "worker 3 was lost" };
    const struct message_stuck stuck = { STANDING_TENSOR, 1, 7, 2, 3, 4 };
    const struct message_who who = { STANDING_TENSOR, 1, 7 };

    switch (type) {
    case FRAME_HELLO:
        message_hello_pack(pack, &hello);
        break;
    case FRAME_WELCOME:
        message_welcome_pack(pack, &welcome);
        break;
    case FRAME_ENTER:
    case FRAME_SHAPE:
    case FRAME_SHARDS:
    case FRAME_MEMBERS:
        pack_entry(pack, type);
        break;
    case FRAME_STUCK:
        message_stuck_pack(pack, &stuck);
        break;
    case FRAME_WHO:
        message_who_pack(pack, &who);
        break;
    case FRAME_REGISTER:
    case FRAME_TABLE:
        message_table_pack(pack, &table);
        break;
    case FRAME_DIGEST:
        message_digest_pack(pack, &digest);
        break;
    case FRAME_METRICS:
        message_metrics_pack(pack, &metrics);
        break;
    case FRAME_ABORT:
    case FRAME_END:
        message_end_pack(pack, &end);
        break;
    case FRAME_PUSH:
    case FRAME_ANSWER:
        pack_bytes(pack, "\0\0\200\77\0\0\0\100", 8); /* 1.0f, 2.0f */
        break;
    default:
        break; /* no payload, or one of the programs' own */
    }
}

static void pack_frame(struct pack *pack, unsigned type, uint16_t flags)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .flags = flags,
        .epoch = 1,
        .block = 2,
        .incarnation = 3,
        .step = UINT64_C(0x0102030405060708),
        .weight = 32.0,
        .rank = 4,
        .ranks = 1,
        .op = PSD_OP_MEAN,
        .credit = type == FRAME_CREDIT ? 4096 : 0,
    };
    struct pack payload;

    pack_init(&payload);
    pack_member(&payload, type);
    header.size = (uint32_t)payload.size;
    header.length = header.size;
    frame_seal(&header, payload.data);
    pack_bytes(pack, &header, sizeof(header));
    pack_bytes(pack, payload.data, payload.size);
    pack_fini(&payload);
}

static void pack_sample(struct pack *pack)
{
    pack_init(pack);
#define SAMPLE(name, value, text) pack_frame(pack, name, 0);
    FRAME_TYPE_MAP(SAMPLE)
#undef SAMPLE
    pack_frame(pack, FRAME_PUSH, FRAME_FLAG_CRC);
    pack_frame(pack, FRAME_ANSWER, FRAME_FLAG_CRC | FRAME_FLAG_NOWEIGHT);
    pack_frame(pack, FRAME_HELLO, FRAME_FLAG_SERVER);
}

/* ---- the file ---------------------------------------------------------- */

static size_t read_golden(uint8_t *bytes)
{
    FILE *file = fopen(golden_path, "rbe");
    size_t size;

    assert_non_null(file);
    size = fread(bytes, 1, FILE_MAX, file);
    fclose(file);
    return size;
}

static int write_golden(const char *path)
{
    FILE *file = fopen(path, "wbe");
    struct pack pack;
    bool written;

    pack_sample(&pack);
    written = file != NULL &&
              fwrite(pack.data, 1, pack.size, file) == pack.size;
    if (file != NULL) {
        fclose(file);
    }
    pack_fini(&pack);
    return written ? 0 : 1;
}

static void frames_are_encoded_as_ever(void **state)
{
    static uint8_t bytes[FILE_MAX];
    size_t size = read_golden(bytes);
    struct pack pack;

    (void)state;
    pack_sample(&pack);
    assert_false(pack.failed);
    assert_int_equal(pack.size, size);
    assert_memory_equal(pack.data, bytes, size);
    pack_fini(&pack);
}

static void frames_of_the_file_are_accepted_and_sealed_the_same(void **state)
{
    static uint8_t bytes[FILE_MAX];
    size_t size = read_golden(bytes);
    size_t at = 0;
    unsigned count = 0;

    (void)state;
    while (at < size) {
        struct frame_header header;
        struct frame_header again;

        assert_true(size - at >= sizeof(header));
        memcpy(&header, bytes + at, sizeof(header));
        at += sizeof(header);
        assert_int_equal(frame_check_header(&header), PSD_OK);
        assert_true(header.size <= size - at);
        assert_int_equal(frame_check_payload(&header, bytes + at), PSD_OK);
        again = header;
        again.crc = 0;
        again.version = 0;
        frame_seal(&again, bytes + at);
        assert_memory_equal(&again, &header, sizeof(header));
        at += header.size;
        count++;
    }
    assert_true(count >= 27);
}

static void a_header_has_the_documented_bytes(void **state)
{
    static uint8_t bytes[FILE_MAX];
    static const uint8_t push[FRAME_HEADER_SIZE] = {
        8, 0, 0, 0,             /* size */
        1, 1, 0, 0,             /* version, type, flags */
        0, 0, 0, 0,             /* crc, not compared */
        1, 0, 0, 0,             /* epoch */
        2, 0, 0, 0,             /* block */
        3, 0, 0, 0,             /* incarnation */
        8, 7, 6, 5, 4, 3, 2, 1, /* step */
        0, 0, 0, 0, 0, 0, 0x40, 0x40, /* weight 32.0 */
        4, 0, 1, 0,             /* rank, ranks */
        1, 0, 0, 0,             /* op, codec, region */
        0, 0, 0, 0, 0, 0, 0, 0, /* offset */
        8, 0, 0, 0,             /* length */
        0, 0, 0, 0,             /* credit */
    };

    (void)state;
    assert_true(read_golden(bytes) > FRAME_HEADER_SIZE);
    assert_memory_equal(bytes, push, 8);
    assert_memory_equal(bytes + 12, push + 12, FRAME_HEADER_SIZE - 12);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(frames_are_encoded_as_ever),
        cmocka_unit_test(frames_of_the_file_are_accepted_and_sealed_the_same),
        cmocka_unit_test(a_header_has_the_documented_bytes),
    };

    if (argc == 3 && strcmp(argv[1], "--write") == 0) {
        return write_golden(argv[2]);
    }
    if (argc != 2) {
        fprintf(stderr, "usage: %s [--write] FILE\n", argv[0]);
        return 2;
    }
    golden_path = argv[1];
    return cmocka_run_group_tests(tests, NULL, NULL);
}
