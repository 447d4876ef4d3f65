/* model_test.c: cutting, placing, names, and running out of memory. */
#include <math.h>

#include "base/claim.h"
#include "base/mem.h"
#include "model/model.h"

#define BLOCK_SIZE (1u << 20)

/* VGG-19: outputs of each layer (its biases) and all its parameters. */
static const struct {
    const char *name;
    uint64_t outputs;
    uint64_t params;
} vgg19[] = {
    { "conv1_1", 64, 1792 },     { "conv1_2", 64, 36928 },
    { "conv2_1", 128, 73856 },   { "conv2_2", 128, 147584 },
    { "conv3_1", 256, 295168 },  { "conv3_2", 256, 590080 },
    { "conv3_3", 256, 590080 },  { "conv3_4", 256, 590080 },
    { "conv4_1", 512, 1180160 }, { "conv4_2", 512, 2359808 },
    { "conv4_3", 512, 2359808 }, { "conv4_4", 512, 2359808 },
    { "conv5_1", 512, 2359808 }, { "conv5_2", 512, 2359808 },
    { "conv5_3", 512, 2359808 }, { "conv5_4", 512, 2359808 },
    { "fc6", 4096, 102764544 },  { "fc7", 4096, 16781312 },
    { "fc8", 1000, 4097000 },
};
#define VGG19_PARAMS UINT64_C(143667240)
#define VGG19_TENSORS (2 * CLAIM_COUNT(vgg19))

static void vgg19_specs(struct message_spec specs[VGG19_TENSORS])
{
    memset(specs, 0, VGG19_TENSORS * sizeof(*specs));
    for (size_t i = 0; i < CLAIM_COUNT(vgg19); i++) {
        struct message_spec *weight = &specs[2 * i];
        struct message_spec *bias = &specs[2 * i + 1];

        snprintf(weight->name, sizeof(weight->name), "%s.weight",
                 vgg19[i].name);
        weight->dtype = PSD_FLOAT32;
        weight->count = vgg19[i].params - vgg19[i].outputs;
        weight->priority = -(int32_t)i;
        snprintf(bias->name, sizeof(bias->name), "%s.bias", vgg19[i].name);
        bias->dtype = PSD_FLOAT32;
        bias->count = vgg19[i].outputs;
        bias->priority = -(int32_t)i;
    }
}

/* The rules of cutting, for one tensor of a model. */
static void check_parts(const struct model *model, uint32_t index)
{
    const struct model_tensor *tensor = &model->tensors[index];
    uint64_t covered = 0;

    assert_true(tensor->block_count >= 1);
    for (uint32_t i = 0; i < tensor->block_count; i++) {
        const struct model_block *block =
            &model->blocks[tensor->block_first + i];

        assert_int_equal(block->tensor, index);
        assert_int_equal(block->offset, covered);
        assert_int_equal(block->offset % MODEL_PART_ALIGN, 0);
        assert_true(block->shard < model->shards);
        assert_true(tensor->block_count == 1 || block->size >= MODEL_PART_MIN);
        /* Rounding to the alignment may move one end of a part. */
        assert_true(tensor->kind == PSD_KIND_GATHER ||
                    block->size <= model->block_size + MODEL_PART_ALIGN ||
                    block->size < 2 * MODEL_PART_MIN);
        covered += block->size;
    }
    assert_int_equal(covered, tensor->size);
    if (tensor->kind != PSD_KIND_GATHER &&
        tensor->size >= (uint64_t)model->shards * MODEL_PART_MIN) {
        assert_true(tensor->block_count >= model->shards);
    }
}

static void check_model(const struct model *model)
{
    uint64_t bytes[64] = { 0 };
    uint32_t blocks = 0;

    for (uint32_t i = 0; i < model->tensor_count; i++) {
        assert_int_equal(model->tensors[i].block_first, blocks);
        assert_int_equal(model_find(model, model->tensors[i].name), i);
        check_parts(model, i);
        blocks += model->tensors[i].block_count;
    }
    assert_int_equal(model->block_count, blocks);
    for (uint32_t i = 0; i < blocks; i++) {
        bytes[model->blocks[i].shard] += model->blocks[i].size;
    }
    assert_memory_equal(bytes, model->shard_bytes,
                        model->shards * sizeof(bytes[0]));
}

