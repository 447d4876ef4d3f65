/*
 * solo_test.c: the public calls outside a job: a session of one keeps every
 * contract of poseidon.h.
 */
#define _GNU_SOURCE
#include <math.h>

#include "session/solo_rig.h"

/* ---- alone -------------------------------------------------------------- */

static void a_session_alone_is_rank_0_of_1(void **state)
{
    struct psd_session *session = *state;

    assert_int_equal(psd_rank(session), 0);
    assert_int_equal(psd_size(session), 1);
    assert_int_equal(psd_local_rank(session), 0);
    assert_int_equal(psd_local_size(session), 1);
    assert_int_equal(psd_barrier(session), PSD_OK);
    assert_int_equal(psd_join(session), PSD_OK);
    assert_int_equal(psd_barrier(session), PSD_OK);
    assert_int_equal(psd_wait_all(session), PSD_OK);
    assert_string_equal(psd_error(session), "");
    psd_close(NULL);
}

static void a_push_gives_its_input_back_to_the_bit(void **state)
{
    static const struct {
        psd_dtype dtype;
        size_t size;
    } dtypes[] = { { PSD_FLOAT32, 4 }, { PSD_FLOAT64, 8 }, { PSD_FLOAT16, 2 },
                   { PSD_BFLOAT16, 2 }, { PSD_INT32, 4 }, { PSD_INT64, 8 } };
    struct psd_session *session = *state;

    for (size_t i = 0; i < CLAIM_COUNT(dtypes); i++) {
        char name[16];
        struct psd_spec spec = { .name = name, .dtype = dtypes[i].dtype,
                                 .count = 5000 };
        psd_tensor tensor;
        char data[5000 * 8];
        char before[5000 * 8];

        snprintf(name, sizeof(name), "t%zu", i);
        tensor = registered(session, &spec);
        for (size_t k = 0; k < sizeof(data); k++) {
            /* No NaN: in no byte all bits of an exponent. */
            data[k] = (char)(claim_mix(k) & 0x3f);
        }
        memcpy(before, data, sizeof(data));
        for (uint64_t step = 0; step < 3; step++) {
            struct psd_result result;

            assert_int_equal(psd_push_pull(session, tensor, data, 7,
                                           (psd_op)0, &result), PSD_OK);
            assert_int_equal(result.step, step);
            assert_int_equal(result.contributors, 1);
            assert_int_equal(result.nobody + result.no_weight, 0);
        }
        assert_memory_equal(data, before, sizeof(data));
    }
}

static void a_push_may_answer_elsewhere(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100];
    float out[100] = { 0 };
    struct psd_push_args args = { .data = data, .out = out, .weight = 3 };
    psd_ticket ticket;

    for (unsigned i = 0; i < 100; i++) {
        data[i] = (float)i - 50.25f;
    }
    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
    assert_int_equal(psd_wait(session, ticket, NULL), PSD_OK);
    assert_memory_equal(data, out, sizeof(data));
}

static void a_weight_of_zero_gives_zeros_and_says_so(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100];
    const float zeros[100] = { 0 };
    struct psd_result result;

    for (unsigned i = 0; i < 100; i++) {
        data[i] = NAN; /* not looked at */
    }
    assert_int_equal(psd_push_pull(session, tensor, data, 0, PSD_OP_MEAN,
                                   &result), PSD_OK);
    assert_memory_equal(data, zeros, sizeof(data));
    assert_int_equal(result.no_weight, 1);
    assert_int_equal(result.bad, 0);
    assert_int_equal(result.nobody, 0);
    assert_int_equal(result.contributors, 0);
}

static void a_number_that_is_not_finite_is_told(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100] = { 0 };
    struct psd_result result;

    data[99] = INFINITY;
    assert_int_equal(psd_push_pull(session, tensor, data, 1, PSD_OP_MEAN,
                                   &result), PSD_OK);
    assert_int_equal(result.bad, 1);
    data[99] = 0;
    assert_int_equal(psd_push_pull(session, tensor, data, 1, PSD_OP_SUM,
                                   &result), PSD_OK);
    assert_int_equal(result.bad, 0);
}

