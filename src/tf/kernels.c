/*
 * kernels.c: between TensorFlow's kernels and pass.c; see kernels.h. A kernel
 * that fails says so to TensorFlow, with our sentence, and leaves no tensor
 * behind. Buffers: a push gives up its own reference to the gradient before it
 * asks for the output, so that TensorFlow can hand the same memory on when
 * nobody else has it; then the exchange runs in place, else it reads the input
 * and writes the output. Both stay referenced until the exchange is over.
 */
#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "tf/kernels.h"

#define DIMS_MAX 256 /* TensorFlow has at most 254 */

/* ---- failures ---------------------------------------------------------- */

/* Not UNAVAILABLE or ABORTED: training loops of TensorFlow begin again after
 * those, alone; and not OUT_OF_RANGE, which means the end of the data. */
static int code_of(psd_status status)
{
    switch (status) {
    case PSD_EINVAL:
        return TF_INVALID_ARGUMENT;
    case PSD_EENV:
        return TF_FAILED_PRECONDITION;
    case PSD_ENOMEM:
        return TF_RESOURCE_EXHAUSTED;
    case PSD_ENOSUP:
        return TF_UNIMPLEMENTED;
    default:
        return TF_INTERNAL;
    }
}

void status_of(TF_Status *status, const struct fault *fault)
{
    char text[PLUG_TEXT_MAX + 16];

    snprintf(text, sizeof(text), "poseidon: %s", fault->text);
    tf.SetStatus(status, code_of(fault->status), text);
}

static void compute_fail(TF_OpKernelContext *context, const struct fault *fault)
{
    TF_Status *status = tf.NewStatus();

    status_of(status, fault);
    tf.OpKernelContext_Failure(context, status);
    tf.DeleteStatus(status);
}

psd_status fault_tf(struct fault *fault, const TF_Status *status)
{
    return fault_set(fault,
                     tf.GetCode(status) == TF_RESOURCE_EXHAUSTED ? PSD_ENOMEM
                                                                 : PSD_EINVAL,
                     "TensorFlow: %s", tf.Message(status));
}

/* ---- inputs and outputs ------------------------------------------------ */

void call_begin(struct call *call, TF_OpKernelContext *context)
{
    call->context = context;
    call->status = tf.NewStatus();
}

void call_end(struct call *call, psd_status result)
{
    if (result != PSD_OK) {
        compute_fail(call->context, &call->fault);
    }
    tf.DeleteStatus(call->status);
}

psd_status call_input(struct call *call, int index, TF_Tensor **tensor_p)
{
    *tensor_p = NULL;
    tf.GetInput(call->context, index, tensor_p, call->status);
    return tf.GetCode(call->status) == TF_OK
               ? PSD_OK
               : fault_tf(&call->fault, call->status);
}

psd_status call_output(struct call *call, int index, const TF_Tensor *tensor)
{
    tf.SetOutput(call->context, index, tensor, call->status);
    return tf.GetCode(call->status) == TF_OK
               ? PSD_OK
               : fault_tf(&call->fault, call->status);
}

/* A scalar of `size` bytes. */
static psd_status call_scalar(struct call *call, int index, void *value,
                              size_t size)
{
    TF_Tensor *tensor;
    psd_status status = call_input(call, index, &tensor);

    if (status != PSD_OK) {
        return status;
    }
    if (tf.TensorByteSize(tensor) == size) {
        memcpy(value, tf.TensorData(tensor), size);
    } else {
        status = fault_set(&call->fault, PSD_EINVAL,
                           "input %d must be a scalar", index);
    }
    tf.DeleteTensor(tensor);
    return status;
}

/* Input to output as it is. */
static psd_status call_pass(struct call *call, int input, int output)
{
    TF_Tensor *tensor;
    psd_status status = call_input(call, input, &tensor);

    if (status == PSD_OK) {
        status = call_output(call, output, tensor);
        tf.DeleteTensor(tensor);
    }
    return status;
}

psd_status call_room(struct call *call, int index, TF_Tensor **in_p,
                     TF_Tensor **out_p)
{
    int64_t dims[DIMS_MAX];
    int forwarded = -1;
    TF_Tensor *in;
    int ndims;
    psd_status status = call_input(call, index, &in);

    if (status != PSD_OK) {
        return status;
    }
    ndims = tf.NumDims(in);
    for (int i = 0; i < ndims && i < DIMS_MAX; i++) {
        dims[i] = tf.Dim(in, i);
    }
    tf.DeleteTensor(in); /* or it would never be handed on */
    *out_p = tf.ForwardInputOrAllocateOutput(
        call->context, &index, 1, index, dims, ndims, &forwarded, call->status);
    if (tf.GetCode(call->status) != TF_OK) {
        return fault_tf(&call->fault, call->status);
    }
    *in_p = NULL;
    if (forwarded < 0) {
        status = call_input(call, index, in_p);
        if (status != PSD_OK) {
            tf.DeleteTensor(*out_p);
            *out_p = NULL;
        }
    }
    return status;
}

