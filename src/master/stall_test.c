/* stall_test.c: whoever holds the others up is named, and nobody else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/mem.h"
#include "master/master_state.h"

#define AFTER_NS (10 * CLOCK_NS_PER_S)
#define TICK_NS  (CLOCK_NS_PER_S / 4)
#define WORKERS  3

struct rig {
    struct master *master;
    uint64_t now_ns;
    uint32_t questions; /* WHO frames sent */
    uint32_t question;  /* number of the last */
    struct message_who who;
    uint32_t reports;
    struct launch_stall report; /* the last */
};

static struct rig rig;

static void keep(void *user, const struct frame_header *header,
                 const void *payload)
{
    (void)user;
    if (header->type == FRAME_WHO) {
        rig.questions++;
        rig.question = header->block;
        assert_int_equal(
            message_who_unpack(&rig.who, payload, header->size), PSD_OK);
    } else if (header->type == FRAME_STALL) {
        rig.reports++;
        assert_int_equal(
            launch_stall_unpack(&rig.report, payload, header->size), PSD_OK);
    }
}

static void deliver(unsigned type, bool is_server, uint32_t rank,
                    uint32_t block, struct pack *pack)
{
    struct frame_header header = {
        .type = (uint8_t)type,
        .flags = is_server ? FRAME_FLAG_SERVER : 0,
        .rank = (uint16_t)rank,
        .block = block,
        .size = (uint32_t)pack->size,
    };

    assert_int_equal(master_deliver(rig.master, &header, pack->data), PSD_OK);
    pack_fini(pack);
}

static void enter(bool is_server, uint32_t rank)
{
    struct message_enter enter = { .pid = 1 };
    struct pack pack;

    pack_init(&pack);
    message_enter_pack(&pack, &enter);
    deliver(FRAME_ENTER, is_server, rank, 0, &pack);
}

static void open_shard(uint32_t server)
{
    char url[1][MESSAGE_URL_MAX] = { "shm:0" };
    struct message_shards shards = { .url_count = 1, .urls = url };
    struct pack pack;

    pack_init(&pack);
    message_shards_pack(&pack, &shards);
    deliver(FRAME_SHARDS, true, server, 0, &pack);
}

static void enroll(uint32_t rank)
{
    struct message_spec spec = { .name = "fc.weight",
                                 .dtype = PSD_FLOAT32,
                                 .count = 8 };
    struct message_table table = { .count = 1, .specs = &spec };
    struct pack pack;

    pack_init(&pack);
    message_table_pack(&pack, &table);
    deliver(FRAME_REGISTER, false, rank, 0, &pack);
}

static void stuck(uint32_t rank, unsigned what, uint64_t step,
                  uint64_t waited_ns)
{
    struct message_stuck message = { .what = (uint8_t)what,
                                     .tensor = 1,
                                     .step = step,
                                     .tensors = 1,
                                     .shard = 2,
                                     .waited_ns = waited_ns };
    struct pack pack;

    pack_init(&pack);
    message_stuck_pack(&pack, &message);
    deliver(FRAME_STUCK, false, rank, 0, &pack);
}

static void answer(bool is_server, uint32_t rank, enum standing_part part,
                   bool waiting)
{
    struct message_standing standing = { .part = (uint8_t)part,
                                         .waiting = waiting };
    struct pack pack;

    pack_init(&pack);
    message_standing_pack(&pack, &standing);
    deliver(FRAME_WHO, is_server, rank, rig.question, &pack);
}

static void metrics(uint32_t rank, uint64_t step)
{
    struct message_metrics message = { .step = step };
    struct pack pack;

    pack_init(&pack);
    message_metrics_pack(&pack, &message);
    deliver(FRAME_METRICS, false, rank, 0, &pack);
}

/* Time passes; every rank but `silent` is heard of. */
static void pass(uint64_t ns, uint32_t silent)
{
    for (uint64_t end = rig.now_ns + ns; rig.now_ns < end;) {
        rig.now_ns += TICK_NS;
        for (uint32_t i = 0; i < WORKERS; i++) {
            if (i != silent && rig.master->seats[i].entered) {
                metrics(i, 0);
            }
        }
        master_tick(rig.master);
    }
}

static void create(uint32_t servers, bool all)
{
    struct master_size size = { WORKERS, servers, 1, 1 };
    struct master_events events = { .send = keep };

    rig = (struct rig){ .now_ns = 1000 * CLOCK_NS_PER_S };
    clock_replace(&rig.now_ns);
    assert_int_equal(master_create(&size, &events, &rig.master), PSD_OK);
    master_stall_after(rig.master, AFTER_NS);
    for (uint32_t i = 0; all && i < WORKERS; i++) {
        enter(false, i);
    }
    for (uint32_t i = 0; all && i < servers; i++) {
        enter(true, i);
    }
    for (uint32_t i = 0; all && i < servers; i++) {
        open_shard(i);
    }
    master_tick(rig.master);
}