static void an_absent_push_alone_means_nobody(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float out[100];
    float before[100];
    psd_ticket ticket;
    struct psd_result result;

    memset(out, 0x5a, sizeof(out));
    memcpy(before, out, sizeof(out));
    assert_int_equal(psd_push_absent(session, tensor, out, &ticket), PSD_OK);
    assert_int_equal(psd_wait(session, ticket, &result), PSD_OK);
    assert_int_equal(result.nobody, 1);
    assert_int_equal(result.no_weight, 0);
    assert_memory_equal(out, before, sizeof(out));
    assert_refused(session, psd_push_absent(session, tensor, NULL, &ticket),
                   "out");
}

static void zeros_without_data_alone_mean_nobody(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float out[100];
    float before[100];
    struct psd_push_args args = { .out = out, .weight = 2 };
    psd_ticket ticket;
    struct psd_result result;

    memset(out, 0x5a, sizeof(out));
    memcpy(before, out, sizeof(out));
    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
    assert_int_equal(psd_wait(session, ticket, &result), PSD_OK);
    assert_int_equal(result.nobody, 1);
    assert_int_equal(result.contributors, 0);
    assert_memory_equal(out, before, sizeof(out));
    args.op = PSD_OP_MAX;
    assert_refused(session, psd_push(session, tensor, &args, &ticket),
                   "zeros");
    args.op = PSD_OP_MEAN;
    args.weight = 0;
    assert_refused(session, psd_push(session, tensor, &args, &ticket),
                   "weight");
    args.weight = 1;
    args.out = NULL;
    assert_refused(session, psd_push(session, tensor, &args, &ticket),
                   "out");
}

static void tickets_are_waited_for_one_by_one_or_all(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensors[3];
    struct psd_spec specs[3] = { weight, weight, weight };
    psd_ticket tickets[3];
    psd_ticket old;
    float data[3][100] = { { 0 } };

    specs[1].name = "b";
    specs[2].name = "c";
    assert_int_equal(psd_register(session, specs, 3, tensors), PSD_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct psd_push_args args = { .data = data[i], .weight = 1 };

        assert_int_equal(psd_push(session, tensors[i], &args, &tickets[i]),
                         PSD_OK);
    }
    assert_int_equal(psd_wait(session, tickets[2], NULL), PSD_OK);
    assert_int_equal(psd_wait(session, tickets[0], NULL), PSD_OK);
    assert_refused(session, psd_wait(session, tickets[0], NULL), "weight");
    assert_int_equal(psd_wait_all(session), PSD_OK);
    assert_refused(session, psd_wait(session, tickets[1], NULL), "tensor b");
    old = tickets[0];
    assert_int_equal(psd_push_pull(session, tensors[0], data[0], 1,
                                   PSD_OP_MEAN, NULL), PSD_OK);
    assert_refused(session, psd_wait(session, old, NULL), "weight");
    assert_refused(session, psd_wait(session, (psd_ticket){ 0 }, NULL),
                   "ticket");
    assert_refused(session,
                   psd_wait(session, (psd_ticket){ UINT64_MAX }, NULL),
                   "ticket");
}

static void a_second_push_before_the_wait_is_refused(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100] = { 0 };
    struct psd_push_args args = { .data = data, .weight = 1 };
    psd_ticket ticket;
    psd_ticket second = { 77 };

    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
    assert_refused(session, psd_push(session, tensor, &args, &second),
                   "in flight");
    assert_refused(session, psd_push_absent(session, tensor, data, &second),
                   "in flight");
    assert_refused(session, psd_push_pull(session, tensor, data, 1,
                                          PSD_OP_MEAN, NULL), "in flight");
    assert_refused(session, psd_broadcast(session, tensor, data, 0),
                   "in flight");
    assert_int_equal(second.id, 77);
    assert_int_equal(psd_wait(session, ticket, NULL), PSD_OK);
    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
    assert_int_equal(psd_wait_all(session), PSD_OK);
    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
}

