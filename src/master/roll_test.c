/* roll_test.c: who is in, what they want, and what everybody is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launch/launch_message.h"
#include "master/master.h"

/* What was sent: how often, and the last one. */
struct rig {
    struct master *master;
    uint64_t now_ns;
    uint32_t shapes;
    uint32_t members_count;
    struct message_shape shape;
    struct message_members members;
    struct message_end end;
    struct launch_verdict verdict;
};

static void keep(void *user, const struct frame_header *header,
                 const void *payload)
{
    struct rig *rig = user;
    psd_status status = PSD_OK;

    switch (header->type) {
    case FRAME_SHAPE:
        assert_true((header->flags & FRAME_FLAG_SERVER) != 0);
        rig->shapes++;
        status = message_shape_unpack(&rig->shape, payload, header->size);
        break;
    case FRAME_MEMBERS:
        rig->members_count++;
        message_members_fini(&rig->members);
        status = message_members_unpack(&rig->members, payload, header->size);
        break;
    case FRAME_END:
        status = message_end_unpack(&rig->end, payload, header->size);
        break;
    case FRAME_VERDICT:
        status = launch_verdict_unpack(&rig->verdict, payload, header->size);
        break;
    default:
        break;
    }
    assert_int_equal(status, PSD_OK);
}

static struct rig *rig_create(const struct master_size *size)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct master_events events = { .user = rig, .send = keep };

    rig->now_ns = CLOCK_NS_PER_S;
    clock_replace(&rig->now_ns);
    assert_int_equal(master_create(size, &events, &rig->master), PSD_OK);
    return rig;
}

static void rig_destroy(struct rig *rig)
{
    message_members_fini(&rig->members);
    master_destroy(rig->master);
    clock_replace(NULL);
    mem_free(rig);
}

static void deliver(struct rig *rig, unsigned type, bool is_server,
                    uint32_t rank, struct pack *pack)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .flags = is_server ? FRAME_FLAG_SERVER : 0,
        .rank = (uint16_t)rank,
        .size = (uint32_t)pack->size,
    };

    assert_int_equal(master_deliver(rig->master, &header, pack->data), PSD_OK);
    pack_fini(pack);
}

/* "tcp:RANK:INDEX" */
static void fill_urls(char (*urls)[MESSAGE_URL_MAX], uint32_t rank,
                      uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        snprintf(urls[i], MESSAGE_URL_MAX, "tcp:%" PRIu32 ":%" PRIu32, rank,
                 i);
    }
}

static void enter_with(struct rig *rig, bool is_server, uint32_t rank,
                       struct message_enter enter)
{
    char urls[4][MESSAGE_URL_MAX];
    struct pack pack;

    fill_urls(urls, rank, enter.url_count);
    enter.pid = 1000 + rank;
    enter.urls = urls;
    pack_init(&pack);
    message_enter_pack(&pack, &enter);
    deliver(rig, FRAME_ENTER, is_server, rank, &pack);
}

static void enter(struct rig *rig, bool is_server, uint32_t rank)
{
    enter_with(rig, is_server, rank, (struct message_enter){ .pid = 0 });
}

static void want(struct rig *rig, uint32_t rank, uint32_t threads,
                 uint32_t block_size)
{
    enter_with(rig, false, rank,
               (struct message_enter){ .threads = threads,
                                       .block_size = block_size });
}

static void open_shards(struct rig *rig, bool is_server, uint32_t rank,
                        uint32_t count)
{
    char urls[4][MESSAGE_URL_MAX];
    struct message_shards shards = { .url_count = count, .urls = urls };
    struct pack pack;

    fill_urls(urls, rank, count);
    pack_init(&pack);
    message_shards_pack(&pack, &shards);
    deliver(rig, FRAME_SHARDS, is_server, rank, &pack);
}

/* ---- claims ------------------------------------------------------------- */

static void everybody_learns_the_shards_when_all_are_open(void **state)
{
    struct rig *rig = rig_create(&(struct master_size){ 2, 2, 2, 2 });

    (void)state;
    enter(rig, true, 1);
    enter(rig, false, 1);
    enter(rig, false, 0);
    assert_int_equal(rig->shapes, 0);
    enter(rig, true, 0);
    assert_int_equal(rig->shapes, 2);
    assert_int_equal(rig->shape.threads, 2);
    assert_int_equal(rig->shape.block_size, MASTER_BLOCK_SIZE);
    open_shards(rig, true, 1, 2);
    assert_int_equal(rig->members_count, 0);
    open_shards(rig, true, 0, 2);
    assert_int_equal(rig->members_count, 4);
    assert_int_equal(rig->members.epoch, 1);
    assert_int_equal(rig->members.workers, 2);
    assert_int_equal(rig->members.block_size, MASTER_BLOCK_SIZE);
    assert_int_equal(rig->members.shard_count, 4);
    assert_string_equal(rig->members.urls[0], "tcp:0:0");
    assert_string_equal(rig->members.urls[1], "tcp:0:1");
    assert_string_equal(rig->members.urls[2], "tcp:1:0");
    rig_destroy(rig);
}

