/*
 * ops.c: the ops of plugin.h are told to TensorFlow when the plug-in is
 * loaded: one table of them, kernels for CPU and for GPU. A GPU kernel is the
 * same function with all arguments in host memory; TensorFlow moves the data
 * there and back. What cannot be registered is said on stderr and by
 * psd_tf_ready.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdarg.h>

#include "base/log.h"
#include "tf/kernels.h"
#include "tf/plugin.h"

#define ARGS_MAX      8
#define NAME_MAX_SIZE 32

/* ---- shapes ------------------------------------------------------------ */

static void shape_copy(TF_ShapeInferenceContext *context, int input, int output,
                       TF_Status *status)
{
    TF_ShapeHandle *shape = tf.NewShapeHandle();

    tf.ShapeInferenceContextGetInput(context, input, shape, status);
    if (tf.GetCode(status) == TF_OK) {
        tf.ShapeInferenceContextSetOutput(context, output, shape, status);
    }
    tf.DeleteShapeHandle(shape);
}

/* The output is like the first input. */
static void shape_first(TF_ShapeInferenceContext *context, TF_Status *status)
{
    shape_copy(context, 0, 0, status);
}

static void shape_each(TF_ShapeInferenceContext *context, TF_Status *status)
{
    int count = (int)tf.ShapeInferenceContextNumInputs(context);

    for (int i = 0; i < count && tf.GetCode(status) == TF_OK; i++) {
        shape_copy(context, i, i, status);
    }
}

/* Of the inputs two are enabled and turn, of the outputs the last is
 * finite. */
static void shape_wait(TF_ShapeInferenceContext *context, TF_Status *status)
{
    int count = (int)tf.ShapeInferenceContextNumInputs(context) - 2;
    TF_ShapeHandle *scalar = tf.ShapeInferenceContextScalar(context);

    for (int i = 0; i < count && tf.GetCode(status) == TF_OK; i++) {
        shape_copy(context, i, i, status);
    }
    if (tf.GetCode(status) == TF_OK) {
        tf.ShapeInferenceContextSetOutput(context, count, scalar, status);
    }
    tf.DeleteShapeHandle(scalar);
}

/* How many rows there will be is known in the end only. */
static void shape_unknown(TF_ShapeInferenceContext *context, TF_Status *status)
{
    tf.ShapeInferenceContextSetUnknownShape(context, status);
}

/* ---- the table --------------------------------------------------------- */

#define FLOATS "{float, double, half, bfloat16}"

struct op {
    const char *name;
    const char *attrs[ARGS_MAX];
    const char *inputs[ARGS_MAX];
    const char *outputs[ARGS_MAX];
    tf_shape_call shape;
    tf_create_call create;
    tf_compute_call compute;
};

static const struct op ops[] = {
    { .name = "PsdPush",
      .attrs = { "T: " FLOATS, "key: string",
                 "op: {'mean', 'sum', 'step'} = 'step'",
                 "mode: {'graph', 'eager'} = 'graph'" },
      .inputs = { "grad: T", "enabled: bool", "weight: double" },
      .outputs = { "out: T" },
      .shape = shape_first,
      .create = push_create,
      .compute = push_compute },
    { .name = "PsdPushSparse",
      .attrs = { "T: " FLOATS, "Tindices: {int32, int64}", "key: string",
                 "op: {'mean', 'sum', 'step'} = 'step'",
                 "mode: {'graph', 'eager'} = 'graph'" },
      .inputs = { "values: T", "indices: Tindices", "enabled: bool",
                  "weight: double" },
      .outputs = { "out: T" },
      .shape = shape_first,
      .create = push_create,
      .compute = push_sparse_compute },
    { .name = "PsdWait",
      .attrs = { "T: list(" FLOATS ") >= 1", "group: string",
                 "keys: list(string)" },
      .inputs = { "grads: T", "enabled: bool", "turn: bool" },
      .outputs = { "out: T", "finite: bool" },
      .shape = shape_wait,
      .create = wait_create,
      .compute = wait_compute },
    { .name = "PsdTakeSparse",
      .attrs = { "T: " FLOATS, "Tindices: {int32, int64}", "key: string" },
      .inputs = { "values: T", "indices: Tindices", "enabled: bool" },
      .outputs = { "all_values: T", "all_indices: Tindices" },
      .shape = shape_unknown,
      .create = take_create,
      .compute = take_compute },
    { .name = "PsdShare",
      .attrs = { "T: list({float, double, half, bfloat16, int32, int64}) >= 1",
                 "keys: list(string)", "mode: {'copy', 'place'} = 'copy'" },
      .inputs = { "values: T" },
      .outputs = { "out: T" },
      .shape = shape_each,
      .create = share_create,
      .compute = share_compute },
    { .name = "PsdBroadcast",
      .attrs = { "T: list(type) >= 1", "keys: list(string)" },
      .inputs = { "values: T" },
      .outputs = { "out: T" },
      .shape = shape_each,
      .create = broadcast_create,
      .compute = broadcast_compute },
};