static void a_gather_gives_what_went_in(void **state)
{
    struct psd_session *session = *state;
    struct psd_spec spec = { .name = "rows", .dtype = PSD_INT64, .count = 8,
                             .kind = PSD_KIND_GATHER };
    psd_tensor tensor = registered(session, &spec);
    int64_t data[9] = { 1, -2, 3, -4, 5, -6, 7, -8, 9 };
    int64_t out[8] = { 0 };
    uint64_t count = 99;
    psd_ticket ticket;

    for (uint64_t n = 0; n <= 8; n++) {
        assert_int_equal(psd_gather(session, tensor, n == 0 ? NULL : data, n,
                                    out, &count, &ticket), PSD_OK);
        assert_int_equal(psd_wait(session, ticket, NULL), PSD_OK);
        assert_int_equal(count, n);
        assert_memory_equal(out, data, n * 8);
    }
    assert_refused(session, psd_gather(session, tensor, data, 9, out, &count,
                                       &ticket), "rows");
    assert_refused(session, psd_gather(session, tensor, NULL, 1, out, &count,
                                       &ticket), "rows");
    assert_refused(session, psd_gather(session, tensor, data, 1, NULL, &count,
                                       &ticket), "rows");
    assert_refused(session, psd_gather(session, tensor, data, 1, out, NULL,
                                       &ticket), "rows");
    assert_refused(session, psd_push_pull(session, tensor, data, 1,
                                          PSD_OP_SUM, NULL), "rows");
    assert_refused(session, psd_broadcast(session, tensor, data, 0), "rows");
    assert_refused(session, psd_push_absent(session, tensor, out, &ticket),
                   "rows");
    tensor = registered(session, &weight);
    assert_refused(session, psd_gather(session, tensor, data, 1, out, &count,
                                       &ticket), "weight");
}

static void a_broadcast_keeps_the_roots_bits(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100];
    float before[100];

    memset(data, 0xff, sizeof(data)); /* NaN, every bit of it */
    memcpy(before, data, sizeof(data));
    assert_int_equal(psd_broadcast(session, tensor, data, 0), PSD_OK);
    assert_memory_equal(data, before, sizeof(data));
    assert_refused(session, psd_broadcast(session, tensor, data, 1), "root");
    assert_refused(session, psd_broadcast(session, tensor, NULL, 0), "data");
}

static void a_stored_value_is_set_and_moved(void **state)
{
    struct psd_session *session = *state;
    struct psd_spec spec = weight;
    psd_tensor tensor;
    float data[100];
    volatile float value = 1.0f;
    volatile float velocity = 0.0f;

    spec.kind = PSD_KIND_STORE;
    spec.optim = "momentum";
    spec.rate = 0.1;
    spec.momentum = 0.9;
    tensor = registered(session, &spec);
    for (unsigned i = 0; i < 100; i++) {
        data[i] = 1.0f;
    }
    assert_int_equal(psd_broadcast(session, tensor, data, 0), PSD_OK);
    for (unsigned step = 0; step < 20; step++) {
        volatile float kept = 0.9f * velocity;
        volatile float change;

        velocity = kept + 0.25f;
        change = 0.1f * velocity;
        value = value - change;
        for (unsigned i = 0; i < 100; i++) {
            data[i] = 0.25f;
        }
        assert_int_equal(psd_push_pull(session, tensor, data, 3, PSD_OP_MEAN,
                                       NULL), PSD_OK);
        for (unsigned i = 0; i < 100; i++) {
            assert_true(data[i] == value);
        }
    }
}

