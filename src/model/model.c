/*
 * model.c: cutting and placing; see model.h. A tensor becomes max(shards,
 * size / block_size) parts so that even a small one keeps every link busy;
 * between hosts up to MODEL_SPREAD times as many, because there a link is slow
 * enough that the answer to one part can travel while the next one arrives.
 * The last part for each shard is cut once more there, because at the end of
 * a large tensor nothing else is left to travel. Each part goes to the shard
 * with the least bytes so far. A tensor too small to cut is one block of its
 * own: it leaves the moment it is there, and the transport coalesces its frame
 * with its neighbours'.
 */
#include "model/model.h"

#include <inttypes.h>
#include <math.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/mem.h"
#include "optim/optim.h"

#define NAMES_FIRST 64

size_t dtype_size(psd_dtype dtype)
{
    switch (dtype) {
    case PSD_FLOAT16:
    case PSD_BFLOAT16:
        return 2;
    case PSD_FLOAT32:
    case PSD_INT32:
        return 4;
    case PSD_FLOAT64:
    case PSD_INT64:
        return 8;
    }
    return 0;
}

const char *dtype_name(psd_dtype dtype)
{
    static const char *const names[] = { "none",     "float32", "float64",
                                         "float16",  "bfloat16", "int32",
                                         "int64" };

    return dtype_size(dtype) == 0 ? names[0] : names[dtype];
}

psd_status model_init(struct model *model, uint32_t shards,
                      uint32_t block_size)
{
    *model = (struct model){ .shards = shards, .block_size = block_size };
    model->shard_bytes = mem_zalloc_array(shards, sizeof(uint64_t));
    model->name_table = mem_zalloc_array(NAMES_FIRST, sizeof(uint32_t));
    model->name_capacity = NAMES_FIRST;
    if (model->shard_bytes == NULL || model->name_table == NULL) {
        model_fini(model);
        return PSD_ENOMEM;
    }
    return PSD_OK;
}

void model_fini(struct model *model)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        mem_free(model->tensors[i].name);
    }
    mem_free(model->tensors);
    mem_free(model->blocks);
    mem_free(model->shard_bytes);
    mem_free(model->name_table);
    *model = (struct model){ .shards = 0 };
}

static psd_status spec_error(char *error, size_t error_size,
                             const struct message_spec *spec,
                             const char *what)
{
    snprintf(error, error_size, "tensor \"%s\": %s", spec->name, what);
    return PSD_EINVAL;
}

psd_status model_check_spec(const struct message_spec *spec, char *error,
                            size_t error_size)
{
    size_t unit = dtype_size((psd_dtype)spec->dtype);

    if (spec->name[0] == '\0') {
        return spec_error(error, error_size, spec, "its name is empty");
    }
    if (unit == 0) {
        return spec_error(error, error_size, spec, "its dtype is none");
    }
    if (spec->kind > PSD_KIND_SHARED) {
        return spec_error(error, error_size, spec, "its kind is none");
    }
    if (!isfinite(spec->rate) || !isfinite(spec->momentum)) {
        return spec_error(error, error_size, spec,
                          "its rate and momentum must be finite");
    }
    if (spec->count == 0 || spec->count > (UINT64_C(1) << 48)) {
        return spec_error(error, error_size, spec,
                          "its count must be in 1..2^48");
    }
    if (spec->kind == PSD_KIND_GATHER && spec->count > WIRE_DATA_MAX / unit) {
        return spec_error(error, error_size, spec,
                          "a gathered tensor is at most 1 GiB");
    }
    if (spec->kind == PSD_KIND_STORE &&
        (spec->dtype != PSD_FLOAT32 || optim_find(spec->optim) == NULL)) {
        return spec_error(error, error_size, spec,
                          "a stored tensor is float32 and names an optim "
                          "row: add, sgd or momentum");
    }
    return PSD_OK;
}

/* ---- names ------------------------------------------------------------ */

static uint32_t name_slot(const struct model *model, const char *name)
{
    uint32_t mask = model->name_capacity - 1;
    uint32_t slot = crc32c(0, name, strlen(name)) & mask;

    while (model->name_table[slot] != 0 &&
           strcmp(model->tensors[model->name_table[slot] - 1].name, name) !=
               0) {
        slot = (slot + 1) & mask;
    }
    return slot;
}

uint32_t model_find(const struct model *model, const char *name)
{
    return model->name_table[name_slot(model, name)] - 1;
}

