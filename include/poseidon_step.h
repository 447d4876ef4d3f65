/*
 * poseidon_step.h: one backward pass after another, for adapters of
 * frameworks. Built on poseidon.h; in the same library.
 *
 * An adapter announces a slot for each parameter and running statistic, gives
 * all workers the same start, and then, pass by pass, hands each gradient over
 * the moment it exists. When the pass is over every worker has the same
 * answers, although a worker knows only afterwards what the others used.
 *
 *     psd_step_open(session, &step);
 *     psd_step_add(step, slots, count, &first);
 *     psd_step_start(step, values, sizes, count);
 *     while (...) {
 *         psd_step_begin(step, samples, PSD_OP_MEAN);
 *         ... psd_step_push(step, slot, gradient) as they come ...
 *         do {
 *             n = psd_step_missing(step, missing);
 *             ... psd_step_room(step, missing[i], memory) for each ...
 *         } while ((status = psd_step_finish(step, 0, &flags)) == PSD_AGAIN);
 *     }
 *
 * The agreed set: slots that some worker used densely within the last
 * PSD_STEP_MEMORY passes. It follows from answers alone, so it is the same
 * everywhere. What is in it leaves at once; what is not follows inside
 * psd_step_finish. A header of a few words (who used what, flags) travels with
 * every pass: no round trip of its own once the set is settled.
 *
 * Collective calls: start, finish, now. Threads: push, push_sparse and room
 * from any thread; the others from one, and finish after every push of the
 * pass has returned. Alone (a job of one) nothing is sent.
 *
 * Errors are those of poseidon.h. Once psd_step_finish or psd_step_start has
 * failed every later call returns that failure; psd_error(session) has the
 * sentence. A refusal (PSD_EINVAL) by any other call changes nothing.
 */
#ifndef POSEIDON_STEP_H
#define POSEIDON_STEP_H

#include "poseidon.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PSD_STEP_MEMORY 16 /* passes that a slot stays in the agreed set */

struct psd_step; /* opaque: the exchanges of one session */

enum psd_slot_kind {
    PSD_SLOT_GRADIENT = 0, /* not given: zeros, weighted by this worker's
                            * samples */
    PSD_SLOT_BUFFER = 1    /* running statistics, always averaged; not given:
                            * absent, does not count */
};

/* One parameter or buffer; floating types only (complex: pairs). */
struct psd_slot {
    const char *name;       /* up to 240 bytes; further slots of the same name
                             * are registered as "name#2", "name#3" ... */
    psd_dtype dtype;
    enum psd_slot_kind kind;
    uint64_t count;         /* elements */
    int32_t priority;       /* 0: by id, the first highest */
};

/* Keeps `session`. No communication. */
PSD_API psd_status psd_step_open(struct psd_session *session,
                                 struct psd_step **step_p);
/* Takes `step`; NULL is allowed. Before psd_close. A pass that is open is
 * given up. */
PSD_API void psd_step_close(struct psd_step *step);

/* Announce slots; local, no communication; ids go on from the last. Every
 * worker announces the same slots in the same order. They are registered
 * (collectively, compared by the master, differences printed) inside the next
 * psd_step_start or psd_step_finish. */
PSD_API psd_status psd_step_add(struct psd_step *step,
                                const struct psd_slot *slots, uint32_t count,
                                uint32_t *first_p);

/* The same start: registers what is new and gives every worker the bits of
 * rank 0. data[i] belongs to slot i, size[i] is its bytes: a parameter's
 * value or a buffer, of any type. NULL: left out, on every worker alike.
 * Borrows data. Not while a pass is open. Collective. */
PSD_API psd_status psd_step_start(struct psd_step *step, void *const *data,
                                  const uint64_t *size, uint32_t count);

/* A pass begins. `weight`: this worker's samples in it; `op` MEAN or SUM, of
 * the gradients. */
PSD_API psd_status psd_step_begin(struct psd_step *step, double weight,
                                  psd_op op);

/* A gradient exists: leaves now if the slot is in the agreed set, else inside
 * finish. In place: the answer will be in `data`, of the slot's count; keeps
 * it until finish is done. Once per pass and slot. Any thread. */
PSD_API psd_status psd_step_push(struct psd_step *step, uint32_t slot,
                                 void *data);