static void a_shared_value_is_added_to_and_asked_for(void **state)
{
    struct psd_session *session = *state;
    struct psd_spec spec = { .name = "clock", .dtype = PSD_INT64, .count = 1,
                             .kind = PSD_KIND_SHARED };
    psd_tensor tensor = registered(session, &spec);
    int64_t value = 40;
    int64_t base = 43;
    struct psd_push_args args = { .data = &value, .weight = 1 };
    psd_ticket ticket;

    assert_int_equal(psd_broadcast(session, tensor, &value, 0), PSD_OK);
    for (int64_t step = 1; step <= 3; step++) {
        value = 1;
        assert_int_equal(psd_push_pull(session, tensor, &value, 1, 0, NULL),
                         PSD_OK);
        assert_int_equal(value, 40 + step);
    }
    value = 7;
    assert_int_equal(psd_push_absent(session, tensor, &value, &ticket),
                     PSD_OK);
    assert_int_equal(psd_wait(session, ticket, NULL), PSD_OK);
    assert_int_equal(value, 43);
    args.base = &base;
    for (int64_t step = 1; step <= 3; step++) { /* only its change counts */
        value = base + step;
        assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_OK);
        assert_int_equal(psd_wait(session, ticket, NULL), PSD_OK);
        assert_int_equal(value, base);
    }
    assert_int_equal(value, 43 + 1 + 2 + 3);
    assert_refused(session,
                   psd_push_pull(session, tensor, &value, 1, PSD_OP_MAX, NULL),
                   "op");
    tensor = registered(session, &weight);
    assert_refused(session, psd_push(session, tensor, &args, &ticket), "base");
}

/* ---- mistakes ----------------------------------------------------------- */

static void a_push_that_breaks_the_contract_is_refused(void **state)
{
    struct psd_session *session = *state;
    struct psd_spec spec = { .name = "ints", .dtype = PSD_INT32, .count = 4 };
    psd_tensor floats = registered(session, &weight);
    psd_tensor ints = registered(session, &spec);
    float data[100] = { 0 };
    struct psd_push_args args = { .data = NULL, .weight = 1 };
    psd_ticket ticket = { 77 };

    assert_refused(session, psd_push(session, floats, &args, &ticket),
                   "weight");
    args.data = data;
    args.weight = -1;
    assert_refused(session, psd_push(session, floats, &args, &ticket),
                   "2^40");
    args.weight = (double)NAN;
    assert_refused(session, psd_push(session, floats, &args, &ticket),
                   "2^40");
    args.weight = (double)INFINITY;
    assert_refused(session, psd_push(session, floats, &args, &ticket),
                   "2^40");
    args.weight = 1;
    args.op = PSD_OP_OR;
    assert_refused(session, psd_push(session, floats, &args, &ticket), "op");
    args.op = (psd_op)5;
    assert_refused(session, psd_push(session, floats, &args, &ticket), "op");
    args.op = (psd_op)77;
    assert_refused(session, psd_push(session, floats, &args, &ticket), "op");
    args.op = (psd_op)(256 + PSD_OP_SUM);
    assert_refused(session, psd_push(session, floats, &args, &ticket), "op");
    args.op = PSD_OP_MEAN;
    assert_refused(session, psd_push(session, ints, &args, &ticket), "op");
    args.op = (psd_op)0;
    assert_refused(session, psd_push(session, (psd_tensor){ 99 }, &args,
                                     &ticket), "no tensor");
    assert_int_equal(ticket.id, 77); /* outputs only on success */
    args.memory = PSD_MEMORY_CUDA;
    assert_int_equal(psd_push(session, floats, &args, &ticket), PSD_ENOSUP);
    assert_non_null(strstr(psd_error(session), "weight"));
    args.memory = PSD_MEMORY_HOST;
    assert_int_equal(psd_push(session, floats, &args, &ticket), PSD_OK);
}

static void a_handle_of_zero_is_no_tensor(void **state)
{
    struct psd_session *session = *state;
    psd_tensor none = { 0 };
    int32_t data[4] = { 1, 2, 3, 4 };
    struct psd_push_args args = { .data = data, .weight = 1 };
    psd_ticket ticket;

    assert_refused(session, psd_push(session, none, &args, &ticket),
                   "no tensor");
    assert_refused(session, psd_push_pull(session, none, data, 1, PSD_OP_SUM,
                                          NULL), "no tensor");
    assert_refused(session, psd_push_absent(session, none, data, &ticket),
                   "no tensor");
    assert_refused(session, psd_broadcast(session, none, data, 0),
                   "no tensor");
    assert_refused(session, psd_audit(session, none, data, 4), "no such");
}