/* ---- push -------------------------------------------------------------- */

psd_status dense_check(struct call *call, const struct key *key, int index)
{
    TF_Tensor *in;
    psd_status status = call_input(call, index, &in);

    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&plug.lock);
    status = key_check(key, tf.TensorType(in), &call->fault);
    if (status == PSD_OK && (key->kind == PSD_TF_SPARSE ||
                             tf.TensorByteSize(in) != key->count * key->unit)) {
        status = fault_set(&call->fault, PSD_EINVAL,
                           "key %s comes with %zu bytes and is registered "
                           "%s with %" PRIu64 " elements of %zu bytes",
                           key->name, tf.TensorByteSize(in),
                           key->kind == PSD_TF_SPARSE ? "sparse" : "dense",
                           key->count, key->unit);
    }
    pthread_mutex_unlock(&plug.lock);
    tf.DeleteTensor(in);
    return status;
}

/* The inputs behind the data: enabled, weight. */
static psd_status push_terms(struct call *call, const struct kernel *kernel,
                             int index, bool *enabled_p, struct pass_push *push)
{
    unsigned char enabled = 0;
    psd_status status = call_scalar(call, index, &enabled, 1);

    *push = (struct pass_push){
        .run = tf.StepId(call->context),
        .eager = kernel->eager,
        .op = kernel->op,
    };
    *enabled_p = enabled != 0;
    if (status == PSD_OK) {
        status =
            call_scalar(call, index + 1, &push->weight, sizeof(push->weight));
    }
    return status;
}

void push_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    struct key *key = kernel->keys[0];
    struct pass_push push;
    struct call call;
    bool enabled = false;
    psd_status status;

    call_begin(&call, context);
    status = push_terms(&call, kernel, 1, &enabled, &push);
    if (status == PSD_OK && !enabled) {
        status = call_pass(&call, 0, 0);
    } else if (status == PSD_OK) {
        status = dense_check(&call, key, 0);
        if (status == PSD_OK) {
            status = call_room(&call, 0, &push.in, &push.out);
        }
        if (status == PSD_OK) {
            status = pass_push(key, &push, &call.fault);
        }
    }
    call_end(&call, status);
}

/* The values are the output, as they are: a token for the wait. */
static psd_status push_sparse(struct call *call, struct key *key,
                              struct pass_push *push)
{
    psd_status status = call_input(call, 0, &push->in);

    if (status == PSD_OK) {
        status = call_input(call, 1, &push->indices);
    }
    if (status == PSD_OK) {
        pthread_mutex_lock(&plug.lock);
        status = key_check(key, tf.TensorType(push->in), &call->fault);
        if (status == PSD_OK) {
            status = sparse_check(key, push->in, push->indices, &call->fault);
        }
        pthread_mutex_unlock(&plug.lock);
    }
    if (status == PSD_OK) {
        status = call_output(call, 0, push->in);
    }
    if (status == PSD_OK) {
        return pass_push(key, push, &call->fault);
    }
    if (push->in != NULL) {
        tf.DeleteTensor(push->in);
    }
    if (push->indices != NULL) {
        tf.DeleteTensor(push->indices);
    }
    return status;
}

void push_sparse_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    struct pass_push push;
    struct call call;
    bool enabled = false;
    psd_status status;

    call_begin(&call, context);
    status = push_terms(&call, kernel, 2, &enabled, &push);
    if (status == PSD_OK) {
        status = enabled ? push_sparse(&call, kernel->keys[0], &push)
                         : call_pass(&call, 0, 0);
    }
    call_end(&call, status);
}

void take_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    TF_Tensor *values = NULL, *indices = NULL;
    unsigned char enabled = 0;
    struct call call;
    psd_status status;

    call_begin(&call, context);
    status = call_scalar(&call, 2, &enabled, 1);
    if (status == PSD_OK && enabled == 0) {
        status = call_pass(&call, 0, 0);
        if (status == PSD_OK) {
            status = call_pass(&call, 1, 1);
        }
    } else if (status == PSD_OK) {
        status = pass_take(kernel->keys[0], &values, &indices, &call.fault);
        if (status == PSD_OK) {
            status = call_output(&call, 0, values);
            if (status == PSD_OK) {
                status = call_output(&call, 1, indices);
            }
            tf.DeleteTensor(values);
            tf.DeleteTensor(indices);
        }
    }
    call_end(&call, status);
}

/* ---- wait -------------------------------------------------------------- */

