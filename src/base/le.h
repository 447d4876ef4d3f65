/*
 * le.h: integers in bytes, least significant first. Little-endian machines
 * only (asserted), so that these are plain copies.
 */
#ifndef PSD_BASE_LE_H
#define PSD_BASE_LE_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "the wire is little-endian and spans are not converted");

#define LE_DEFINE(name, type)                               \
    static inline type le_get_##name(const void *from)      \
    {                                                       \
        type value;                                         \
        memcpy(&value, from, sizeof(value));                \
        return value;                                       \
    }                                                       \
    static inline void le_put_##name(void *to, type value)  \
    {                                                       \
        memcpy(to, &value, sizeof(value));                  \
    }

LE_DEFINE(u16, uint16_t)
LE_DEFINE(u32, uint32_t)
LE_DEFINE(u64, uint64_t)
LE_DEFINE(f64, double)
#undef LE_DEFINE

#endif
