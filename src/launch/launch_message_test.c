/* launch_message_test.c: launch frames survive the journey, and bad bytes do
 * not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/mem.h"
#include "launch/launch_message.h"

static void fill_start(struct launch_start *start)
{
    char *words[] = { "python", "train.py", "" };

    *start = (struct launch_start){
        .workers = 4,
        .servers = 2,
        .threads = 3,
        .threads_max = 5,
        .hosts = 2,
        .tee = LAUNCH_TEE_ALL,
        .silence_ms = 30000,
        .name = "job",
        .host = "b",
        .peer = "a",
        .interface = "eth0",
        .ports = "0",
        .folder = "/x",
        .logs = "y",
        .virtualenv = "~/v",
        .task_count = 3,
    };
    memset(&start->job, 7, sizeof(start->job));
    start->tasks = mem_zalloc_array(3, sizeof(*start->tasks));
    start->tasks[0].is_server = 1;
    start->tasks[0].rank = 1;
    for (uint32_t i = 1; i < 3; i++) {
        start->tasks[i].rank = i + 1;
        assert_int_equal(launch_words_set(&start->tasks[i].command, 3, words),
                         PSD_OK);
    }
    assert_int_equal(launch_words_add(&start->tasks[2].variables, "E", "f"),
                     PSD_OK);
    assert_int_equal(launch_words_add(&start->variables, "A", "b=c"), PSD_OK);
    assert_int_equal(launch_words_add(&start->variables, "D", ""), PSD_OK);
}

static void a_start_arrives_as_it_was_sent(void **state)
{
    struct launch_start start;
    struct launch_start got;
    struct pack pack;

    (void)state;
    fill_start(&start);
    pack_init(&pack);
    launch_start_pack(&pack, &start);
    assert_int_equal(launch_start_unpack(&got, pack.data, pack.size), PSD_OK);
    assert_memory_equal(&got.job, &start.job, sizeof(start.job));
    assert_int_equal(got.workers, 4);
    assert_int_equal(got.tee, LAUNCH_TEE_ALL);
    assert_int_equal(got.silence_ms, 30000);
    assert_string_equal(got.host, "b");
    assert_string_equal(got.peer, "a");
    assert_string_equal(got.interface, "eth0");
    assert_string_equal(got.virtualenv, "~/v");
    assert_int_equal(got.task_count, 3);
    assert_int_equal(launch_start_local(&got), 2);
    assert_int_equal(got.tasks[0].rank, 1);
    assert_int_equal(got.tasks[0].command.count, 0);
    assert_int_equal(got.tasks[2].rank, 3);
    assert_string_equal(got.tasks[2].command.words[1], "train.py");
    assert_string_equal(got.tasks[2].command.words[2], "");
    assert_null(got.tasks[2].command.words[3]);
    assert_string_equal(got.tasks[2].variables.words[0], "E=f");
    assert_string_equal(got.variables.words[0], "A=b=c");
    assert_string_equal(got.variables.words[1], "D=");
    assert_null(got.variables.words[2]);
    launch_start_fini(&got);
    launch_start_fini(&start);
    pack_fini(&pack);
}

static void a_start_cut_anywhere_is_refused(void **state)
{
    struct launch_start start;
    struct launch_start got;
    struct pack pack;

    (void)state;
    fill_start(&start);
    pack_init(&pack);
    launch_start_pack(&pack, &start);
    for (size_t size = 0; size < pack.size; size++) {
        assert_int_equal(launch_start_unpack(&got, pack.data, size),
                         PSD_EPROTO);
    }
    launch_start_fini(&start);
    pack_fini(&pack);
}

static void a_start_with_ranks_beyond_the_job_is_refused(void **state)
{
    struct launch_start start;
    struct launch_start got;
    struct pack pack;

    (void)state;
    fill_start(&start);
    start.tasks[1].rank = 4;
    pack_init(&pack);
    launch_start_pack(&pack, &start);
    assert_int_equal(launch_start_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    launch_start_fini(&start);
    pack_fini(&pack);
}

static void a_start_without_a_command_is_refused(void **state)
{
    struct launch_start start;
    struct launch_start got;
    struct pack pack;

    (void)state;
    fill_start(&start);
    launch_words_fini(&start.tasks[2].command);
    pack_init(&pack);
    launch_start_pack(&pack, &start);
    assert_int_equal(launch_start_unpack(&got, pack.data, pack.size),
                     PSD_EPROTO);
    launch_start_fini(&start);
    pack_fini(&pack);
}

static void a_start_survives_running_out_of_memory(void **state)
{
    struct launch_start start;
    struct launch_start got;
    struct pack pack;
    psd_status status = PSD_ENOMEM;

    (void)state;
    fill_start(&start);
    pack_init(&pack);
    launch_start_pack(&pack, &start);
    for (long n = 1; status != PSD_OK; n++) {
        mem_fail_after(n);
        status = launch_start_unpack(&got, pack.data, pack.size);
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
    }
    launch_start_fini(&got);
    launch_start_fini(&start);
    pack_fini(&pack);
}

static void the_secret_is_wiped(void **state)
{
    struct launch_start start;
    struct auth_job zero = { .id = { 0 } };

    (void)state;
    fill_start(&start);
    launch_start_fini(&start);
    assert_memory_equal(&start.job, &zero, sizeof(zero));
}

/* Pack, unpack, and refuse one byte less and one byte more. */
#define ROUND_TRIP(name, from, to)                                             \
    do {                                                                       \
        struct pack pack;                                                      \
        pack_init(&pack);                                                      \
        launch_##name##_pack(&pack, &(from));                                  \
        assert_int_equal(launch_##name##_unpack(&(to), pack.data, pack.size),  \
                         PSD_OK);                                              \
        assert_int_equal(                                                      \
            launch_##name##_unpack(&(to), pack.data, pack.size - 1),           \
            PSD_EPROTO);                                                       \
        pack_u8(&pack, 0);                                                     \
        assert_int_equal(launch_##name##_unpack(&(to), pack.data, pack.size),  \
                         PSD_EPROTO);                                          \
        pack_fini(&pack);                                                      \
    } while (0)

