/* report_json_test.c: report.json has every key, whatever the logs had. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/banned.h"
#include "report/report_json.h"

static char tail[64];
static struct run_process processes[3];
static struct run run;
static char *words[] = { "python", "a b.py", "\xff" };
static struct launch_task task;
static struct launch_start start;
static struct cluster_host host = { .name = "localhost", .local = true };
static struct cluster cluster = { .host_count = 1, .hosts = &host };
static struct supervise_plan plan;
static struct run_stall stall;

static int set_up(void **state)
{
    (void)state;
    snprintf(tail, sizeof(tail), "one\n\xff\xfe two\n\ttab\n");
    processes[0] = (struct run_process){ .pid = 10, .host = "localhost",
                                         .started = true, .exited = true };
    processes[1] = (struct run_process){ .rank = 1, .pid = 11, .host = "b",
                                         .started = true, .exited = true,
                                         .signal = SIGSEGV, .tail = tail,
                                         .stream = LAUNCH_STREAM_STDERR };
    processes[2] = (struct run_process){ .is_server = true,
                                         .host = "localhost" };
    stall = (struct run_stall){
        .what = { .kind = LAUNCH_STALL_TENSOR,
                  .step = 3,
                  .tensor = "w",
                  .count = 1,
                  .stalled = { { 0, 1, 1 } } },
        .seen = { true },
        .looks = { { .pid = 11,
                     .state = 'S',
                     .stack_is = LAUNCH_STACK_SHOWN,
                     .stack = "File\n" } },
    };
    run = (struct run){ .workers = 2, .servers = 1, .hosts = 1,
                        .processes = processes, .logs = "somewhere",
                        .name = "job", .line = "psd_run -n 2 x",
                        .began = { 1000, 5000000 },
                        .ended = { 1001, 255000000 } };
    task = (struct launch_task){ .command = { 3, words } };
    start = (struct launch_start){ .task_count = 1, .tasks = &task };
    plan = (struct supervise_plan){ .cluster = &cluster, .starts = &start,
                                    .logs = "somewhere" };
    return 0;
}

static json_t *report(void)
{
    char *text = report_json_text(&run, &plan);
    json_t *object;

    assert_non_null(text);
    object = json_loads(text, 0, NULL);
    assert_non_null(object);
    free(text);
    return object;
}

static const char *string(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text == NULL ? "" : text;
}

static void a_good_job_has_every_key(void **state)
{
    static const char *const keys[] = {
        "format", "name", "command", "shell", "resume", "folder", "started",
        "ended", "seconds", "result", "exit_code", "interrupted_by", "reason",
        "culprit", "processes", "stalls", "figures", "hosts", "workers",
        "servers", "logs", "versions"
    };
    json_t *object = report();

    (void)state;
    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
        if (json_object_get(object, keys[i]) == NULL) {
            fail_msg("no key %s", keys[i]);
        }
    }
    assert_int_equal(json_object_size(object), sizeof(keys) / sizeof(keys[0]));
    assert_string_equal(string(object, "result"), "done");
    assert_string_equal(string(object, "started"), "1970-01-01T00:16:40.005Z");
    assert_true(fabs(json_real_value(json_object_get(object, "seconds")) -
                     1.25) < 1e-6);
    assert_true(json_is_null(json_object_get(object, "culprit")));
    assert_true(json_is_null(json_object_get(object, "figures")));
    assert_int_equal(json_array_size(json_object_get(object, "processes")), 3);
    assert_int_equal(json_array_size(json_object_get(object, "command")), 3);
    json_decref(object);
}

static void a_failed_job_names_its_culprit(void **state)
{
    json_t *object;
    json_t *culprit;
    json_t *lines;

    (void)state;
    run.code = 139;
    run.culprit = &processes[1];
    snprintf(run.reason, sizeof(run.reason), "bytes \xc3( of a peer");
    run.has_view = true;
    run.view.loss = (double)NAN;
    run.view.step = UINT64_MAX;
    object = report();
    culprit = json_object_get(object, "culprit");
    assert_string_equal(string(object, "result"), "failed");
    assert_string_equal(string(object, "reason"),
                        "bytes \xef\xbf\xbd( of a peer");
    assert_string_equal(string(culprit, "role"), "worker");
    assert_string_equal(string(culprit, "host"), "b");
    assert_string_equal(string(culprit, "end"), "killed");
    assert_string_equal(string(culprit, "signal_name"), "SIGSEGV");
    assert_string_equal(string(culprit, "meaning"), "invalid memory access");
    assert_string_equal(string(culprit, "tail_of"), "stderr");
    lines = json_object_get(culprit, "tail");
    assert_int_equal(json_array_size(lines), 3);
    assert_string_equal(json_string_value(json_array_get(lines, 1)),
                        "\xef\xbf\xbd\xef\xbf\xbd two");
    assert_true(json_is_null(json_object_get(
        json_object_get(object, "figures"), "loss")));
    assert_string_equal(
        string(json_array_get(json_object_get(object, "processes"), 2), "end"),
        "not started");
    json_decref(object);
}

static void stalls_and_interruptions_are_there(void **state)
{
    json_t *object;
    json_t *one;

    (void)state;
    run.code = 130;
    run.interrupted = SIGINT;
    run.stalls[run.stall_count++] = &stall;
    object = report();
    assert_string_equal(string(object, "result"), "interrupted");
    one = json_array_get(json_object_get(object, "stalls"), 0);
    assert_string_equal(string(one, "waits_for"), "tensor");
    one = json_array_get(json_object_get(one, "processes"), 0);
    assert_string_equal(string(one, "state"), "S");
    assert_int_equal(json_array_size(json_object_get(one, "stack")), 1);
    json_decref(object);
}

static void it_is_written_whole_or_not_at_all(void **state)
{
    char folder[] = "/tmp/psd-report-XXXXXX";
    char path[64];
    json_t *object;

    (void)state;
    assert_non_null(mkdtemp(folder));
    plan.logs = folder;
    report_json_write(&run, &plan);
    snprintf(path, sizeof(path), "%s/" REPORT_JSON_NAME, folder);
    object = json_load_file(path, 0, NULL);
    assert_non_null(object);
    json_decref(object);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left */
    report_json_write(&run, &plan);     /* the folder is gone: no harm */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_good_job_has_every_key, set_up),
        cmocka_unit_test_setup(a_failed_job_names_its_culprit, set_up),
        cmocka_unit_test_setup(stalls_and_interruptions_are_there, set_up),
        cmocka_unit_test_setup(it_is_written_whole_or_not_at_all, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
