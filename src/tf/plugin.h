/*
 * plugin.h: what libposeidon_tf.so exports besides its ops: the calls by
 * which the Python side tells them about the job. tf.load_op_library loads the
 * plug-in (and must be the first to do so), ctypes.CDLL of the same path then
 * gives these.
 *
 *     psd_tf_ready()                      NULL, or why there are no ops
 *     psd_tf_attach(session, psd_open)    the ops talk to this session
 *     psd_tf_register("opt0", specs, n)   once per optimizer; collective
 *     before a run: psd_tf_step; after one that raised: psd_tf_spoil
 *     psd_close(session); psd_tf_detach()
 *
 * The ops. A *group* is what one optimizer exchanges, a *key* one tensor of
 * it. A step of a group begins with its first push and ends with its wait.
 *
 *   PsdPush(grad, enabled, weight; key, op, mode) -> out
 *       Hands the gradient over and returns at once. `out` is filled by the
 *       communication: nothing may read it but PsdWait.
 *   PsdPushSparse(values, indices, enabled, weight; key, op, mode) -> out
 *       The same for an IndexedSlices; `out` is a token for PsdWait.
 *   PsdWait(grads..., enabled, turn; group, keys) -> out..., finite
 *       Blocks until everything of the group is answered. One per optimizer.
 *       `finite`: no answer has a NaN or an infinity; equal on all workers.
 *   PsdTakeSparse(values, indices, enabled; key) -> all_values, all_indices
 *       Behind PsdWait (values: its output): the rows of all workers in rank
 *       order, multiplied by their share of the weights with op mean.
 *   PsdShare(values...; keys, mode) -> out...
 *       Asynchronous training: the servers own the values, and no worker waits
 *       for another. What a value has changed by since the last answer is
 *       added to the servers' one, which is the answer. Behind the update.
 *       mode "place": a value is the memory of a reference variable, which is
 *       written as an Assign of the answer would, and handed on.
 *   PsdBroadcast(values...; keys) -> out...
 *       Blocks; the bits of rank 0. One per graph, not one per variable: many
 *       that block could each hold a thread that the others need. For SHARED
 *       keys it begins: the servers get the value of rank 0; once begun it
 *       only asks for the value.
 *
 * enabled false: nothing is exchanged, what came in goes out. A run that
 * reaches a push but applies nothing feeds false. weight: samples behind the
 * gradient; negative: what psd_tf_step said. op: "mean", "sum", or "step" for
 * what psd_tf_step said. mode: "graph", or "eager" where the op runs by itself
 * and not in a session's run or a tf.function.
 *
 * One thread must not wait in two orders. PsdWait holds a thread of
 * TensorFlow's pool; when one run has two optimizers and one thread, every
 * rank must come to the same wait first. Hence `turn`: give the
 * `finite` of one optimizer's wait to the `turn` of the next (its value does
 * not matter), in the order in which the script made them. It is a data edge
 * and no control edge, so a run that wants the second optimizer only feeds the
 * tensor between them, and the first stays out of the run.
 *
 * A run that fails. What was pushed has left and cannot be taken back. If a
 * run ends between the first push of a group and its wait, the step is *left*:
 * before anything else is pushed (or in psd_tf_settle) the worker tells the
 * others so, gives nothing for the keys it still owes, waits until every
 * exchange of the step is over and drops the answers. If every worker has left
 * that step, the next one begins clean. If one has finished it, the replicas
 * are no longer equal: all workers get an error that names the rank, and the
 * job is ended. A run that fails before its first push has left nothing. One
 * that fails after its wait is told by psd_tf_spoil; the next wait compares
 * that in the same way. A run is recognised by TensorFlow's step id; eager ops
 * have none in common, there a step was left when its first key comes again.
 */
#ifndef PSD_TF_PLUGIN_H
#define PSD_TF_PLUGIN_H

#include "poseidon.h"

enum psd_tf_kind {
    PSD_TF_DENSE = 0,  /* PsdPush; PsdBroadcast as well */
    PSD_TF_SPARSE = 1, /* PsdPushSparse */
    PSD_TF_VALUE = 2,  /* PsdBroadcast only; any type but strings */
    PSD_TF_SHARED = 3  /* PsdBroadcast, then PsdShare; numbers */
};

struct psd_tf_spec {
    const char *key;  /* unique in the job */
    int32_t dtype;    /* TensorFlow's number of it */
    int32_t kind;     /* enum psd_tf_kind */
    uint64_t count;   /* elements; SPARSE: elements of one row */
    uint64_t rows;    /* SPARSE: rows in one round of the exchange, 0: as many
                       * as fit 4 MiB; more rows take more rounds */
    int32_t priority; /* see psd_spec */
    int32_t reserved; /* 0 */
};

/* NULL when the ops are registered; else the sentence that says why not. */
PSD_API const char *psd_tf_ready(void);
/* Keeps `session`. `witness` is the address of the psd_open that opened it:
 * two copies of libposeidon in one process are refused. */
PSD_API psd_status psd_tf_attach(struct psd_session *session,
                                 const void *witness);
/* After psd_close: drop what failed steps still hold. Registered keys are
 * forgotten. */
PSD_API void psd_tf_detach(void);
/* Announce the keys of a group; more may follow later, between steps.
 * Collective, on the thread that opened the session. */
PSD_API psd_status psd_tf_register(const char *group,
                                   const struct psd_tf_spec *specs,
                                   uint32_t count);
/* Samples and op (MEAN, SUM) of the pushes to come. 1, MEAN at first. */
PSD_API psd_status psd_tf_step(double weight, psd_op op);
/* Shall a wait whose answers are not all finite fail? It then fails on every
 * worker, after the step has ended, and names key and worker. Not at first. */
PSD_API void psd_tf_stop_at_nan(int on);
/* 1: the last step of this group had an answer that is not finite: of which
 * key (valid until the process ends), and whose gradient it was; a rank of
 * psd_size means that all were finite and the answer is too large. 0: none. */
PSD_API int psd_tf_bad(const char *group, const char **key_p, uint32_t *rank_p);
/* Steps of a group that have ended well here. */
PSD_API uint64_t psd_tf_steps(const char *group);
/* The run of this group that began when psd_tf_steps was `steps` has raised:
 * if it had finished a step, it is not known whether that was applied. */
PSD_API void psd_tf_spoil(const char *group, uint64_t steps);
/* Finish what a failed run has left, as the next push would; before psd_join,
 * psd_register and the like. Blocks until the others do so or go on. */
PSD_API psd_status psd_tf_settle(void);
/* Sentence of this thread's last failed call of the above. */
PSD_API const char *psd_tf_error(void);

/* What happened when, for a trace: the latest events, oldest first. */
enum psd_tf_what {
    PSD_TF_PUSHED = 1, /* the push of a key has returned */
    PSD_TF_WAITS = 2,  /* PsdWait has begun; key: the group */
    PSD_TF_WAITED = 3  /* PsdWait has ended */
};
struct psd_tf_event {
    uint64_t ns;      /* monotonic */
    const char *name; /* of key or group; valid until the process ends */
    uint32_t what;    /* enum psd_tf_what */
    uint32_t step;    /* of the group */
};
/* Returns how many were written. */
PSD_API uint32_t psd_tf_events(struct psd_tf_event *events, uint32_t max);

#endif
