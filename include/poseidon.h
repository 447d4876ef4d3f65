/*
 * poseidon.h: the worker's side of Poseidon, the whole of it.
 *
 * A program opens a session, registers its tensors, pushes each gradient the
 * moment it exists and waits for the mean of all workers before it updates.
 * Under psd_run the session is one member of a job; outside a job it is a job
 * of one: the same program runs alone, without network, threads or files.
 *
 *     struct psd_session *session;
 *     psd_tensor weight;
 *     struct psd_spec spec = { .name = "w", .dtype = PSD_FLOAT32,
 *                              .count = 1000 };
 *     psd_open(&session);
 *     psd_register(session, &spec, 1, &weight);
 *     psd_broadcast(session, weight, w, 0);
 *     while (...) {
 *         gradient(w, g);
 *         psd_push_pull(session, weight, g, batch, PSD_OP_MEAN, NULL);
 *         w -= rate * g;
 *     }
 *     psd_close(session);
 *
 * Pointers: a call *borrows* one until it returns, *keeps* one until a stated
 * moment, or *takes* it for good. Strings are always borrowed.
 *
 * Threads: calls marked "any thread" may run at the same time on one session;
 * the others are for the thread that opened it. Collective calls (open,
 * register, broadcast, barrier, join) must be made by every worker.
 *
 * Errors: every call that can fail returns a psd_status. Zero is done,
 * positive is "not yet", negative is a failure; psd_error() has the sentence.
 * Once a session has failed (a member was lost, the job was aborted) every
 * later call returns that same failure at once; only psd_close remains.
 */
#ifndef POSEIDON_H
#define POSEIDON_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PSD_VERSION_MAJOR 0
#define PSD_VERSION_MINOR 1
#define PSD_VERSION_PATCH 0
#define PSD_VERSION_STRING "0.1.0"

#if defined(__GNUC__)
#define PSD_API __attribute__((visibility("default")))
#else
#define PSD_API
#endif

/* One list, so that names, values and sentences cannot drift apart. Values
 * are frozen. */
#define PSD_STATUS_MAP(X)                                                  \
    X(PSD_OK, 0, "success")                                                \
    X(PSD_AGAIN, 1, "cannot progress now; try again later")                \
    X(PSD_ENOMEM, -1, "out of memory")                                     \
    X(PSD_EINVAL, -2, "the caller broke the contract of the call")         \
    X(PSD_EPROTO, -3, "a peer sent bytes that are not the protocol")       \
    X(PSD_ELOST, -4, "a member of the job was lost")                       \
    X(PSD_EDIFFER, -5, "the workers disagree about the model or its bits") \
    X(PSD_EAUTH, -6, "a peer could not prove that it belongs to the job")  \
    X(PSD_ETIME, -7, "a peer did not answer in time")                      \
    X(PSD_ESYSTEM, -8, "the operating system refused a call")              \
    X(PSD_EABORT, -9, "the job was aborted")                               \
    X(PSD_ENOSUP, -10, "this build or machine cannot do that")             \
    X(PSD_EENV, -11, "the PSD_ environment is incomplete or wrong")

typedef enum psd_status {
#define PSD_STATUS_ENUM(name, value, text) name = value,
    PSD_STATUS_MAP(PSD_STATUS_ENUM)
#undef PSD_STATUS_ENUM
} psd_status;

typedef enum psd_dtype {
    PSD_FLOAT32 = 1,
    PSD_FLOAT64 = 2,
    PSD_FLOAT16 = 3,
    PSD_BFLOAT16 = 4,
    PSD_INT32 = 5,
    PSD_INT64 = 6
} psd_dtype;

/* How the workers' contributions become one. MEAN weighs by samples and is
 * for the floating types; OR is bitwise and for the integers. */
typedef enum psd_op {
    PSD_OP_MEAN = 1,
    PSD_OP_SUM = 2,
    PSD_OP_MAX = 3,
    PSD_OP_OR = 4
} psd_op;

/* Where a pushed tensor lives. CUDA is refused with PSD_ENOSUP by builds and
 * machines without it. */
typedef enum psd_memory {
    PSD_MEMORY_HOST = 0,
    PSD_MEMORY_CUDA = 1
} psd_memory;

/* What becomes of a pushed tensor.
 * REDUCE: the answer is the mean (sum, ...) of this step; nothing is kept.
 * STORE:  the servers own the value and apply the mean of each step to it by
 *         an optim row; the answer is the new value. float32 only.
 * GATHER: contributions differ in length (up to `count`); see psd_gather.
 * SHARED: the servers own the value; each push is added to it at once and is
 *         answered by what the value then is (policy hogwild). Nobody waits
 *         for another worker, who may be at another step or have left; an
 *         absent push only asks for the value. psd_broadcast sets it. The op
 *         is SUM, and the workers' values differ: no digest is taken. */
