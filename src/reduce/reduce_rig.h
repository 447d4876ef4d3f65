/*
 * reduce_rig.h: what the tests of reduce_run share: a block of four ranks
 * with data, room for the answers, and the mean as the design says it.
 */
#ifndef PSD_REDUCE_REDUCE_RIG_H
#define PSD_REDUCE_REDUCE_RIG_H

#include "base/claim.h"
#include "base/mem.h"
#include "reduce/reduce.h"

#define RANKS 4
#define COUNT 5003 /* more than a chunk of the store */

struct table {
    struct model_tensor tensor;
    struct reduce_round round;
    float data[RANKS][COUNT];
    float out[RANKS][COUNT];
    float wanted[COUNT];
};

static inline int set_up(void **state)
{
    struct table *table = mem_zalloc(sizeof(*table));

    if (table == NULL || reduce_round_init(&table->round, RANKS) != PSD_OK) {
        return -1;
    }
    table->tensor = (struct model_tensor){ .name = (char *)(uintptr_t) "w",
                                           .dtype = PSD_FLOAT32,
                                           .count = COUNT,
                                           .size = COUNT * sizeof(float) };
    table->round.tensor = &table->tensor;
    table->round.size = COUNT * sizeof(float);
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t random = claim_mix(r * 100000 + i);

            table->data[r][i] = (float)((double)(random >> 20) * 0x1p-40 - 4);
            table->out[r][i] = -77.0f;
        }
        table->round.rank[r] = (struct reduce_rank){
            .data = table->data[r], .weight = 1,
            .length = table->round.size, .op = PSD_OP_MEAN
        };
        table->round.output[r] = table->out[r];
    }
    table->round.outputs = RANKS;
    *state = table;
    return 0;
}

static inline int tear_down(void **state)
{
    struct table *table = *state;

    reduce_round_fini(&table->round);
    mem_free(table);
    return 0;
}

/* The mean as the design says it: w_r = n_r / sum(n) in double, rounded once;
 * the terms added in rank order; weight 0 skipped. */
static inline void mean_of(struct table *table)
{
    volatile double total = 0;

    for (uint32_t r = 0; r < RANKS; r++) {
        total = total + table->round.rank[r].weight;
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        volatile float sum = 0;
        bool first = true;

        for (uint32_t r = 0; r < RANKS; r++) {
            const struct reduce_rank *rank = &table->round.rank[r];
            volatile double exact = rank->weight / total;
            volatile float weight = (float)exact;
            volatile float term;

            if (rank->data == NULL || rank->weight == 0) {
                continue;
            }
            term = weight * table->data[r][i];
            sum = first ? term : sum + term;
            first = false;
        }
        table->wanted[i] = sum;
    }
}

static inline void assert_outputs(const struct table *table)
{
    for (uint32_t r = 0; r < table->round.outputs; r++) {
        assert_memory_equal(table->out[r], table->wanted,
                            sizeof(table->wanted));
    }
    assert_int_equal(table->round.length, table->round.size);
}

static inline void assert_untouched(const struct table *table)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        for (uint32_t i = 0; i < COUNT; i++) {
            assert_true(table->out[r][i] == -77.0f);
        }
    }
    assert_int_equal(table->round.length, 0);
}

static inline void store_open(struct table *table, const char *optim)
{
    table->tensor.kind = PSD_KIND_STORE;
    table->tensor.rate = 0.1;
    table->tensor.momentum = 0.9;
    snprintf(table->tensor.optim, sizeof(table->tensor.optim), "%s", optim);
    table->round.value =
        mem_zalloc(reduce_store_size(&table->tensor, table->round.size));
}

#endif
