/* master_test.c: the master's promises, frame by frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <math.h>

#include "base/clock.h"
#include "base/mem.h"
#include "launch/launch_message.h"
#include "master/master.h"

#define SENT_MAX 8192

struct sent {
    struct frame_header header;
    void *payload;
};

struct rig {
    struct master *master;
    struct sent sent[SENT_MAX];
    uint32_t count;
    uint64_t now_ns;
};

static void keep(void *user, const struct frame_header *header,
                 const void *payload)
{
    struct rig *rig = user;
    struct sent *sent = &rig->sent[rig->count++];

    assert_true(rig->count <= SENT_MAX);
    sent->header = *header;
    sent->payload = mem_zalloc(header->size);
    if (header->size > 0) {
        memcpy(sent->payload, payload, header->size);
    }
}

static struct rig *rig_create(uint32_t workers, uint32_t servers)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));
    struct master_size size = { workers, servers, 1, 1 };
    struct master_events events = { .user = rig, .send = keep };

    rig->now_ns = CLOCK_NS_PER_S;
    clock_replace(&rig->now_ns);
    assert_int_equal(master_create(&size, &events, &rig->master), PSD_OK);
    return rig;
}

static void rig_forget(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->count; i++) {
        mem_free(rig->sent[i].payload);
    }
    rig->count = 0;
}

static void rig_destroy(struct rig *rig)
{
    rig_forget(rig);
    master_destroy(rig->master);
    clock_replace(NULL);
    mem_free(rig);
}

static psd_status deliver(struct rig *rig, unsigned type, bool is_server,
                          uint32_t rank, uint32_t block,
                          const struct pack *pack)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .flags = is_server ? FRAME_FLAG_SERVER : 0,
        .rank = (uint16_t)rank,
        .block = block,
        .size = pack == NULL ? 0 : (uint32_t)pack->size,
    };

    return master_deliver(rig->master, &header,
                          pack == NULL ? NULL : pack->data);
}

/* How many frames of `type` went to `rank`; all ranks with WIRE_RANK_NONE. */
static uint32_t sent_count(const struct rig *rig, unsigned type, bool is_server,
                           uint32_t rank)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < rig->count; i++) {
        const struct frame_header *header = &rig->sent[i].header;
        bool to_server = (header->flags & FRAME_FLAG_SERVER) != 0;

        count += header->type == type && to_server == is_server &&
                 (rank == WIRE_RANK_NONE || header->rank == rank);
    }
    return count;
}

static const struct sent *sent_last(const struct rig *rig, unsigned type)
{
    for (uint32_t i = rig->count; i > 0; i--) {
        if (rig->sent[i - 1].header.type == type) {
            return &rig->sent[i - 1];
        }
    }
    fail_msg("no %s frame was sent", frame_type_name(type));
    return NULL;
}

static struct launch_verdict last_verdict(const struct rig *rig)
{
    const struct sent *sent = sent_last(rig, FRAME_VERDICT);
    struct launch_verdict verdict;

    assert_int_equal(
        launch_verdict_unpack(&verdict, sent->payload, sent->header.size),
        PSD_OK);
    return verdict;
}

static struct message_end last_end(const struct rig *rig)
{
    const struct sent *sent = sent_last(rig, FRAME_END);
    struct message_end end;

    assert_int_equal(message_end_unpack(&end, sent->payload, sent->header.size),
                     PSD_OK);
    return end;
}

static void enter(struct rig *rig, bool is_server, uint32_t rank)
{
    struct message_enter message = { .pid = 1000 + rank };
    struct pack pack;

    pack_init(&pack);
    message_enter_pack(&pack, &message);
    assert_int_equal(deliver(rig, FRAME_ENTER, is_server, rank, 0, &pack),
                     PSD_OK);
    pack_fini(&pack);
}

static void open_shard(struct rig *rig, uint32_t server)
{
    char url[1][MESSAGE_URL_MAX] = { "tcp:10.0.0.1:7000" };
    struct message_shards shards = { .url_count = 1, .urls = url };
    struct pack pack;

    pack_init(&pack);
    message_shards_pack(&pack, &shards);
    assert_int_equal(deliver(rig, FRAME_SHARDS, true, server, 0, &pack),
                     PSD_OK);
    pack_fini(&pack);
}

