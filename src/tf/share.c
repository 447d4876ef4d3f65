/*
 * share.c: asynchronous training: values that the servers own (kind SHARED of
 * poseidon.h) and that every worker changes on its own clock. The script's
 * optimizer updates its variable; what that has changed since the last answer
 * is added at the servers, and the answer is the variable's new value. So any
 * optimizer will do, and a value that the script sets by itself counts, too.
 *
 * The change is made in the memory of the output, which the answer then
 * overwrites. One computation at a time; it waits for the servers and never
 * for another worker.
 */
#include <inttypes.h>

#include "base/log.h"
#include "reduce/half.h"
#include "tf/kernels.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

/* ---- the change --------------------------------------------------------- */

#define CHANGE(name, type)                                                     \
    static void name(const void *now, const void *base, void *to,             \
                     uint64_t count)                                           \
    {                                                                          \
        const type *from = now;                                                \
        const type *minus = base;                                              \
        type *change = to;                                                     \
                                                                               \
        for (uint64_t i = 0; i < count; i++) {                                 \
            change[i] = (type)(from[i] - minus[i]);                            \
        }                                                                      \
    }

/* Whole numbers wrap, as they do when they are added. */
CHANGE(change_float, float)
CHANGE(change_double, double)
CHANGE(change_int32, uint32_t)
CHANGE(change_int64, uint64_t)

static void change_half(const void *now, const void *base, void *to,
                        uint64_t count)
{
    const uint16_t *from = now;
    const uint16_t *minus = base;
    uint16_t *change = to;

    for (uint64_t i = 0; i < count; i++) {
        change[i] = store_f16(load_f16(from[i]) - load_f16(minus[i]));
    }
}

static void change_bfloat16(const void *now, const void *base, void *to,
                            uint64_t count)
{
    const uint16_t *from = now;
    const uint16_t *minus = base;
    uint16_t *change = to;

    for (uint64_t i = 0; i < count; i++) {
        change[i] = store_bf16(load_bf16(from[i]) - load_bf16(minus[i]));
    }
}

static const struct {
    int32_t type;
    void (*call)(const void *now, const void *base, void *to, uint64_t count);
} changes[] = {
    { TF_FLOAT, change_float },   { TF_DOUBLE, change_double },
    { TF_INT32, change_int32 },   { TF_INT64, change_int64 },
    { TF_HALF, change_half },     { TF_BFLOAT16, change_bfloat16 },
};

/* `to` may be `now`. */
static void change(const struct key *key, const void *now, void *to)
{
    unsigned i = 0;

    while (changes[i].type != key->type) { /* registration has looked */
        i++;
    }
    changes[i].call(now, key->base, to, key->count);
}

/* ---- the beginning ------------------------------------------------------ */

/* What the value is by now. */
static psd_status ask(struct key *key, void *data)
{
    psd_status status =
        psd_push_absent(plug.session, key->tensor, data, &key->ticket);

    return status == PSD_OK ? psd_wait(plug.session, key->ticket, NULL)
                            : status;
}

psd_status share_begin(struct key *key, void *data)
{
    psd_status status;

    pthread_mutex_lock(&turn);
    status = key->begun ? ask(key, data)
                        : psd_broadcast(plug.session, key->tensor, data, 0);
    if (status == PSD_OK) {
        memcpy(key->base, data, key->size);
        key->begun = true;
    }
    pthread_mutex_unlock(&turn);
    return status;
}

/* ---- a step ------------------------------------------------------------- */

static psd_status check_key(struct call *call, const struct key *key,
                            int index)
{
    psd_status status = dense_check(call, key, index);

    if (status == PSD_OK &&
        (key->kind != PSD_TF_SHARED || (!key->begun && key->size > 0))) {
        status = fault_set(&call->fault, PSD_EINVAL,
                           "key %s is no shared one, or nobody has begun it "
                           "(PsdBroadcast)",
                           key->name);
    }
    return status;
}

/* Send the change of one value; key->out is in use until it is waited for. */
static psd_status send(struct call *call, struct key *key, int index)
{
    struct psd_push_args args = { .weight = 1, .op = PSD_OP_SUM };
    TF_Tensor *in = NULL;
    psd_status status = check_key(call, key, index);

    if (status == PSD_OK) {
        status = call_room(call, index, &in, &key->out);
    }
    if (status != PSD_OK || key->size == 0) {
        if (in != NULL) {
            tf.DeleteTensor(in);
        }
        return status;
    }
    args.data = tf.TensorData(key->out);
    change(key, in != NULL ? tf.TensorData(in) : args.data,
           tf.TensorData(key->out));
    if (in != NULL) {
        tf.DeleteTensor(in);
    }
    status = psd_push(plug.session, key->tensor, &args, &key->ticket);
    if (status == PSD_OK) {
        key->state = KEY_FLYING;
        return PSD_OK;
    }
    return fault_session(&call->fault, status, key->name);
}

static psd_status receive(struct call *call, struct key *key)
{
    struct psd_result result;
    psd_status status = psd_wait(plug.session, key->ticket, &result);

    key->state = KEY_IDLE;
    if (status != PSD_OK) {
        return fault_session(&call->fault, status, key->name);
    }
    memcpy(key->base, tf.TensorData(key->out), key->size);
    if (result.bad != 0 && plug.stop_at_nan) {
        return fault_set(&call->fault, PSD_EPROTO,
                         "step %" PRIu64 " of this worker, %" PRIu32
                         ": the value %s has a NaN or an infinity",
                         result.step, plug.rank, key->name);
    }
    return PSD_OK;
}

static psd_status share_all(struct call *call, const struct kernel *kernel)
{
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < kernel->count && status == PSD_OK; i++) {
        status = send(call, kernel->keys[i], (int)i);
    }
    /* What was sent comes back, whatever else failed. */
    for (uint32_t i = 0; i < kernel->count; i++) {
        struct key *key = kernel->keys[i];
        psd_status one = PSD_OK;

        if (key->state == KEY_FLYING) {
            one = receive(call, key);
        }
        status = status == PSD_OK ? one : status;
        key_release(key);
    }
    return status;
}

void share_compute(void *pointer, TF_OpKernelContext *context)
{
    const struct kernel *kernel = pointer;
    struct call call;
    psd_status status;

    call_begin(&call, context);
    if (tf.NumInputs(context) != (int)kernel->count) {
        status = fault_set(&call.fault, PSD_EINVAL,
                           "PsdShare has %" PRIu32 " keys and %d values",
                           kernel->count, tf.NumInputs(context));
    } else {
        pthread_mutex_lock(&turn);
        status = share_all(&call, kernel);
        pthread_mutex_unlock(&turn);
    }
    call_end(&call, status);
}
