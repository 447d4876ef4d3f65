/*
 * trace_test.c: what is recorded comes out as JSON that a viewer takes: spans
 * of one row nest, names are escaped, memory is bounded.
 */
#define _GNU_SOURCE
#include <jansson.h>
#include <pthread.h>
#include <unistd.h>

#include "base/claim.h"
#include "base/mem.h"
#include "session/trace.h"

struct bench {
    char folder[64];
    struct model model;
    struct trace *trace;
    json_t *root;
};

static int set_up(void **state)
{
    struct message_spec specs[] = {
        {.name = "one \"quoted\\", .dtype = PSD_FLOAT32, .count = 10},
        {.name = "two\tof \xc3\xa9 and \xff\xc0\x80",
         .dtype = PSD_FLOAT32,
         .count = 20},
    };
    struct message_table table = {CLAIM_COUNT(specs), specs};
    struct bench *bench = mem_zalloc(sizeof(*bench));
    char error[256];

    *state = bench;
    snprintf(bench->folder, sizeof(bench->folder), "%s",
             "/tmp/psd-trace-XXXXXX");
    if (mkdtemp(bench->folder) == NULL ||
        model_init(&bench->model, 1, 1u << 20) != PSD_OK ||
        model_add_builtin(&bench->model) != PSD_OK ||
        model_add(&bench->model, &table) != PSD_OK) {
        return -1;
    }
    return trace_open(&bench->trace, bench->folder, 3, error, sizeof(error)) ==
                   PSD_OK
               ? 0
               : -1;
}

static int tear_down(void **state)
{
    struct bench *bench = *state;
    char path[128];

    json_decref(bench->root);
    snprintf(path, sizeof(path), "%s/trace.w3.json", bench->folder);
    unlink(path);
    rmdir(bench->folder);
    model_fini(&bench->model);
    mem_free(bench);
    return 0;
}

/* Close and read what was written. */
static json_t *events_of(struct bench *bench)
{
    char path[128];
    json_error_t error;

    trace_close(bench->trace, &bench->model);
    snprintf(path, sizeof(path), "%s/trace.w3.json", bench->folder);
    bench->root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
    if (bench->root == NULL) {
        fail_msg("line %d: %s", error.line, error.text);
    }
    return json_object_get(bench->root, "traceEvents");
}

static const char *text_of(const json_t *event, const char *key)
{
    return json_string_value(json_object_get(event, key));
}

static double number_of(const json_t *event, const char *key)
{
    return json_number_value(json_object_get(event, key));
}

/* The spans of that name; `*last_p` is the last of them. */
static unsigned count_spans(const json_t *events, const char *name,
                            const json_t **last_p)
{
    unsigned count = 0;

    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *event = json_array_get(events, i);

        if (strcmp(text_of(event, "ph"), "X") == 0 &&
            strcmp(text_of(event, "name"), name) == 0) {
            *last_p = event;
            count++;
        }
    }
    return count;
}

static void an_exchange_has_a_row_and_calls_are_of_their_thread(void **state)
{
    struct bench *bench = *state;
    uint64_t began = trace_clock();
    const json_t *span = NULL;
    json_t *events;

    trace_span(bench->trace, TRACE_PUSH, 1, 7, began);
    trace_span(bench->trace, TRACE_WAIT, 1, 7, began);
    trace_span(bench->trace, TRACE_WAIT_ALL, UINT32_MAX, 0, began);
    trace_span(bench->trace, TRACE_EXCHANGE, 1, 7, began);
    trace_span(bench->trace, TRACE_EXCHANGE, 2, 7, began);
    events = events_of(bench);
    assert_int_equal(count_spans(events, "one \"quoted\\", &span), 1);
    assert_string_equal(text_of(span, "cat"), "exchange");
    assert_true(number_of(span, "pid") == 3);
    assert_true(number_of(span, "tid") > 4194304); /* no thread's */
    assert_true(number_of(json_object_get(span, "args"), "step") == 7);
    assert_true(number_of(json_object_get(span, "args"), "bytes") == 40);
    assert_true(number_of(span, "ts") >= (double)(began / 1000) - 1);
    assert_int_equal(count_spans(events, "two\tof \xc3\xa9 and ???", &span), 1);
    assert_int_equal(count_spans(events, "push one \"quoted\\", &span), 1);
    assert_true(number_of(span, "tid") == getpid());
    assert_int_equal(count_spans(events, "wait one \"quoted\\", &span), 1);
    assert_int_equal(count_spans(events, "wait for all", &span), 1);
}

/* No two spans of a row overlap in part. */
static void assert_nested(const json_t *events)
{
    for (size_t i = 0; i < json_array_size(events); i++) {
        const json_t *a = json_array_get(events, i);

        for (size_t k = 0; k < i; k++) {
            const json_t *b = json_array_get(events, k);
            double a0 = number_of(a, "ts");
            double a1 = a0 + number_of(a, "dur");
            double b0 = number_of(b, "ts");
            double b1 = b0 + number_of(b, "dur");

            if (strcmp(text_of(a, "ph"), "X") != 0 ||
                strcmp(text_of(b, "ph"), "X") != 0 ||
                number_of(a, "tid") != number_of(b, "tid")) {
                continue;
            }
            /* A double holds these to about a quarter of a microsecond. */
            assert_true(a1 <= b0 + 1 || b1 <= a0 + 1 ||
                        (a0 >= b0 - 1 && a1 <= b1 + 1) ||
                        (b0 >= a0 - 1 && b1 <= a1 + 1));
        }
    }
}