static psd_status names_grow(struct model *model, uint32_t count)
{
    uint32_t capacity = model->name_capacity;
    uint32_t *table;

    while (capacity / 2 < count) {
        capacity *= 2;
    }
    if (capacity == model->name_capacity) {
        return PSD_OK;
    }
    table = mem_zalloc_array(capacity, sizeof(*table));
    if (table == NULL) {
        return PSD_ENOMEM;
    }
    mem_free(model->name_table);
    model->name_table = table;
    model->name_capacity = capacity;
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        table[name_slot(model, model->tensors[i].name)] = i + 1;
    }
    return PSD_OK;
}

/* ---- cutting and placing ---------------------------------------------- */

/* Of so many parts, one for each shard is cut into MODEL_LAST. */
static bool cuts_last(const struct model *model, uint64_t size, uint64_t parts)
{
    return model->spread && parts >= (uint64_t)MODEL_SPREAD * model->shards &&
           size / parts >= (uint64_t)MODEL_LAST * MODEL_LAST_MIN;
}

/* Parts before the last are cut. */
static uint32_t parts_of(const struct model *model,
                         const struct model_tensor *tensor)
{
    uint64_t parts = (tensor->size + model->block_size - 1) /
                     model->block_size;
    uint64_t most = tensor->size / MODEL_PART_MIN;

    if (tensor->kind == PSD_KIND_GATHER) {
        return 1;
    }
    if (model->spread) {
        uint64_t wish = tensor->size / MODEL_SPREAD_MIN;
        uint64_t limit = (uint64_t)MODEL_SPREAD * model->shards;

        wish = wish < limit ? wish : limit;
        parts = parts > wish ? parts : wish;
    }
    if (parts < model->shards) {
        parts = model->shards;
    }
    if (parts > most) {
        parts = most;
    }
    if (parts > WIRE_BLOCKS_MAX) {
        parts = WIRE_BLOCKS_MAX + 1; /* too many, however many it is */
    }
    return parts == 0 ? 1 : (uint32_t)parts;
}

static uint32_t least_loaded(const struct model *model)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < model->shards; i++) {
        if (model->shard_bytes[i] < model->shard_bytes[best]) {
            best = i;
        }
    }
    return best;
}

/* Add a block that ends before `end` of the tensor. */
static void cut_at(struct model *model, uint32_t index, uint64_t end)
{
    const struct model_tensor *tensor = &model->tensors[index];
    struct model_block *block = &model->blocks[model->block_count];
    bool first = model->block_count == tensor->block_first;

    if (end < tensor->size) {
        end = end / MODEL_PART_ALIGN * MODEL_PART_ALIGN;
    }
    block->tensor = index;
    block->offset = first ? 0 : block[-1].offset + block[-1].size;
    block->size = (uint32_t)(end - block->offset);
    block->shard = least_loaded(model);
    model->shard_bytes[block->shard] += block->size;
    model->block_count++;
}

static void cut(struct model *model, uint32_t index)
{
    struct model_tensor *tensor = &model->tensors[index];
    uint32_t parts = parts_of(model, tensor);
    uint32_t last = cuts_last(model, tensor->size, parts) ? model->shards : 0;
    uint32_t whole = parts - last;
    uint64_t begin = tensor->size * whole / parts;

    tensor->block_first = model->block_count;
    for (uint32_t i = 0; i < whole; i++) {
        cut_at(model, index, tensor->size * (i + 1) / parts);
    }
    for (uint32_t i = 0; i < last * MODEL_LAST; i++) {
        cut_at(model, index, begin + (tensor->size - begin) * (i + 1) /
                                         (last * MODEL_LAST));
    }
}

/* Fill the tensor that follows the last one; does not count it yet. */
static psd_status tensor_set(struct model *model,
                             const struct message_spec *spec)
{
    struct model_tensor *tensor = &model->tensors[model->tensor_count];

    *tensor = (struct model_tensor){
        .name = mem_strdup(spec->name),
        .dtype = (psd_dtype)spec->dtype,
        .kind = (psd_kind)spec->kind,
        .priority = spec->priority,
        .count = spec->count,
        .size = spec->count * dtype_size((psd_dtype)spec->dtype),
        .rate = spec->rate,
        .momentum = spec->momentum,
    };
    if (tensor->name == NULL) {
        return PSD_ENOMEM;
    }
    snprintf(tensor->optim, sizeof(tensor->optim), "%s", spec->optim);
    tensor->block_count = parts_of(model, tensor);
    if (cuts_last(model, tensor->size, tensor->block_count)) {
        tensor->block_count += (MODEL_LAST - 1) * model->shards;
    }
    return PSD_OK;
}