/* ---- registration ------------------------------------------------------ */

static char refusal[512]; /* empty: the ops are there */

static bool refuse(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

static bool refuse(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(refusal, sizeof(refusal), format, args);
    va_end(args);
    fprintf(stderr, "poseidon: %s\n", refusal);
    return false;
}

const char *psd_tf_ready(void)
{
    return refusal[0] == '\0' ? NULL : refusal;
}

/* Everything in host memory: names of the arguments are before the colon. */
static void host_memory(TF_KernelBuilder *builder, const char *const *specs)
{
    for (size_t i = 0; i < ARGS_MAX && specs[i] != NULL; i++) {
        char name[NAME_MAX_SIZE];

        snprintf(name, sizeof(name), "%.*s", (int)strcspn(specs[i], ":"),
                 specs[i]);
        tf.KernelBuilder_HostMemory(builder, name);
    }
}

static void op_define(const struct op *op, TF_Status *status)
{
    TF_OpDefinitionBuilder *builder = tf.NewOpDefinitionBuilder(op->name);

    for (size_t i = 0; i < ARGS_MAX && op->attrs[i] != NULL; i++) {
        tf.OpDefinitionBuilderAddAttr(builder, op->attrs[i]);
    }
    for (size_t i = 0; i < ARGS_MAX && op->inputs[i] != NULL; i++) {
        tf.OpDefinitionBuilderAddInput(builder, op->inputs[i]);
    }
    for (size_t i = 0; i < ARGS_MAX && op->outputs[i] != NULL; i++) {
        tf.OpDefinitionBuilderAddOutput(builder, op->outputs[i]);
    }
    /* Or it would be folded, merged with its like, and pruned. */
    tf.OpDefinitionBuilderSetIsStateful(builder, true);
    tf.OpDefinitionBuilderSetShapeInferenceFunction(builder, op->shape);
    tf.RegisterOpDefinition(builder, status);
}

static void op_register(const struct op *op, TF_Status *status)
{
    static const char *const devices[] = { "CPU", "GPU" };

    op_define(op, status);
    for (size_t i = 0; i < 2 && tf.GetCode(status) == TF_OK; i++) {
        TF_KernelBuilder *builder = tf.NewKernelBuilder(
            op->name, devices[i], op->create, op->compute, kernel_delete);

        if (i == 1) {
            host_memory(builder, op->inputs);
            host_memory(builder, op->outputs);
        }
        tf.RegisterKernelBuilder(op->name, builder, status);
    }
}

/* Another copy of this plug-in, at another path, would register every op
 * twice, and TensorFlow would then refuse every call of them. */
static int find_twin(struct dl_phdr_info *info, size_t size, void *twin_p)
{
    void *library;
    void *found;
    Dl_info mine, other;

    (void)size;
    if (info->dlpi_name == NULL || info->dlpi_name[0] == '\0') {
        return 0;
    }
    library = dlopen(info->dlpi_name, RTLD_NOLOAD | RTLD_LAZY);
    if (library == NULL) {
        return 0;
    }
    found = dlsym(library, "psd_tf_ready");
    if (found != NULL && dladdr(found, &other) != 0 &&
        dladdr(refusal, &mine) != 0 && mine.dli_fbase != other.dli_fbase &&
        (ElfW(Addr))info->dlpi_addr != (ElfW(Addr))mine.dli_fbase) {
        *(const char **)twin_p = other.dli_fname;
    }
    dlclose(library);
    return *(const char **)twin_p != NULL;
}

__attribute__((constructor)) static void plugin_load(void)
{
    const char *twin = NULL;
    char error[256];
    TF_Status *status;

    if (!tf_abi_find(error, sizeof(error))) {
        refuse("%s", error);
        return;
    }
    dl_iterate_phdr(find_twin, &twin);
    if (twin != NULL) {
        refuse("a second copy of the TensorFlow ops is not loaded: %s is in "
               "this process already",
               twin);
        return;
    }
    status = tf.NewStatus();
    for (size_t i = 0;
         i < sizeof(ops) / sizeof(ops[0]) && tf.GetCode(status) == TF_OK; i++) {
        op_register(&ops[i], status);
        if (tf.GetCode(status) != TF_OK) {
            refuse("TensorFlow does not take the op %s: %s", ops[i].name,
                   tf.Message(status));
        }
    }
    tf.DeleteStatus(status);
}