static void specs_that_break_the_contract_are_refused(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = { 77 };
    struct psd_spec spec = weight;
    char name[300];

    memset(name, 'x', sizeof(name) - 1);
    name[sizeof(name) - 1] = '\0';
    spec.name = NULL;
    assert_refused(session, psd_register(session, &spec, 1, &tensor), "name");
    spec.name = "";
    assert_refused(session, psd_register(session, &spec, 1, &tensor), "name");
    spec.name = name;
    assert_refused(session, psd_register(session, &spec, 1, &tensor), "255");
    spec.name = "psd.mine";
    assert_refused(session, psd_register(session, &spec, 1, &tensor),
                   "reserved");
    spec = weight;
    spec.count = 0;
    assert_refused(session, psd_register(session, &spec, 1, &tensor),
                   "count");
    spec = weight;
    spec.dtype = (psd_dtype)(256 + PSD_FLOAT32);
    assert_refused(session, psd_register(session, &spec, 1, &tensor),
                   "dtype");
    spec = weight;
    spec.kind = (psd_kind)4;
    assert_refused(session, psd_register(session, &spec, 1, &tensor), "kind");
    spec.kind = (psd_kind)256;
    assert_refused(session, psd_register(session, &spec, 1, &tensor), "kind");
    spec.kind = PSD_KIND_STORE;
    assert_refused(session, psd_register(session, &spec, 1, &tensor),
                   "optim");
    spec.optim = name;
    assert_refused(session, psd_register(session, &spec, 1, &tensor),
                   "optim");
    assert_int_equal(tensor.id, 77);
    name[255] = '\0';
    spec = weight;
    spec.name = name; /* 255 bytes are allowed */
    assert_int_equal(psd_register(session, &spec, 1, &tensor), PSD_OK);
}

static void one_name_is_one_tensor(void **state)
{
    struct psd_session *session = *state;
    psd_tensor first = registered(session, &weight);
    psd_tensor pair[2] = { { 0 }, { 0 } };
    struct psd_spec specs[2] = { weight, weight };
    float data[200] = { 0 };

    assert_int_equal(registered(session, &weight).id, first.id);
    specs[1].count = 200;
    assert_refused(session, psd_register(session, &specs[1], 1, pair),
                   "weight");
    specs[0].name = "twice";
    specs[1].name = "twice";
    assert_refused(session, psd_register(session, specs, 2, pair), "twice");
    /* Nothing of that batch stays. */
    specs[0].count = 200;
    assert_int_equal(psd_register(session, specs, 2, pair), PSD_OK);
    assert_int_equal(pair[0].id, pair[1].id);
    assert_int_equal(psd_push_pull(session, pair[0], data, 1, PSD_OP_MEAN,
                                   NULL), PSD_OK);
    assert_int_equal(psd_register(session, NULL, 0, NULL), PSD_OK);
}

static void layers_built_late_are_registered_late(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensors[50];
    float data[100];

    for (unsigned i = 0; i < 50; i++) {
        char name[16];
        struct psd_spec spec = weight;

        snprintf(name, sizeof(name), "layer%u", i);
        spec.name = name;
        tensors[i] = registered(session, &spec);
        for (unsigned k = 0; k <= i; k++) {
            struct psd_result result;

            data[0] = (float)k;
            assert_int_equal(psd_push_pull(session, tensors[k], data, 1,
                                           PSD_OP_MEAN, &result), PSD_OK);
            assert_true(data[0] == (float)k);
            assert_int_equal(result.step, i - k);
        }
    }
}

/* ---- memory ------------------------------------------------------------- */

static void memory_of_the_arena_is_aligned_and_known(void **state)
{
    struct psd_session *session = *state;
    char *blocks[20];
    char stack[64];

    for (unsigned i = 0; i < 20; i++) {
        size_t size = (size_t)1 << i;

        blocks[i] = psd_alloc(session, size);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        memset(blocks[i], 1, size);
        assert_int_equal(psd_contains(session, blocks[i], size), 1);
    }
    assert_int_equal(psd_contains(session, stack, 1), 0);
    assert_int_equal(psd_contains(session, blocks[0], SIZE_MAX), 0);
    assert_null(psd_alloc(session, SIZE_MAX));
    for (unsigned i = 0; i < 20; i++) {
        psd_free(session, blocks[i]);
    }
    psd_free(session, NULL);
    assert_ptr_equal(psd_alloc(session, 1 << 19), blocks[19]);
}

