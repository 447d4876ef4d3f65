/*
 * passes_sparse.c: gradients that are sparse: of several types and index
 * dimensions, of more rows as time goes on, in turns with dense ones. See
 * passes.c.
 */
#define _GNU_SOURCE
#include <string.h>

#include "passes.h"

#define WIDTH    5
#define SPARSE   5 /* slots: float32, float16, bfloat16, float64, and a dense */
#define TURNS    4 /* the slot that is dense in some passes, sparse in others */
#define ROWS_MAX 400

static double rows_samples(uint32_t r, uint32_t pass)
{
    return pass % 2 == 0 ? 1.0 : (double)((r + pass) % 3);
}

static int turns_sparse(uint32_t pass)
{
    return pass % 5 == 2;
}

/* Entries of rank r; UINT32_MAX: it does not use the slot. */
static uint32_t rows_of(uint32_t r, uint32_t pass, uint32_t slot)
{
    uint32_t mix = r * 13 + pass * 29 + slot * 7;

    return mix % 5 == 0 && size > 1 ? UINT32_MAX
                                    : mix % (pass < 4 ? 40 : ROWS_MAX);
}

static const psd_dtype dtypes[SPARSE] = {PSD_FLOAT32, PSD_FLOAT16, PSD_BFLOAT16,
                                         PSD_FLOAT64, PSD_FLOAT32};

/* One value as its bits; those of the half types are a 1. */
static void value_put(void *to, uint32_t slot, uint32_t r, uint32_t pass,
                      size_t i, float weight)
{
    static const uint16_t ones[2][3] = {{0x3c00, 0x3800, 0x3400},
                                        {0x3f80, 0x3f00, 0x3e80}};
    float v = value(r, pass, slot, i);

    if (dtypes[slot] == PSD_FLOAT32) {
        v = weight * v;
        memcpy((float *)to + i, &v, sizeof(v));
    } else if (dtypes[slot] == PSD_FLOAT64) {
        double total = 0;
        double d;

        for (uint32_t k = 0; k < size; k++) {
            total += rows_samples(k, pass);
        }
        d = weight == 1.0f ? (double)v
                           : rows_samples(r, pass) / total * (double)v;
        memcpy((double *)to + i, &d, sizeof(d));
    } else {
        unsigned halved = weight == 1.0f ? 0 : weight == 0.5f ? 1 : 2;

        memcpy((uint16_t *)to + i, &ones[slot == 2][halved], 2);
    }
}

static void sparse_check(uint32_t pass, uint32_t slot, psd_op op)
{
    static const size_t unit[] = {0, 4, 8, 2, 2};
    size_t bytes = unit[dtypes[slot]];
    uint32_t dims = slot == 3 ? 2 : 1;
    const int64_t *indices = NULL;
    const void *values = NULL;
    uint64_t nnz = 0;
    uint64_t at = 0;
    double total = 0;
    char *wanted = malloc(ROWS_MAX * WIDTH * sizeof(double));
    int half = dtypes[slot] == PSD_FLOAT16 || dtypes[slot] == PSD_BFLOAT16;

    CHECK(wanted != NULL);
    CHECK(psd_step_sparse_result(step, slot, &indices, &values, &nnz) ==
          PSD_OK);
    for (uint32_t r = 0; r < size; r++) {
        total += rows_samples(r, pass);
    }
    for (uint32_t r = 0; r < size; r++) {
        uint32_t rows = rows_of(r, pass, slot);
        double n = rows_samples(r, pass);
        float weight = op == PSD_OP_SUM ? 1.0f : (float)(n / total);

        if (rows == UINT32_MAX || n == 0) {
            continue;
        }
        for (size_t i = 0; i < rows * WIDTH; i++) {
            value_put(wanted, slot, r, pass, i, weight);
        }
        CHECK(at + rows <= nnz);
        CHECK((half && (pass % 2 != 0 || size == 3)) ||
              memcmp((const char *)values + at * WIDTH * bytes, wanted,
                     rows * WIDTH * bytes) == 0);
        for (uint32_t i = 0; i < rows; i++) {
            for (uint32_t d = 0; d < dims; d++) {
                CHECK(indices[d * nnz + at + i] ==
                      (int64_t)(r * 1000 + i + d * 50000));
            }
        }
        at += rows;
    }
    CHECK(at == nnz);
    free(wanted);
}