static psd_status reserve(void **array_p, uint32_t count, uint32_t *capacity_p,
                          uint64_t needed, uint64_t limit, size_t size)
{
    uint64_t capacity = *capacity_p == 0 ? 64 : *capacity_p;
    psd_status status;

    if (needed > limit) {
        log_error("model: %" PRIu64 " entries, the limit is %" PRIu64, needed,
                  limit);
        return PSD_EINVAL;
    }
    if (needed <= *capacity_p) {
        return PSD_OK;
    }
    while (capacity < needed) {
        capacity *= 2;
    }
    status = mem_grow(array_p, count, capacity, size);
    if (status == PSD_OK) {
        *capacity_p = (uint32_t)capacity;
    }
    return status;
}

static psd_status add_one(struct model *model, const struct message_spec *spec)
{
    void *tensors = model->tensors;
    void *blocks = model->blocks;
    char error[512];
    uint32_t slot;
    psd_status status;

    status = model_check_spec(spec, error, sizeof(error));
    if (status != PSD_OK) {
        log_error("model: %s", error);
        return status;
    }
    status = reserve(&tensors, model->tensor_count, &model->tensor_capacity,
                     (uint64_t)model->tensor_count + 1, WIRE_TENSORS_MAX,
                     sizeof(*model->tensors));
    model->tensors = tensors;
    if (status != PSD_OK) {
        return status;
    }
    status = names_grow(model, model->tensor_count + 1);
    if (status == PSD_OK) {
        status = tensor_set(model, spec);
    }
    if (status != PSD_OK) {
        return status;
    }
    status = reserve(&blocks, model->block_count, &model->block_capacity,
                     (uint64_t)model->block_count +
                         model->tensors[model->tensor_count].block_count,
                     WIRE_BLOCKS_MAX, sizeof(*model->blocks));
    model->blocks = blocks;
    if (status != PSD_OK) {
        mem_free(model->tensors[model->tensor_count].name);
        return status;
    }
    slot = name_slot(model, spec->name);
    model->name_table[slot] = ++model->tensor_count;
    cut(model, model->tensor_count - 1);
    return PSD_OK;
}

/* Undo back to the first `tensor_count` tensors. */
static void shrink(struct model *model, uint32_t tensor_count)
{
    while (model->tensor_count > tensor_count) {
        struct model_tensor *tensor =
            &model->tensors[--model->tensor_count];

        for (uint32_t i = 0; i < tensor->block_count; i++) {
            struct model_block *block =
                &model->blocks[tensor->block_first + i];

            model->shard_bytes[block->shard] -= block->size;
        }
        model->block_count = tensor->block_first;
        mem_free(tensor->name);
    }
    memset(model->name_table, 0,
           model->name_capacity * sizeof(*model->name_table));
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        model->name_table[name_slot(model, model->tensors[i].name)] = i + 1;
    }
}

psd_status model_add(struct model *model, const struct message_table *table)
{
    uint32_t before = model->tensor_count;

    for (uint32_t i = 0; i < table->count; i++) {
        const struct message_spec *spec = &table->specs[i];
        uint32_t known = model_find(model, spec->name);
        psd_status status = PSD_OK;

        if (known == UINT32_MAX) {
            status = add_one(model, spec);
        } else if (known >= before &&
                   !model_matches(&model->tensors[known], spec)) {
            log_error("model: tensor %s comes twice, with different specs",
                      spec->name);
            status = PSD_EINVAL;
        }
        if (status != PSD_OK) {
            shrink(model, before);
            return status;
        }
    }
    return PSD_OK;
}

bool model_apart(const struct model *model)
{
    for (uint32_t i = 0; i < model->tensor_count; i++) {
        if (model->tensors[i].kind == PSD_KIND_SHARED) {
            return true;
        }
    }
    return false;
}

psd_status model_add_builtin(struct model *model)
{
    struct message_spec spec = { .name = MODEL_RESERVED "barrier",
                                 .dtype = PSD_INT32,
                                 .count = 1 };
    struct message_table table = { 1, &spec };

    return model_add(model, &table);
}

/* ---- comparing -------------------------------------------------------- */

bool spec_equal(const struct message_spec *a, const struct message_spec *b)
{
    return strcmp(a->name, b->name) == 0 && a->dtype == b->dtype &&
           a->kind == b->kind && a->count == b->count &&
           a->priority == b->priority && strcmp(a->optim, b->optim) == 0 &&
           a->rate == b->rate && a->momentum == b->momentum;
}

bool model_matches(const struct model_tensor *tensor,
                   const struct message_spec *spec)
{
    return strcmp(tensor->name, spec->name) == 0 &&
           tensor->dtype == (psd_dtype)spec->dtype &&
           tensor->kind == (psd_kind)spec->kind &&
           tensor->count == spec->count &&
           tensor->priority == spec->priority &&
           strcmp(tensor->optim, spec->optim) == 0 &&
           tensor->rate == spec->rate && tensor->momentum == spec->momentum;
}
