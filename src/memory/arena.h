/*
 * arena.h: memory that other processes of this host can see. An allocator
 * over one mapped region: size classes, each with a last-in-first-out list,
 * so that a block that was just freed (and is still in the cache) is the next
 * one given. Training asks for the same sizes again and again, so nothing is
 * ever split or joined. Any thread.
 */
#ifndef PSD_MEMORY_ARENA_H
#define PSD_MEMORY_ARENA_H

#include <pthread.h>
#include <stdbool.h>

#include "poseidon.h"

#define ARENA_ALIGN   64u
#define ARENA_CLASSES 176

struct arena {
    char *base;
    size_t size;
    size_t used;                  /* never touched beyond */
    uint64_t free[ARENA_CLASSES]; /* offset of the first, 0: none */
    pthread_mutex_t lock;
};

/* Over `size` bytes at `base` (page-aligned, zeroed); borrows them. */
void arena_init(struct arena *arena, void *base, size_t size);
void arena_fini(struct arena *arena);

/* 64-byte aligned, not cleared; NULL when the region is used up. */
void *arena_alloc(struct arena *arena, size_t size);
/* The same, but memory that was never touched is given only from the first
 * `limit` bytes of the region. */
void *arena_alloc_below(struct arena *arena, size_t size, size_t limit);
/* Came from arena_alloc of this arena. */
void arena_free(struct arena *arena, void *pointer);

static inline bool arena_contains(const struct arena *arena,
                                  const void *pointer, size_t size)
{
    size_t at = (uintptr_t)pointer - (uintptr_t)arena->base;

    return arena->base != NULL && at <= arena->size && size <= arena->size - at;
}

#endif
