/* standin.c: see standin.h. */
#include "standin.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT STANDIN_API

struct TF_Status {
    int code;
    char message[1024];
};

/* ---- status ------------------------------------------------------------ */

EXPORT TF_Status *TF_NewStatus(void);
EXPORT void TF_DeleteStatus(TF_Status *status);
EXPORT void TF_SetStatus(TF_Status *status, int code, const char *message);
EXPORT int TF_GetCode(const TF_Status *status);
EXPORT const char *TF_Message(const TF_Status *status);

TF_Status *TF_NewStatus(void)
{
    return calloc(1, sizeof(TF_Status));
}

void TF_DeleteStatus(TF_Status *status)
{
    free(status);
}

void TF_SetStatus(TF_Status *status, int code, const char *message)
{
    status->code = code;
    snprintf(status->message, sizeof(status->message), "%s", message);
}

int TF_GetCode(const TF_Status *status)
{
    return status->code;
}

const char *TF_Message(const TF_Status *status)
{
    return status->message;
}

/* ---- tensors ----------------------------------------------------------- */

struct buffer {
    _Atomic int references;
    size_t size;
    _Alignas(64) char data[];
};

struct TF_Tensor {
    int type;
    int ndims;
    int64_t dims[STANDIN_DIMS];
    struct buffer *buffer;
};

static _Atomic long live;
static _Atomic bool no_memory;

long standin_live(void)
{
    return atomic_load(&live);
}

void standin_no_memory(bool on)
{
    atomic_store(&no_memory, on);
}

static TF_Tensor *tensor_over(struct buffer *buffer, int type, int ndims,
                              const int64_t *dims)
{
    TF_Tensor *tensor = calloc(1, sizeof(*tensor));

    tensor->type = type;
    tensor->ndims = ndims;
    for (int i = 0; i < ndims; i++) {
        tensor->dims[i] = dims[i];
    }
    tensor->buffer = buffer;
    atomic_fetch_add(&live, 1);
    return tensor;
}

TF_Tensor *TF_AllocateTensor(int type, const int64_t *dims, int ndims,
                             size_t size)
{
    struct buffer *buffer =
        aligned_alloc(64, (sizeof(*buffer) + size + 63) / 64 * 64);

    if (atomic_load(&no_memory) || buffer == NULL) {
        free(buffer);
        return NULL;
    }
    atomic_init(&buffer->references, 1);
    buffer->size = size;
    memset(buffer->data, 0xa5, size);
    return tensor_over(buffer, type, ndims, dims);
}

void TF_DeleteTensor(TF_Tensor *tensor)
{
    if (atomic_fetch_sub(&tensor->buffer->references, 1) == 1) {
        free(tensor->buffer);
    }
    free(tensor);
    atomic_fetch_sub(&live, 1);
}

int TF_TensorType(const TF_Tensor *tensor)
{
    return tensor->type;
}

int TF_NumDims(const TF_Tensor *tensor)
{
    return tensor->ndims;
}

int64_t TF_Dim(const TF_Tensor *tensor, int index)
{
    return tensor->dims[index];
}

size_t TF_TensorByteSize(const TF_Tensor *tensor)
{
    return tensor->buffer->size;
}

void *TF_TensorData(const TF_Tensor *tensor)
{
    return tensor->buffer->data;
}

TF_Tensor *standin_share(const TF_Tensor *tensor)
{
    atomic_fetch_add(&tensor->buffer->references, 1);
    return tensor_over(tensor->buffer, tensor->type, tensor->ndims,
                       tensor->dims);
}

TF_Tensor *standin_tensor(int type, int64_t count, size_t unit,
                          const void *data)
{
    size_t size = (size_t)(count < 0 ? 1 : count) * unit;
    TF_Tensor *tensor = TF_AllocateTensor(type, &count, count >= 0, size);

    memcpy(TF_TensorData(tensor), data, size);
    return tensor;
}

TF_Tensor *standin_reshape(TF_Tensor *tensor, int ndims, const int64_t *dims)
{
    tensor->ndims = ndims;
    memcpy(tensor->dims, dims, (size_t)ndims * sizeof(*dims));
    return tensor;
}

/* ---- ops --------------------------------------------------------------- */

struct TF_OpDefinitionBuilder {
    struct standin_op op;
};

static struct standin_op ops[16];
static int op_count;
static struct standin_kernel kernels[32];
static int kernel_count;

EXPORT TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *name);
EXPORT void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder,
                                          const char *spec);
EXPORT void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder,
                                           const char *spec);
EXPORT void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder,
                                            const char *spec);
EXPORT void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder,
                                                bool stateful);
