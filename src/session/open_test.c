/*
 * open_test.c: psd_open and the environment: set by half, wrong, naming an
 * agent that is gone; statuses and their words.
 */
#define _GNU_SOURCE
#include "base/clock.h"
#include "base/mem.h"
#include "session/solo_rig.h"

static void every_status_has_its_name_and_sentence(void **state)
{
    static const struct {
        psd_status status;
        const char *name;
    } all[] = {
#define STATUS_ROW(name, value, text) { (psd_status)(value), #name },
        PSD_STATUS_MAP(STATUS_ROW)
#undef STATUS_ROW
    };

    (void)state;
    assert_int_equal(PSD_OK, 0);
    assert_int_equal(PSD_AGAIN, 1);
    assert_int_equal(PSD_EENV, -11); /* values are frozen */
    for (size_t i = 0; i < CLAIM_COUNT(all); i++) {
        assert_string_equal(psd_status_name(all[i].status), all[i].name);
        assert_true(strlen(psd_status_text(all[i].status)) > 5);
    }
    assert_string_equal(psd_status_name((psd_status)-99), "unknown");
    assert_true(strlen(psd_status_text((psd_status)-99)) > 5);
    assert_string_equal(psd_version(), PSD_VERSION_STRING);
    assert_non_null(psd_error(NULL));
}

/* psd_open fails with `status` and a sentence that has `part`. */
static void assert_open_fails(psd_status status, const char *part)
{
    struct psd_session *session = (void *)(uintptr_t)8;
    uint64_t started = clock_ns();

    assert_int_equal(psd_open(&session), status);
    assert_ptr_equal(session, (void *)(uintptr_t)8);
    if (strstr(psd_error(NULL), part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, psd_error(NULL));
    }
    assert_true(clock_ns() - started < 2 * CLOCK_NS_PER_S);
}

static void an_environment_set_by_half_names_what_is_missing(void **state)
{
    static const char *const names[] = { "PSD_AGENT", "PSD_RANK",
                                         "PSD_SIZE" };
    static const char *const values[] = { "/nowhere/agent", "0", "2" };

    (void)state;
    for (unsigned without = 0; without < 3; without++) {
        leave_job();
        for (unsigned i = 0; i < 3; i++) {
            if (i != without) {
                setenv(names[i], values[i], 1);
            }
        }
        assert_open_fails(PSD_EENV, names[without]);
    }
    leave_job();
    setenv("PSD_RANK", "0", 1);
    assert_open_fails(PSD_EENV, "PSD_");
    leave_job();
}

static void an_environment_that_is_wrong_names_the_variable(void **state)
{
    static const struct {
        const char *name;
        const char *value;
    } wrong[] = {
        { "PSD_RANK", "2" },       { "PSD_RANK", "x" },
        { "PSD_RANK", "-1" },      { "PSD_RANK", "" },
        { "PSD_SIZE", "99999" },   { "PSD_SIZE", "2 " },
        { "PSD_SIZE", "0" },       { "PSD_INCARNATION", "one" },
        { "PSD_DIGEST", "maybe" }, { "PSD_BLOCK_SIZE", "big" },
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(wrong); i++) {
        leave_job();
        setenv("PSD_AGENT", "/nowhere/agent", 1);
        setenv("PSD_RANK", "0", 1);
        setenv("PSD_SIZE", "2", 1);
        setenv(wrong[i].name, wrong[i].value, 1);
        assert_open_fails(PSD_EENV, wrong[i].name);
    }
    leave_job();
}

static void an_agent_that_is_not_there_is_lost_at_once(void **state)
{
    char path[200];

    (void)state;
    leave_job();
    setenv("PSD_AGENT", "/nowhere/agent", 1);
    setenv("PSD_RANK", "0", 1);
    setenv("PSD_SIZE", "2", 1);
    assert_open_fails(PSD_ELOST, "/nowhere/agent");
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    setenv("PSD_AGENT", path, 1); /* longer than a socket's name can be */
    assert_open_fails(PSD_EENV, "PSD_AGENT");
    leave_job();
    assert_int_equal(psd_open(NULL), PSD_EINVAL);
    assert_true(strlen(psd_error(NULL)) > 5);
}

static void opening_without_memory_fails_cleanly(void **state)
{
    psd_status status = PSD_ENOMEM;
    long n = 0;

    (void)state;
    leave_job();
    while (status != PSD_OK) {
        struct psd_session *session = NULL;
        psd_tensor tensor;

        mem_fail_after(++n);
        status = psd_open(&session);
        if (status == PSD_OK) {
            status = psd_register(session, &weight, 1, &tensor);
        } else {
            assert_true(strlen(psd_error(NULL)) > 5);
        }
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        psd_close(session);
    }
    assert_true(n > 5 && n < 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_its_name_and_sentence),
        cmocka_unit_test(an_environment_set_by_half_names_what_is_missing),
        cmocka_unit_test(an_environment_that_is_wrong_names_the_variable),
        cmocka_unit_test(an_agent_that_is_not_there_is_lost_at_once),
        cmocka_unit_test(opening_without_memory_fails_cleanly),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