static struct rig *rig_entered(uint32_t workers, uint32_t servers)
{
    struct rig *rig = rig_create(workers, servers);

    for (uint32_t i = 0; i < workers; i++) {
        enter(rig, false, i);
    }
    for (uint32_t i = 0; i < servers; i++) {
        enter(rig, true, i);
    }
    for (uint32_t i = 0; i < servers; i++) {
        open_shard(rig, i);
    }
    rig_forget(rig);
    return rig;
}

static void table_pack(struct pack *pack, uint32_t count, uint32_t odd,
                       uint64_t odd_count)
{
    struct message_table table = { .count = count };

    table.specs = mem_zalloc_array(count, sizeof(*table.specs));
    for (uint32_t i = 0; i < count; i++) {
        snprintf(table.specs[i].name, sizeof(table.specs[i].name),
                 "layer.%" PRIu32, i);
        table.specs[i].dtype = PSD_FLOAT32;
        table.specs[i].count = i == odd ? odd_count : 1000;
    }
    pack_init(pack);
    message_table_pack(pack, &table);
    message_table_fini(&table);
}

static void hand_in(struct rig *rig, uint32_t rank, uint32_t batch,
                    uint32_t count, uint32_t odd, uint64_t odd_count)
{
    struct pack pack;

    table_pack(&pack, count, odd, odd_count);
    assert_int_equal(deliver(rig, FRAME_REGISTER, false, rank, batch, &pack),
                     PSD_OK);
    pack_fini(&pack);
}

static void prove(struct rig *rig, uint32_t rank, uint32_t tensor,
                  uint64_t step, uint32_t crc)
{
    struct message_proof proof = { .tensor = tensor, .step = step, .crc = crc };
    struct message_digest digest = { .count = 1, .proofs = &proof };
    struct pack pack;

    pack_init(&pack);
    message_digest_pack(&pack, &digest);
    assert_int_equal(deliver(rig, FRAME_DIGEST, false, rank, 0, &pack), PSD_OK);
    pack_fini(&pack);
}

/* ---- registration ------------------------------------------------------- */

static void equal_batches_are_registered(void **state)
{
    struct rig *rig = rig_entered(3, 0);

    (void)state;
    hand_in(rig, 2, 0, 5, 99, 0);
    hand_in(rig, 0, 0, 5, 99, 0);
    assert_int_equal(rig->count, 0);
    hand_in(rig, 1, 0, 5, 99, 0);
    assert_int_equal(sent_count(rig, FRAME_REGISTERED, false, WIRE_RANK_NONE),
                     3);
    rig_forget(rig);
    for (uint32_t i = 0; i < 3; i++) {
        hand_in(rig, i, 1, 7, 99, 0);
    }
    assert_int_equal(sent_last(rig, FRAME_REGISTERED)->header.block, 1);
    rig_destroy(rig);
}

static void servers_place_a_batch_before_the_workers_go_on(void **state)
{
    struct rig *rig = rig_entered(2, 2);

    (void)state;
    hand_in(rig, 0, 0, 5, 99, 0);
    hand_in(rig, 1, 0, 5, 99, 0);
    assert_int_equal(sent_count(rig, FRAME_TABLE, true, WIRE_RANK_NONE), 2);
    deliver(rig, FRAME_TABLE_OK, true, 1, 0, NULL);
    assert_int_equal(sent_count(rig, FRAME_REGISTERED, false, WIRE_RANK_NONE),
                     0);
    deliver(rig, FRAME_TABLE_OK, true, 0, 0, NULL);
    assert_int_equal(sent_count(rig, FRAME_REGISTERED, false, WIRE_RANK_NONE),
                     2);
    rig_destroy(rig);
}