static void the_short_ones_arrive_whole_or_not_at_all(void **state)
{
    struct launch_started started = { .code = 127,
                                      .pid = 5,
                                      .reason = "not found" };
    struct launch_exited exited = { .pid = 5, .signal = 9,
                                    .memory = LAUNCH_MEMORY_KILLED,
                                    .memory_size = UINT64_C(5) << 32,
                                    .stream = LAUNCH_STREAM_STDOUT,
                                    .tail = "a\nb" };
    struct launch_stop stop = { .grace_ms = 500 };
    struct launch_lost lost = { .pid = 5, .reason = "gone" };
    struct launch_verdict verdict = { .status = PSD_ELOST,
                                      .code = 65,
                                      .has_culprit = 1,
                                      .rank = 3,
                                      .reason = "x" };
    struct launch_view view = { .step = 3, .loss = 0.5, .compared = 9 };
    struct launch_started started2 = { .code = 0 };
    struct launch_exited exited2 = { .pid = 0 };
    struct launch_stop stop2 = { .grace_ms = 0 };
    struct launch_lost lost2 = { .pid = 0 };
    struct launch_verdict verdict2 = { .code = 0 };
    struct launch_view view2 = { .step = 0 };

    (void)state;
    ROUND_TRIP(started, started, started2);
    assert_int_equal(started2.code, 127);
    ROUND_TRIP(exited, exited, exited2);
    assert_string_equal(exited2.tail, "a\nb");
    assert_int_equal(exited2.memory, LAUNCH_MEMORY_KILLED);
    assert_true(exited2.memory_size == UINT64_C(5) << 32);
    assert_int_equal(exited2.stream, LAUNCH_STREAM_STDOUT);
    ROUND_TRIP(stop, stop, stop2);
    assert_int_equal(stop2.grace_ms, 500);
    ROUND_TRIP(lost, lost, lost2);
    ROUND_TRIP(verdict, verdict, verdict2);
    assert_int_equal(verdict2.status, PSD_ELOST);
    assert_int_equal(verdict2.rank, 3);
    ROUND_TRIP(view, view, view2);
    assert_int_equal(view2.compared, 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_start_arrives_as_it_was_sent),
        cmocka_unit_test(a_start_cut_anywhere_is_refused),
        cmocka_unit_test(a_start_with_ranks_beyond_the_job_is_refused),
        cmocka_unit_test(a_start_without_a_command_is_refused),
        cmocka_unit_test(a_start_survives_running_out_of_memory),
        cmocka_unit_test(the_secret_is_wiped),
        cmocka_unit_test(the_short_ones_arrive_whole_or_not_at_all),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