static char values[SPARSE][ROWS_MAX * WIDTH * sizeof(double)];
static int64_t indices[SPARSE][2 * ROWS_MAX];
static float dense_data[64];

static void sparse_push(uint32_t pass, uint32_t slot)
{
    uint32_t rows = rows_of(rank, pass, slot);
    uint32_t dims = slot == 3 ? 2 : 1;

    if (slot == TURNS && !turns_sparse(pass)) {
        for (uint32_t i = 0; i < 64; i++) {
            dense_data[i] = 1;
        }
        CHECK(psd_step_push(step, slot, dense_data) == PSD_OK);
        return;
    }
    if (rows == UINT32_MAX) {
        return;
    }
    for (size_t i = 0; i < rows * WIDTH; i++) {
        value_put(values[slot], slot, rank, pass, i, 1);
    }
    for (uint32_t i = 0; i < rows; i++) {
        for (uint32_t d = 0; d < dims; d++) {
            indices[slot][d * rows + i] = rank * 1000 + i + d * 50000;
        }
    }
    CHECK(psd_step_push_sparse(step, slot, indices[slot], rows, dims,
                               values[slot], WIDTH) == PSD_OK);
    CHECK(psd_step_push(step, slot, values[slot]) == PSD_EINVAL);
}

static void sparse_finish(uint32_t pass)
{
    uint32_t missing[SLOTS];
    psd_status status;

    do {
        uint32_t count = psd_step_missing(step, missing);

        for (uint32_t i = 0; i < count; i++) {
            CHECK(missing[i] == TURNS && turns_sparse(pass));
            CHECK(psd_step_room(step, TURNS, dense_data) == PSD_OK);
        }
        status = psd_step_finish(step, 0, NULL);
    } while (status == PSD_AGAIN);
    CHECK(status == PSD_OK);
}

void sparse(void)
{
    struct psd_slot slots[SPARSE];
    static const char *const names[SPARSE] = {"f32", "f16", "bf16", "f64",
                                              "turns"};
    uint32_t first;

    for (uint32_t s = 0; s < SPARSE; s++) {
        slots[s] = (struct psd_slot){.name = names[s],
                                     .dtype = dtypes[s],
                                     .count = s == TURNS ? 64 : 10000};
    }
    CHECK(psd_step_add(step, slots, SPARSE, &first) == PSD_OK);
    for (uint32_t pass = 0; pass < 12; pass++) {
        psd_op op = pass % 4 == 3 ? PSD_OP_SUM : PSD_OP_MEAN;

        CHECK(psd_step_begin(step, rows_samples(rank, pass), op) == PSD_OK);
        for (uint32_t s = 0; s < SPARSE; s++) {
            sparse_push(pass, s);
        }
        sparse_finish(pass);
        for (uint32_t s = 0; s < SPARSE; s++) {
            int any = 0;

            for (uint32_t r = 0; r < size; r++) {
                any = any || rows_of(r, pass, s) != UINT32_MAX;
            }
            if (s == TURNS && !turns_sparse(pass)) {
                CHECK(psd_step_outcome(step, s) == PSD_STEP_DENSE);
                continue;
            }
            CHECK(psd_step_outcome(step, s) ==
                  (any ? PSD_STEP_SPARSE : PSD_STEP_NOBODY));
            if (any) {
                sparse_check(pass, s, op);
            }
        }
    }
}

/* Sparse on one worker, dense on the others. */
void mixed(void)
{
    float x[8] = {0};
    int64_t row = 0;
    struct psd_slot slot = {.name = "table", .dtype = PSD_FLOAT32, .count = 8};
    uint32_t first;

    CHECK(psd_step_add(step, &slot, 1, &first) == PSD_OK);
    for (uint32_t pass = 0; pass < 2; pass++) {
        psd_status status;

        CHECK(psd_step_begin(step, 1, PSD_OP_MEAN) == PSD_OK);
        CHECK((rank == 0 && pass == 1
                   ? psd_step_push_sparse(step, 0, &row, 1, 1, x, 4)
                   : psd_step_push(step, 0, x)) == PSD_OK);
        status = psd_step_finish(step, 0, NULL);
        CHECK(pass == 1 ? status < 0 : status == PSD_OK);
    }
    CHECK(strstr(psd_error(session), "table") != NULL);
    exit(3);
}