static void assert_same_placement(const struct model *a,
                                  const struct model *b)
{
    assert_int_equal(a->tensor_count, b->tensor_count);
    assert_int_equal(a->block_count, b->block_count);
    for (uint32_t i = 0; i < a->block_count; i++) {
        assert_int_equal(a->blocks[i].tensor, b->blocks[i].tensor);
        assert_int_equal(a->blocks[i].shard, b->blocks[i].shard);
        assert_int_equal(a->blocks[i].offset, b->blocks[i].offset);
        assert_int_equal(a->blocks[i].size, b->blocks[i].size);
    }
    assert_memory_equal(a->shard_bytes, b->shard_bytes,
                        a->shards * sizeof(uint64_t));
}

static void vgg19_is_spread_evenly_over_8_servers(void **state)
{
    static const uint32_t block_sizes[] = { 256u << 10, 1u << 20, 2u << 20 };
    static struct message_spec specs[VGG19_TENSORS];
    struct message_table table = { VGG19_TENSORS, specs };

    (void)state;
    vgg19_specs(specs);
    for (size_t k = 0; k < CLAIM_COUNT(block_sizes); k++) {
        struct model model;
        uint64_t least = UINT64_MAX;
        uint64_t most = 0;
        uint64_t total = 0;

        assert_int_equal(model_init(&model, 8, block_sizes[k]), PSD_OK);
        assert_int_equal(model_add(&model, &table), PSD_OK);
        check_model(&model);
        for (uint32_t i = 0; i < 8; i++) {
            uint64_t bytes = model.shard_bytes[i];

            least = bytes < least ? bytes : least;
            most = bytes > most ? bytes : most;
            total += bytes;
        }
        assert_int_equal(total, VGG19_PARAMS * sizeof(float));
        assert_true((double)most / (double)least < 1.05);
        model_fini(&model);
    }
}

static void parts_cover_each_tensor_exactly_once(void **state)
{
    static const uint8_t dtypes[] = { PSD_FLOAT32, PSD_FLOAT64, PSD_FLOAT16,
                                      PSD_BFLOAT16, PSD_INT32, PSD_INT64 };

    (void)state;
    for (uint32_t shards = 1; shards <= 17; shards++) {
        struct message_spec specs[64];
        struct message_table table = { 64, specs };
        struct model model;
        uint64_t random = shards;

        for (uint32_t i = 0; i < 64; i++) {
            random = claim_mix(random);
            specs[i] = (struct message_spec){
                .dtype = dtypes[random % 6],
                .kind = i % 9 == 8 ? PSD_KIND_GATHER : PSD_KIND_REDUCE,
                .count = 1 + (random >> 8) % (UINT64_C(1) << (i % 23)),
            };
            snprintf(specs[i].name, sizeof(specs[i].name), "t%u", i);
        }
        assert_int_equal(model_init(&model, shards, 64u << 10), PSD_OK);
        assert_int_equal(model_add(&model, &table), PSD_OK);
        check_model(&model);
        model_fini(&model);
    }
}

static void sizes_around_the_limits_are_cut_right(void **state)
{
    (void)state;
    for (uint32_t shards = 1; shards <= 8; shards++) {
        struct model model;

        assert_int_equal(model_init(&model, shards, BLOCK_SIZE), PSD_OK);
        for (uint32_t times = 1; times <= 12; times++) {
            for (int off = -65; off <= 65; off++) {
                struct message_spec spec = {
                    .dtype = PSD_FLOAT16,
                    .count = (uint64_t)((int)(times * 2048) + off),
                };
                struct message_table table = { 1, &spec };

                snprintf(spec.name, sizeof(spec.name), "t%u.%d", times, off);
                assert_int_equal(model_add(&model, &table), PSD_OK);
            }
        }
        check_model(&model);
        model_fini(&model);
    }
}

