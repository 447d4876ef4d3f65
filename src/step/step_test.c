/*
 * step_test.c: the calls of poseidon_step.h in a job of one: what is refused,
 * what the answers are, what an abort does. Among many: tests/e2e/passes.c.
 */
#include "base/mem.h"
#include "poseidon_step.h"
#include "session/solo_rig.h"

static const struct psd_slot slots[3] = {
    {.name = "a", .dtype = PSD_FLOAT32, .count = 4},
    {.name = "b", .dtype = PSD_FLOAT32, .kind = PSD_SLOT_BUFFER, .count = 4},
    {.name = "c", .dtype = PSD_BFLOAT16, .count = 6},
};

static struct psd_step *opened(struct psd_session *session)
{
    struct psd_step *step = NULL;
    uint32_t first = 9;

    assert_int_equal(psd_step_open(session, &step), PSD_OK);
    assert_int_equal(psd_step_add(step, slots, 3, &first), PSD_OK);
    assert_int_equal(first, 0);
    return step;
}

static void alone_the_answer_is_the_input(void **state)
{
    struct psd_step *step = opened(*state);
    float a[4] = {1, 2, 3, 4};
    float b[4] = {5, 6, 7, 8};
    uint32_t missing[3];
    uint64_t flags = 0;

    for (unsigned pass = 0; pass < 20; pass++) {
        assert_int_equal(psd_step_begin(step, 32, PSD_OP_MEAN), PSD_OK);
        assert_int_equal(psd_step_push(step, 0, a), PSD_OK);
        assert_int_equal(psd_step_push(step, 1, b), PSD_OK);
        assert_int_equal(psd_step_missing(step, missing), 0);
        assert_int_equal(psd_step_finish(step, 6, &flags), PSD_OK);
        assert_int_equal(flags, 6);
        assert_int_equal(psd_step_outcome(step, 0), PSD_STEP_DENSE);
        assert_int_equal(psd_step_outcome(step, 2), PSD_STEP_NOBODY);
        assert_int_equal(psd_step_outcome(step, 99), PSD_STEP_NOBODY);
        assert_true(a[3] == 4 && b[3] == 8);
    }
    psd_step_close(step);
}

static void without_samples_a_gradient_is_zeros_and_a_buffer_stays(void **state)
{
    struct psd_step *step = opened(*state);
    float a[4] = {1, 2, 3, 4};
    float b[4] = {5, 6, 7, 8};

    assert_int_equal(psd_step_begin(step, 0, PSD_OP_SUM), PSD_OK);
    assert_int_equal(psd_step_push(step, 0, a), PSD_OK);
    assert_int_equal(psd_step_push(step, 1, b), PSD_OK);
    assert_int_equal(psd_step_finish(step, 0, NULL), PSD_OK);
    assert_true(a[0] == 0 && a[3] == 0 && b[0] == 5 && b[3] == 8);
    psd_step_close(step);
}

static void a_sparse_gradient_comes_back_as_it_is(void **state)
{
    struct psd_step *step = opened(*state);
    const int64_t rows[2] = {7, 7};
    const uint16_t values[4] = {1, 2, 3, 4};
    const int64_t *indices = NULL;
    const void *got = NULL;
    uint64_t nnz = 0;

    assert_int_equal(psd_step_begin(step, 1, PSD_OP_MEAN), PSD_OK);
    assert_refused(*state, psd_step_push_sparse(step, 1, rows, 2, 1, values, 2),
                   "only a gradient");
    assert_refused(*state, psd_step_push_sparse(step, 2, rows, 2, 0, values, 2),
                   "dimensions");
    assert_refused(*state, psd_step_push_sparse(step, 2, NULL, 2, 1, values, 2),
                   "memory");
    assert_int_equal(psd_step_push_sparse(step, 2, rows, 2, 1, values, 2),
                     PSD_OK);
    assert_int_equal(psd_step_sparse_result(step, 2, &indices, &got, &nnz),
                     PSD_EINVAL); /* not yet */
    assert_int_equal(psd_step_finish(step, 0, NULL), PSD_OK);
    assert_int_equal(psd_step_outcome(step, 2), PSD_STEP_SPARSE);
    assert_int_equal(psd_step_sparse_result(step, 2, &indices, &got, &nnz),
                     PSD_OK);
    assert_int_equal(nnz, 2);
    assert_int_equal(indices[1], 7);
    assert_memory_equal(got, values, sizeof(values));
    assert_int_equal(psd_step_sparse_result(step, 0, &indices, &got, &nnz),
                     PSD_EINVAL);
    psd_step_close(step);
}

static void calls_out_of_turn_are_refused(void **state)
{
    struct psd_step *step = opened(*state);
    float a[4] = {1, 2, 3, 4};
    void *data[4] = {a, NULL, NULL, NULL};
    uint64_t size[4] = {sizeof(a), 0, 0, 0};

    assert_refused(*state, psd_step_push(step, 0, a), "psd_step_begin");
    assert_refused(*state, psd_step_finish(step, 0, NULL), "psd_step_begin");
    assert_refused(*state, psd_step_now(step, 0, a, 1, PSD_OP_MEAN),
                   "psd_step_start");
    assert_refused(*state, psd_step_start(step, data, size, 4), "4 slots");
    assert_int_equal(psd_step_start(step, data, size, 3), PSD_OK);
    assert_int_equal(psd_step_now(step, 0, a, 1, PSD_OP_MEAN), PSD_OK);
    assert_int_equal(psd_step_begin(step, 1, PSD_OP_MEAN), PSD_OK);
    assert_refused(*state, psd_step_begin(step, 1, PSD_OP_MEAN), "open");
    assert_refused(*state, psd_step_start(step, data, size, 1), "open");
    assert_refused(*state, psd_step_push(step, 3, a), "slot 3");
    assert_refused(*state, psd_step_push(step, 0, NULL), "data");
    assert_refused(*state, psd_step_room(step, 0, a), "no room");
    assert_int_equal(psd_step_push(step, 0, a), PSD_OK);
    assert_refused(*state, psd_step_push(step, 0, a), "already");
    assert_refused(*state, psd_step_now(step, 0, a, 1, PSD_OP_MEAN), "already");
    assert_int_equal(psd_step_finish(step, 0, NULL), PSD_OK);
    assert_int_equal(psd_step_audit(step, (const void *const *)data, size, 3),
                     PSD_OK);
    psd_step_close(step);
}