static void *mark_from_a_thread(void *user)
{
    struct bench *bench = user;

    trace_mark(bench->trace, "other thread", true);
    trace_mark(bench->trace, "step", false); /* that of the main thread */
    usleep(3000);
    trace_mark(bench->trace, "other thread", false);
    return NULL;
}

static void marks_nest_whatever_is_forgotten(void **state)
{
    struct bench *bench = *state;
    const json_t *outer = NULL;
    const json_t *inner = NULL;
    json_t *events;
    pthread_t thread;

    trace_mark(bench->trace, "never begun", false);
    trace_mark(bench->trace, "step", true);
    trace_mark(bench->trace, "forward", true);
    usleep(3000);
    trace_mark(bench->trace, "forward", false);
    trace_mark(bench->trace, "backward", true); /* is never ended */
    assert_int_equal(pthread_create(&thread, NULL, mark_from_a_thread, bench),
                     0);
    pthread_join(thread, NULL);
    trace_mark(bench->trace, "step", false);
    trace_mark(bench->trace, "backward", false);
    trace_mark(bench->trace, "left open", true);
    usleep(3000);
    events = events_of(bench);
    assert_int_equal(count_spans(events, "never begun", &inner), 0);
    assert_int_equal(count_spans(events, "step", &outer), 1);
    assert_int_equal(count_spans(events, "forward", &inner), 1);
    assert_true(number_of(inner, "dur") >= 3000);
    assert_int_equal(count_spans(events, "backward", &inner), 1);
    assert_true(number_of(inner, "dur") <= number_of(outer, "dur"));
    assert_int_equal(count_spans(events, "left open", &inner), 1);
    assert_true(number_of(inner, "dur") >= 3000);
    assert_int_equal(count_spans(events, "other thread", &inner), 1);
    assert_true(number_of(inner, "tid") != number_of(outer, "tid"));
    assert_nested(events);
}

static void it_ends_after_200_steps(void **state)
{
    struct bench *bench = *state;
    const json_t *span = NULL;
    json_t *events;

    trace_mark(bench->trace, "long", true);
    for (uint64_t step = 0; step < 1000; step++) {
        trace_mark(bench->trace, "mark", true);
        trace_span(bench->trace, TRACE_EXCHANGE, 1, step, trace_clock());
        trace_mark(bench->trace, "mark", false);
    }
    trace_mark(bench->trace, "long", false);
    events = events_of(bench);
    assert_int_equal(count_spans(events, "one \"quoted\\", &span), 200);
    assert_int_equal(count_spans(events, "mark", &span), 201);
    assert_int_equal(count_spans(events, "long", &span), 1);
    assert_true(
        number_of(json_object_get(bench->root, "otherData"), "dropped") == 0);
}

static void what_does_not_fit_is_counted(void **state)
{
    struct bench *bench = *state;
    char name[100];
    json_t *events;

    for (unsigned i = 0; i < TRACE_OPEN_MAX + 5; i++) {
        snprintf(name, sizeof(name), "mark %u", i);
        trace_mark(bench->trace, name, true);
    }
    for (unsigned i = 0; i < TRACE_SPANS_MAX + 5; i++) {
        trace_span(bench->trace, TRACE_WAIT, 1, 0, trace_clock());
    }
    for (unsigned i = 0; i < 2 * TRACE_NAMES_MAX; i++) { /* names, too */
        memset(name, 'x', sizeof(name));
        snprintf(name, sizeof(name), "%80u", i);
        trace_mark(bench->trace, name, false);
    }
    events = events_of(bench);
    assert_true(json_array_size(events) >= TRACE_SPANS_MAX);
    assert_true(number_of(json_object_get(bench->root, "otherData"),
                          "dropped") == 5 + 5 + TRACE_OPEN_MAX);
}

static void a_folder_that_is_not_there_is_refused(void **state)
{
    struct trace *trace = NULL;
    char error[256] = "";

    (void)state;
    assert_int_equal(
        trace_open(&trace, "/nowhere/at/all", 0, error, sizeof(error)),
        PSD_EENV);
    assert_null(trace);
    assert_non_null(strstr(error, "/nowhere/at/all"));
    assert_non_null(strstr(error, "PSD_LOG_DIR"));
    trace_close(NULL, NULL);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(an_exchange_has_a_row_and_calls_are_of_their_thread),
        HERE(marks_nest_whatever_is_forgotten),
        HERE(it_ends_after_200_steps),
        HERE(what_does_not_fit_is_counted),
        cmocka_unit_test(a_folder_that_is_not_there_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
