/*
 * reduce.h: one round of one block: what every rank contributed becomes what
 * every rank gets. The only place where contributions meet; a server calls it
 * (server/shard.c), and on one host the workers do, in shared memory
 * (reduce/board.c). Pure; any thread.
 */
#ifndef PSD_REDUCE_REDUCE_H
#define PSD_REDUCE_REDUCE_H

#include "model/model.h"
#include "optim/optim.h"

struct reduce_rank {
    const void *data; /* NULL: absent; with a weight above 0: zeros, which
                       * MEAN counts, and nobody has to send */
    void *base;       /* SHARED: data - base is what counts, and the answer
                       * goes here, too; NULL: data counts */
    double weight;
    uint32_t length;  /* bytes; differs by rank for GATHER only */
    uint8_t op;
};

struct reduce_round {
    /* What the caller says. */
    const struct model_tensor *tensor;
    uint32_t size;             /* bytes of the block */
    uint64_t step;
    uint32_t ranks;
    struct reduce_rank *rank;  /* `ranks` of them, in rank order */
    void **output;             /* where the answer goes; may be inputs */
    uint32_t outputs;
    float *value;              /* STORE: the value, then its slots, each of
                                * `size` bytes. SHARED: the value, of any
                                * type. Else NULL */
    /* Room for the caller to lend: `ranks` each. */
    const void **input;
    double *weight;
    /* What comes out. */
    uint16_t flags;            /* FRAME_FLAG_NOBODY, _NOWEIGHT, _DISAGREE */
    uint32_t contributors;
    uint32_t length;           /* bytes of the answer; 0: none was written */
    uint32_t bad;              /* MEAN, SUM: rank + 1 of the first rank that
                                * counts and is not finite; ranks + 1: all are
                                * and their sum is not; 0: all is finite */
};

/* GATHER: an answer is `ranks` u64 counts of bytes, then the contributions
 * end to end. */
size_t reduce_gather_size(uint32_t ranks, uint64_t most);

/* Bytes of the value that is kept of a block, with its slots: STORE and
 * SHARED; 0 for the others. */
size_t reduce_store_size(const struct model_tensor *tensor, uint32_t size);

psd_status reduce_round_init(struct reduce_round *round, uint32_t ranks);
void reduce_round_fini(struct reduce_round *round);

/* Sum a block. SHARED: one rank is in the round; what it pushed is added to
 * the value. */
void reduce_run(struct reduce_round *round);

/* What is known of a tensor, and of one more block of it: the lowest rank, so
 * that it does not matter how the tensor was cut. */
static inline uint32_t reduce_first_bad(uint32_t known, uint32_t block)
{
    return known == 0 || (block != 0 && block < known) ? block : known;
}

/* Samples: not negative, and few enough for their sum to be exact. */
#define REDUCE_WEIGHT_MAX 0x1p40
static inline bool reduce_weight_fits(double weight)
{
    return weight >= 0.0 && weight <= REDUCE_WEIGHT_MAX;
}

/* May this op meet this tensor? */
bool reduce_op_fits(const struct model_tensor *tensor, unsigned op);
/* May it when the zeros of a rank are not there to be looked at? */
bool reduce_zeros_fit(const struct model_tensor *tensor, unsigned op);

#endif
