/*
 * model.h: what the workers train, seen as bytes: the tensors in order of
 * registration, each cut into blocks, each block placed on one shard. Pure:
 * every member computes the same model from the same batches, so placement
 * never travels.
 *
 * One owner; reading from several threads is fine while nobody adds.
 */
#ifndef PSD_MODEL_MODEL_H
#define PSD_MODEL_MODEL_H

#include <stdbool.h>

#include "wire/message.h"

#define MODEL_PART_MIN 4096u  /* no part of a tensor is smaller */
#define MODEL_PART_ALIGN 64u
#define MODEL_SPREAD 4         /* parts per shard between hosts ... */
#define MODEL_SPREAD_MIN 32768u /* ... unless that made them smaller */
#define MODEL_LAST 4           /* between hosts the last part for each shard
                                * is cut into as many ... */
#define MODEL_LAST_MIN 65536u  /* ... unless that made them smaller */
#define MODEL_RESERVED "psd." /* names that begin so are ours */

struct model_tensor {
    char *name;
    psd_dtype dtype;
    psd_kind kind;
    int32_t priority;
    uint64_t count;       /* elements */
    uint64_t size;        /* bytes; GATHER: the most one worker sends */
    uint32_t block_first; /* its blocks are block_first .. + block_count - 1 */
    uint32_t block_count;
    char optim[32];
    double rate;
    double momentum;
};

struct model_block {
    uint32_t tensor;
    uint32_t shard;
    uint64_t offset; /* bytes into the tensor */
    uint32_t size;   /* bytes; GATHER: the most one worker sends */
};

struct model {
    uint32_t shards;
    uint32_t block_size;
    bool spread;            /* MODEL_SPREAD; set before anything is added */
    uint32_t tensor_count;
    uint32_t tensor_capacity;
    uint32_t block_count;
    uint32_t block_capacity;
    struct model_tensor *tensors;
    struct model_block *blocks;
    uint64_t *shard_bytes;  /* load per shard */
    uint32_t *name_table;   /* open addressing: tensor index + 1 */
    uint32_t name_capacity; /* power of two */
};

size_t dtype_size(psd_dtype dtype); /* 0 when it is none */
const char *dtype_name(psd_dtype dtype);

psd_status model_init(struct model *model, uint32_t shards,
                      uint32_t block_size);
void model_fini(struct model *model);

/* Is this spec acceptable by itself? PSD_EINVAL with a sentence. */
psd_status model_check_spec(const struct message_spec *spec, char *error,
                            size_t error_size);

/* Add a batch. Names that were known before are passed over (the caller has
 * compared them); one name with two specs in the batch, and more than the
 * limits of wire.h, are PSD_EINVAL. All or nothing. */
psd_status model_add(struct model *model, const struct message_table *table);

/* Tensor 0, that every member has without a word: what a barrier pushes. */
#define MODEL_BARRIER 0
psd_status model_add_builtin(struct model *model);

/* Are there SHARED tensors? Then every worker counts its own steps. */
bool model_apart(const struct model *model);

/* Index of a tensor; UINT32_MAX when there is none. */
uint32_t model_find(const struct model *model, const char *name);

/* Do two specs say the same? */
bool spec_equal(const struct message_spec *a, const struct message_spec *b);
/* Is the tensor what the spec says? */
bool model_matches(const struct model_tensor *tensor,
                   const struct message_spec *spec);

#endif