/* Everything that was pushed is answered: hand it on. */
static psd_status wait_outputs(struct call *call, const struct kernel *kernel,
                               TF_Tensor **outs)
{
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < kernel->count; i++) {
        if (status == PSD_OK) {
            status = outs[i] != NULL ? call_output(call, (int)i, outs[i])
                                     : call_pass(call, (int)i, (int)i);
        }
        if (outs[i] != NULL) {
            tf.DeleteTensor(outs[i]);
        }
    }
    return status;
}

/* A step that ended, and must not be applied. */
static void outs_drop(TF_Tensor **outs, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (outs[i] != NULL) {
            tf.DeleteTensor(outs[i]);
        }
    }
}

static psd_status wait_tell(struct call *call, int index, bool finite)
{
    TF_Tensor *tensor = tf.AllocateOutput(call->context, index, TF_BOOL, NULL,
                                          0, 1, call->status);

    if (tf.GetCode(call->status) != TF_OK) {
        return fault_tf(&call->fault, call->status);
    }
    *(unsigned char *)tf.TensorData(tensor) = finite;
    tf.DeleteTensor(tensor);
    return PSD_OK;
}

static psd_status wait_all(struct call *call, const struct kernel *kernel,
                           bool *finite_p)
{
    TF_Tensor **outs = mem_zalloc_array(kernel->count, sizeof(TF_Tensor *));
    psd_status status;

    if (outs == NULL) {
        return fault_set(&call->fault, PSD_ENOMEM, "no memory for outputs");
    }
    status = pass_wait(kernel->group, kernel->keys, kernel->count, outs,
                       finite_p, &call->fault);
    if (status == PSD_OK) {
        status = wait_outputs(call, kernel, outs);
    } else {
        outs_drop(outs, kernel->count);
    }
    mem_free(outs);
    return status;
}

void wait_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    int count = (int)kernel->count;
    unsigned char enabled = 0;
    bool finite = true;
    struct call call;
    psd_status status = PSD_OK;

    call_begin(&call, context);
    if (tf.NumInputs(context) != count + 2) {
        status =
            fault_set(&call.fault, PSD_EINVAL,
                      "the wait of %s has %d keys and %d gradients",
                      kernel->group->name, count, tf.NumInputs(context) - 2);
    }
    if (status == PSD_OK) {
        status = call_scalar(&call, count, &enabled, 1);
    }
    if (status == PSD_OK && enabled != 0) {
        status = wait_all(&call, kernel, &finite);
    } else {
        for (int i = 0; i < count && status == PSD_OK; i++) {
            status = call_pass(&call, i, i);
        }
    }
    if (status == PSD_OK) {
        status = wait_tell(&call, count, finite);
    }
    call_end(&call, status);
}

/* ---- broadcast --------------------------------------------------------- */

/* A type that the library does not know travels as words. */
static psd_status broadcast_padded(const struct key *key, void *data)
{
    void *words = mem_zalloc(key->size);
    psd_status status;

    if (words == NULL) {
        return PSD_ENOMEM;
    }
    memcpy(words, data, key->count * key->unit);
    status = psd_broadcast(plug.session, key->tensor, words, 0);
    if (status == PSD_OK) {
        memcpy(data, words, key->count * key->unit);
    }
    mem_free(words);
    return status;
}

static psd_status broadcast_data(struct key *key, void *data)
{
    if (key->kind == PSD_TF_SHARED) {
        return share_begin(key, data);
    }
    return key->padded ? broadcast_padded(key, data)
                       : psd_broadcast(plug.session, key->tensor, data, 0);
}

static psd_status broadcast_one(struct call *call, struct key *key, int index)
{
    TF_Tensor *in = NULL, *out = NULL;
    psd_status status = dense_check(call, key, index);

    if (status == PSD_OK) {
        status = call_room(call, index, &in, &out);
    }
    if (status != PSD_OK) {
        return status;
    }
    if (key->size > 0) {
        void *data = tf.TensorData(out);

        if (in != NULL) {
            memcpy(data, tf.TensorData(in), key->count * key->unit);
        }
        status = broadcast_data(key, data);
        if (status != PSD_OK) {
            fault_session(&call->fault, status, key->name);
        }
    }
    if (in != NULL) {
        tf.DeleteTensor(in);
    }
    tf.DeleteTensor(out);
    return status;
}

void broadcast_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    struct call call;
    psd_status status = PSD_OK;

    call_begin(&call, context);
    if (tf.NumInputs(context) != (int)kernel->count) {
        status = fault_set(&call.fault, PSD_EINVAL,
                           "a broadcast has %" PRIu32 " keys and %d values",
                           kernel->count, tf.NumInputs(context));
    }
    if (status == PSD_OK) {
        status = pass_settle(&call.fault);
    }
    for (uint32_t i = 0; i < kernel->count && status == PSD_OK; i++) {
        status = broadcast_one(&call, kernel->keys[i], (int)i);
    }
    call_end(&call, status);
}
