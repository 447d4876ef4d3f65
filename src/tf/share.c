/*
 * share.c: asynchronous training: values that the servers own (kind SHARED of
 * poseidon.h) and that every worker changes on its own clock. The script's
 * optimizer updates its variable; what that has changed since the last answer
 * is added at the servers, and the answer is the variable's new value. So any
 * optimizer will do, and a value that the script sets by itself counts, too.
 *
 * One computation at a time; it waits for the servers and never for another
 * worker.
 */
#include <inttypes.h>

#include "base/log.h"
#include "tf/kernels.h"

static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

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

/* The tensors to read and to write: one, or two. */
static psd_status make_room(struct call *call, const struct kernel *kernel,
                            struct key *key, int index)
{
    psd_status status;

    if (!kernel->place) {
        return call_room(call, index, &key->in, &key->out);
    }
    status = call_input(call, index, &key->out);
    return status == PSD_OK ? call_output(call, index, key->out) : status;
}

/* Send the change of one value; its tensors are in use until it is waited
 * for. */
static psd_status send(struct call *call, const struct kernel *kernel,
                       int index)
{
    struct key *key = kernel->keys[index];
    struct psd_push_args args = { .weight = 1, .op = PSD_OP_SUM,
                                  .base = key->base };
    psd_status status = check_key(call, key, index);

    if (status == PSD_OK) {
        status = make_room(call, kernel, key, index);
    }
    if (status != PSD_OK || key->size == 0) {
        return status;
    }
    args.out = tf.TensorData(key->out);
    args.data = key->in != NULL ? tf.TensorData(key->in) : args.out;
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
        status = send(call, kernel, (int)i);
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
