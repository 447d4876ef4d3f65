/* stall_text_test.c: a stall is told in sentences that name and help. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/banned.h"
#include "report/report.h"
#include "report/stall_text.h"

static struct run_process processes[4] = {
    { .rank = 0, .pid = 10, .host = "localhost" },
    { .rank = 1, .pid = 11, .host = "localhost" },
    { .rank = 2, .pid = 12, .host = "b" },
    { .is_server = true, .rank = 0, .pid = 13, .host = "localhost" },
};
static struct run run = { .workers = 3, .servers = 1, .processes = processes };
static struct run_stall stall;
static char text[REPORT_SIZE];

static int set_up(void **state)
{
    (void)state;
    stall = (struct run_stall){
        .what = { .kind = LAUNCH_STALL_TENSOR,
                  .waited_ms = 61500,
                  .waiters = 2,
                  .step = 12,
                  .tensors = 1,
                  .tensor = "fc.weight",
                  .count = 1,
                  .stalled = { { 0, 1, LAUNCH_STALL_MISSING } } },
    };
    return 0;
}

static void sentence_is(const char *want)
{
    stall_sentence(&run, &stall, text, sizeof(text));
    assert_string_equal(text, want);
}

static void it_says_who_and_for_what(void **state)
{
    (void)state;
    sentence_is("worker 1 (pid 11) is stalled: 2 workers have waited 61.5 s "
                "for tensor \"fc.weight\" at step 12, which it has not pushed");
    stall.what.tensors = 3;
    stall.what.waiters = 1;
    stall.what.stalled[0].how = LAUNCH_STALL_SAYS_NOTHING;
    sentence_is("worker 1 (pid 11) is stalled: 1 worker has waited 61.5 s for "
                "tensor \"fc.weight\" (and 2 more) at step 12, and it does "
                "not answer");
    stall.what.stalled[0].how = LAUNCH_STALL_IDLE;
    stall.what.tensors = 1;
    sentence_is("worker 1 (pid 11) is stalled: 1 worker has waited 61.5 s for "
                "tensor \"fc.weight\" at step 12, which it has pushed but "
                "does not wait for");
    stall.what.stalled[0].how = LAUNCH_STALL_WAITS;
    sentence_is("worker 1 (pid 11) is stalled: 1 worker has waited 61.5 s for "
                "tensor \"fc.weight\" at step 12, but it waits elsewhere; do "
                "all make the same calls in the same order?");
    snprintf(stall.what.tensor, sizeof(stall.what.tensor), "psd.barrier");
    stall.what.stalled[0].how = LAUNCH_STALL_MISSING;
    sentence_is("worker 1 (pid 11) is stalled: 1 worker has waited 61.5 s in "
                "psd_barrier, where it has not arrived");
}

static void every_kind_has_its_words(void **state)
{
    (void)state;
    stall.what.kind = LAUNCH_STALL_ENTER;
    sentence_is("worker 1 (pid 11) is stalled: 2 workers have waited 61.5 s "
                "in psd_open, where it has not arrived");
    stall.what.kind = LAUNCH_STALL_PLACE;
    stall.what.stalled[0] = (struct launch_stalled){ .is_server = 1,
                                                     .how = 1 };
    sentence_is("server 0 (pid 13) is stalled: 2 workers have waited 61.5 s "
                "in psd_register, for which it has not made room");
    stall.what.kind = LAUNCH_STALL_SILENT;
    stall.what.stalled[0] = (struct launch_stalled){ .rank = 2 };
    sentence_is("worker 2 (pid 12 on b) is stalled: nothing was heard of it "
                "for 61.5 s, and it does not answer");
    stall.what.kind = LAUNCH_STALL_TENSOR;
    stall.what.count = 0;
    sentence_is("the job is stalled: 2 workers have waited 61.5 s for tensor "
                "\"fc.weight\" at step 12, and nobody is missing; is the "
                "network cut?");
}

static void several_are_named_and_counted(void **state)
{
    (void)state;
    stall.what.count = 2;
    stall.what.stalled[1] = (struct launch_stalled){ .rank = 2, .how = 1 };
    sentence_is("worker 1 (pid 11) and worker 2 (pid 12 on b) are stalled: 2 "
                "workers have waited 61.5 s for tensor \"fc.weight\" at step "
                "12, which they have not pushed");
    stall.what.more = 7;
    stall_over(&run, &stall, text, sizeof(text));
    assert_string_equal(text, "worker 1 (pid 11), worker 2 (pid 12 on b) and "
                              "7 more move again after 0.0 s");
}

static void what_was_seen_follows(void **state)
{
    (void)state;
    stall.seen[0] = true;
    stall.looks[0] = (struct launch_look){ .pid = 99,
                                           .state = 'T',
                                           .where = "do_signal_stop",
                                           .name = "python3" };
    stall.what.stalled[0].rank = 2;
    stall_report(&run, &stall, text, sizeof(text));
    assert_non_null(strstr(text, "\n  it is stopped (state T, in "
                                 "do_signal_stop, pid 99 python3); `kill "
                                 "-CONT 99` on b lets it go on"));
    assert_null(strstr(text, "faulthandler"));
    stall.looks[0].state = 'S';
    stall_report(&run, &stall, text, sizeof(text));
    assert_non_null(strstr(text, "faulthandler.register"));
    stall.looks[0].stack_is = LAUNCH_STACK_SHOWN;
    snprintf(stall.looks[0].stack, sizeof(stall.looks[0].stack), "one\ntwo");
    stall_report(&run, &stall, text, sizeof(text));
    assert_non_null(strstr(text, "\n  its stack:\n    | one\n    | two"));
    stall.seen[0] = false;
    stall_report(&run, &stall, text, sizeof(text));
    assert_non_null(strstr(text, "\n  the agent of b could not look at it"));
}

static void a_rank_that_is_none_and_a_short_text_do_no_harm(void **state)
{
    char small[20];

    (void)state;
    stall.what.stalled[0].rank = 1000;
    stall_report(&run, &stall, text, sizeof(text));
    stall_sentence(&run, &stall, small, sizeof(small));
    assert_true(strlen(small) < sizeof(small));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(it_says_who_and_for_what, set_up),
        cmocka_unit_test_setup(every_kind_has_its_words, set_up),
        cmocka_unit_test_setup(several_are_named_and_counted, set_up),
        cmocka_unit_test_setup(what_was_seen_follows, set_up),
        cmocka_unit_test_setup(a_rank_that_is_none_and_a_short_text_do_no_harm,
                               set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
