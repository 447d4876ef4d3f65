/*
 * pack.h: writing and reading the payload of a control frame. A failed writer
 * or reader stays failed, so that a message is checked once, at its end.
 */
#ifndef PSD_WIRE_PACK_H
#define PSD_WIRE_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pack {
    uint8_t *data; /* grows; pack_fini frees it */
    size_t size;
    size_t capacity;
    bool failed;
};

void pack_init(struct pack *pack);
void pack_fini(struct pack *pack);
/* pack_fini for what holds a secret. */
void pack_wipe(struct pack *pack);
void pack_bytes(struct pack *pack, const void *bytes, size_t size);
void pack_u8(struct pack *pack, uint8_t value);
void pack_u16(struct pack *pack, uint16_t value);
void pack_u32(struct pack *pack, uint32_t value);
void pack_u64(struct pack *pack, uint64_t value);
void pack_f64(struct pack *pack, double value);
/* u32 length and the bytes, without a terminator. */
void pack_text(struct pack *pack, const char *text);

struct unpack {
    const uint8_t *at;
    const uint8_t *end;
    bool failed;
};

void unpack_init(struct unpack *unpack, const void *data, size_t size);
/* Borrowed from the payload; NULL (and failed) when fewer are left. */
const void *unpack_bytes(struct unpack *unpack, size_t size);
uint8_t unpack_u8(struct unpack *unpack);
uint16_t unpack_u16(struct unpack *unpack);
uint32_t unpack_u32(struct unpack *unpack);
uint64_t unpack_u64(struct unpack *unpack);
double unpack_f64(struct unpack *unpack);
/* Copies into `text`, terminated. Fails when longer than size - 1, or when it
 * holds a NUL byte. */
void unpack_text(struct unpack *unpack, char *text, size_t size);
/* True when nothing failed and nothing is left. */
bool unpack_done(const struct unpack *unpack);

#endif
