/* desk_message_test.c: questions and answers survive the journey, and bad
 * bytes do not. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "launch/desk_message.h"

#define ROUNDS 20000

static void fill_ask(struct desk_ask *ask)
{
    *ask = (struct desk_ask){ .verb = DESK_LOGS,
                              .follow = 1,
                              .is_server = 1,
                              .rank = 7,
                              .lines = 20,
                              .build = "0.1.0" };
}

static void fill_status(struct desk_status *status,
                        struct desk_process processes[2])
{
    processes[0] = (struct desk_process){ .state = DESK_PROCESS_TRAINING,
                                          .pid = 4242,
                                          .host = "node0" };
    processes[1] = (struct desk_process){ .is_server = 1,
                                          .state = DESK_PROCESS_EXITED,
                                          .code = 3,
                                          .signal = 9,
                                          .rank = 5,
                                          .pid = 1,
                                          .host = "" };
    *status = (struct desk_status){ .name = "demo",
                                    .command = "python train.py",
                                    .logs = "/x/y",
                                    .pid = 17,
                                    .started = 1700000000,
                                    .state = DESK_ENDING,
                                    .tee = LAUNCH_TEE_ALL,
                                    .hosts = 3,
                                    .workers = 4,
                                    .servers = 2,
                                    .has_view = 1,
                                    .step = UINT64_MAX,
                                    .loss = NAN,
                                    .rate = 1.5,
                                    .process_count = 2,
                                    .processes = processes };
}

static void an_ask_arrives_as_it_was_sent(void **state)
{
    struct desk_ask ask;
    struct desk_ask got;
    struct pack pack;

    (void)state;
    fill_ask(&ask);
    pack_init(&pack);
    desk_ask_pack(&pack, &ask);
    assert_true(pack.size <= DESK_ASK_MAX);
    assert_int_equal(desk_ask_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_int_equal(got.verb, DESK_LOGS);
    assert_int_equal(got.follow, 1);
    assert_int_equal(got.is_server, 1);
    assert_int_equal(got.rank, 7);
    assert_int_equal(got.lines, 20);
    assert_string_equal(got.build, "0.1.0");
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(desk_ask_unpack(&got, pack.data, size), PSD_EPROTO);
    }
    pack_u8(&pack, 0);
    assert_int_equal(desk_ask_unpack(&got, pack.data, pack.size), PSD_EPROTO);
    pack_fini(&pack);
}

static void an_ask_for_nonsense_is_refused(void **state)
{
    struct desk_ask wrong[5];
    struct desk_ask got;

    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct pack pack;

        fill_ask(&wrong[i]);
        wrong[0].verb = 0;
        wrong[i].verb = i == 1 ? DESK_ATTACH + 1 : wrong[i].verb;
        wrong[i].now = i == 2 ? 2 : 0;
        wrong[i].lines = i == 3 ? DESK_LINES_MAX + 1 : wrong[i].lines;
        wrong[i].is_server = i == 4 ? 9 : 0;
        pack_init(&pack);
        desk_ask_pack(&pack, &wrong[i]);
        assert_int_equal(desk_ask_unpack(&got, pack.data, pack.size),
                         PSD_EPROTO);
        pack_fini(&pack);
    }
}

static void a_status_arrives_as_it_was_sent(void **state)
{
    static struct desk_status status;
    static struct desk_status got;
    struct desk_process processes[2];
    struct pack pack;

    (void)state;
    fill_status(&status, processes);
    pack_init(&pack);
    desk_status_pack(&pack, &status);
    assert_int_equal(desk_status_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_string_equal(got.name, "demo");
    assert_string_equal(got.command, "python train.py");
    assert_string_equal(got.logs, "/x/y");
    assert_int_equal(got.pid, 17);
    assert_int_equal(got.started, 1700000000);
    assert_int_equal(got.state, DESK_ENDING);
    assert_int_equal(got.tee, LAUNCH_TEE_ALL);
    assert_int_equal(got.hosts, 3);
    assert_int_equal(got.workers, 4);
    assert_int_equal(got.servers, 2);
    assert_true(got.step == UINT64_MAX);
    assert_true(isnan(got.loss));
    assert_true(got.rate == 1.5);
    assert_int_equal(got.process_count, 2);
    assert_string_equal(got.processes[0].host, "node0");
    assert_int_equal(got.processes[0].pid, 4242);
    assert_int_equal(got.processes[1].rank, 5);
    assert_int_equal(got.processes[1].signal, 9);
    desk_status_fini(&got);
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(desk_status_unpack(&got, pack.data, size),
                         PSD_EPROTO);
    }
    pack_fini(&pack);
}

/* Whatever is changed: a status or none, never more than was sent. */
static void a_status_with_changed_bytes_does_no_harm(void **state)
{
    static struct desk_status status;
    static struct desk_status got;
    struct desk_process processes[2];
    struct pack pack;
    uint32_t seed = 1;

    (void)state;
    fill_status(&status, processes);
    pack_init(&pack);
    desk_status_pack(&pack, &status);
    for (int i = 0; i < ROUNDS; i++) {
        size_t at;
        uint8_t before;

        seed = seed * 1664525u + 1013904223u;
        at = (seed >> 8) % pack.size;
        before = pack.data[at];
        pack.data[at] = (uint8_t)(seed >> 3);
        if (desk_status_unpack(&got, pack.data, pack.size) == PSD_OK) {
            assert_true(got.process_count <= 2);
            desk_status_fini(&got);
        }
        pack.data[at] = before;
    }
    pack_fini(&pack);
}

