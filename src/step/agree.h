/*
 * agree.h: what the workers know about a pass together: the header that every
 * worker sends and all get back as one (op OR), and the agreed set that
 * follows from the answers alone. Pure; no I/O, no thread.
 *
 * A header for `capacity` slots: flags, notice, then two bitmaps of slots,
 * used densely and used sparsely.
 */
#ifndef PSD_STEP_AGREE_H
#define PSD_STEP_AGREE_H

#include <stdbool.h>
#include <stdint.h>

#include "poseidon_step.h"

#define AGREE_SLOTS_MIN  1024 /* capacity of the smallest header */
#define AGREE_NOTICE_NEW 1u   /* I have announced what is not registered */

/* Powers of two. */
uint32_t agree_capacity(uint32_t slots);
uint32_t agree_words(uint32_t capacity);

enum agree_map { AGREE_DENSE, AGREE_SPARSE };

void agree_mark(uint64_t *header, uint32_t capacity, enum agree_map map,
                uint32_t slot);
bool agree_marked(const uint64_t *header, uint32_t capacity, enum agree_map map,
                  uint32_t slot);
/* The first slot at or after `from` that is marked; UINT32_MAX: none. */
uint32_t agree_next(const uint64_t *header, uint32_t capacity,
                    enum agree_map map, uint32_t from);
/* A slot that is dense on one worker and sparse on another; UINT32_MAX:
 * none. */
uint32_t agree_conflict(const uint64_t *header, uint32_t capacity);

static inline uint64_t agree_flags(const uint64_t *header)
{
    return header[0];
}
static inline uint64_t agree_notice(const uint64_t *header)
{
    return header[1];
}

/* The agreed set. used[slot]: number of the last pass in which somebody used
 * it densely, passes counted from 1; 0: never, or sparsely since. */
static inline bool agree_has(uint64_t used, uint64_t pass)
{
    return used != 0 && pass - used <= PSD_STEP_MEMORY;
}
/* Take the answer of pass `pass` into `used`, of `count` slots. */
void agree_learn(const uint64_t *header, uint32_t capacity, uint64_t pass,
                 uint64_t *used, uint32_t count);

#endif
