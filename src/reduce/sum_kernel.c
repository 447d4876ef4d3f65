/*
 * sum_kernel.c: the loops of sum.h. Compiled several times with SUM_ELEMENTS
 * set to the name that this instruction set gets. A chunk is accumulated in
 * the first-level cache and then stored to every output, so that an output
 * may be one of the inputs and each byte crosses the memory bus once.
 */
#include <stdint.h>
#include <string.h>

#include "reduce/half.h"
#include "reduce/sum.h"

sum_call SUM_ELEMENTS;

#define CHUNK 1024 /* elements */

static inline float load_f32(float value)
{
    return value;
}

static inline double load_f64(double value)
{
    return value;
}

/* ---- one chunk --------------------------------------------------------- */

/* The first four inputs are taken in one pass; the rest are added one by one.
 * Both orders are the rank order: ((w0 x0 + w1 x1) + w2 x2) + ... */
#define DEFINE_MEAN(name, type, load, acc_type)                              \
    static void mean_##name(const struct sum_inputs *in, size_t from,        \
                            size_t count, acc_type *restrict acc)            \
    {                                                                        \
        const type *x0 = (const type *)in->data[0] + from;                   \
        acc_type w0 = (acc_type)in->weight[0];                               \
        unsigned next = 1;                                                   \
                                                                             \
        if (in->count >= 4) {                                                \
            const type *x1 = (const type *)in->data[1] + from;               \
            const type *x2 = (const type *)in->data[2] + from;               \
            const type *x3 = (const type *)in->data[3] + from;               \
            acc_type w1 = (acc_type)in->weight[1];                           \
            acc_type w2 = (acc_type)in->weight[2];                           \
            acc_type w3 = (acc_type)in->weight[3];                           \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = w0 * load(x0[i]) + w1 * load(x1[i]) +               \
                         w2 * load(x2[i]) + w3 * load(x3[i]);                \
            }                                                                \
            next = 4;                                                        \
        } else if (in->count >= 2) {                                         \
            const type *x1 = (const type *)in->data[1] + from;               \
            acc_type w1 = (acc_type)in->weight[1];                           \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = w0 * load(x0[i]) + w1 * load(x1[i]);                \
            }                                                                \
            next = 2;                                                        \
        } else {                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = w0 * load(x0[i]);                                   \
            }                                                                \
        }                                                                    \
        for (; next < in->count; next++) {                                   \
            const type *x = (const type *)in->data[next] + from;             \
            acc_type w = (acc_type)in->weight[next];                         \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] += w * load(x[i]);                                    \
            }                                                                \
        }                                                                    \
    }

#define DEFINE_FOLD(name, type, load, acc_type, combine)                     \
    static void name(const struct sum_inputs *in, size_t from, size_t count, \
                     acc_type *restrict acc)                                 \
    {                                                                        \
        const type *first = (const type *)in->data[0] + from;                \
                                                                             \
        for (size_t i = 0; i < count; i++) {                                 \
            acc[i] = (acc_type)load(first[i]);                               \
        }                                                                    \
        for (unsigned next = 1; next < in->count; next++) {                  \
            const type *x = (const type *)in->data[next] + from;             \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc_type a = acc[i];                                         \
                acc_type b = (acc_type)load(x[i]);                           \
                                                                             \
                acc[i] = combine;                                            \
            }                                                                \
        }                                                                    \
    }

#define PLAIN(x) (x)
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))

DEFINE_MEAN(f32, float, load_f32, float)
DEFINE_MEAN(f64, double, load_f64, double)
DEFINE_MEAN(f16, uint16_t, load_f16, float)
DEFINE_MEAN(bf16, uint16_t, load_bf16, float)
DEFINE_FOLD(sum_f32, float, PLAIN, float, a + b)
DEFINE_FOLD(sum_f64, double, PLAIN, double, a + b)
DEFINE_FOLD(sum_f16, uint16_t, load_f16, float, a + b)
DEFINE_FOLD(sum_bf16, uint16_t, load_bf16, float, a + b)
DEFINE_FOLD(max_f32, float, PLAIN, float, LARGER(a, b))
DEFINE_FOLD(max_f64, double, PLAIN, double, LARGER(a, b))
DEFINE_FOLD(max_f16, uint16_t, load_f16, float, LARGER(a, b))
DEFINE_FOLD(max_bf16, uint16_t, load_bf16, float, LARGER(a, b))
/* Unsigned, so that overflow wraps. */
DEFINE_FOLD(sum_i32, uint32_t, PLAIN, uint32_t, a + b)
DEFINE_FOLD(sum_i64, uint64_t, PLAIN, uint64_t, a + b)
DEFINE_FOLD(max_i32, int32_t, PLAIN, int32_t, b > a ? b : a)
DEFINE_FOLD(max_i64, int64_t, PLAIN, int64_t, b > a ? b : a)
DEFINE_FOLD(or_i32, uint32_t, PLAIN, uint32_t, a | b)
DEFINE_FOLD(or_i64, uint64_t, PLAIN, uint64_t, a | b)