static int set_up(void **state)
{
    (void)state;
    create(0, true);
    for (uint32_t i = 0; i < WORKERS; i++) {
        enroll(i);
    }
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    master_destroy(rig.master);
    clock_replace(NULL);
    return 0;
}

static void blames(uint32_t count, uint32_t rank, enum launch_stall_how how)
{
    assert_int_equal(rig.report.count, count);
    if (count > 0) {
        assert_int_equal(rig.report.stalled[0].rank, rank);
        assert_int_equal(rig.report.stalled[0].how, how);
    }
}

/* ---- tensors ------------------------------------------------------------ */

static void one_that_has_not_pushed_is_named_once(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, 9 * CLOCK_NS_PER_S);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.questions, 0); /* not long enough */
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    stuck(2, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.questions, WORKERS);
    assert_int_equal(rig.who.step, 5);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_MISSING, false);
    assert_int_equal(rig.reports, 0);
    answer(false, 2, STANDING_GIVEN, true);
    assert_int_equal(rig.reports, 1);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_TENSOR);
    assert_string_equal(rig.report.tensor, "fc.weight");
    assert_int_equal(rig.report.step, 5);
    assert_int_equal(rig.report.waiters, 2);
    assert_true(rig.report.waited_ms >= 10000);
    blames(1, 1, LAUNCH_STALL_MISSING);
    pass(5 * CLOCK_NS_PER_S, UINT32_MAX);
    stuck(0, STANDING_TENSOR, 5, 2 * AFTER_NS);
    pass(5 * CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.reports, 1);
    stuck(0, STANDING_NONE, 0, 0);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.reports, 2);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_OVER);
}

static void one_that_does_not_answer_is_named(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, 1);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 2, STANDING_GIVEN, true);
    assert_int_equal(rig.reports, 0);
    pass(3 * CLOCK_NS_PER_S, 1);
    assert_int_equal(rig.reports, 1);
    blames(1, 1, LAUNCH_STALL_SAYS_NOTHING);
}

static void a_wait_that_is_over_meanwhile_is_no_stall(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    answer(false, 0, STANDING_PAST, true);
    answer(false, 1, STANDING_PAST, false);
    answer(false, 2, STANDING_PAST, false);
    assert_int_equal(rig.reports, 0);
    stuck(0, STANDING_TENSOR, 6, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    stuck(0, STANDING_NONE, 0, 0); /* before its answer */
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_MISSING, false);
    answer(false, 2, STANDING_GIVEN, true);
    assert_int_equal(rig.reports, 0);
}

static void who_waits_itself_is_not_to_blame_while_another_does_not(
    void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_MISSING, true);
    answer(false, 2, STANDING_MISSING, false);
    blames(1, 2, LAUNCH_STALL_MISSING);
}

static void two_that_wait_for_each_other_are_both_named(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_MISSING, true);
    answer(false, 2, STANDING_MISSING, true);
    blames(2, 1, LAUNCH_STALL_WAITS);
}

static void who_has_pushed_and_does_not_wait_is_next(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_GIVEN, true);
    answer(false, 2, STANDING_GIVEN, false);
    blames(1, 2, LAUNCH_STALL_IDLE);
}

static void last_comes_the_shard_that_owes_the_answer(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    for (uint32_t i = 0; i < WORKERS; i++) {
        answer(false, i, STANDING_GIVEN, true);
    }
    blames(1, 2, LAUNCH_STALL_SUSPECT);
}

static void late_and_strange_answers_do_no_harm(void **state)
{
    struct pack pack;

    (void)state;
    answer(false, 0, STANDING_MISSING, false); /* nobody asked */
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    rig.question += 7;
    answer(false, 1, STANDING_MISSING, false);
    assert_int_equal(rig.reports, 0);
    assert_false(rig.master->over);
    pack_init(&pack);
    pack_u8(&pack, 77);
    deliver(FRAME_WHO, false, 1, rig.question, &pack);
    assert_true(rig.master->over);
}

/* ---- elsewhere ---------------------------------------------------------- */

static void join_waits_only_for_who_has_not_joined(void **state)
{
    (void)state;
    stuck(0, STANDING_JOIN, 0, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.who.what, STANDING_JOIN);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_MISSING, false);
    answer(false, 2, STANDING_GIVEN, true);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_JOIN);
    blames(1, 1, LAUNCH_STALL_MISSING);
}

static void a_job_in_which_nobody_waits_is_never_stalled(void **state)
{
    (void)state;
    pass(1000 * CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.questions, 0);
    assert_int_equal(rig.reports, 0);
}

static void one_that_falls_silent_is_asked_and_named(void **state)
{
    (void)state;
    pass(AFTER_NS + CLOCK_NS_PER_S, 1);
    assert_int_equal(rig.questions, WORKERS);
    answer(false, 0, STANDING_PAST, false);
    answer(false, 2, STANDING_PAST, false);
    pass(3 * CLOCK_NS_PER_S, 1);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_SILENT);
    blames(1, 1, LAUNCH_STALL_SAYS_NOTHING);
    pass(CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_OVER);
}