static void a_status_takes_no_memory_that_is_not_there(void **state)
{
    static struct desk_status status;
    static struct desk_status got;
    struct desk_process processes[2];
    struct pack pack;

    (void)state;
    fill_status(&status, processes);
    pack_init(&pack);
    desk_status_pack(&pack, &status);
    mem_fail_after(1);
    assert_int_equal(desk_status_unpack(&got, pack.data, pack.size),
                     PSD_ENOMEM);
    mem_fail_after(0);
    pack_fini(&pack);
}

static void done_and_tail_arrive_as_they_were_sent(void **state)
{
    static struct desk_done done = { .code = -7, .reason = "why" };
    static struct desk_done got_done;
    struct desk_tail tail = { .action = DESK_TAIL_CREDIT,
                              .id = 5,
                              .rank = 3,
                              .lines = DESK_LINES_ALL,
                              .credit = 65536 };
    struct desk_tail got;
    struct pack pack;

    (void)state;
    pack_init(&pack);
    desk_done_pack(&pack, &done);
    assert_int_equal(desk_done_unpack(&got_done, pack.data, pack.size), PSD_OK);
    assert_int_equal(got_done.code, -7);
    assert_string_equal(got_done.reason, "why");
    pack_fini(&pack);
    pack_init(&pack);
    desk_tail_pack(&pack, &tail);
    assert_int_equal(desk_tail_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_int_equal(got.id, 5);
    assert_int_equal(got.credit, 65536);
    assert_int_equal(desk_tail_unpack(&got, pack.data, pack.size - 1),
                     PSD_EPROTO);
    pack.data[0] = 4;
    assert_int_equal(desk_tail_unpack(&got, pack.data, pack.size), PSD_EPROTO);
    pack_fini(&pack);
}

static void every_state_has_a_name(void **state)
{
    (void)state;
    for (unsigned i = 0; i < DESK_STATES; i++) {
        assert_string_not_equal(desk_state_name(i), "?");
    }
    for (unsigned i = 0; i < DESK_PROCESS_STATES; i++) {
        assert_string_not_equal(desk_process_state_name(i), "?");
    }
    assert_string_equal(desk_state_name(99), "?");
    assert_string_equal(desk_process_state_name(99), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_ask_arrives_as_it_was_sent),
        cmocka_unit_test(an_ask_for_nonsense_is_refused),
        cmocka_unit_test(a_status_arrives_as_it_was_sent),
        cmocka_unit_test(a_status_with_changed_bytes_does_no_harm),
        cmocka_unit_test(a_status_takes_no_memory_that_is_not_there),
        cmocka_unit_test(done_and_tail_arrive_as_they_were_sent),
        cmocka_unit_test(every_state_has_a_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