typedef enum psd_kind {
    PSD_KIND_REDUCE = 0,
    PSD_KIND_STORE = 1,
    PSD_KIND_GATHER = 2,
    PSD_KIND_SHARED = 3
} psd_kind;

struct psd_session; /* opaque */
typedef struct psd_tensor {
    uint32_t id;
} psd_tensor;
typedef struct psd_ticket {
    uint64_t id;
} psd_ticket;

/* One tensor of the model. Zero-initialise; name, dtype, count are needed. */
struct psd_spec {
    const char *name;   /* unique in the job; up to 255 bytes; "psd." at the
                         * beginning is reserved */
    psd_dtype dtype;
    psd_kind kind;
    uint64_t count;     /* elements; for GATHER the most one worker sends */
    int32_t priority;   /* on links a higher one overtakes; front layers
                         * deserve it. In shared memory nothing queues. */
    const char *optim;  /* STORE: "add", "sgd", "momentum" */
    double rate;        /* STORE: learning rate of sgd and momentum */
    double momentum;    /* STORE: momentum's decay */
};

/* One contribution. Zero-initialise; data is needed, or out and a weight. */
struct psd_push_args {
    const void *data;  /* kept until the ticket is done. NULL, with out set
                        * and a weight above 0: zeros from me, which are not
                        * sent; they count in MEAN's weights (not for MAX) */
    void *out;         /* where the answer goes; NULL: in place over data.
                        * Kept until the ticket is done. */
    double weight;     /* samples behind this gradient, up to 2^40; 0: none,
                        * and then MEAN and SUM do not look at the data */
    psd_op op;         /* 0: MEAN for floats, SUM for integers */
    psd_memory memory; /* of data and out */
    void *base;        /* SHARED, with data and a weight above 0: what the
                        * value was when this worker last saw it; data - base
                        * is pushed, and base becomes the answer, too. Until
                        * the answer comes out is not written, so that others
                        * may read a value in place. Kept until the ticket is
                        * done. NULL: data is pushed */
};

/* What the workers had to say together. */
struct psd_result {
    uint64_t step;         /* of this tensor, from 0 */
    uint32_t contributors; /* workers that pushed data, or zeros without
                            * sending them, with weight > 0 */
    uint32_t nobody;       /* 1: no push had data; out is untouched */
    uint32_t no_weight;    /* MEAN, SUM: data came, all of weight 0; out is
                            * zeros (STORE: the value as it was) */
    uint32_t bad;          /* MEAN, SUM of the floating types: rank + 1 of
                            * the first worker that pushed a NaN or an
                            * infinity with weight > 0; size + 1: none did,
                            * and the result is too large for the type; 0:
                            * the result is finite (STORE: what is applied
                            * to the value is). The same on every worker. */
};

/* ---- session ---------------------------------------------------------- */

/* Open a session from the environment that psd_run prepared (PSD_AGENT,
 * PSD_RANK, PSD_SIZE, ...). Nothing of it set: a job of one. Set by half:
 * PSD_EENV. Blocks until every worker of the job has opened. Collective. */
PSD_API psd_status psd_open(struct psd_session **session_p);

/* Leave the job in good order and free the session; takes `session`, NULL is
 * allowed. Pushes still in flight are given up: wait first. */
PSD_API void psd_close(struct psd_session *session);

/* End the whole job, now, with a reason that every worker and the launcher
 * will show. Any thread. `code` (1..255) becomes psd_run's exit code. */
PSD_API void psd_abort(struct psd_session *session, int code,
                       const char *reason);

PSD_API uint32_t psd_rank(const struct psd_session *session);
PSD_API uint32_t psd_size(const struct psd_session *session);
/* Among the workers of this host. */
PSD_API uint32_t psd_local_rank(const struct psd_session *session);
PSD_API uint32_t psd_local_size(const struct psd_session *session);

/* ---- model ------------------------------------------------------------ */

/* Register a batch of tensors: at the start, or at any later step boundary
 * (every push of this worker waited for). Every worker registers the same
 * batch, in the same order; a difference ends the job and is printed name by
 * name (PSD_EDIFFER). A name known already, with the same spec, gives its id
 * again. `tensors` receives `count` ids. Collective. */
PSD_API psd_status psd_register(struct psd_session *session,
                                const struct psd_spec *specs, uint32_t count,
                                psd_tensor *tensors);

/* ---- exchange --------------------------------------------------------- */

/* Push one contribution and return at once; the answer is there when the
 * ticket is. One push in flight per tensor, so it never refuses for lack of
 * room; a second, before the first was waited for, is PSD_EINVAL. Any
 * thread. */
PSD_API psd_status psd_push(struct psd_session *session, psd_tensor tensor,
                            const struct psd_push_args *args,
                            psd_ticket *ticket_p);