EXPORT void
TF_OpDefinitionBuilderSetShapeInferenceFunction(TF_OpDefinitionBuilder *builder,
                                                tf_shape_call shape);
EXPORT void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder,
                                    TF_Status *status);

TF_OpDefinitionBuilder *TF_NewOpDefinitionBuilder(const char *name)
{
    TF_OpDefinitionBuilder *builder = calloc(1, sizeof(*builder));

    snprintf(builder->op.name, sizeof(builder->op.name), "%s", name);
    return builder;
}

void TF_OpDefinitionBuilderAddAttr(TF_OpDefinitionBuilder *builder,
                                   const char *spec)
{
    struct standin_op *op = &builder->op;

    snprintf(op->attrs[op->attr_count++], sizeof(op->attrs[0]), "%s", spec);
}

void TF_OpDefinitionBuilderAddInput(TF_OpDefinitionBuilder *builder,
                                    const char *spec)
{
    struct standin_op *op = &builder->op;

    snprintf(op->inputs[op->input_count++], sizeof(op->inputs[0]), "%s", spec);
}

void TF_OpDefinitionBuilderAddOutput(TF_OpDefinitionBuilder *builder,
                                     const char *spec)
{
    struct standin_op *op = &builder->op;

    snprintf(op->outputs[op->output_count++], sizeof(op->outputs[0]), "%s",
             spec);
}

void TF_OpDefinitionBuilderSetIsStateful(TF_OpDefinitionBuilder *builder,
                                         bool stateful)
{
    builder->op.stateful = stateful;
}

void TF_OpDefinitionBuilderSetShapeInferenceFunction(
    TF_OpDefinitionBuilder *builder, tf_shape_call shape)
{
    builder->op.shape = shape;
}

void TF_RegisterOpDefinition(TF_OpDefinitionBuilder *builder, TF_Status *status)
{
    ops[op_count++] = builder->op;
    free(builder);
    TF_SetStatus(status, TF_OK, "");
}

const struct standin_op *standin_op(const char *name)
{
    for (int i = 0; i < op_count; i++) {
        if (strcmp(ops[i].name, name) == 0) {
            return &ops[i];
        }
    }
    return NULL;
}

int standin_op_count(void)
{
    return op_count;
}

/* ---- shapes ------------------------------------------------------------ */

struct TF_ShapeHandle {
    struct standin_shape shape;
};

struct TF_ShapeInferenceContext {
    const struct standin_shape *inputs;
    int input_count;
    struct standin_shape *outputs;
    int output_count;
};

EXPORT TF_ShapeHandle *TF_NewShapeHandle(void);
EXPORT void TF_DeleteShapeHandle(TF_ShapeHandle *handle);
EXPORT int64_t
TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *context);
EXPORT void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *context,
                                             int index, TF_ShapeHandle *handle,
                                             TF_Status *status);
EXPORT void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *context,
                                              int index, TF_ShapeHandle *handle,
                                              TF_Status *status);
EXPORT void
TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *context,
                                        TF_Status *status);
EXPORT TF_ShapeHandle *
TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *context);

TF_ShapeHandle *TF_NewShapeHandle(void)
{
    TF_ShapeHandle *handle = calloc(1, sizeof(*handle));

    handle->shape.rank = -1;
    return handle;
}

void TF_DeleteShapeHandle(TF_ShapeHandle *handle)
{
    free(handle);
}

int64_t TF_ShapeInferenceContextNumInputs(TF_ShapeInferenceContext *context)
{
    return context->input_count;
}

void TF_ShapeInferenceContextGetInput(TF_ShapeInferenceContext *context,
                                      int index, TF_ShapeHandle *handle,
                                      TF_Status *status)
{
    if (index >= context->input_count) {
        TF_SetStatus(status, TF_INVALID_ARGUMENT, "no such input");
        return;
    }
    handle->shape = context->inputs[index];
}

void TF_ShapeInferenceContextSetOutput(TF_ShapeInferenceContext *context,
                                       int index, TF_ShapeHandle *handle,
                                       TF_Status *status)
{
    (void)status;
    context->outputs[index] = handle->shape;
    context->output_count = index + 1;
}

void TF_ShapeInferenceContextSetUnknownShape(TF_ShapeInferenceContext *context,
                                             TF_Status *status)
{
    (void)status;
    context->outputs[0].rank = -1;
    context->outputs[1].rank = -1;
    context->output_count = 2;
}

TF_ShapeHandle *
TF_ShapeInferenceContextScalar(TF_ShapeInferenceContext *context)
{
    TF_ShapeHandle *handle = TF_NewShapeHandle();

    (void)context;
    handle->shape.rank = 0;
    return handle;
}

