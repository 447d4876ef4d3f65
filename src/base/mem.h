/*
 * mem.h: checked allocation. Memory is taken at open and register, never on
 * the path of a gradient: code between mem_path_enter and mem_path_leave
 * aborts in debug builds when it allocates. Any thread.
 */
#ifndef PSD_BASE_MEM_H
#define PSD_BASE_MEM_H

#include "poseidon.h"
#include "base/banned.h"

/* Zeroed memory; NULL, and a log line, when there is none. */
void *mem_zalloc(size_t size);
/* The same for `count` items of `size`, overflow checked. */
void *mem_zalloc_array(size_t count, size_t size);
/* Grow an array of `old_count` items to `count`; new items are zeroed. On
 * failure the old array stays as it is. */
psd_status mem_grow(void **array_p, size_t old_count, size_t count,
                    size_t size);
char *mem_strdup(const char *text);
void mem_free(void *pointer);

/* Large, lazily backed, zeroed, page-aligned memory, in huge pages where there
 * are any; NULL with a log line. */
void *mem_map(size_t size);
void mem_unmap(void *pointer, size_t size);

/* The path of a gradient, per thread; calls nest. */
void mem_path_enter(void);
void mem_path_leave(void);
/* For the transport of the tests, which copies where others do not. */
unsigned mem_path_pause(void);
void mem_path_resume(unsigned depth);

/* Tests: the n-th allocation from now fails (1 is the next); 0 turns off. */
void mem_fail_after(long n);

#endif
