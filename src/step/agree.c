/* agree.c: see agree.h. */
#include "step/agree.h"

#define FRONT 2 /* words before the bitmaps */

uint32_t agree_capacity(uint32_t slots)
{
    uint32_t capacity = AGREE_SLOTS_MIN;

    while (capacity < slots) {
        capacity *= 2;
    }
    return capacity;
}

uint32_t agree_words(uint32_t capacity)
{
    return FRONT + 2 * (capacity / 64);
}

static uint32_t map_at(uint32_t capacity, enum agree_map map)
{
    return FRONT + (map == AGREE_SPARSE ? capacity / 64 : 0);
}

void agree_mark(uint64_t *header, uint32_t capacity, enum agree_map map,
                uint32_t slot)
{
    header[map_at(capacity, map) + slot / 64] |= UINT64_C(1) << slot % 64;
}

bool agree_marked(const uint64_t *header, uint32_t capacity, enum agree_map map,
                  uint32_t slot)
{
    return slot < capacity &&
           (header[map_at(capacity, map) + slot / 64] >> slot % 64 & 1) != 0;
}

/* The first bit at or after `from`. */
static uint32_t first_bit(const uint64_t *a, const uint64_t *b,
                          uint32_t capacity, uint32_t from)
{
    for (uint32_t w = from / 64; w < capacity / 64; w++) {
        uint64_t word = a[w] & b[w];

        if (w == from / 64) {
            word &= UINT64_MAX << from % 64;
        }
        if (word != 0) {
            return w * 64 + (uint32_t)__builtin_ctzll(word);
        }
    }
    return UINT32_MAX;
}

uint32_t agree_next(const uint64_t *header, uint32_t capacity,
                    enum agree_map map, uint32_t from)
{
    const uint64_t *words = header + map_at(capacity, map);

    return first_bit(words, words, capacity, from);
}

uint32_t agree_conflict(const uint64_t *header, uint32_t capacity)
{
    return first_bit(header + map_at(capacity, AGREE_DENSE),
                     header + map_at(capacity, AGREE_SPARSE), capacity, 0);
}

void agree_learn(const uint64_t *header, uint32_t capacity, uint64_t pass,
                 uint64_t *used, uint32_t count)
{
    uint32_t slot = 0;

    while ((slot = agree_next(header, capacity, AGREE_DENSE, slot)) < count) {
        used[slot++] = pass;
    }
    slot = 0;
    while ((slot = agree_next(header, capacity, AGREE_SPARSE, slot)) < count) {
        used[slot++] = 0;
    }
}
