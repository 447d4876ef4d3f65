/* message_test.c: claims about message.c, over every message. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "wire/message.h"

/* Each message: a sample as bytes, and bytes through the struct and back. */
struct row {
    const char *name;
    void (*sample)(struct pack *pack);
    psd_status (*pass)(const void *data, size_t size, struct pack *again);
};

/* Messages whose decoders allocate nothing, and those that need a fini. */
#define PASS_PLAIN(message)                                                  \
    static psd_status message##_pass(const void *data, size_t size,          \
                                     struct pack *again)                     \
    {                                                                        \
        struct message_##message value;                                      \
        psd_status status = message_##message##_unpack(&value, data, size);  \
                                                                             \
        if (status == PSD_OK) {                                              \
            message_##message##_pack(again, &value);                         \
        }                                                                    \
        return status;                                                       \
    }
#define PASS_FINI(message)                                                   \
    static psd_status message##_pass(const void *data, size_t size,          \
                                     struct pack *again)                     \
    {                                                                        \
        struct message_##message value;                                      \
        psd_status status = message_##message##_unpack(&value, data, size);  \
                                                                             \
        if (status == PSD_OK) {                                              \
            message_##message##_pack(again, &value);                         \
            message_##message##_fini(&value);                                \
        }                                                                    \
        return status;                                                       \
    }

PASS_PLAIN(hello)
PASS_PLAIN(welcome)
PASS_PLAIN(shape)
PASS_PLAIN(metrics)
PASS_PLAIN(end)
PASS_FINI(enter)
PASS_FINI(shards)
PASS_FINI(members)
PASS_FINI(table)
PASS_FINI(digest)

static char urls[2][MESSAGE_URL_MAX] = { "tcp:10.0.0.1:7000", "shm:" };

static void hello_sample(struct pack *pack)
{
    struct message_hello hello = { .is_server = 1, .rank = 2,
                                   .incarnation = 3, .pid = 4,
                                   .build = "0.1.0" };

    message_hello_pack(pack, &hello);
}

static void welcome_sample(struct pack *pack)
{
    struct message_welcome welcome = {
        .job = { { 1 }, { 2 } }, .workers = 4, .shards = 2,
        .local_workers = 3, .local_rank = 1, .server_threads = 2,
        .board_size = UINT64_C(1) << 33, .arena_size = UINT64_C(1) << 34,
        .host = "10.0.0.1", .ports = "7000-7100",
    };

    message_welcome_pack(pack, &welcome);
}

static void enter_sample(struct pack *pack)
{
    struct message_enter enter = { .pid = 9, .threads = 2,
                                   .block_size = 65536, .url_count = 2,
                                   .urls = urls };

    message_enter_pack(pack, &enter);
}

static void shape_sample(struct pack *pack)
{
    struct message_shape shape = { .threads = 2, .block_size = 65536 };

    message_shape_pack(pack, &shape);
}

static void shards_sample(struct pack *pack)
{
    struct message_shards shards = { .url_count = 2, .urls = urls };

    message_shards_pack(pack, &shards);
}

static void members_sample(struct pack *pack)
{
    struct message_members members = { .epoch = 1, .workers = 4,
                                       .block_size = 65536,
                                       .shard_count = 2, .urls = urls };

    message_members_pack(pack, &members);
}

static void table_sample(struct pack *pack)
{
    struct message_spec specs[2] = {
        { .name = "fc1/weight", .dtype = PSD_FLOAT32,
          .kind = PSD_KIND_STORE, .count = 1000, .priority = -3,
          .optim = "momentum", .rate = 0.1, .momentum = 0.9 },
        { .name = "fc1/bias", .dtype = PSD_INT64, .count = 1 },
    };
    struct message_table table = { .count = 2, .specs = specs };

    message_table_pack(pack, &table);
}