static void workers_play_the_shards_where_there_are_no_servers(void **state)
{
    struct rig *rig = rig_create(&(struct master_size){ 2, 0, 1, 1 });

    (void)state;
    enter_with(rig, false, 1, (struct message_enter){ .url_count = 1 });
    enter_with(rig, false, 0,
               (struct message_enter){ .block_size = 8192, .url_count = 1 });
    assert_int_equal(rig->shapes, 0);
    assert_int_equal(rig->members.shard_count, 2);
    assert_int_equal(rig->members.block_size, 8192);
    assert_string_equal(rig->members.urls[0], "tcp:0:0");
    assert_string_equal(rig->members.urls[1], "tcp:1:0");
    rig_destroy(rig);
}

static void the_largest_wish_counts_whoever_comes_first(void **state)
{
    static const struct {
        uint32_t threads[3];
        uint32_t block_size[3];
        uint32_t got;
        uint32_t got_size;
    } rows[] = {
        { { 0, 0, 0 }, { 0, 0, 0 }, 1, MASTER_BLOCK_SIZE },
        { { 2, 1, 0 }, { 8192, 0, 4096 }, 2, 8192 },
        { { 0, 1, 3 }, { 0, 4096, 1 << 20 }, 3, 1 << 20 },
        { { 1, 64, 2 }, { 0, 0, 0 }, 4, MASTER_BLOCK_SIZE }, /* the most */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rig *rig = rig_create(&(struct master_size){ 3, 1, 1, 4 });

        enter(rig, true, 0);
        for (uint32_t rank = 0; rank < 3; rank++) {
            want(rig, rank, rows[i].threads[rank], rows[i].block_size[rank]);
        }
        assert_int_equal(rig->shape.threads, rows[i].got);
        assert_int_equal(rig->shape.block_size, rows[i].got_size);
        open_shards(rig, true, 0, rows[i].got);
        assert_int_equal(rig->members.shard_count, rows[i].got);
        assert_int_equal(rig->members.block_size, rows[i].got_size);
        rig_destroy(rig);
    }
}

static void a_number_that_psd_run_gives_stays(void **state)
{
    struct rig *rig = rig_create(&(struct master_size){ 2, 1, 2, 2 });

    (void)state;
    want(rig, 0, 1, 0);
    enter(rig, true, 0);
    want(rig, 1, 3, 0);
    assert_int_equal(rig->shape.threads, 2);
    rig_destroy(rig);
}

static void a_second_enter_of_a_rank_is_refused(void **state)
{
    struct rig *rig = rig_create(&(struct master_size){ 2, 0, 1, 1 });

    (void)state;
    enter(rig, false, 0);
    enter(rig, false, 0);
    assert_int_equal(rig->end.status, PSD_EINVAL);
    assert_non_null(strstr(rig->end.reason, "pid 1000"));
    enter(rig, false, 1);
    assert_int_equal(rig->members_count, 2);
    rig_destroy(rig);
}

/* ENTER with shards; SHARDS too early, of a worker, too few, twice. */
static void shards_out_of_turn_end_the_job(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct rig *rig = rig_create(&(struct master_size){ 1, 2, 2, 2 });

        enter_with(rig, true, 1,
                   (struct message_enter){ .url_count = i == 0 ? 2 : 0 });
        if (i == 1) {
            open_shards(rig, true, 1, 2);
        }
        enter(rig, true, 0);
        enter(rig, false, 0);
        open_shards(rig, i != 2, 0, i == 3 ? 1 : 2);
        if (i == 4) {
            open_shards(rig, true, 0, 2);
        }
        assert_int_equal(rig->verdict.status, PSD_EPROTO);
        assert_int_equal(rig->members_count, 0);
        rig_destroy(rig);
    }
}

static void a_size_that_no_job_has_is_refused(void **state)
{
    static const struct master_size none[] = {
        { 0, 0, 1, 1 }, { 1, 1, 0, 1 },   { 1, 1, 2, 1 },
        { 1, 1, 1, WIRE_SHARDS_MAX + 1 }, { 1, 2, 1, WIRE_SHARDS_MAX },
    };
    struct master_events events = { .send = keep };
    struct master *master = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++) {
        assert_int_equal(master_create(&none[i], &events, &master),
                         PSD_EINVAL);
    }
    assert_null(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_learns_the_shards_when_all_are_open),
        cmocka_unit_test(workers_play_the_shards_where_there_are_no_servers),
        cmocka_unit_test(the_largest_wish_counts_whoever_comes_first),
        cmocka_unit_test(a_number_that_psd_run_gives_stays),
        cmocka_unit_test(a_second_enter_of_a_rank_is_refused),
        cmocka_unit_test(shards_out_of_turn_end_the_job),
        cmocka_unit_test(a_size_that_no_job_has_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