int standin_infer(const char *op, const struct standin_shape *inputs, int count,
                  struct standin_shape *outputs)
{
    TF_ShapeInferenceContext context = { inputs, count, outputs, 0 };
    TF_Status *status = TF_NewStatus();
    int result;

    standin_op(op)->shape(&context, status);
    result = TF_GetCode(status) == TF_OK ? context.output_count : -1;
    TF_DeleteStatus(status);
    return result;
}

/* ---- kernels ----------------------------------------------------------- */

struct TF_KernelBuilder {
    struct standin_kernel kernel;
};

EXPORT TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device,
                                             tf_create_call create,
                                             tf_compute_call compute,
                                             tf_delete_call del);
EXPORT void TF_KernelBuilder_HostMemory(TF_KernelBuilder *builder,
                                        const char *argument);
EXPORT void TF_RegisterKernelBuilder(const char *name,
                                     TF_KernelBuilder *builder,
                                     TF_Status *status);

TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device,
                                      tf_create_call create,
                                      tf_compute_call compute,
                                      tf_delete_call del)
{
    TF_KernelBuilder *builder = calloc(1, sizeof(*builder));
    struct standin_kernel *kernel = &builder->kernel;

    snprintf(kernel->op, sizeof(kernel->op), "%s", op);
    snprintf(kernel->device, sizeof(kernel->device), "%s", device);
    kernel->create = create;
    kernel->compute = compute;
    kernel->del = del;
    return builder;
}

void TF_KernelBuilder_HostMemory(TF_KernelBuilder *builder,
                                 const char *argument)
{
    struct standin_kernel *kernel = &builder->kernel;

    snprintf(kernel->host[kernel->host_count++], sizeof(kernel->host[0]), "%s",
             argument);
}

void TF_RegisterKernelBuilder(const char *name, TF_KernelBuilder *builder,
                              TF_Status *status)
{
    (void)name;
    kernels[kernel_count++] = builder->kernel;
    free(builder);
    TF_SetStatus(status, TF_OK, "");
}

const struct standin_kernel *standin_kernel(const char *op, const char *device)
{
    for (int i = 0; i < kernel_count; i++) {
        if (strcmp(kernels[i].op, op) == 0 &&
            strcmp(kernels[i].device, device) == 0) {
            return &kernels[i];
        }
    }
    return NULL;
}

/* ---- construction ------------------------------------------------------ */

struct TF_OpKernelConstruction {
    const struct standin_attr *attrs;
    struct standin_node *node;
};

EXPORT void
TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *construction,
                                TF_Status *status);
EXPORT void
TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *construction,
                                    const char *name, int32_t *list_size,
                                    int32_t *total_size, TF_Status *status);
EXPORT void
TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *construction,
                                      const char *name, char *value,
                                      size_t size, TF_Status *status);
EXPORT void TF_OpKernelConstruction_GetAttrStringList(
    TF_OpKernelConstruction *construction, const char *name, char **values,
    size_t *lengths, int max, void *storage, size_t size, TF_Status *status);

static const struct standin_attr *
attr_find(TF_OpKernelConstruction *construction, const char *name,
          TF_Status *status)
{
    const struct standin_attr *attr = construction->attrs;

    while (attr->name != NULL && strcmp(attr->name, name) != 0) {
        attr++;
    }
    if (attr->name == NULL) {
        TF_SetStatus(status, TF_INVALID_ARGUMENT, "no such attribute");
        return NULL;
    }
    TF_SetStatus(status, TF_OK, "");
    return attr;
}

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *construction,
                                     TF_Status *status)
{
    construction->node->code = status->code;
    snprintf(construction->node->message, sizeof(construction->node->message),
             "%s", status->message);
}

void TF_OpKernelConstruction_GetAttrSize(TF_OpKernelConstruction *construction,
                                         const char *name, int32_t *list_size,
                                         int32_t *total_size, TF_Status *status)
{
    const struct standin_attr *attr = attr_find(construction, name, status);

    if (attr == NULL) {
        return;
    }
    *list_size = attr->count;
    *total_size = 0;
    for (int i = 0; i < (attr->count < 0 ? 1 : attr->count); i++) {
        *total_size += (int32_t)strlen(attr->values[i]);
    }
}

void TF_OpKernelConstruction_GetAttrString(
    TF_OpKernelConstruction *construction, const char *name, char *value,
    size_t size, TF_Status *status)
{
    const struct standin_attr *attr = attr_find(construction, name, status);

    if (attr != NULL) {
        memcpy(value, attr->values[0], size); /* not terminated */
    }
}