static void a_different_size_is_told_name_by_name(void **state)
{
    struct rig *rig = rig_entered(3, 1);
    struct launch_verdict verdict;

    (void)state;
    hand_in(rig, 0, 0, 5, 99, 0);
    hand_in(rig, 1, 0, 5, 99, 0);
    hand_in(rig, 2, 0, 5, 3, 900);
    verdict = last_verdict(rig);
    assert_int_equal(verdict.code, 65);
    assert_int_equal(verdict.status, PSD_EDIFFER);
    assert_non_null(strstr(verdict.reason,
                           "tensor 3: worker 0 has \"layer.3\" float32 x 1000"
                           ", worker 2 has \"layer.3\" float32 x 900"));
    assert_null(strstr(verdict.reason, "layer.2"));
    assert_int_equal(sent_count(rig, FRAME_END, false, WIRE_RANK_NONE), 3);
    assert_int_equal(sent_count(rig, FRAME_END, true, WIRE_RANK_NONE), 1);
    assert_string_equal(last_end(rig).reason, verdict.reason);
    rig_destroy(rig);
}

static void batches_of_different_number_differ(void **state)
{
    struct rig *rig = rig_entered(2, 0);

    (void)state;
    hand_in(rig, 0, 0, 5, 99, 0);
    hand_in(rig, 1, 1, 5, 99, 0);
    assert_int_equal(last_verdict(rig).status, PSD_EDIFFER);
    rig_destroy(rig);
}

static void sixty_four_workers_register_a_thousand_tensors_fast(void **state)
{
    struct rig *rig = rig_entered(64, 0);
    struct pack pack;
    uint64_t began_ns;

    (void)state;
    table_pack(&pack, 1000, 9999, 0);
    clock_replace(NULL);
    began_ns = clock_ns();
    for (uint32_t i = 0; i < 64; i++) {
        deliver(rig, FRAME_REGISTER, false, i, 0, &pack);
    }
    /* Milliseconds; the limit leaves room for a sanitizer. */
    assert_true(clock_ns() - began_ns < 500 * CLOCK_NS_PER_MS);
    assert_int_equal(sent_count(rig, FRAME_REGISTERED, false, WIRE_RANK_NONE),
                     64);
    pack_fini(&pack);
    rig_destroy(rig);
}

static void a_table_that_is_none_ends_the_job(void **state)
{
    struct rig *rig = rig_entered(1, 0);
    struct pack pack;

    (void)state;
    pack_init(&pack);
    pack_u32(&pack, 4000000000u);
    deliver(rig, FRAME_REGISTER, false, 0, 0, &pack);
    assert_int_equal(last_verdict(rig).status, PSD_EPROTO);
    pack_fini(&pack);
    rig_destroy(rig);
}

/* ---- digests ------------------------------------------------------------ */

static void equal_proofs_are_counted(void **state)
{
    struct rig *rig = rig_entered(3, 0);
    struct launch_view view;
    const struct sent *sent;

    (void)state;
    for (uint32_t rank = 0; rank < 3; rank++) {
        for (uint32_t tensor = 0; tensor < 10; tensor++) {
            prove(rig, rank, tensor, 4, 77 + tensor);
        }
    }
    assert_int_equal(rig->count, 0);
    deliver(rig, FRAME_STOP, false, 0, 0, NULL);
    sent = sent_last(rig, FRAME_VIEW);
    assert_int_equal(
        launch_view_unpack(&view, sent->payload, sent->header.size), PSD_OK);
    assert_int_equal(view.final, 1);
    assert_int_equal(view.compared, 20);
    assert_int_equal(view.differences, 0);
    rig_destroy(rig);
}

static void the_first_differing_tensor_is_named(void **state)
{
    struct rig *rig = rig_entered(3, 0);
    struct launch_verdict verdict;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        hand_in(rig, i, 0, 5, 99, 0);
    }
    prove(rig, 0, 4, 12, 0xabcd); /* 0 is the barrier */
    prove(rig, 1, 4, 12, 0xabcd);
    prove(rig, 2, 4, 12, 0x1234);
    verdict = last_verdict(rig);
    assert_int_equal(verdict.code, 65);
    assert_non_null(strstr(verdict.reason, "\"layer.3\""));
    assert_non_null(strstr(verdict.reason, "step 12"));
    assert_non_null(strstr(verdict.reason, "worker 0 and 1 more has crc "
                                           "0000abcd"));
    assert_non_null(strstr(verdict.reason, "worker 2 has crc 00001234"));
    assert_int_equal(sent_count(rig, FRAME_END, false, WIRE_RANK_NONE), 3);
    rig_destroy(rig);
}