static void slots_that_break_the_contract_are_refused(void **state)
{
    struct psd_step *step = opened(*state);
    struct psd_slot bad = slots[0];
    char name[300];
    uint32_t first;

    bad.dtype = PSD_INT64;
    assert_refused(*state, psd_step_add(step, &bad, 1, &first), "float32");
    bad = slots[0];
    bad.count = 0;
    assert_refused(*state, psd_step_add(step, &bad, 1, &first), "count");
    bad = slots[0];
    bad.kind = (enum psd_slot_kind)2;
    assert_refused(*state, psd_step_add(step, &bad, 1, &first), "kind");
    bad = slots[0];
    bad.name = "step/header/1024";
    assert_refused(*state, psd_step_add(step, &bad, 1, &first), "taken");
    memset(name, 'x', sizeof(name));
    name[241] = '\0';
    bad.name = name;
    assert_refused(*state, psd_step_add(step, &bad, 1, &first), "240");
    /* One name is several tensors, whatever their types. */
    name[240] = '\0';
    for (unsigned i = 0; i < 12; i++) {
        bad.dtype = i % 2 == 0 ? PSD_FLOAT16 : PSD_FLOAT64;
        assert_int_equal(psd_step_add(step, &bad, 1, &first), PSD_OK);
        assert_int_equal(first, 3 + i);
    }
    bad = slots[0];
    for (unsigned i = 0; i < 3; i++) {
        bad.name = i == 0 ? "z#2" : "z";
        assert_int_equal(psd_step_add(step, &bad, 1, &first), PSD_OK);
    }
    assert_int_equal(psd_step_start(step, NULL, NULL, 0), PSD_OK);
    psd_step_close(step);
    psd_step_close(NULL);
}

static void more_slots_than_the_header_holds_are_registered(void **state)
{
    struct psd_step *step = opened(*state);
    struct psd_slot more[1500];
    char names[1500][8];
    uint32_t first;
    float x[1] = {3};

    for (unsigned i = 0; i < 1500; i++) {
        snprintf(names[i], sizeof(names[i]), "s%u", i);
        more[i] = (struct psd_slot){
            .name = names[i], .dtype = PSD_FLOAT32, .count = 1};
    }
    assert_int_equal(psd_step_start(step, NULL, NULL, 0), PSD_OK);
    assert_int_equal(psd_step_add(step, more, 1500, &first), PSD_OK);
    assert_int_equal(first, 3);
    assert_int_equal(psd_step_begin(step, 1, PSD_OP_MEAN), PSD_OK);
    assert_int_equal(psd_step_push(step, 1502, x), PSD_OK);
    assert_int_equal(psd_step_finish(step, 0, NULL), PSD_OK);
    assert_int_equal(psd_step_outcome(step, 1502), PSD_STEP_DENSE);
    assert_int_equal(psd_step_now(step, 1502, x, 1, PSD_OP_MEAN), PSD_OK);
    psd_step_close(step);
}

static void after_an_abort_every_call_says_so(void **state)
{
    struct psd_step *step = opened(*state);
    float a[4] = {0};
    uint32_t first;

    psd_abort(*state, 3, "enough");
    assert_int_equal(psd_step_start(step, NULL, NULL, 0), PSD_EABORT);
    assert_int_equal(psd_step_begin(step, 1, PSD_OP_MEAN), PSD_EABORT);
    assert_int_equal(psd_step_push(step, 0, a), PSD_EABORT);
    assert_int_equal(psd_step_room(step, 0, a), PSD_EABORT);
    assert_int_equal(psd_step_finish(step, 0, NULL), PSD_EABORT);
    assert_int_equal(psd_step_now(step, 0, a, 1, PSD_OP_SUM), PSD_EABORT);
    assert_int_equal(psd_step_add(step, slots, 1, &first), PSD_EABORT);
    assert_non_null(strstr(psd_error(*state), "enough"));
    psd_step_close(step);
}

static void out_of_memory_is_told_and_leaves_nothing(void **state)
{
    psd_status status = PSD_ENOMEM;
    long n = 0;

    while (status != PSD_OK) {
        struct psd_step *step = NULL;
        uint32_t first;

        mem_fail_after(++n);
        status = psd_step_open(*state, &step);
        if (status == PSD_OK) {
            status = psd_step_add(step, slots, 3, &first);
        }
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        psd_step_close(step);
    }
    assert_true(n > 3 && n < 30);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(alone_the_answer_is_the_input),
        HERE(without_samples_a_gradient_is_zeros_and_a_buffer_stays),
        HERE(a_sparse_gradient_comes_back_as_it_is),
        HERE(calls_out_of_turn_are_refused),
        HERE(slots_that_break_the_contract_are_refused),
        HERE(more_slots_than_the_header_holds_are_registered),
        HERE(after_an_abort_every_call_says_so),
        HERE(out_of_memory_is_told_and_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