/* A sparse gradient: `nnz` entries, unique or not. indices: index_dims rows of
 * nnz numbers; values: nnz rows of `width` elements of the slot's type.
 * Exchanged inside finish as they are, see psd_step_sparse_result. Keeps both
 * until the next begin. Any thread. */
PSD_API psd_status psd_step_push_sparse(struct psd_step *step, uint32_t slot,
                                        const int64_t *indices, uint64_t nnz,
                                        uint64_t index_dims,
                                        const void *values, uint64_t width);

/* Which slots does this worker still owe in this pass? Returns their number,
 * ids in `slots` (room for all slots so far). */
PSD_API uint32_t psd_step_missing(struct psd_step *step, uint32_t *slots);

/* Memory for the answer of a slot that this worker owes: for a GRADIENT its
 * content is ignored, for a BUFFER it is the buffer itself. Kept until finish
 * is done. Any thread. */
PSD_API psd_status psd_step_room(struct psd_step *step, uint32_t slot,
                                 void *out);

/* Finish the pass. PSD_AGAIN: this worker owes slots (others had some that it
 * did not push): ask psd_step_missing, give room, call again. PSD_OK: every
 * answer is in place, and *flags_p (may be NULL) is the OR of every worker's
 * `flag`, which counts in the first call of a pass. Collective. */
PSD_API psd_status psd_step_finish(struct psd_step *step, uint64_t flag,
                                   uint64_t *flags_p);

/* After PSD_OK, until the next begin: what became of a slot. */
#define PSD_STEP_NOBODY 0 /* nobody had it; its memory is untouched */
#define PSD_STEP_DENSE 1  /* the answer is in place */
#define PSD_STEP_SPARSE 2 /* see psd_step_sparse_result */
PSD_API int psd_step_outcome(const struct psd_step *step, uint32_t slot);

/* A sparse answer: the entries of all workers in rank order, end to end;
 * index_dims rows of *nnz_p indices. MEAN: values are multiplied by the
 * worker's share of the samples. Valid until the next begin, finish or
 * close. */
PSD_API psd_status psd_step_sparse_result(const struct psd_step *step,
                                          uint32_t slot,
                                          const int64_t **indices_p,
                                          const void **values_p,
                                          uint64_t *nnz_p);

/* One exchange of one slot that is registered, in place, blocking (an
 * optimizer that steps inside backward). Inside a pass it takes the place of
 * the slot's push. Collective, but for workers that give room for it. */
PSD_API psd_status psd_step_now(struct psd_step *step, uint32_t slot,
                                void *data, double weight, psd_op op);

/* Parameters after an update, for the digest: data[i] of slot i, NULL: none.
 * See psd_audit. */
PSD_API psd_status psd_step_audit(struct psd_step *step,
                                  const void *const *data,
                                  const uint64_t *size, uint32_t count);

/* The first gradient of the pass that was not finite: returns 1 with its slot
 * and the first rank that had it (the size of the job: no rank had, but their
 * sum is too large for the type), the same on every worker; 0: none. Alone
 * that is looked for only with --nan skip or stop. */
PSD_API int psd_step_bad(const struct psd_step *step, uint32_t *slot_p,
                         uint32_t *rank_p);

/* ---- a framework's memory in the arena --------------------------------- */

/* Direct the large blocks (64 KiB or more) that `library`, which is loaded
 * already ("libc10.so" for torch), takes with posix_memalign to the session's
 * arena, while redirection is on. What lies there is exchanged in place. The
 * rest, and whatever the arena has no room for, goes to the allocator that the
 * library used before. A forked child takes nothing from the arena. It ends
 * with psd_close; blocks that the library still holds stay valid, and the
 * arena's memory is given back with the last of them.
 * PSD_ENOSUP, with a sentence: the calls of that library are not found, or the
 * session is a job of one, which shares nothing. */
PSD_API psd_status psd_redirect_install(struct psd_session *session,
                                        const char *library);

/* From now on, until as many calls of psd_redirect_off. For all threads of the
 * process. Cheap; no effect where nothing is installed. Any thread. */
PSD_API void psd_redirect_on(struct psd_session *session);
PSD_API void psd_redirect_off(struct psd_session *session);

#ifdef __cplusplus
}
#endif

#endif /* POSEIDON_STEP_H */