/* ---- the end ------------------------------------------------------------ */

static void an_abort_reaches_everybody(void **state)
{
    struct rig *rig = rig_entered(3, 1);
    struct message_end abort = { .status = 7, .reason = "no data" };
    struct launch_verdict verdict;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    message_end_pack(&pack, &abort);
    deliver(rig, FRAME_ABORT, false, 2, 0, &pack);
    pack_fini(&pack);
    verdict = last_verdict(rig);
    assert_int_equal(verdict.code, 7);
    assert_int_equal(verdict.status, PSD_EABORT);
    assert_int_equal(verdict.has_culprit, 1);
    assert_int_equal(verdict.rank, 2);
    assert_string_equal(verdict.reason, "worker 2 aborted: no data");
    assert_int_equal(sent_count(rig, FRAME_END, false, WIRE_RANK_NONE), 3);
    assert_int_equal(last_end(rig).status, PSD_EABORT);
    rig_destroy(rig);
}

static void a_lost_member_is_named_to_those_who_are_left(void **state)
{
    static const char sentence[] =
        "worker 1 (pid 4242) was killed by signal 9 (SIGKILL)";
    struct rig *rig = rig_entered(3, 1);

    (void)state;
    master_lost(rig->master, false, 1, sentence);
    assert_int_equal(sent_count(rig, FRAME_END, false, 0), 1);
    assert_int_equal(sent_count(rig, FRAME_END, false, 1), 0);
    assert_int_equal(sent_count(rig, FRAME_END, false, 2), 1);
    assert_int_equal(sent_count(rig, FRAME_END, true, 0), 1);
    assert_int_equal(last_end(rig).status, PSD_ELOST);
    assert_string_equal(last_end(rig).reason, sentence);
    assert_int_equal(last_verdict(rig).code, 0);
    rig_forget(rig);
    master_lost(rig->master, false, 2, "another"); /* the job ends once */
    assert_int_equal(rig->count, 0);
    rig_destroy(rig);
}

static void one_who_comes_late_is_told_that_it_is_over(void **state)
{
    struct rig *rig = rig_create(2, 0);

    (void)state;
    master_lost(rig->master, false, 1, "worker 1 is gone");
    rig_forget(rig);
    enter(rig, false, 0);
    assert_int_equal(sent_count(rig, FRAME_END, false, 0), 1);
    assert_string_equal(last_end(rig).reason, "worker 1 is gone");
    rig_destroy(rig);
}

/* ---- leaving ------------------------------------------------------------ */

static void those_who_stay_learn_who_left(void **state)
{
    struct rig *rig = rig_entered(3, 1);

    (void)state;
    deliver(rig, FRAME_BYE, false, 1, 0, NULL);
    assert_int_equal(sent_count(rig, FRAME_LEFT, false, WIRE_RANK_NONE), 2);
    assert_int_equal(sent_count(rig, FRAME_LEFT, false, 1), 0);
    assert_int_equal(sent_count(rig, FRAME_LEFT, true, WIRE_RANK_NONE), 0);
    assert_int_equal(sent_last(rig, FRAME_LEFT)->header.block, 1);
    assert_int_equal(sent_count(rig, FRAME_VERDICT, false, WIRE_RANK_NONE), 0);
    rig_destroy(rig);
}

static void nobody_registers_with_one_who_left(void **state)
{
    for (int bye_first = 0; bye_first < 2; bye_first++) {
        struct rig *rig = rig_entered(3, 0);

        (void)state;
        if (bye_first) {
            deliver(rig, FRAME_BYE, false, 1, 0, NULL);
            hand_in(rig, 0, 0, 5, 99, 0);
        } else {
            hand_in(rig, 0, 0, 5, 99, 0);
            deliver(rig, FRAME_BYE, false, 1, 0, NULL);
        }
        assert_int_equal(last_end(rig).status, PSD_ELOST);
        assert_non_null(
            strstr(last_end(rig).reason, "worker 1 has closed its session"));
        assert_int_equal(sent_count(rig, FRAME_END, false, 1), 0);
        rig_destroy(rig);
    }
}