void TF_OpKernelConstruction_GetAttrStringList(
    TF_OpKernelConstruction *construction, const char *name, char **values,
    size_t *lengths, int max, void *storage, size_t size, TF_Status *status)
{
    const struct standin_attr *attr = attr_find(construction, name, status);
    char *to = storage;

    (void)size;
    for (int i = 0; attr != NULL && i < max; i++) {
        lengths[i] = strlen(attr->values[i]);
        values[i] = to;
        memcpy(to, attr->values[i], lengths[i]);
        to += lengths[i];
    }
}

void standin_make(struct standin_node *node, const char *op, const char *device,
                  const struct standin_attr *attrs)
{
    TF_OpKernelConstruction construction = { attrs, node };

    memset(node, 0, sizeof(*node));
    node->kernel = standin_kernel(op, device);
    node->state = node->kernel->create(&construction);
}

void standin_drop(struct standin_node *node)
{
    node->kernel->del(node->state);
}

/* ---- computation ------------------------------------------------------- */

struct TF_OpKernelContext {
    struct standin_run *run;
};

EXPORT int64_t TF_StepId(TF_OpKernelContext *context);
EXPORT int TF_NumInputs(TF_OpKernelContext *context);
EXPORT void TF_GetInput(TF_OpKernelContext *context, int index,
                        TF_Tensor **tensor_p, TF_Status *status);
EXPORT void TF_SetOutput(TF_OpKernelContext *context, int index,
                         const TF_Tensor *tensor, TF_Status *status);
EXPORT TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index,
                                    int type, const int64_t *dims, int ndims,
                                    size_t size, TF_Status *status);
EXPORT TF_Tensor *TF_ForwardInputOrAllocateOutput(
    TF_OpKernelContext *context, const int *candidates, int count, int index,
    const int64_t *dims, int ndims, int *forwarded, TF_Status *status);
EXPORT void TF_OpKernelContext_Failure(TF_OpKernelContext *context,
                                       TF_Status *status);

int64_t TF_StepId(TF_OpKernelContext *context)
{
    return context->run->step;
}

int TF_NumInputs(TF_OpKernelContext *context)
{
    return context->run->input_count;
}

void TF_GetInput(TF_OpKernelContext *context, int index, TF_Tensor **tensor_p,
                 TF_Status *status)
{
    if (index >= context->run->input_count) {
        TF_SetStatus(status, TF_INVALID_ARGUMENT, "no such input");
        return;
    }
    *tensor_p = standin_share(context->run->inputs[index]);
    TF_SetStatus(status, TF_OK, "");
}

void TF_SetOutput(TF_OpKernelContext *context, int index,
                  const TF_Tensor *tensor, TF_Status *status)
{
    context->run->outputs[index] = standin_share(tensor);
    TF_SetStatus(status, TF_OK, "");
}

TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *context, int index, int type,
                             const int64_t *dims, int ndims, size_t size,
                             TF_Status *status)
{
    TF_Tensor *tensor = TF_AllocateTensor(type, dims, ndims, size);

    if (tensor == NULL) {
        TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "no memory for an output");
        return NULL;
    }
    TF_SetOutput(context, index, tensor, status);
    return tensor;
}

TF_Tensor *TF_ForwardInputOrAllocateOutput(TF_OpKernelContext *context,
                                           const int *candidates, int count,
                                           int index, const int64_t *dims,
                                           int ndims, int *forwarded,
                                           TF_Status *status)
{
    TF_Tensor *input = context->run->inputs[candidates[0]];

    (void)count;
    *forwarded = -1;
    if (atomic_load(&input->buffer->references) == 1) {
        *forwarded = candidates[0];
        TF_SetOutput(context, index, input, status);
        return standin_share(input);
    }
    return TF_AllocateOutput(context, index, input->type, dims, ndims,
                             input->buffer->size, status);
}

void TF_OpKernelContext_Failure(TF_OpKernelContext *context, TF_Status *status)
{
    context->run->code = status->code;
    snprintf(context->run->message, sizeof(context->run->message), "%s",
             status->message);
}

void standin_compute(const struct standin_node *node, struct standin_run *run)
{
    TF_OpKernelContext context = { run };

    run->code = TF_OK;
    memset(run->outputs, 0, sizeof(run->outputs));
    node->kernel->compute(node->state, &context);
    for (int i = 0; i < run->input_count; i++) {
        TF_DeleteTensor(run->inputs[i]);
    }
    if (run->code != TF_OK) {
        for (int i = 0; i < STANDIN_OUTPUTS; i++) {
            if (run->outputs[i] != NULL) {
                TF_DeleteTensor(run->outputs[i]);
                run->outputs[i] = NULL;
            }
        }
    }
}
