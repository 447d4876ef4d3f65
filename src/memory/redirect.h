/*
 * redirect.h: another library's large blocks in our arena. A framework takes
 * the memory of its tensors with posix_memalign and gives it back with free;
 * while redirection is on, blocks of REDIRECT_MIN bytes or more that the named
 * library takes lie in the arena, where other workers can read and write them.
 *
 * Only the slots of that one library are changed (memory/slot.h). A block goes
 * back to where it came from whenever it is freed: its address tells. When the
 * arena has no room, or its limit is reached, the allocator that was there
 * before answers. In a forked child nothing is taken from the arena, and
 * giving back a block that it inherited does nothing: the memory is shared
 * with its parent.
 *
 * One arena at a time. Install, remove and release are for one thread at a
 * time; the rest is for any.
 */
#ifndef PSD_MEMORY_REDIRECT_H
#define PSD_MEMORY_REDIRECT_H

#include "memory/arena.h"

#define REDIRECT_MIN (64u << 10)

/* Blocks are taken from the first `limit` bytes of the arena only. PSD_ENOSUP:
 * `why` has the sentence, nothing is changed. A library that is directed
 * already stays so. */
psd_status redirect_install(struct arena *arena, size_t limit,
                            const char *library, char *why, size_t why_size);

/* Calls nest; an arena that is not installed is left alone. */
void redirect_on(struct arena *arena);
void redirect_off(struct arena *arena);

/* No more blocks of this arena. Those that are out stay where they are. */
void redirect_remove(struct arena *arena);

/* The owner is done with the arena. True: it was never installed, the owner
 * frees it. False: takes it (from mem_zalloc, its memory mapped) and frees it
 * with the last block that is out. Removes. */
bool redirect_release(struct arena *arena);

/* Blocks that are out. */
uint64_t redirect_held(const struct arena *arena);

#endif