/* ---- views -------------------------------------------------------------- */

static void report(struct rig *rig, uint32_t rank, uint64_t step, double loss,
                   uint64_t samples)
{
    struct message_metrics metrics = { .step = step,
                                       .loss = loss,
                                       .samples = samples,
                                       .exchanged_bytes = 100,
                                       .sent_bytes = 10,
                                       .elapsed_ns = CLOCK_NS_PER_S,
                                       .wait_ns = CLOCK_NS_PER_S / 2 };
    struct pack pack;

    pack_init(&pack);
    message_metrics_pack(&pack, &metrics);
    deliver(rig, FRAME_METRICS, false, rank, 0, &pack);
    pack_fini(&pack);
}

static void views_come_at_most_ten_times_a_second(void **state)
{
    struct rig *rig = rig_entered(1, 0);

    (void)state;
    for (uint32_t i = 0; i < 1000; i++) {
        rig->now_ns += CLOCK_NS_PER_MS;
        report(rig, 0, i, 1.0, i);
    }
    assert_in_range(rig->count, 5, 11);
    rig_destroy(rig);
}

/* ---- bad input ---------------------------------------------------------- */

static void frames_of_nobody_are_refused(void **state)
{
    struct rig *rig = rig_entered(2, 0);

    (void)state;
    assert_int_equal(deliver(rig, FRAME_BYE, false, 2, 0, NULL), PSD_EPROTO);
    assert_int_equal(deliver(rig, FRAME_BYE, true, 0, 0, NULL), PSD_EPROTO);
    assert_int_equal(deliver(rig, FRAME_PUSH, false, 0, 0, NULL), PSD_EPROTO);
    assert_int_equal(deliver(rig, FRAME_START, false, 0, 0, NULL), PSD_EPROTO);
    assert_int_equal(rig->count, 0);
    rig_destroy(rig);
}

static void a_frame_out_of_turn_ends_the_job(void **state)
{
    struct rig *rig = rig_create(2, 1);

    (void)state;
    deliver(rig, FRAME_REGISTER, false, 0, 0, NULL);
    assert_int_equal(last_verdict(rig).status, PSD_EPROTO);
    rig_destroy(rig);
    rig = rig_entered(2, 1);
    deliver(rig, FRAME_TABLE_OK, true, 0, 0, NULL);
    assert_int_equal(last_verdict(rig).status, PSD_EPROTO);
    rig_destroy(rig);
}

static void running_out_of_memory_at_the_start_leaves_nothing(void **state)
{
    struct master_size size = { 4, 2, 1, 1 };
    struct master_events events = { .send = keep };
    struct master *master = NULL;
    psd_status status = PSD_ENOMEM;

    (void)state;
    for (long n = 1; status != PSD_OK; n++) {
        mem_fail_after(n);
        status = master_create(&size, &events, &master);
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
    }
    master_destroy(master);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_batches_are_registered),
        cmocka_unit_test(servers_place_a_batch_before_the_workers_go_on),
        cmocka_unit_test(a_different_size_is_told_name_by_name),
        cmocka_unit_test(batches_of_different_number_differ),
        cmocka_unit_test(sixty_four_workers_register_a_thousand_tensors_fast),
        cmocka_unit_test(a_table_that_is_none_ends_the_job),
        cmocka_unit_test(equal_proofs_are_counted),
        cmocka_unit_test(the_first_differing_tensor_is_named),
        cmocka_unit_test(an_abort_reaches_everybody),
        cmocka_unit_test(a_lost_member_is_named_to_those_who_are_left),
        cmocka_unit_test(one_who_comes_late_is_told_that_it_is_over),
        cmocka_unit_test(those_who_stay_learn_who_left),
        cmocka_unit_test(nobody_registers_with_one_who_left),
        cmocka_unit_test(views_come_at_most_ten_times_a_second),
        cmocka_unit_test(frames_of_nobody_are_refused),
        cmocka_unit_test(a_frame_out_of_turn_ends_the_job),
        cmocka_unit_test(running_out_of_memory_at_the_start_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
