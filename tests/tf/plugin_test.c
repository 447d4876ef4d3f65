/*
 * plugin_test.c: the real plug-in on the stand-in runtime, in a job of one.
 * What several workers do together is in job.c.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

static const char *plugin_path;
static struct psd_session *session;
static long live_before;

static const struct psd_tf_spec specs[] = {
    { .key = "a", .dtype = TF_FLOAT, .count = 4 },
    { .key = "b", .dtype = TF_FLOAT, .count = 4 },
    { .key = "h", .dtype = TF_HALF, .count = 3 },
    { .key = "e",
      .dtype = TF_FLOAT,
      .kind = PSD_TF_SPARSE,
      .count = 2,
      .rows = 2 },
    { .key = "empty", .dtype = TF_FLOAT, .count = 0 },
    { .key = "flags", .dtype = TF_BOOL, .kind = PSD_TF_VALUE, .count = 3 },
    { .key = "global_step",
      .dtype = TF_INT64,
      .kind = PSD_TF_VALUE,
      .count = 1 },
};
static const char *const ab[] = { "a", "b" };

static int begin(void **state)
{
    (void)state;
    live_before = standin_live();
    session = rig_open();
    return session == NULL ||
           rig.add("opt0", specs, sizeof(specs) / sizeof(specs[0])) != PSD_OK;
}

static int end(void **state)
{
    (void)state;
    rig_close(session);
    return standin_live() != live_before;
}

static void failed_with(int code, const char *part)
{
    if (rig_code != code || strstr(rig_said, part) == NULL ||
        strncmp(rig_said, "poseidon: ", 10) != 0) {
        fail_msg("code %d: %s", rig_code, rig_said);
    }
}

#define OPS 6

static void every_op_is_stateful_and_has_kernels_for_cpu_and_gpu(void **state)
{
    static const char *const names[] = { "PsdPush", "PsdPushSparse", "PsdWait",
                                         "PsdTakeSparse", "PsdShare",
                                         "PsdBroadcast" };

    (void)state;
    assert_null(rig.ready());
    assert_int_equal(standin_op_count(), OPS);
    for (size_t i = 0; i < OPS; i++) {
        const struct standin_op *op = standin_op(names[i]);
        const struct standin_kernel *gpu = standin_kernel(names[i], "GPU");

        assert_non_null(op);
        assert_true(op->stateful);
        assert_non_null(standin_kernel(names[i], "CPU"));
        assert_int_equal(standin_kernel(names[i], "CPU")->host_count, 0);
        assert_non_null(gpu);
        assert_int_equal(gpu->host_count, op->input_count + op->output_count);
    }
}

static void shapes_are_those_of_the_gradients(void **state)
{
    struct standin_shape in[4] = {
        { 2, { 3, 4 } }, { 1, { 5 } }, { 0 }, { 0 }
    };
    struct standin_shape out[4];

    (void)state;
    assert_int_equal(standin_infer("PsdPush", in, 3, out), 1);
    assert_int_equal(out[0].rank, 2);
    assert_int_equal(standin_infer("PsdWait", in, 4, out), 3);
    assert_int_equal(out[1].dims[0], 5);
    assert_int_equal(out[2].rank, 0);
    assert_int_equal(standin_infer("PsdTakeSparse", in, 3, out), 2);
    assert_int_equal(out[0].rank, -1);
    assert_int_equal(standin_infer("PsdBroadcast", in, 2, out), 2);
    assert_int_equal(out[1].dims[0], 5);
}

static void a_gradient_that_nobody_else_has_is_exchanged_in_place(void **state)
{
    TF_Tensor *mine = rig_same(3, 4);
    void *memory = TF_TensorData(mine);
    TF_Tensor *shared = rig_same(5, 4);
    TF_Tensor *other = standin_share(shared);
    TF_Tensor *outs[2];

    (void)state;
    outs[0] = rig_push(&(struct rig_push){ .key = "a", .run = 1 }, mine);
    outs[1] = rig_push(&(struct rig_push){ .key = "b", .run = 1 }, shared);
    assert_non_null(outs[0]);
    assert_non_null(outs[1]);
    assert_true(rig_wait("opt0", ab, 2, outs, false));
    assert_ptr_equal(TF_TensorData(outs[0]), memory);
    assert_ptr_not_equal(TF_TensorData(outs[1]), TF_TensorData(other));
    assert_true(rig_first(outs[0]) == 3);
    assert_true(rig_first(outs[1]) == 5);
    assert_true(rig_first(other) == 5);
    assert_int_equal(rig.steps("opt0"), 1);
}

static void the_gpu_kernel_is_the_same(void **state)
{
    TF_Tensor *out =
        rig_push(&(struct rig_push){ .key = "a", .run = 1, .device = "GPU" },
                 rig_same(3, 4));
    static const char *const a[] = { "a" };

    (void)state;
    assert_true(rig_wait("opt0", a, 1, &out, false));
    assert_true(rig_first(out) == 3);
}

static void what_is_disabled_is_passed_on_and_not_exchanged(void **state)
{
    struct rig_push push = { .key = "nobody knows this key", .disabled = true };
    TF_Tensor *out = rig_push(&push, rig_same(2, 7));
    static const char *const keys[] = { "nor this" };
    int64_t index = 4;
    TF_Tensor *values, *indices;

    (void)state;
    assert_non_null(out);
    assert_true(rig_wait("opt9", keys, 1, &out, true));
    assert_true(rig_take("x", out, standin_tensor(TF_INT64, 1, 8, &index), true,
                         &values, &indices));
    assert_int_equal(*(int64_t *)TF_TensorData(indices), 4);
    TF_DeleteTensor(indices);
    assert_true(rig_first(values) == 2);
    assert_int_equal(rig.steps("opt0"), 0);
}

static void what_does_not_fit_is_an_error_of_tensorflow(void **state)
{
    struct rig_push push = { .key = "a", .run = 1 };
    double d[4] = { 0 };
    TF_Tensor *out;

    (void)state;
    assert_null(rig_push(&push, rig_same(1, 5)));
    failed_with(TF_INVALID_ARGUMENT, "key a comes with 20 bytes");
    assert_null(rig_push(&push, standin_tensor(TF_DOUBLE, 4, 8, d)));
    failed_with(TF_INVALID_ARGUMENT, "registered with type 1");
    push.weight = (double)NAN;
    assert_null(rig_push(&push, rig_same(1, 4)));
    failed_with(TF_INVALID_ARGUMENT, "samples are 0 to 2^40");
    push.weight = 0;
    push.key = "zz";
    assert_null(rig_push(&push, rig_same(1, 4)));
    failed_with(TF_FAILED_PRECONDITION, "key zz is not registered");
    push.key = "e";
    assert_null(rig_push(&push, rig_same(1, 2)));
    failed_with(TF_INVALID_ARGUMENT, "registered sparse");
    out = rig_same(1, 4);
    assert_false(rig_wait("opt0", ab, 1, &out, false));
    failed_with(TF_INVALID_ARGUMENT, "key a is not pushed");
    out = rig_same(1, 4);
    assert_false(rig_wait("opt7", ab, 1, &out, false));
    failed_with(TF_FAILED_PRECONDITION, "group opt7 is not registered");
}

static void no_memory_for_an_output_leaves_nothing(void **state)
{
    TF_Tensor *shared = rig_same(1, 4);
    TF_Tensor *other = standin_share(shared);
    struct rig_push push = { .key = "a", .run = 1, .op = "sum" };
    struct standin_node node;
    const char *mode = "graph";
    const struct standin_attr attrs[] = { { "key", &push.key, -1 },
                                          { "op", &push.op, -1 },
                                          { "mode", &mode, -1 },
                                          { NULL, NULL, 0 } };
    unsigned char on = 1;
    double weight = 1;
    struct standin_run run = {
        .inputs = { shared, standin_tensor(TF_BOOL, -1, 1, &on),
                    standin_tensor(TF_DOUBLE, -1, 8, &weight) },
        .input_count = 3
    };

    (void)state;
    standin_make(&node, "PsdPush", "CPU", attrs);
    standin_no_memory(true);
    standin_compute(&node, &run);
    standin_no_memory(false);
    standin_drop(&node);
    assert_int_equal(run.code, TF_RESOURCE_EXHAUSTED);
    TF_DeleteTensor(other);
}

static void a_node_without_its_attributes_is_refused(void **state)
{
    struct standin_node node;
    const struct standin_attr none[] = { { NULL, NULL, 0 } };

    (void)state;
    standin_make(&node, "PsdPush", "CPU", none);
    assert_int_equal(node.code, TF_INVALID_ARGUMENT);
    assert_null(node.state);
    standin_drop(&node);
    standin_make(&node, "PsdWait", "CPU", none);
    assert_int_equal(node.code, TF_INVALID_ARGUMENT);
    standin_drop(&node);
}

static void a_key_pushed_twice_in_one_run_is_an_error(void **state)
{
    struct rig_push push = { .key = "a", .run = 1 };
    TF_Tensor *out = rig_push(&push, rig_same(1, 4));

    (void)state;
    assert_null(rig_push(&push, rig_same(1, 4)));
    failed_with(TF_INVALID_ARGUMENT, "key a is pushed again");
    TF_DeleteTensor(out);
}

static void a_step_that_was_left_is_forgotten_by_the_next_run(void **state)
{
    struct rig_push a = { .key = "a", .run = 1 }, b = { .key = "b", .run = 2 };
    TF_Tensor *outs[2];

    (void)state;
    TF_DeleteTensor(rig_push(&a, rig_same(1, 4)));
    a.run = 2;
    outs[1] = rig_push(&b, rig_same(20, 4));
    outs[0] = rig_push(&a, rig_same(10, 4));
    assert_true(rig_wait("opt0", ab, 2, outs, false));
    assert_true(rig_first(outs[0]) == 10);
    assert_true(rig_first(outs[1]) == 20);
    assert_int_equal(rig.steps("opt0"), 1);
    TF_DeleteTensor(rig_push(&a, rig_same(1, 4)));
    assert_int_equal(rig.settle(), PSD_OK);
    assert_int_equal(standin_live(), live_before);
}

static void in_eager_mode_the_first_key_again_means_left(void **state)
{
    struct rig_push a = { .key = "a", .run = 1, .eager = true };
    struct rig_push b = { .key = "b", .run = 2, .eager = true };
    TF_Tensor *outs[2];

    (void)state;
    TF_DeleteTensor(rig_push(&a, rig_same(1, 4)));
    a.run = 3;
    outs[0] = rig_push(&a, rig_same(10, 4));
    outs[1] = rig_push(&b, rig_same(20, 4));
    assert_null(rig_push(&b, rig_same(20, 4)));
    failed_with(TF_INVALID_ARGUMENT, "key b is pushed again");
    assert_true(rig_wait("opt0", ab, 2, outs, false));
    assert_true(rig_first(outs[0]) == 10);
    assert_true(rig_first(outs[1]) == 20);
}

static void sparse_rows_come_back_in_several_rounds(void **state)
{
    static const char *const keys[] = { "e" };
    const int64_t dims[] = { 5, 2 };
    float rows[10];
    int32_t at[5] = { 7, 3, 7, 0, 1 };
    TF_Tensor *token, *values, *indices;

    (void)state;
    for (int i = 0; i < 10; i++) {
        rows[i] = (float)i;
    }
    token = rig_push_sparse(&(struct rig_push){ .key = "e", .run = 1 },
                            standin_reshape(rig_floats(rows, 10), 2, dims),
                            standin_tensor(TF_INT32, 5, 4, at));
    assert_non_null(token);
    assert_true(rig_wait("opt0", keys, 1, &token, false));
    assert_true(rig_take("e", token, standin_tensor(TF_INT32, 5, 4, at), false,
                         &values, &indices));
    assert_int_equal(TF_NumDims(values), 2);
    assert_int_equal(TF_Dim(values, 0), 5);
    assert_int_equal(TF_Dim(values, 1), 2);
    assert_memory_equal(TF_TensorData(values), rows, sizeof(rows));
    assert_int_equal(TF_TensorType(indices), TF_INT32);
    assert_memory_equal(TF_TensorData(indices), at, sizeof(at));
    TF_DeleteTensor(values);
    TF_DeleteTensor(indices);
}

static void sparse_mistakes_are_errors(void **state)
{
    const int64_t dims[] = { 1, 3 }, rows[] = { 2, 2 };
    int64_t at[2] = { 0, 1 };
    struct rig_push push = { .key = "e", .run = 1 };
    TF_Tensor *values, *indices;

    (void)state;
    assert_null(rig_push_sparse(&push, standin_reshape(rig_same(1, 3), 2, dims),
                                standin_tensor(TF_INT64, 1, 8, at)));
    failed_with(TF_INVALID_ARGUMENT, "rows of 8 bytes");
    assert_null(rig_push_sparse(&push, standin_reshape(rig_same(1, 4), 2, rows),
                                standin_tensor(TF_INT64, 1, 8, at)));
    failed_with(TF_INVALID_ARGUMENT, "one index each");
    assert_false(rig_take("e", rig_same(1, 4),
                          standin_tensor(TF_INT64, 2, 8, at), false, &values,
                          &indices));
    failed_with(TF_INVALID_ARGUMENT, "no sparse answer");
}

static void no_rows_and_no_elements_are_fine(void **state)
{
    static const char *const keys[] = { "e", "empty" };
    const int64_t dims[] = { 0, 2 };
    TF_Tensor *outs[2], *values, *indices;

    (void)state;
    outs[0] = rig_push_sparse(&(struct rig_push){ .key = "e", .run = 1 },
                              standin_reshape(rig_same(0, 0), 2, dims),
                              standin_tensor(TF_INT64, 0, 8, ""));
    outs[1] = rig_push(&(struct rig_push){ .key = "empty", .run = 1 },
                       rig_same(0, 0));
    assert_non_null(outs[1]);
    assert_true(rig_wait("opt0", keys, 2, outs, false));
    assert_true(rig_take("e", outs[0], standin_tensor(TF_INT64, 0, 8, ""),
                         false, &values, &indices));
    assert_int_equal(TF_Dim(values, 0), 0);
    TF_DeleteTensor(values);
    TF_DeleteTensor(indices);
    TF_DeleteTensor(outs[1]);
}

static void what_is_not_finite_is_named(void **state)
{
    static const char *const keys[] = { "a", "e" };
    const int64_t dims[] = { 1, 2 };
    int64_t at = 0;
    const char *key = "";
    uint32_t rank = 9;

    (void)state;
    for (int i = 0; i < 3; i++) {
        TF_Tensor *outs[2], *values, *indices;

        rig.stop_at_nan(i == 2);
        outs[0] = rig_push(&(struct rig_push){ .key = "a", .run = i },
                           rig_same(i == 1 ? INFINITY : 1, 4));
        outs[1] = rig_push_sparse(
            &(struct rig_push){ .key = "e", .run = i },
            standin_reshape(rig_same(i == 2 ? NAN : 1, 2), 2, dims),
            standin_tensor(TF_INT64, 1, 8, &at));
        assert_true(rig_wait("opt0", keys, 2, outs, false) == (i < 2));
        assert_int_equal(rig.bad("opt0", &key, &rank), i > 0);
        if (i < 2) {
            assert_true(rig_finite == (i == 0));
            TF_DeleteTensor(outs[0]);
            assert_true(rig_take("e", outs[1],
                                 standin_tensor(TF_INT64, 1, 8, &at), false,
                                 &values, &indices));
            TF_DeleteTensor(values);
            TF_DeleteTensor(indices);
        }
    }
    rig.stop_at_nan(0);
    failed_with(TF_INTERNAL, "the gradient e of worker 0 has a NaN");
    assert_string_equal(key, "e");
    assert_int_equal(rank, 0);
}

static void a_broadcast_takes_any_type(void **state)
{
    static const char *const keys[] = { "a", "flags", "global_step", "empty" };
    unsigned char flags[3] = { 1, 0, 1 };
    int64_t step = 17;
    TF_Tensor *outs[4] = { rig_same(3, 4), standin_tensor(TF_BOOL, 3, 1, flags),
                           standin_tensor(TF_INT64, -1, 8, &step),
                           rig_same(0, 0) };
    TF_Tensor *share = standin_share(outs[1]);

    (void)state;
    assert_true(rig_broadcast(keys, 4, outs));
    assert_memory_equal(TF_TensorData(outs[1]), flags, 3);
    assert_int_equal(*(int64_t *)TF_TensorData(outs[2]), 17);
    for (int i = 0; i < 4; i++) {
        TF_DeleteTensor(outs[i]);
    }
    TF_DeleteTensor(share);
}

/* What a variable changed by is added; alone, the answer is the variable. */
static void a_shared_value_follows_its_changes(void **state)
{
    static const char *const keys[] = { "s", "t" };
    const struct psd_tf_spec shared[] = {
        { .key = "s", .dtype = TF_FLOAT, .count = 4, .kind = PSD_TF_SHARED },
        { .key = "t", .dtype = TF_HALF, .count = 4, .kind = PSD_TF_SHARED },
    };
    uint16_t two[4] = { 0x4000, 0x4000, 0x4000, 0x4000 };
    TF_Tensor *outs[2] = { rig_same(2, 4), standin_tensor(TF_HALF, 4, 2, two) };

    (void)state;
    assert_int_equal(rig.add("hogwild", shared, 2), PSD_OK);
    assert_false(rig_share(keys, 1, "copy", outs));
    failed_with(TF_INVALID_ARGUMENT, "nobody has begun it");
    outs[0] = rig_same(2, 4); /* the op has taken the other */
    assert_true(rig_broadcast(keys, 2, outs));
    rig_first(outs[0]);
    for (unsigned step = 0; step < 3; step++) {
        *(uint16_t *)TF_TensorData(outs[1]) = 0x4200; /* 3 */
        outs[0] = rig_same(2 + (float)step, 4);
        assert_true(rig_share(keys, 2, "copy", outs));
        assert_true(rig_first(outs[0]) == 2 + (float)step);
        assert_int_equal(*(uint16_t *)TF_TensorData(outs[1]), 0x4200);
    }
    outs[0] = rig_same(-1, 4); /* a session anew: it only asks */
    assert_true(rig_broadcast(keys, 2, outs));
    assert_true(rig_first(outs[0]) == 4);
    TF_DeleteTensor(outs[1]);
}

