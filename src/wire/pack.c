/* pack.c: see pack.h. */
#define _GNU_SOURCE
#include "wire/pack.h"

#include "base/le.h"
#include "base/mem.h"

#define PACK_FIRST 256

void pack_init(struct pack *pack)
{
    *pack = (struct pack){ .data = NULL };
}

void pack_fini(struct pack *pack)
{
    mem_free(pack->data);
    pack_init(pack);
}

void pack_wipe(struct pack *pack)
{
    if (pack->data != NULL) {
        explicit_bzero(pack->data, pack->size);
    }
    pack_fini(pack);
}

void pack_bytes(struct pack *pack, const void *bytes, size_t size)
{
    if (pack->failed) {
        return;
    }
    if (pack->capacity - pack->size < size) {
        size_t capacity = pack->capacity == 0 ? PACK_FIRST : pack->capacity;
        void *data = pack->data;

        while (capacity - pack->size < size) {
            capacity *= 2;
        }
        if (mem_grow(&data, pack->size, capacity, 1) != PSD_OK) {
            pack->failed = true;
            return;
        }
        pack->data = data;
        pack->capacity = capacity;
    }
    if (size > 0) {
        memcpy(pack->data + pack->size, bytes, size);
        pack->size += size;
    }
}

void pack_u8(struct pack *pack, uint8_t value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u16(struct pack *pack, uint16_t value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u32(struct pack *pack, uint32_t value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_u64(struct pack *pack, uint64_t value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_f64(struct pack *pack, double value)
{
    pack_bytes(pack, &value, sizeof(value));
}

void pack_text(struct pack *pack, const char *text)
{
    size_t size = strlen(text);

    pack_u32(pack, (uint32_t)size);
    pack_bytes(pack, text, size);
}

void unpack_init(struct unpack *unpack, const void *data, size_t size)
{
    unpack->at = data;
    unpack->end = size == 0 ? unpack->at : unpack->at + size;
    unpack->failed = false;
}

const void *unpack_bytes(struct unpack *unpack, size_t size)
{
    const void *bytes = unpack->at;

    if (unpack->failed || (size_t)(unpack->end - unpack->at) < size) {
        unpack->failed = true;
        return NULL;
    }
    unpack->at += size;
    return bytes;
}

uint8_t unpack_u8(struct unpack *unpack)
{
    const uint8_t *bytes = unpack_bytes(unpack, 1);

    return bytes == NULL ? 0 : *bytes;
}

uint16_t unpack_u16(struct unpack *unpack)
{
    const void *bytes = unpack_bytes(unpack, 2);

    return bytes == NULL ? 0 : le_get_u16(bytes);
}

uint32_t unpack_u32(struct unpack *unpack)
{
    const void *bytes = unpack_bytes(unpack, 4);

    return bytes == NULL ? 0 : le_get_u32(bytes);
}

uint64_t unpack_u64(struct unpack *unpack)
{
    const void *bytes = unpack_bytes(unpack, 8);

    return bytes == NULL ? 0 : le_get_u64(bytes);
}

double unpack_f64(struct unpack *unpack)
{
    const void *bytes = unpack_bytes(unpack, 8);

    return bytes == NULL ? 0.0 : le_get_f64(bytes);
}

void unpack_text(struct unpack *unpack, char *text, size_t size)
{
    uint32_t length = unpack_u32(unpack);
    const void *bytes = unpack_bytes(unpack, length);

    text[0] = '\0';
    if (bytes == NULL) {
        return;
    }
    if (length >= size || memchr(bytes, 0, length) != NULL) {
        unpack->failed = true;
        return;
    }
    memcpy(text, bytes, length);
    text[length] = '\0';
}

bool unpack_done(const struct unpack *unpack)
{
    return !unpack->failed && unpack->at == unpack->end;
}
