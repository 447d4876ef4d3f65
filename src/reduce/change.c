/*
 * change.c: see change.h. A group of elements is read before any of it is
 * written, so that `out` may be `data` and the loops over a group become a few
 * instructions.
 */
#include "reduce/change.h"

#include "reduce/half.h"
#include "reduce/wild.h"

#define GROUP 16 /* elements */

/* ---- a group ----------------------------------------------------------- */

#define NEVER(x) 0
#define SAME(x) (x)
#define WILD_IN_F16(x) (((x) & WILD_F16) == WILD_F16)
#define WILD_IN_BF16(x) (((x) & WILD_BF16) == WILD_BF16)

/* `bits` is the type of what `wild` gives. */
#define DEFINE_CHANGE(name, type, load, store, wild, bits)                   \
    static inline void name##_sub(type *to, const type *data,                \
                                  const type *base, size_t count)            \
    {                                                                        \
        for (size_t i = 0; i < count; i++) {                                 \
            to[i] = store(load(data[i]) - load(base[i]));                    \
        }                                                                    \
    }                                                                        \
                                                                             \
    static inline void name##_make_group(const struct change *change,        \
                                         size_t from, size_t count)          \
    {                                                                        \
        type part[GROUP];                                                    \
                                                                             \
        name##_sub(part, (const type *)change->data + from,                  \
                   (const type *)change->base + from, count);                \
        memcpy((type *)change->out + from, part, count * sizeof(type));      \
    }                                                                        \
                                                                             \
    static void name##_make(const struct change *change, size_t count)       \
    {                                                                        \
        size_t from = 0;                                                     \
                                                                             \
        for (; from + GROUP <= count; from += GROUP) {                       \
            name##_make_group(change, from, GROUP);                          \
        }                                                                    \
        name##_make_group(change, from, count - from);                       \
    }                                                                        \
                                                                             \
    /* `found`: of the change and of the sum, by place in the group. */      \
    static inline void name##_add_group(const struct change *change,         \
                                        size_t from, size_t count,           \
                                        bits found[2][GROUP])                \
    {                                                                        \
        type *value = (type *)change->value + from;                          \
        const type *data = (const type *)change->data + from;                \
        type part[GROUP];                                                    \
        type sum[GROUP];                                                     \
                                                                             \
        if (change->base != NULL) {                                          \
            name##_sub(part, data, (type *)change->base + from, count);      \
        } else {                                                             \
            memcpy(part, data, count * sizeof(type));                        \
        }                                                                    \
        for (size_t i = 0; i < count; i++) {                                 \
            sum[i] = store(load(value[i]) + load(part[i]));                  \
        }                                                                    \
        for (size_t i = 0; i < count; i++) {                                 \
            found[0][i] |= wild(part[i]);                                    \
        }                                                                    \
        for (size_t i = 0; i < count; i++) {                                 \
            found[1][i] |= wild(sum[i]);                                     \
        }                                                                    \
        memcpy(value, sum, count * sizeof(type));                            \
        memcpy((type *)change->out + from, sum, count * sizeof(type));       \
        if (change->base != NULL) {                                          \
            memcpy((type *)change->base + from, sum, count * sizeof(type));  \
        }                                                                    \
    }                                                                        \
                                                                             \
    static enum change_found name##_add(const struct change *change,         \
                                        size_t count)                        \
    {                                                                        \
        bits found[2][GROUP] = { { 0 }, { 0 } };                             \
        size_t from = 0;                                                     \
                                                                             \
        for (; from + GROUP <= count; from += GROUP) {                       \
            name##_add_group(change, from, GROUP, found);                    \
        }                                                                    \
        name##_add_group(change, from, count - from, found);                 \
        for (size_t i = 1; i < GROUP; i++) {                                 \
            found[0][0] |= found[0][i];                                      \
            found[1][0] |= found[1][i];                                      \
        }                                                                    \
        return found[0][0] != 0   ? CHANGE_WILD                              \
               : found[1][0] != 0 ? CHANGE_TOO_FAR                           \
                                  : CHANGE_FINE;                             \
    }

DEFINE_CHANGE(f32, float, SAME, SAME, wild_f32, uint32_t)
DEFINE_CHANGE(f64, double, SAME, SAME, wild_f64, uint64_t)
DEFINE_CHANGE(f16, uint16_t, load_f16, store_f16, WILD_IN_F16, uint16_t)
DEFINE_CHANGE(bf16, uint16_t, load_bf16, store_bf16, WILD_IN_BF16, uint16_t)
DEFINE_CHANGE(i32, uint32_t, SAME, SAME, NEVER, uint32_t)
DEFINE_CHANGE(i64, uint64_t, SAME, SAME, NEVER, uint64_t)

/* ---- all types --------------------------------------------------------- */

static const struct {
    void (*make)(const struct change *change, size_t count);
    enum change_found (*add)(const struct change *change, size_t count);
} rows[] = {
    [PSD_FLOAT32] = { f32_make, f32_add },
    [PSD_FLOAT64] = { f64_make, f64_add },
    [PSD_FLOAT16] = { f16_make, f16_add },
    [PSD_BFLOAT16] = { bf16_make, bf16_add },
    [PSD_INT32] = { i32_make, i32_add },
    [PSD_INT64] = { i64_make, i64_add },
};

void change_make(psd_dtype dtype, const struct change *change, size_t count)
{
    rows[dtype].make(change, count);
}

enum change_found change_add(psd_dtype dtype, const struct change *change,
                             size_t count)
{
    return rows[dtype].add(change, count);
}