/* The memory that came in is the memory that goes out, whoever else has it. */
static void a_shared_value_is_changed_in_its_place(void **state)
{
    static const char *const key = "s";
    const struct psd_tf_spec spec = { .key = "s", .dtype = TF_FLOAT,
                                      .count = 4, .kind = PSD_TF_SHARED };
    TF_Tensor *variable = rig_same(2, 4);
    TF_Tensor *out = standin_share(variable);

    (void)state;
    assert_int_equal(rig.add("hogwild", &spec, 1), PSD_OK);
    assert_true(rig_broadcast(&key, 1, &out));
    rig_first(out);
    *(float *)TF_TensorData(variable) = 7;
    out = standin_share(variable);
    assert_true(rig_share(&key, 1, "place", &out));
    assert_ptr_equal(TF_TensorData(out), TF_TensorData(variable));
    assert_true(rig_first(out) == 7);
    TF_DeleteTensor(variable);
}

static void registering_refuses_what_cannot_be(void **state)
{
    struct psd_tf_spec text = {
        .key = "t", .dtype = TF_STRING, .kind = PSD_TF_VALUE, .count = 1
    };
    struct psd_tf_spec number = { .key = "n", .dtype = TF_INT32, .count = 1 };
    struct psd_tf_spec other = { .key = "a", .dtype = TF_FLOAT, .count = 9 };

    (void)state;
    assert_int_equal(rig.add("opt0", &text, 1), PSD_ENOSUP);
    assert_non_null(strstr(rig.error(), "cannot be broadcast"));
    assert_int_equal(rig.add("opt0", &number, 1), PSD_ENOSUP);
    assert_non_null(strstr(rig.error(), "cannot be averaged"));
    assert_int_equal(rig.add("opt0", &other, 1), PSD_EINVAL);
    assert_non_null(strstr(rig.error(), "registered already"));
    assert_int_equal(rig.add("opt1", &specs[0], 1), PSD_EINVAL);
    assert_int_equal(rig.add("opt0", specs, 2), PSD_OK); /* the same again */
    assert_int_equal(rig.step(-1, PSD_OP_MEAN), PSD_EINVAL);
    assert_int_equal(rig.step(1, PSD_OP_OR), PSD_EINVAL);
}