static void digest_sample(struct pack *pack)
{
    struct message_proof proofs[2] = { { 1, 0, 7, 0xdeadbeefu },
                                       { 2, 1, 8, 0xfeedfaceu } };
    struct message_digest digest = { .count = 2, .proofs = proofs };

    message_digest_pack(pack, &digest);
}

static void metrics_sample(struct pack *pack)
{
    struct message_metrics metrics = { .step = 5, .loss = (double)NAN,
                                       .samples = 320 };

    message_metrics_pack(pack, &metrics);
}

static void end_sample(struct pack *pack)
{
    struct message_end end = { .status = PSD_ELOST,
                               .reason = "worker 3 was lost" };

    message_end_pack(pack, &end);
}

static const struct row rows[] = {
    { "hello", hello_sample, hello_pass },
    { "welcome", welcome_sample, welcome_pass },
    { "enter", enter_sample, enter_pass },
    { "shape", shape_sample, shape_pass },
    { "shards", shards_sample, shards_pass },
    { "members", members_sample, members_pass },
    { "table", table_sample, table_pass },
    { "digest", digest_sample, digest_pass },
    { "metrics", metrics_sample, metrics_pass },
    { "end", end_sample, end_pass },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void every_message_survives_the_way(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct pack pack;
        struct pack again;

        pack_init(&pack);
        pack_init(&again);
        rows[i].sample(&pack);
        assert_int_equal(rows[i].pass(pack.data, pack.size, &again), PSD_OK);
        assert_int_equal(again.size, pack.size);
        assert_memory_equal(again.data, pack.data, pack.size);
        pack_fini(&pack);
        pack_fini(&again);
    }
}

static void a_message_cut_anywhere_or_too_long_is_refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct pack pack;
        struct pack again;

        pack_init(&pack);
        pack_init(&again);
        rows[i].sample(&pack);
        for (size_t size = 0; size < pack.size; size++) {
            assert_int_equal(rows[i].pass(pack.data, size, &again),
                             PSD_EPROTO);
        }
        pack_u8(&pack, 0);
        assert_int_equal(rows[i].pass(pack.data, pack.size, &again),
                         PSD_EPROTO);
        assert_int_equal(again.size, 0);
        pack_fini(&pack);
        pack_fini(&again);
    }
}

static void a_message_without_memory_is_enomem_and_leaks_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < ROWS; i++) {
        struct pack pack;
        struct pack again;
        psd_status status = PSD_ENOMEM;

        pack_init(&pack);
        rows[i].sample(&pack);
        for (long n = 1; status == PSD_ENOMEM && n < 100; n++) {
            pack_init(&again);
            mem_fail_after(n);
            status = rows[i].pass(pack.data, pack.size, &again);
            mem_fail_after(0);
            pack_fini(&again);
        }
        assert_int_equal(status, PSD_OK);
        pack_fini(&pack);
    }
}

static void a_count_beyond_the_bytes_allocates_nothing(void **state)
{
    uint8_t bytes[64] = { 0 };
    struct message_table table;
    struct message_digest digest;
    struct message_members members;
    struct message_shards shards;

    (void)state;
    le_put_u32(bytes, 0xffffffffu);
    mem_path_enter(); /* aborts on an allocation */
    assert_int_equal(message_table_unpack(&table, bytes, sizeof(bytes)),
                     PSD_EPROTO);
    assert_int_equal(message_digest_unpack(&digest, bytes, sizeof(bytes)),
                     PSD_EPROTO);
    assert_int_equal(message_shards_unpack(&shards, bytes, sizeof(bytes)),
                     PSD_EPROTO);
    le_put_u32(bytes + 8, 65536);
    le_put_u32(bytes + 12, 0xffffffffu);
    assert_int_equal(message_members_unpack(&members, bytes, sizeof(bytes)),
                     PSD_EPROTO);
    mem_path_leave();
}