union chunk {
    float f32[CHUNK];
    double f64[CHUNK];
    uint32_t u32[CHUNK];
    int32_t i32[CHUNK];
    uint64_t u64[CHUNK];
    int64_t i64[CHUNK];
};

/* Half types leave the chunk narrowed. */
static void narrow(union chunk *chunk, size_t count,
                   uint16_t (*store)(float value))
{
    uint16_t halves[CHUNK];

    for (size_t i = 0; i < count; i++) {
        halves[i] = store(chunk->f32[i]);
    }
    memcpy(chunk, halves, count * sizeof(halves[0]));
}

static void chunk_f16(psd_op op, const struct sum_inputs *in, size_t from,
                      size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_MEAN:
        mean_f16(in, from, count, chunk->f32);
        break;
    case PSD_OP_MAX:
        max_f16(in, from, count, chunk->f32);
        break;
    default:
        sum_f16(in, from, count, chunk->f32);
    }
    narrow(chunk, count, store_f16);
}

static void chunk_bf16(psd_op op, const struct sum_inputs *in, size_t from,
                       size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_MEAN:
        mean_bf16(in, from, count, chunk->f32);
        break;
    case PSD_OP_MAX:
        max_bf16(in, from, count, chunk->f32);
        break;
    default:
        sum_bf16(in, from, count, chunk->f32);
    }
    narrow(chunk, count, store_bf16);
}

static void chunk_float(psd_dtype dtype, psd_op op,
                        const struct sum_inputs *in, size_t from, size_t count,
                        union chunk *chunk)
{
    if (dtype == PSD_FLOAT32) {
        if (op == PSD_OP_MEAN) {
            mean_f32(in, from, count, chunk->f32);
        } else if (op == PSD_OP_MAX) {
            max_f32(in, from, count, chunk->f32);
        } else {
            sum_f32(in, from, count, chunk->f32);
        }
    } else {
        if (op == PSD_OP_MEAN) {
            mean_f64(in, from, count, chunk->f64);
        } else if (op == PSD_OP_MAX) {
            max_f64(in, from, count, chunk->f64);
        } else {
            sum_f64(in, from, count, chunk->f64);
        }
    }
}

static void chunk_int(psd_dtype dtype, psd_op op, const struct sum_inputs *in,
                      size_t from, size_t count, union chunk *chunk)
{
    if (dtype == PSD_INT32) {
        if (op == PSD_OP_OR) {
            or_i32(in, from, count, chunk->u32);
        } else if (op == PSD_OP_MAX) {
            max_i32(in, from, count, chunk->i32);
        } else {
            sum_i32(in, from, count, chunk->u32);
        }
    } else {
        if (op == PSD_OP_OR) {
            or_i64(in, from, count, chunk->u64);
        } else if (op == PSD_OP_MAX) {
            max_i64(in, from, count, chunk->i64);
        } else {
            sum_i64(in, from, count, chunk->u64);
        }
    }
}

/* Returns the size of an element. */
static size_t chunk_make(psd_dtype dtype, psd_op op,
                         const struct sum_inputs *in, size_t from,
                         size_t count, union chunk *chunk)
{
    switch (dtype) {
    case PSD_FLOAT16:
        chunk_f16(op, in, from, count, chunk);
        return 2;
    case PSD_BFLOAT16:
        chunk_bf16(op, in, from, count, chunk);
        return 2;
    case PSD_FLOAT32:
    case PSD_FLOAT64:
        chunk_float(dtype, op, in, from, count, chunk);
        return dtype == PSD_FLOAT32 ? 4 : 8;
    case PSD_INT32:
    case PSD_INT64:
        break;
    }
    chunk_int(dtype, op, in, from, count, chunk);
    return dtype == PSD_INT32 ? 4 : 8;
}

void SUM_ELEMENTS(psd_dtype dtype, psd_op op, const struct sum_inputs *inputs,
                  void *const *outputs, unsigned output_count, size_t count)
{
    for (size_t from = 0; from < count; from += CHUNK) {
        size_t now = count - from < CHUNK ? count - from : CHUNK;
        union chunk chunk;
        size_t unit = chunk_make(dtype, op, inputs, from, now, &chunk);

        for (unsigned i = 0; i < output_count; i++) {
            memcpy((char *)outputs[i] + from * unit, &chunk, now * unit);
        }
    }
}
