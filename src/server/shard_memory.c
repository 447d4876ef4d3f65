/*
 * shard_memory.c: what a shard needs for its blocks, taken at registration.
 * Slots are one lazily backed mapping per batch: (ranks + 1) times the
 * shard's share if every rank comes by value, next to nothing if all come as
 * spans of shared memory.
 */
#include "base/log.h"
#include "base/mem.h"
#include "server/shard.h"

struct shard_memory {
    struct shard_memory *next;
    void *base;
    size_t size;
    struct shard_slot *slots;
};

psd_status shard_init(struct shard *shard, const struct model *model,
                      uint32_t index, uint32_t ranks)
{
    *shard = (struct shard){
        .model = model,
        .index = index,
        .ranks = ranks,
    };
    for (uint32_t r = 0; r < ranks; r++) {
        rankset_add(&shard->live, r);
    }
    shard->rank = mem_zalloc_array(ranks, sizeof(*shard->rank));
    if (shard->rank == NULL) {
        shard->ranks = 0; /* nothing to look at when it is closed */
        return PSD_ENOMEM;
    }
    return reduce_round_init(&shard->round, ranks);
}

void shard_fini(struct shard *shard)
{
    for (uint32_t r = 0; r < shard->ranks && shard->rank != NULL; r++) {
        link_close(shard->rank[r].link);
        sched_fini(&shard->rank[r].sched);
        mem_free(shard->rank[r].queued);
    }
    while (shard->memory != NULL) {
        struct shard_memory *memory = shard->memory;

        shard->memory = memory->next;
        mem_unmap(memory->base, memory->size);
        mem_free(memory->slots);
        mem_free(memory);
    }
    reduce_round_fini(&shard->round);
    mem_free(shard->rank);
    mem_free(shard->local);
    mem_free(shard->blocks);
    *shard = (struct shard){ .model = NULL };
}

static size_t result_size(const struct shard *shard, uint32_t index)
{
    const struct model_block *block = &shard->model->blocks[index];

    if (shard->model->tensors[block->tensor].kind == PSD_KIND_GATHER) {
        return reduce_gather_size(shard->ranks, block->size);
    }
    return block->size;
}

static size_t value_size(const struct shard *shard, uint32_t index)
{
    const struct model_block *block = &shard->model->blocks[index];
    const struct model_tensor *tensor = &shard->model->tensors[block->tensor];

    return reduce_store_size(tensor, block->size);
}

static size_t aligned(size_t size)
{
    return (size + MODEL_PART_ALIGN - 1) / MODEL_PART_ALIGN *
           MODEL_PART_ALIGN;
}

static const struct psd_policy *policy_of(const struct shard *shard,
                                          uint32_t index)
{
    const struct model_block *block = &shard->model->blocks[index];

    return shard->model->tensors[block->tensor].kind == PSD_KIND_SHARED
               ? &psd_policy_hogwild
               : &psd_policy_sync;
}

static size_t turn_size(const struct shard *shard, uint32_t index)
{
    return policy_of(shard, index)->apart
               ? shard->ranks * sizeof(uint64_t)
               : 0;
}

/* Bytes of one block: slots, result, value, turns; each part aligned. */
static size_t block_bytes(const struct shard *shard, uint32_t index)
{
    return aligned((size_t)shard->ranks * shard->model->blocks[index].size) +
           aligned(result_size(shard, index)) +
           aligned(value_size(shard, index)) +
           aligned(turn_size(shard, index));
}

static void block_set(struct shard *shard, uint32_t index, uint32_t local,
                      char *at, struct shard_slot *slots)
{
    struct shard_block *block = &shard->blocks[local];

    block->policy = policy_of(shard, index);
    block->tally.live = &shard->live;
    block->slots = slots;
    block->buffer = at;
    at += aligned((size_t)shard->ranks * shard->model->blocks[index].size);
    block->result = at;
    at += aligned(result_size(shard, index));
    block->value = value_size(shard, index) == 0 ? NULL : (void *)at;
    at += aligned(value_size(shard, index));
    block->tally.turn = turn_size(shard, index) == 0 ? NULL : (void *)at;
    shard->local[index] = local + 1;
}

/* Room in every array for `count` blocks of ours in all. */
static psd_status grow(struct shard *shard, uint32_t count)
{
    void *local = shard->local;
    void *blocks = shard->blocks;
    psd_status status;

    status = mem_grow(&local, shard->local_count, shard->model->block_count,
                      sizeof(*shard->local));
    shard->local = local;
    if (status == PSD_OK) {
        status = mem_grow(&blocks, shard->block_count, count,
                          sizeof(*shard->blocks));
        shard->blocks = blocks;
    }
    for (uint32_t r = 0; r < shard->ranks && status == PSD_OK; r++) {
        void *queued = shard->rank[r].queued;

        status = mem_grow(&queued, shard->block_count, count, 1);
        shard->rank[r].queued = queued;
        if (status == PSD_OK) {
            status = sched_reserve(&shard->rank[r].sched, count);
        }
    }
    return status;
}

psd_status shard_add(struct shard *shard)
{
    uint32_t first = shard->local_count;
    uint32_t count = shard->block_count;
    struct shard_memory *memory;
    struct shard_slot *slots;
    size_t total = 0;
    char *at;
    psd_status status;

    for (uint32_t b = first; b < shard->model->block_count; b++) {
        if (shard->model->blocks[b].shard == shard->index) {
            total += block_bytes(shard, b);
            count++;
        }
    }
    status = grow(shard, count);
    memory = mem_zalloc(sizeof(*memory));
    if (status != PSD_OK || memory == NULL) {
        mem_free(memory);
        return PSD_ENOMEM;
    }
    memory->size = total == 0 ? 1 : total;
    memory->base = mem_map(memory->size);
    memory->slots = mem_zalloc_array((size_t)(count - shard->block_count) *
                                         shard->ranks,
                                     sizeof(*memory->slots));
    memory->next = shard->memory;
    shard->memory = memory; /* shard_fini frees it, whole or not */
    if (memory->base == NULL || memory->slots == NULL) {
        return PSD_ENOMEM;
    }
    at = memory->base;
    slots = memory->slots;
    for (uint32_t b = first; b < shard->model->block_count; b++) {
        if (shard->model->blocks[b].shard == shard->index) {
            block_set(shard, b, shard->block_count, at, slots);
            at += block_bytes(shard, b);
            slots += shard->ranks;
            shard->block_count++;
        }
    }
    shard->local_count = shard->model->block_count;
    return PSD_OK;
}