static void a_tensor_of_no_type_is_refused(void **state)
{
    struct message_spec spec = { .name = "w", .dtype = 99, .count = 1 };
    struct message_table table = { .count = 1, .specs = &spec };
    struct message_table back;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    message_table_pack(&pack, &table);
    assert_int_equal(message_table_unpack(&back, pack.data, pack.size),
                     PSD_EPROTO);
    assert_null(back.specs);
    pack_fini(&pack);
}

static void a_job_of_no_workers_or_no_servers_is_refused(void **state)
{
    static const struct message_welcome none[] = {
        { .workers = 0 },
        { .workers = 1, .shards = 2, .server_threads = 0 },
        { .workers = 1, .shards = 3, .server_threads = 2 },
    };

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        struct message_welcome back;
        struct pack pack;

        pack_init(&pack);
        message_welcome_pack(&pack, &none[i]);
        assert_int_equal(message_welcome_unpack(&back, pack.data, pack.size),
                         PSD_EPROTO);
        pack_fini(&pack);
    }
}

static psd_status pass_enter(uint32_t threads, uint32_t block_size)
{
    struct message_enter enter = { .threads = threads,
                                   .block_size = block_size };
    struct pack pack;
    struct pack again;
    psd_status status;

    pack_init(&pack);
    pack_init(&again);
    message_enter_pack(&pack, &enter);
    status = enter_pass(pack.data, pack.size, &again);
    pack_fini(&pack);
    pack_fini(&again);
    return status;
}

static psd_status pass_shape(uint32_t threads, uint32_t block_size)
{
    struct message_shape shape = { threads, block_size };
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    message_shape_pack(&pack, &shape);
    status = message_shape_unpack(&shape, pack.data, pack.size);
    pack_fini(&pack);
    return status;
}

static void a_shape_that_no_job_has_is_refused(void **state)
{
    uint32_t block_max = WIRE_BLOCK_SIZE_MAX;

    (void)state;
    assert_int_equal(pass_enter(0, 0), PSD_OK); /* it wants nothing */
    assert_int_equal(pass_enter(WIRE_SHARDS_MAX, block_max), PSD_OK);
    assert_int_equal(pass_enter(WIRE_SHARDS_MAX + 1, 0), PSD_EPROTO);
    assert_int_equal(pass_enter(1, WIRE_BLOCK_SIZE_MIN - 1), PSD_EPROTO);
    assert_int_equal(pass_enter(1, block_max + 1), PSD_EPROTO);
    assert_int_equal(pass_shape(1, WIRE_BLOCK_SIZE_MIN), PSD_OK);
    assert_int_equal(pass_shape(0, block_max), PSD_EPROTO);
    assert_int_equal(pass_shape(WIRE_SHARDS_MAX + 1, block_max), PSD_EPROTO);
    assert_int_equal(pass_shape(1, 0), PSD_EPROTO);
    assert_int_equal(pass_shape(1, block_max + 1), PSD_EPROTO);
}

static void more_waiting_than_time_is_refused(void **state)
{
    struct message_metrics metrics = { .elapsed_ns = 7, .wait_ns = 7 };
    struct message_metrics got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    message_metrics_pack(&pack, &metrics);
    assert_int_equal(message_metrics_unpack(&got, pack.data, pack.size),
                     PSD_OK);
    pack_fini(&pack);
    pack_init(&pack);
    metrics.wait_ns++;
    message_metrics_pack(&pack, &metrics);
    assert_int_equal(message_metrics_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    pack_fini(&pack);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_survives_the_way),
        cmocka_unit_test(a_message_cut_anywhere_or_too_long_is_refused),
        cmocka_unit_test(a_message_without_memory_is_enomem_and_leaks_nothing),
        cmocka_unit_test(a_count_beyond_the_bytes_allocates_nothing),
        cmocka_unit_test(a_tensor_of_no_type_is_refused),
        cmocka_unit_test(a_job_of_no_workers_or_no_servers_is_refused),
        cmocka_unit_test(a_shape_that_no_job_has_is_refused),
        cmocka_unit_test(more_waiting_than_time_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