static void a_session_of_another_library_is_refused(void **state)
{
    (void)state;
    assert_int_equal(rig.attach(session, &session), PSD_EINVAL);
    assert_non_null(strstr(rig.error(), "two copies of libposeidon"));
}

static void *push_b(void *unused)
{
    (void)unused;
    return rig_push(&(struct rig_push){ .key = "b", .run = 1 }, rig_same(2, 4));
}

static void pushes_come_from_several_threads(void **state)
{
    struct psd_tf_event events[64];
    TF_Tensor *outs[2];
    pthread_t thread;
    uint32_t count;
    void *out;

    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, push_b, NULL), 0);
    outs[0] =
        rig_push(&(struct rig_push){ .key = "a", .run = 1 }, rig_same(1, 4));
    pthread_join(thread, &out);
    outs[1] = out;
    assert_true(rig_wait("opt0", ab, 2, outs, false));
    assert_true(rig_first(outs[0]) == 1);
    assert_true(rig_first(outs[1]) == 2);
    count = rig.events(events, 4);
    assert_int_equal(count, 4);
    assert_int_equal(events[0].what, PSD_TF_PUSHED);
    assert_int_equal(events[2].what, PSD_TF_WAITS);
    assert_int_equal(events[3].what, PSD_TF_WAITED);
    assert_string_equal(events[3].name, "opt0");
}