/* ---- proof, progress, the end ------------------------------------------- */

static void audits_and_metrics_are_taken(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100] = { 0 };

    assert_int_equal(psd_audit(session, tensor, data, sizeof(data)), PSD_OK);
    assert_int_equal(psd_audit(session, tensor, data, 0), PSD_OK);
    assert_refused(session, psd_audit(session, (psd_tensor){ 99 }, data, 4),
                   "psd_audit");
    assert_refused(session, psd_audit(session, tensor, NULL, 4),
                   "psd_audit");
    assert_int_equal(psd_metrics(session, 1, 0.5, 32), PSD_OK);
    assert_int_equal(psd_metrics(session, 2, (double)NAN, 0), PSD_OK);
}

static void after_an_abort_every_call_says_so(void **state)
{
    struct psd_session *session = *state;
    psd_tensor tensor = registered(session, &weight);
    float data[100] = { 0 };
    struct psd_push_args args = { .data = data, .weight = 1 };
    psd_ticket ticket;
    uint64_t count;

    psd_abort(session, 3, "the loss is NaN");
    psd_abort(session, 4, NULL); /* the first failure stays */
    assert_non_null(strstr(psd_error(session), "the loss is NaN"));
    assert_int_equal(psd_push(session, tensor, &args, &ticket), PSD_EABORT);
    assert_int_equal(psd_push_absent(session, tensor, data, &ticket),
                     PSD_EABORT);
    assert_int_equal(psd_push_pull(session, tensor, data, 1, PSD_OP_MEAN,
                                   NULL), PSD_EABORT);
    assert_int_equal(psd_gather(session, tensor, data, 1, data, &count,
                                &ticket), PSD_EABORT);
    assert_int_equal(psd_wait(session, (psd_ticket){ 0 }, NULL), PSD_EABORT);
    assert_int_equal(psd_wait_all(session), PSD_EABORT);
    assert_int_equal(psd_register(session, &weight, 1, &tensor), PSD_EABORT);
    assert_int_equal(psd_broadcast(session, tensor, data, 0), PSD_EABORT);
    assert_int_equal(psd_barrier(session), PSD_EABORT);
    assert_int_equal(psd_join(session), PSD_EABORT);
    assert_int_equal(psd_audit(session, tensor, data, 4), PSD_EABORT);
    assert_int_equal(psd_metrics(session, 1, 1.0, 1), PSD_EABORT);
    assert_non_null(strstr(psd_error(session), "the loss is NaN"));
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(a_session_alone_is_rank_0_of_1),
        HERE(a_push_gives_its_input_back_to_the_bit),
        HERE(a_push_may_answer_elsewhere),
        HERE(a_weight_of_zero_gives_zeros_and_says_so),
        HERE(a_number_that_is_not_finite_is_told),
        HERE(an_absent_push_alone_means_nobody),
        HERE(zeros_without_data_alone_mean_nobody),
        HERE(tickets_are_waited_for_one_by_one_or_all),
        HERE(a_second_push_before_the_wait_is_refused),
        HERE(a_gather_gives_what_went_in),
        HERE(a_broadcast_keeps_the_roots_bits),
        HERE(a_stored_value_is_set_and_moved),
        HERE(a_shared_value_is_added_to_and_asked_for),
        HERE(a_push_that_breaks_the_contract_is_refused),
        HERE(a_handle_of_zero_is_no_tensor),
        HERE(specs_that_break_the_contract_are_refused),
        HERE(one_name_is_one_tensor),
        HERE(layers_built_late_are_registered_late),
        HERE(memory_of_the_arena_is_aligned_and_known),
        HERE(audits_and_metrics_are_taken),
        HERE(after_an_abort_every_call_says_so),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
