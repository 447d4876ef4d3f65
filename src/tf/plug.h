/*
 * plug.h: what the plug-in knows: groups, their keys, and what of them is in
 * flight. One lock covers it all; only waiting for the others happens without
 * it (pass_wait), and finishing a step that was left, during which nothing
 * else of this worker could go on anyway.
 */
#ifndef PSD_TF_PLUG_H
#define PSD_TF_PLUG_H

#include <pthread.h>
#include <stdbool.h>

#include "poseidon.h"
#include "tf/abi.h"
#include "tf/plugin.h"

#define PLUG_TEXT_MAX 768
#define PLUG_EVENTS   4096
#define PLUG_HEADER   4

/* A failure on its way to the caller: TensorFlow or Python. */
struct fault {
    psd_status status;
    char text[PLUG_TEXT_MAX];
};
psd_status fault_set(struct fault *fault, psd_status status, const char *format,
                     ...) __attribute__((format(printf, 3, 4)));
/* A call of the library has failed: its own sentence, behind `what`. */
psd_status fault_session(struct fault *fault, psd_status status,
                         const char *what);

enum key_state {
    KEY_IDLE,
    KEY_FLYING,  /* pushed, not waited for */
    KEY_GATHERED /* sparse: waited for, not taken */
};

/* A sparse key's exchange; see rows.c. */
struct sparse {
    uint64_t rows_max;  /* in one round */
    uint64_t words;     /* most that one worker sends in one round */
    uint64_t *packed;   /* words */
    uint64_t *answer;   /* size x words */
    uint64_t *counts;   /* size: words of each worker */
    uint64_t *rows;     /* size: rows of each worker, all rounds */
    double *share;      /* size: of the weights */
    TF_Tensor *indices; /* of this worker, while in flight */
    TF_Tensor *all_values;
    TF_Tensor *all_indices;
};

struct key {
    struct key *next;
    char *name;
    struct group *group; /* NULL: nobody has registered it */
    int32_t type;        /* TensorFlow's */
    int32_t kind;
    uint64_t count;
    size_t unit; /* bytes of an element */
    size_t size; /* bytes that travel; 0: nothing to send */
    bool padded; /* VALUE: travels as words */
    psd_tensor tensor;
    enum key_state state;
    psd_ticket ticket;
    TF_Tensor *in;  /* read by the communication; NULL: it is `out` */
    TF_Tensor *out; /* written by it */
    void *scratch;  /* `size` bytes, in a step that was left */
    void *base;     /* SHARED: `size` bytes, the last answer */
    bool begun;     /* SHARED: the value is there */
    struct sparse *sparse;
};

struct group {
    struct group *next;
    char *name;
    struct key **keys; /* in the order of registration */
    uint32_t count;
    bool steps_header; /* `header` is registered */
    psd_tensor header;
    psd_ticket header_ticket;
    int64_t words[PLUG_HEADER];
    bool open;    /* a step has begun */
    bool waiting; /* ... and PsdWait is in it */
    bool settling;
    bool spoiled;
    int64_t run;             /* of the step's first push */
    const struct key *first; /* ... and its key */
    uint64_t steps;          /* that have ended well */
    const struct key *bad;   /* of the last step: not finite; NULL: none */
    uint32_t bad_rank;       /* who pushed it; size: the sum is too large */
    char *broken;            /* sentence, once the replicas differ */
};

struct plug {
    pthread_mutex_t lock;
    struct psd_session *session;
    uint32_t rank;
    uint32_t size;
    double weight;
    psd_op op;
    bool stop_at_nan;
    struct key *keys;
    struct group *groups; /* in the order of registration */
    struct psd_tf_event events[PLUG_EVENTS];
    uint64_t event_count;
};

extern struct plug plug;

/* registry.c */
/* The key of that name, made when it is new; NULL: no memory. */
struct key *key_find(const char *name, size_t length);
struct group *group_find(const char *name, size_t length);
/* Drop what a key holds of TensorFlow's and of ours. Under lock. */
void key_release(struct key *key);
void plug_event(enum psd_tf_what what, const char *name, uint64_t step);
/* May this key be used as `kind`? Under lock. */
psd_status key_check(const struct key *key, int32_t type, struct fault *fault);

/* pass.c: the steps. */
struct pass_push {
    int64_t run; /* TensorFlow's step id */
    bool eager;
    double weight; /* negative: what psd_tf_step said */
    int op;        /* 0: the same */
    TF_Tensor *in; /* taken: see struct key; for SPARSE the values */
    TF_Tensor *out;
    TF_Tensor *indices;
};
/* Hand a contribution over; takes the tensors, also when it fails. */
psd_status pass_push(struct key *key, const struct pass_push *push,
                     struct fault *fault);
/* Blocks. `keys` are pushed; outs[i] receives the tensor with the answer,
 * which is the caller's now (SPARSE: NULL, see pass_take). finite_p: are all
 * answers finite? */
psd_status pass_wait(struct group *group, struct key *const *keys,
                     uint32_t count, TF_Tensor **outs, bool *finite_p,
                     struct fault *fault);
/* An answer of the step is not finite; `bad` as in psd_result. */
void pass_bad(struct key *key, uint32_t bad);
/* The rows of all workers; the tensors are the caller's. */
psd_status pass_take(struct key *key, TF_Tensor **values_p,
                     TF_Tensor **indices_p, struct fault *fault);
/* Finish every step that was left. Takes the lock. */
psd_status pass_settle(struct fault *fault);

/* rows.c */
psd_status sparse_create(struct key *key, uint64_t rows, struct fault *fault);
void sparse_destroy(struct key *key);
/* Rows of a value tensor; checks it and the indices against the key. */
psd_status sparse_check(const struct key *key, const TF_Tensor *values,
                        const TF_Tensor *indices, struct fault *fault);
/* Send the first round; the key's tensors are set. */
psd_status sparse_start(struct key *key, double weight, psd_op op,
                        struct fault *fault);
/* The same with nothing, in a step that was left. */
psd_status sparse_start_empty(struct key *key, struct fault *fault);
/* Wait for the first round and make the others. `keep`: the rows go to
 * all_values and all_indices, else they are dropped. */
psd_status sparse_finish(struct key *key, bool keep, struct fault *fault);

#endif
