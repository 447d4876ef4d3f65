/* arena.c: see arena.h. Before each block lie 64 bytes of ours. */
#include "memory/arena.h"

#include "base/log.h"

#define ARENA_MAGIC     0x414e4552u
#define CLASS_SHIFT_MIN 6 /* 64 bytes */

struct arena_block {
    uint32_t magic;
    uint32_t class;
    uint64_t next; /* while free: offset of the next free one */
    char pad[ARENA_ALIGN - 16];
};

void arena_init(struct arena *arena, void *base, size_t size)
{
    *arena = (struct arena){.base = base, .size = size, .used = ARENA_ALIGN};
    pthread_mutex_init(&arena->lock, NULL);
}

void arena_fini(struct arena *arena)
{
    pthread_mutex_destroy(&arena->lock);
}

/* Four classes per power of two: 64, 80, 96, 112, 128, 160, ..., rounded up to
 * ARENA_ALIGN. What a class holds is counted without our 64 bytes, so that a
 * tensor of a power of two is a class of its own and wastes nothing. */
static uint32_t class_of(size_t size, size_t *class_size_p)
{
    unsigned shift = CLASS_SHIFT_MIN;
    size_t quarter;
    size_t steps;

    if (size >> CLASS_SHIFT_MIN != 0) {
        shift = 63 - (unsigned)__builtin_clzll(size);
    }
    quarter = (size_t)1 << (shift - 2);
    steps = size <= (size_t)1 << shift
                ? 0
                : (size - ((size_t)1 << shift) + quarter - 1) / quarter;
    *class_size_p = ((size_t)1 << shift) + steps * quarter;
    *class_size_p =
        (*class_size_p + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN;
    return (uint32_t)((shift - CLASS_SHIFT_MIN) * 4 + steps);
}

void *arena_alloc(struct arena *arena, size_t size)
{
    return arena_alloc_below(arena, size, arena->size);
}

void *arena_alloc_below(struct arena *arena, size_t size, size_t limit)
{
    struct arena_block *block = NULL;
    size_t class_size;
    uint32_t class;

    if (size > arena->size) {
        return NULL;
    }
    class = class_of(size, &class_size);
    class_size += sizeof(*block);
    pthread_mutex_lock(&arena->lock);
    if (arena->free[class] != 0) {
        block = (void *)(arena->base + arena->free[class]);
        arena->free[class] = block->next;
    } else if (arena->used <= limit && class_size <= limit - arena->used) {
        block = (void *)(arena->base + arena->used);
        arena->used += class_size;
        block->class = class;
    }
    if (block != NULL) {
        block->magic = ARENA_MAGIC;
    }
    pthread_mutex_unlock(&arena->lock);
    return block == NULL ? NULL : block + 1;
}

void arena_free(struct arena *arena, void *pointer)
{
    struct arena_block *block = (struct arena_block *)pointer - 1;

    PSD_ASSERT(arena_contains(arena, block, sizeof(*block)));
    PSD_ASSERT(block->magic == ARENA_MAGIC && block->class < ARENA_CLASSES);
    pthread_mutex_lock(&arena->lock);
    block->magic = 0;
    block->next = arena->free[block->class];
    arena->free[block->class] = (uint64_t)((char *)block - arena->base);
    pthread_mutex_unlock(&arena->lock);
}