static void a_second_copy_of_the_plugin_is_refused(void **state)
{
    char path[] = "/tmp/psd_tf_copy.XXXXXX", command[8192];
    int fd = mkstemp(path);
    struct rig_plugin copy;
    FILE *from = fopen(plugin_path, "rb");
    size_t size;

    (void)state;
    assert_non_null(from);
    while ((size = fread(command, 1, sizeof(command), from)) > 0) {
        assert_int_equal(write(fd, command, size), size);
    }
    fclose(from);
    close(fd);
    assert_true(rig_load(path, &copy));
    unlink(path);
    assert_non_null(copy.ready());
    assert_non_null(strstr(copy.ready(), "second copy"));
    assert_int_equal(copy.attach(session, NULL), PSD_ENOSUP);
    assert_int_equal(standin_op_count(), OPS);
    assert_null(rig.ready());
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define CLAIM(name) cmocka_unit_test_setup_teardown(name, begin, end)
        CLAIM(every_op_is_stateful_and_has_kernels_for_cpu_and_gpu),
        CLAIM(shapes_are_those_of_the_gradients),
        CLAIM(a_gradient_that_nobody_else_has_is_exchanged_in_place),
        CLAIM(the_gpu_kernel_is_the_same),
        CLAIM(what_is_disabled_is_passed_on_and_not_exchanged),
        CLAIM(what_does_not_fit_is_an_error_of_tensorflow),
        CLAIM(no_memory_for_an_output_leaves_nothing),
        CLAIM(a_node_without_its_attributes_is_refused),
        CLAIM(a_key_pushed_twice_in_one_run_is_an_error),
        CLAIM(a_step_that_was_left_is_forgotten_by_the_next_run),
        CLAIM(in_eager_mode_the_first_key_again_means_left),
        CLAIM(sparse_rows_come_back_in_several_rounds),
        CLAIM(sparse_mistakes_are_errors),
        CLAIM(no_rows_and_no_elements_are_fine),
        CLAIM(what_is_not_finite_is_named),
        CLAIM(a_broadcast_takes_any_type),
        CLAIM(a_shared_value_follows_its_changes),
        CLAIM(a_shared_value_is_changed_in_its_place),
        CLAIM(registering_refuses_what_cannot_be),
        CLAIM(a_session_of_another_library_is_refused),
        CLAIM(pushes_come_from_several_threads),
        CLAIM(a_second_copy_of_the_plugin_is_refused),
    };

    if (argc != 2) {
        fprintf(stderr, "usage: %s libposeidon_tf.so\n", argv[0]);
        return 2;
    }
    plugin_path = argv[1];
    standin_no_memory(false); /* so that the linker keeps the library */
    if (!rig_load(plugin_path, &rig)) {
        return 1;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