/* psd_run was stopped: nothing is to be concluded from that. */
static void a_pause_of_our_own_is_nobodys_silence(void **state)
{
    (void)state;
    stuck(0, STANDING_TENSOR, 5, AFTER_NS);
    pass(TICK_NS, UINT32_MAX);
    rig.now_ns += 1000 * CLOCK_NS_PER_S;
    master_tick(rig.master);
    assert_int_equal(rig.reports, 0);
    pass(CLOCK_NS_PER_S, UINT32_MAX);
    answer(false, 0, STANDING_GIVEN, true);
    answer(false, 1, STANDING_GIVEN, true);
    answer(false, 2, STANDING_MISSING, false);
    blames(1, 2, LAUNCH_STALL_MISSING);
}

static void one_that_never_opens_or_registers_is_named(void **state)
{
    (void)state;
    master_destroy(rig.master);
    create(0, false);
    pass(2 * AFTER_NS, UINT32_MAX);
    assert_int_equal(rig.reports, 0); /* a job that does not use us */
    enter(false, 0);
    enter(false, 2);
    pass(AFTER_NS + CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.reports, 1);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_ENTER);
    assert_int_equal(rig.report.waiters, 2);
    blames(1, 1, LAUNCH_STALL_MISSING);
    enter(false, 1);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_OVER);
    enroll(1);
    pass(AFTER_NS + CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_REGISTER);
    assert_int_equal(rig.report.waiters, 1);
    blames(2, 0, LAUNCH_STALL_MISSING);
    enroll(0);
    enroll(2);
    pass(TICK_NS, UINT32_MAX);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_OVER);
}

static void a_server_that_is_stopped_is_named(void **state)
{
    (void)state;
    master_destroy(rig.master);
    create(1, false);
    enter(true, 0);
    pass(2 * AFTER_NS, UINT32_MAX);
    assert_int_equal(rig.reports, 0); /* servers alone wait for nobody */
    for (uint32_t i = 0; i < WORKERS; i++) {
        enter(false, i);
    }
    pass(AFTER_NS + CLOCK_NS_PER_S, UINT32_MAX); /* it opens no shard */
    assert_int_equal(rig.report.kind, LAUNCH_STALL_ENTER);
    blames(1, 0, LAUNCH_STALL_MISSING);
    assert_int_equal(rig.report.stalled[0].is_server, 1);
    master_destroy(rig.master);
    create(1, true);
    for (uint32_t i = 0; i < WORKERS; i++) {
        enroll(i);
    }
    pass(AFTER_NS + CLOCK_NS_PER_S, UINT32_MAX);
    assert_int_equal(rig.report.kind, LAUNCH_STALL_PLACE);
    blames(1, 0, LAUNCH_STALL_MISSING);
    assert_int_equal(rig.report.stalled[0].is_server, 1);
}

/* ---- how long is long --------------------------------------------------- */

static void the_limit_is_a_minute_or_ten_steps(void **state)
{
    struct stall *stall = &rig.master->stall;

    (void)state;
    assert_true(stall_limit(stall) == AFTER_NS);
    master_stall_after(rig.master, 0);
    assert_true(stall_limit(stall) == 60 * CLOCK_NS_PER_S);
    for (uint64_t step = 1; step < 100; step++) {
        rig.now_ns += 20 * CLOCK_NS_PER_S;
        metrics(0, 2 * step); /* 10 s each */
        metrics(1, 2 * step);
    }
    assert_true(stall_limit(stall) == 100 * CLOCK_NS_PER_S);
    metrics(0, 3); /* begins anew */
    metrics(0, 4);
    assert_true(stall_limit(stall) == 100 * CLOCK_NS_PER_S);
}

int main(void)
{
#define ROW(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ROW(one_that_has_not_pushed_is_named_once),
        ROW(one_that_does_not_answer_is_named),
        ROW(a_wait_that_is_over_meanwhile_is_no_stall),
        ROW(who_waits_itself_is_not_to_blame_while_another_does_not),
        ROW(two_that_wait_for_each_other_are_both_named),
        ROW(who_has_pushed_and_does_not_wait_is_next),
        ROW(last_comes_the_shard_that_owes_the_answer),
        ROW(late_and_strange_answers_do_no_harm),
        ROW(join_waits_only_for_who_has_not_joined),
        ROW(a_job_in_which_nobody_waits_is_never_stalled),
        ROW(one_that_falls_silent_is_asked_and_named),
        ROW(a_pause_of_our_own_is_nobodys_silence),
        ROW(one_that_never_opens_or_registers_is_named),
        ROW(a_server_that_is_stopped_is_named),
        ROW(the_limit_is_a_minute_or_ten_steps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