static void between_hosts_a_shard_gets_several_parts(void **state)
{
    static const struct {
        uint64_t size;
        uint32_t parts;
    } cases[] = {
        { 64u << 10, 4 },   /* 16 KiB each: one for every shard */
        { 160u << 10, 5 },
        { 1u << 20, 16 },   /* MODEL_SPREAD for every shard */
        { 16u << 20, 16 + 12 }, /* the last of each shard is four */
        { 64u << 20, 64 + 12 }, /* blocks are enough */
    };
    struct model model;

    (void)state;
    assert_int_equal(model_init(&model, 4, BLOCK_SIZE), PSD_OK);
    model.spread = true;
    for (uint32_t i = 0; i < CLAIM_COUNT(cases); i++) {
        struct message_spec spec = { .dtype = PSD_FLOAT32,
                                     .count = cases[i].size / 4 };
        struct message_table table = { 1, &spec };

        snprintf(spec.name, sizeof(spec.name), "t%u", i);
        assert_int_equal(model_add(&model, &table), PSD_OK);
        assert_int_equal(model.tensors[i].block_count, cases[i].parts);
    }
    check_model(&model);
    model_fini(&model);
}

static void the_same_batches_give_the_same_placement(void **state)
{
    static struct message_spec specs[VGG19_TENSORS];
    struct message_table all = { VGG19_TENSORS, specs };
    struct model whole;
    struct model late;

    (void)state;
    vgg19_specs(specs);
    assert_int_equal(model_init(&whole, 5, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_init(&late, 5, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_add(&whole, &all), PSD_OK);
    /* The same tensors in batches of 5, the last one twice each time. */
    for (uint32_t from = 0; from < VGG19_TENSORS; from += 4) {
        uint32_t left = (uint32_t)VGG19_TENSORS - from;
        struct message_table part = { left < 5 ? left : 5, specs + from };

        assert_int_equal(model_add(&late, &part), PSD_OK);
        check_model(&late);
    }
    assert_same_placement(&whole, &late);
    model_fini(&whole);
    model_fini(&late);
}

static void a_late_batch_moves_nothing_that_is_placed(void **state)
{
    static struct message_spec specs[VGG19_TENSORS];
    struct message_table first = { 10, specs };
    struct message_table late = { VGG19_TENSORS - 10, specs + 10 };
    struct model_block before[64];
    struct model model;
    uint32_t count;

    (void)state;
    vgg19_specs(specs);
    assert_int_equal(model_init(&model, 3, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_add(&model, &first), PSD_OK);
    count = model.block_count;
    assert_in_range(count, 1, CLAIM_COUNT(before));
    memcpy(before, model.blocks, count * sizeof(before[0]));
    assert_int_equal(model_add(&model, &late), PSD_OK);
    for (uint32_t i = 0; i < count; i++) {
        assert_int_equal(model.blocks[i].shard, before[i].shard);
        assert_int_equal(model.blocks[i].offset, before[i].offset);
        assert_int_equal(model.blocks[i].size, before[i].size);
    }
    check_model(&model);
    model_fini(&model);
}

static void names_are_found_and_others_are_not(void **state)
{
    struct model model;

    (void)state;
    assert_int_equal(model_init(&model, 2, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_find(&model, "x"), UINT32_MAX);
    assert_int_equal(model_add_builtin(&model), PSD_OK);
    assert_int_equal(model_add_builtin(&model), PSD_OK);
    assert_int_equal(model.tensor_count, 1);
    assert_int_equal(model_find(&model, MODEL_RESERVED "barrier"),
                     MODEL_BARRIER);
    for (uint32_t i = 0; i < 3000; i++) {
        struct message_spec spec = { .dtype = PSD_INT64, .count = 1 };
        struct message_table table = { 1, &spec };

        snprintf(spec.name, sizeof(spec.name), "layer%u", i);
        assert_int_equal(model_add(&model, &table), PSD_OK);
    }
    for (uint32_t i = 0; i < 3000; i++) {
        char name[32];

        snprintf(name, sizeof(name), "layer%u", i);
        assert_int_equal(model_find(&model, name), i + 1);
        snprintf(name, sizeof(name), "Layer%u", i);
        assert_int_equal(model_find(&model, name), UINT32_MAX);
    }
    assert_int_equal(model_find(&model, ""), UINT32_MAX);
    model_fini(&model);
}

static const struct message_spec good = { .name = "w",
                                          .dtype = PSD_FLOAT32,
                                          .count = 10 };

/* `spec` is refused with a sentence that has the name and `part` in it. */
static void assert_bad(struct message_spec spec, const char *part)
{
    struct message_spec batch[2] = { { .name = "first", .dtype = PSD_INT32,
                                       .count = 100000 }, spec };
    struct message_table table = { 2, batch };
    char error[300] = "";
    struct model model;

    assert_int_equal(model_check_spec(&spec, error, sizeof(error)),
                     PSD_EINVAL);
    assert_non_null(strstr(error, spec.name));
    if (strstr(error, part) == NULL) {
        fail_msg("'%s' is not in '%s'", part, error);
    }
    assert_int_equal(model_init(&model, 2, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_add(&model, &table), PSD_EINVAL);
    assert_int_equal(model.tensor_count, 0); /* all or nothing */
    assert_int_equal(model_find(&model, "first"), UINT32_MAX);
    check_model(&model);
    model_fini(&model);
}

static void bad_specs_are_refused_with_a_sentence(void **state)
{
    char error[300];
    struct message_spec spec = good;

    (void)state;
    assert_int_equal(model_check_spec(&spec, error, sizeof(error)), PSD_OK);
    spec.name[0] = '\0';
    assert_bad(spec, "name is empty");
    spec = good;
    spec.dtype = 0;
    assert_bad(spec, "dtype");
    spec.dtype = 7;
    assert_bad(spec, "dtype");
    spec = good;
    spec.count = 0;
    assert_bad(spec, "count");
    spec.count = (UINT64_C(1) << 48) + 1;
    assert_bad(spec, "count");
    spec = good;
    spec.kind = 4;
    assert_bad(spec, "kind");
    spec.kind = PSD_KIND_GATHER;
    spec.count = WIRE_DATA_MAX / 4 + 1;
    assert_bad(spec, "1 GiB");
    spec = good;
    spec.kind = PSD_KIND_STORE;
    assert_bad(spec, "optim");
    snprintf(spec.optim, sizeof(spec.optim), "adamant");
    assert_bad(spec, "optim");
    snprintf(spec.optim, sizeof(spec.optim), "sgd");
    assert_int_equal(model_check_spec(&spec, error, sizeof(error)), PSD_OK);
    spec.dtype = PSD_FLOAT64;
    assert_bad(spec, "float32");
    spec.dtype = PSD_FLOAT32;
    spec.rate = (double)NAN;
    assert_bad(spec, "finite");
    spec.rate = 0.1;
    spec.momentum = (double)INFINITY;
    assert_bad(spec, "finite");
}

static void too_many_blocks_are_refused(void **state)
{
    struct message_spec spec = good;
    struct message_table table = { 1, &spec };
    struct model model;

    (void)state;
    assert_int_equal(model_init(&model, 2, 4096), PSD_OK);
    spec.dtype = PSD_FLOAT64;
    for (unsigned shift = 36; shift <= 48; shift++) {
        spec.count = UINT64_C(1) << shift;
        assert_int_equal(model_add(&model, &table), PSD_EINVAL);
        assert_int_equal(model.tensor_count, 0);
        check_model(&model);
    }
    model_fini(&model);
}

static void one_name_with_two_specs_in_a_batch_is_refused(void **state)
{
    struct message_spec specs[3] = { good, good, good };
    struct message_table table = { 3, specs };
    struct model model;

    (void)state;
    assert_int_equal(model_init(&model, 2, BLOCK_SIZE), PSD_OK);
    snprintf(specs[0].name, sizeof(specs[0].name), "other");
    assert_int_equal(model_add(&model, &table), PSD_OK); /* w, w: the same */
    assert_int_equal(model.tensor_count, 2);
    snprintf(specs[0].name, sizeof(specs[0].name), "third");
    snprintf(specs[1].name, sizeof(specs[1].name), "x");
    snprintf(specs[2].name, sizeof(specs[2].name), "x");
    specs[2].count++;
    assert_int_equal(model_add(&model, &table), PSD_EINVAL);
    assert_int_equal(model.tensor_count, 2);
    assert_int_equal(model_find(&model, "third"), UINT32_MAX);
    check_model(&model);
    model_fini(&model);
}

static void specs_are_compared_field_by_field(void **state)
{
    struct message_spec spec = { .name = "w", .dtype = PSD_FLOAT32,
                                 .kind = PSD_KIND_STORE, .count = 9,
                                 .priority = 2, .optim = "sgd", .rate = 0.1,
                                 .momentum = 0.9 };
    struct message_table table = { 1, &spec };
    struct model model;

    (void)state;
    assert_int_equal(model_init(&model, 1, BLOCK_SIZE), PSD_OK);
    assert_int_equal(model_add(&model, &table), PSD_OK);
    assert_true(spec_equal(&spec, &spec));
    assert_true(model_matches(&model.tensors[0], &spec));
    for (unsigned field = 0; field < 8; field++) {
        struct message_spec other = spec;

        other.name[0] = field == 0 ? 'v' : 'w';
        other.dtype = field == 1 ? PSD_INT32 : PSD_FLOAT32;
        other.kind = field == 2 ? PSD_KIND_REDUCE : PSD_KIND_STORE;
        other.count += field == 3;
        other.priority -= field == 4;
        other.optim[1] = field == 5 ? 'x' : 'g';
        other.rate += field == 6 ? 1e-9 : 0;
        other.momentum = field == 7 ? 0 : 0.9;
        assert_false(spec_equal(&spec, &other));
        assert_false(model_matches(&model.tensors[0], &other));
    }
    model_fini(&model);
}

static void dtypes_have_sizes_and_names(void **state)
{
    static const struct {
        psd_dtype dtype;
        size_t size;
        const char *name;
    } dtypes[] = {
        { PSD_FLOAT32, 4, "float32" },   { PSD_FLOAT64, 8, "float64" },
        { PSD_FLOAT16, 2, "float16" },   { PSD_BFLOAT16, 2, "bfloat16" },
        { PSD_INT32, 4, "int32" },       { PSD_INT64, 8, "int64" },
        { (psd_dtype)0, 0, "none" },     { (psd_dtype)7, 0, "none" },
    };

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(dtypes); i++) {
        assert_int_equal(dtype_size(dtypes[i].dtype), dtypes[i].size);
        assert_string_equal(dtype_name(dtypes[i].dtype), dtypes[i].name);
    }
}

/* Fail every allocation of `init and two batches` in turn. */
static void out_of_memory_leaves_the_model_as_it_was(void **state)
{
    static struct message_spec specs[200];
    struct message_table first = { 50, specs };
    struct message_table second = { 150, specs + 50 };
    struct model reference;
    unsigned stopped_at[4] = { 0 };

    (void)state;
    for (uint32_t i = 0; i < 200; i++) {
        specs[i] = good;
        specs[i].count = 20000 + i;
        snprintf(specs[i].name, sizeof(specs[i].name), "t%u", i);
    }
    assert_int_equal(model_init(&reference, 3, 4096), PSD_OK);
    assert_int_equal(model_add(&reference, &first), PSD_OK);
    for (long n = 1; stopped_at[3] == 0; n++) {
        struct model model;
        psd_status status;

        mem_fail_after(n);
        status = model_init(&model, 3, 4096);
        if (status != PSD_OK) {
            stopped_at[0]++;
        } else if ((status = model_add(&model, &first)) != PSD_OK) {
            stopped_at[1]++;
            assert_int_equal(model.tensor_count, 0);
        } else if ((status = model_add(&model, &second)) != PSD_OK) {
            stopped_at[2]++;
            assert_same_placement(&model, &reference);
            check_model(&model);
        } else {
            stopped_at[3]++;
            check_model(&model);
        }
        mem_fail_after(0);
        assert_true(status == PSD_OK || status == PSD_ENOMEM);
        model_fini(&model);
    }
    assert_int_equal(stopped_at[0], 2);
    assert_true(stopped_at[1] >= 50 && stopped_at[2] >= 150);
    model_fini(&reference);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(vgg19_is_spread_evenly_over_8_servers),
        cmocka_unit_test(parts_cover_each_tensor_exactly_once),
        cmocka_unit_test(sizes_around_the_limits_are_cut_right),
        cmocka_unit_test(between_hosts_a_shard_gets_several_parts),
        cmocka_unit_test(the_same_batches_give_the_same_placement),
        cmocka_unit_test(a_late_batch_moves_nothing_that_is_placed),
        cmocka_unit_test(names_are_found_and_others_are_not),
        cmocka_unit_test(bad_specs_are_refused_with_a_sentence),
        cmocka_unit_test(too_many_blocks_are_refused),
        cmocka_unit_test(one_name_with_two_specs_in_a_batch_is_refused),
        cmocka_unit_test(specs_are_compared_field_by_field),
        cmocka_unit_test(dtypes_have_sizes_and_names),
        cmocka_unit_test(out_of_memory_leaves_the_model_as_it_was),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