/* Nothing from me this step, but I want the answer in `out` (keeps it until
 * the ticket is done). If nobody had anything, psd_result says so and `out`
 * is untouched. Any thread. */
PSD_API psd_status psd_push_absent(struct psd_session *session,
                                   psd_tensor tensor, void *out,
                                   psd_ticket *ticket_p);

/* Wait for one ticket; a ticket can be waited for once. `result_p` may be
 * NULL. Any thread. */
PSD_API psd_status psd_wait(struct psd_session *session, psd_ticket ticket,
                            struct psd_result *result_p);

/* Wait for everything that this worker has in flight. Any thread. */
PSD_API psd_status psd_wait_all(struct psd_session *session);

/* psd_push in place and psd_wait in one. Any thread. */
PSD_API psd_status psd_push_pull(struct psd_session *session,
                                 psd_tensor tensor, void *data, double weight,
                                 psd_op op, struct psd_result *result_p);

/* Collect `count` elements (0..the registered maximum) of every worker, in
 * rank order, end to end, into `out`, which has room for size x maximum;
 * `counts` receives the size counts. Tensor of kind GATHER. Keeps `data`,
 * `out`, `counts` until the ticket is done. Any thread. */
PSD_API psd_status psd_gather(struct psd_session *session, psd_tensor tensor,
                              const void *data, uint64_t count, void *out,
                              uint64_t *counts, psd_ticket *ticket_p);

/* Give every worker the bits of rank `root`. For STORE and SHARED it also sets
 * the value that the servers own; of a SHARED one a worker gets what it is by
 * then, which may have the first pushes of others in it. Collective. */
PSD_API psd_status psd_broadcast(struct psd_session *session,
                                 psd_tensor tensor, void *data, uint32_t root);

/* Return when every worker has come here (or has joined). Collective. */
PSD_API psd_status psd_barrier(struct psd_session *session);

/* Out of data: from now on this worker counts as absent in every exchange and
 * nobody waits for it. Returns when every worker has joined; all take part
 * again after that. Collective. */
PSD_API psd_status psd_join(struct psd_session *session);

/* ---- memory ----------------------------------------------------------- */

/* Memory in this worker's shared arena, 64-byte aligned, not cleared. What
 * lies there is reduced in place, without a copy; other memory is staged.
 * NULL when out of memory. Any thread. */
PSD_API void *psd_alloc(struct psd_session *session, size_t size);
/* `pointer` came from psd_alloc, or is NULL. Any thread. */
PSD_API void psd_free(struct psd_session *session, void *pointer);
/* 1 if the whole range lies in the arena. Any thread. */
PSD_API int psd_contains(const struct psd_session *session,
                         const void *pointer, size_t size);

/* ---- proof and progress ----------------------------------------------- */

/* Hand in the bits of a parameter (of any type, `size` bytes) so that the
 * master can prove that all workers hold the same. The `--digest` rhythm
 * decides whether they are looked at in this call: the n-th call for one
 * tensor is its step n. Borrows `data`. Any thread. */
PSD_API psd_status psd_audit(struct psd_session *session, psd_tensor tensor,
                             const void *data, size_t size);

/* Tell the launcher how training goes: once a step, or again for the same one
 * when its loss is known later (samples add up). A loss of NaN means unknown.
 * Does no I/O. Any thread. */
PSD_API psd_status psd_metrics(struct psd_session *session, uint64_t step,
                               double loss, uint64_t samples);

/* For --trace: a span of this thread's work begins (1) or ends (0) under a
 * name, such as "backward". Spans of a thread nest: an end also ends what began
 * inside. No effect without --trace. Any thread. */
PSD_API void psd_mark(struct psd_session *session, const char *name,
                      int begin);

/* ---- words ------------------------------------------------------------ */

/* "PSD_EINVAL"; "unknown" for a value that is none. */
PSD_API const char *psd_status_name(psd_status status);
/* One general sentence for a status. */
PSD_API const char *psd_status_text(psd_status status);
/* The exact sentence of the last failure: of `session`, or of this thread's
 * psd_open when NULL. Never NULL; valid until the next call. */
PSD_API const char *psd_error(const struct psd_session *session);

typedef enum psd_log_level {
    PSD_LOG_ERROR = 0,
    PSD_LOG_WARN = 1,
    PSD_LOG_INFO = 2,
    PSD_LOG_DEBUG = 3
} psd_log_level;
typedef void (*psd_log_sink)(void *user, psd_log_level level,
                             const char *line);
/* Where the library's log lines go. Silent until set; NULL silences again.
 * The sink may be called from any thread and must not call the library. */
PSD_API void psd_log_set(psd_log_sink sink, void *user, psd_log_level level);

/* "0.1.0"; members of a job must agree on it. */
PSD_API const char *psd_version(void);

#ifdef __cplusplus
}
#endif

#endif /* POSEIDON_H */
