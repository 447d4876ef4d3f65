/*
 * step.h: what stands behind struct psd_step. step.c has the slots and the
 * calls of a pass, finish.c its end, start.c the same start, sparse.c the
 * sparse gradients; agree.c decides, without I/O, what the others know.
 *
 * The slots' per-pass fields belong to the thread that pushes the slot, and to
 * finish afterwards; the rest is under `lock`.
 */
#ifndef PSD_STEP_STEP_H
#define PSD_STEP_STEP_H

#include <pthread.h>
#include <stddef.h>

#include "poseidon_step.h"
#include "step/agree.h"

#define STEP_NAME_MAX   240
#define STEP_BITS_WORDS 8192 /* what a start sends together */

enum slot_part {
    SLOT_NONE, /* nothing from this worker so far */
    SLOT_KEPT, /* pushed, leaves in finish */
    SLOT_SENT, /* in flight */
    SLOT_DONE  /* answered */
};

struct step_sparse; /* sparse.c */

struct step_slot {
    char *name;    /* of the tensor */
    uint32_t hash; /* of the name */
    psd_dtype dtype;
    enum psd_slot_kind kind;
    uint64_t count;
    uint64_t size;
    int32_t priority;
    psd_tensor tensor;
    struct step_sparse *rows; /* NULL: never sparse */

    /* Of this pass. */
    enum slot_part part;
    bool used;   /* densely, by this worker */
    bool sparse; /* by this worker */
    void *data;
    void *scratch; /* sparse, but the others expect it dense */
    psd_ticket ticket;
    int outcome;
    uint32_t bad;
};

enum step_stage {
    STEP_IDLE, /* no pass */
    STEP_OPEN, /* pushes come */
    STEP_LATE  /* it is known what the others used */
};

struct psd_step {
    struct psd_session *session;
    uint32_t size;
    uint32_t rank;
    bool alone; /* nothing is sent, nobody looks */
    pthread_mutex_t lock;
    _Atomic int failed;    /* psd_status; 0: fine */
    struct psd_step *next; /* among those given up */

    struct step_slot **slots;
    uint64_t *used; /* by slot, see agree.h */
    uint32_t count;
    uint32_t room;
    uint32_t registered;

    enum step_stage stage;
    uint64_t pass; /* from 1 */
    double weight;
    psd_op op;
    uint64_t flag;

    uint64_t *header;
    uint32_t capacity; /* slots of the header; 0: not registered */
    psd_tensor header_tensor;
    psd_tensor bits_tensor;
    char *bits; /* while a start goes on */

    psd_tensor counts_tensor; /* sparse.c: how many rows everybody has */
    psd_tensor weights_tensor;
    uint32_t counts_room; /* sparse slots; 0: not registered */
    int64_t *counts;
    double *weights; /* by rank */
    uint64_t *weight_counts;
};

/* step.c */
/* The first failure, also one that the session knows of; or PSD_OK. */
psd_status step_failed(const struct psd_step *step);
/* A caller's mistake: sets the sentence. */
psd_status step_refuse(struct psd_step *step, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* The job cannot go on. Returns the first failure. */
psd_status step_fail(struct psd_step *step, psd_status status,
                     const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A call of poseidon.h inside a collective one has failed: the others must
 * not wait for us. PSD_OK passes. */
psd_status step_check(struct psd_step *step, psd_status status);
/* Push `slot` as the pass says; `have`: slot->data is a contribution. */
psd_status step_send(struct psd_step *step, struct step_slot *slot, bool have,
                     double weight, psd_op op);
psd_status step_wait(struct psd_step *step, struct step_slot *slot);
bool step_owes(const struct psd_step *step, uint32_t slot);

/* May this slot be given now? `*why_p` is for step_refuse_slot. Under lock. */
psd_status step_take(struct psd_step *step, uint32_t slot, const void *data,
                     const char **why_p);
psd_status step_refuse_slot(struct psd_step *step, uint32_t slot,
                            psd_status status, const char *why);

/* finish.c: wait for all that this worker has sent. */
psd_status step_wait_sent(struct psd_step *step);

/* sparse.c: exchange what the header says was sparse. Collective. */
psd_status sparse_exchange(struct psd_step *step);
void sparse_destroy(struct step_sparse *rows);

/* start.c: tell the master about what is new. Collective. */
psd_status step_register(struct psd_step *step);

#endif
