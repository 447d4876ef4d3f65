/*
 * sum_kernel.c: the loops of sum.h. Compiled several times with SUM_ELEMENTS
 * set to the name that this instruction set gets. A chunk is accumulated in
 * the first-level cache and then stored to every output, so that an output
 * may be one of the inputs and each byte crosses the memory bus once. Between
 * the two it is looked at whether it is finite, and whose input is to blame.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "reduce/half.h"
#include "reduce/sum.h"
#include "reduce/wild.h"

sum_call SUM_ELEMENTS;

#define CHUNK 1024 /* elements */

/* ---- one chunk --------------------------------------------------------- */

/* A sum is made of terms, w x in a MEAN and x in a SUM. The first four inputs
 * are taken in one pass; the rest are added one by one. Both orders are the
 * rank order: ((t0 + t1) + t2) + ... What is not finite stays so, whatever is
 * added: every pass may tell. Returns whether something is. */
#define DEFINE_SUM(name, type, weight, term, acc_type, wild, wild_type)      \
    static bool name(const struct sum_inputs *in, size_t from, size_t count, \
                     acc_type *restrict acc)                                 \
    {                                                                        \
        const type *x0 = (const type *)in->data[0] + from;                   \
        acc_type w0 = (acc_type)weight(in, 0);                               \
        wild_type any = 0;                                                   \
        unsigned next = 1;                                                   \
                                                                             \
        if (in->count >= 4) {                                                \
            const type *x1 = (const type *)in->data[1] + from;               \
            const type *x2 = (const type *)in->data[2] + from;               \
            const type *x3 = (const type *)in->data[3] + from;               \
            acc_type w1 = (acc_type)weight(in, 1);                           \
            acc_type w2 = (acc_type)weight(in, 2);                           \
            acc_type w3 = (acc_type)weight(in, 3);                           \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = term(w0, x0[i]) + term(w1, x1[i]) +                 \
                         term(w2, x2[i]) + term(w3, x3[i]);                  \
                any |= wild(acc[i]);                                         \
            }                                                                \
            next = 4;                                                        \
        } else if (in->count == 3) {                                         \
            const type *x1 = (const type *)in->data[1] + from;               \
            const type *x2 = (const type *)in->data[2] + from;               \
            acc_type w1 = (acc_type)weight(in, 1);                           \
            acc_type w2 = (acc_type)weight(in, 2);                           \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = term(w0, x0[i]) + term(w1, x1[i]) +                 \
                         term(w2, x2[i]);                                    \
                any |= wild(acc[i]);                                         \
            }                                                                \
            next = 3;                                                        \
        } else if (in->count == 2) {                                         \
            const type *x1 = (const type *)in->data[1] + from;               \
            acc_type w1 = (acc_type)weight(in, 1);                           \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = term(w0, x0[i]) + term(w1, x1[i]);                  \
                any |= wild(acc[i]);                                         \
            }                                                                \
            next = 2;                                                        \
        } else {                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] = term(w0, x0[i]);                                    \
                any |= wild(acc[i]);                                         \
            }                                                                \
        }                                                                    \
        for (; next < in->count; next++) {                                   \
            const type *x = (const type *)in->data[next] + from;             \
            acc_type w = (acc_type)weight(in, next);                         \
                                                                             \
            for (size_t i = 0; i < count; i++) {                             \
                acc[i] += term(w, x[i]);                                     \
                any |= wild(acc[i]);                                         \
            }                                                                \
        }                                                                    \
        return any != 0;                                                     \
    }

#define DEFINE_FOLD(name, type, load, acc_type, combine)                     \
    static bool name(const struct sum_inputs *in, size_t from, size_t count, \
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
        return false;                                                        \
    }

#define PLAIN(x) (x)
#define SHARE(in, i) (in)->weight[i]
#define ONE(in, i) 1
#define PLAIN_TERM(w, x) ((void)(w), (x))
#define WEIGHTED(w, x) ((w) * (x))
#define F16_TERM(w, x) ((void)(w), load_f16(x))
#define F16_WEIGHTED(w, x) ((w) * load_f16(x))
#define BF16_TERM(w, x) ((void)(w), load_bf16(x))
#define BF16_WEIGHTED(w, x) ((w) * load_bf16(x))
#define LARGER(a, b) ((b) > (a) || (b) != (b) ? (b) : (a))
#define LATER(x) 0u /* is looked at when it is narrowed */

DEFINE_SUM(mean_f32, float, SHARE, WEIGHTED, float, wild_f32, uint32_t)
DEFINE_SUM(mean_f64, double, SHARE, WEIGHTED, double, wild_f64, uint64_t)
DEFINE_SUM(mean_f16, uint16_t, SHARE, F16_WEIGHTED, float, LATER, uint32_t)
DEFINE_SUM(mean_bf16, uint16_t, SHARE, BF16_WEIGHTED, float, LATER, uint32_t)
DEFINE_SUM(sum_f32, float, ONE, PLAIN_TERM, float, wild_f32, uint32_t)
DEFINE_SUM(sum_f64, double, ONE, PLAIN_TERM, double, wild_f64, uint64_t)
DEFINE_SUM(sum_f16, uint16_t, ONE, F16_TERM, float, LATER, uint32_t)
DEFINE_SUM(sum_bf16, uint16_t, ONE, BF16_TERM, float, LATER, uint32_t)
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

/* The largest without its sign; signed, for which there is an instruction
 * everywhere. */
static inline int16_t largest_half(const uint16_t *halves, size_t count)
{
    int16_t top = 0;

    for (size_t i = 0; i < count; i++) {
        int16_t rest = (int16_t)(halves[i] & 0x7fffu);

        top = rest > top ? rest : top;
    }
    return top;
}

/* Half types leave the chunk narrowed: that is where they may overflow. */
static inline bool narrow(union chunk *chunk, size_t count,
                          uint16_t (*store)(float value), int wild)
{
    uint16_t halves[CHUNK];

    for (size_t i = 0; i < count; i++) {
        halves[i] = store(chunk->f32[i]);
    }
    memcpy(chunk, halves, count * sizeof(halves[0]));
    return largest_half(halves, count) >= wild;
}

static bool chunk_f16(psd_op op, const struct sum_inputs *in, size_t from,
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
    return narrow(chunk, count, store_f16, WILD_F16) && op != PSD_OP_MAX;
}

static bool chunk_bf16(psd_op op, const struct sum_inputs *in, size_t from,
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
    return narrow(chunk, count, store_bf16, WILD_BF16) && op != PSD_OP_MAX;
}

static bool chunk_f32(psd_op op, const struct sum_inputs *in, size_t from,
                      size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_MEAN:
        return mean_f32(in, from, count, chunk->f32);
    case PSD_OP_MAX:
        return max_f32(in, from, count, chunk->f32);
    default:
        return sum_f32(in, from, count, chunk->f32);
    }
}

static bool chunk_f64(psd_op op, const struct sum_inputs *in, size_t from,
                      size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_MEAN:
        return mean_f64(in, from, count, chunk->f64);
    case PSD_OP_MAX:
        return max_f64(in, from, count, chunk->f64);
    default:
        return sum_f64(in, from, count, chunk->f64);
    }
}

static bool chunk_i32(psd_op op, const struct sum_inputs *in, size_t from,
                      size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_OR:
        return or_i32(in, from, count, chunk->u32);
    case PSD_OP_MAX:
        return max_i32(in, from, count, chunk->i32);
    default:
        return sum_i32(in, from, count, chunk->u32);
    }
}

static bool chunk_i64(psd_op op, const struct sum_inputs *in, size_t from,
                      size_t count, union chunk *chunk)
{
    switch (op) {
    case PSD_OP_OR:
        return or_i64(in, from, count, chunk->u64);
    case PSD_OP_MAX:
        return max_i64(in, from, count, chunk->i64);
    default:
        return sum_i64(in, from, count, chunk->u64);
    }
}

static bool chunk_make(psd_dtype dtype, psd_op op,
                       const struct sum_inputs *in, size_t from, size_t count,
                       union chunk *chunk)
{
    switch (dtype) {
    case PSD_FLOAT16:
        return chunk_f16(op, in, from, count, chunk);
    case PSD_BFLOAT16:
        return chunk_bf16(op, in, from, count, chunk);
    case PSD_FLOAT32:
        return chunk_f32(op, in, from, count, chunk);
    case PSD_FLOAT64:
        return chunk_f64(op, in, from, count, chunk);
    case PSD_INT32:
        return chunk_i32(op, in, from, count, chunk);
    case PSD_INT64:
        break;
    }
    return chunk_i64(op, in, from, count, chunk);
}

/* ---- whose? ------------------------------------------------------------ */

static bool is_wild(psd_dtype dtype, const void *data, size_t from,
                    size_t count)
{
    uint64_t any = 0;

    switch (dtype) {
    case PSD_FLOAT16:
        return largest_half((const uint16_t *)data + from, count) >= WILD_F16;
    case PSD_BFLOAT16:
        return largest_half((const uint16_t *)data + from, count) >=
               WILD_BF16;
    case PSD_FLOAT32:
        for (size_t i = from; i < from + count; i++) {
            any |= wild_f32(((const float *)data)[i]);
        }
        return any != 0;
    case PSD_FLOAT64:
        for (size_t i = from; i < from + count; i++) {
            any |= wild_f64(((const double *)data)[i]);
        }
        return any != 0;
    case PSD_INT32:
    case PSD_INT64:
        break;
    }
    return false;
}

/* The sum of a chunk is not finite: which input is the first that is not? Only
 * those before the one that is known, `bad`, are of interest. */
static unsigned blame(psd_dtype dtype, const struct sum_inputs *in,
                      size_t from, size_t count, unsigned bad)
{
    unsigned known = bad == 0 ? in->count + 1 : bad;

    for (unsigned i = 0; i + 1 < known; i++) {
        if (is_wild(dtype, in->data[i], from, count)) {
            return i + 1;
        }
    }
    return known;
}

static size_t unit_of(psd_dtype dtype)
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
        break;
    }
    return 8;
}

unsigned SUM_ELEMENTS(psd_dtype dtype, psd_op op,
                      const struct sum_inputs *inputs, void *const *outputs,
                      unsigned output_count, size_t count)
{
    size_t unit = unit_of(dtype);
    unsigned bad = 0;

    for (size_t from = 0; from < count; from += CHUNK) {
        size_t now = count - from < CHUNK ? count - from : CHUNK;
        union chunk chunk;

        if (chunk_make(dtype, op, inputs, from, now, &chunk)) {
            bad = blame(dtype, inputs, from, now, bad);
        }
        for (unsigned i = 0; i < output_count; i++) {
            memcpy((char *)outputs[i] + from * unit, &chunk, now * unit);
        }
    }
    return bad;
}
