/* mem.c: see mem.h. The only file that calls the C library's allocator. */
#define PSD_BANNED_ALLOWED
#define _GNU_SOURCE
#include "base/mem.h"

#include <stdatomic.h>
#include <sys/mman.h>

#include "base/log.h"

#define HUGE_FROM ((size_t)4 << 20) /* below this they would be mostly air */

static _Atomic long fail_countdown;
static _Thread_local unsigned path_depth;

static void path_check(void)
{
#ifndef NDEBUG
    PSD_ASSERT(path_depth == 0);
#endif
}

static int must_fail(void)
{
    return atomic_load_explicit(&fail_countdown, memory_order_relaxed) > 0 &&
           atomic_fetch_sub(&fail_countdown, 1) == 1;
}

void mem_fail_after(long n)
{
    atomic_store(&fail_countdown, n);
}

void mem_path_enter(void)
{
    path_depth++;
}

void mem_path_leave(void)
{
    path_depth--;
}

unsigned mem_path_pause(void)
{
    unsigned depth = path_depth;

    path_depth = 0;
    return depth;
}

void mem_path_resume(unsigned depth)
{
    path_depth = depth;
}

void *mem_zalloc(size_t size)
{
    void *pointer;

    path_check();
    pointer = must_fail() ? NULL : calloc(1, size == 0 ? 1 : size);
    if (pointer == NULL) {
        log_error("mem: no memory for %zu bytes", size);
    }
    return pointer;
}

void *mem_zalloc_array(size_t count, size_t size)
{
    size_t total;

    if (__builtin_mul_overflow(count, size, &total)) {
        log_error("mem: %zu items of %zu bytes do not fit memory", count,
                  size);
        return NULL;
    }
    return mem_zalloc(total);
}

psd_status mem_grow(void **array_p, size_t old_count, size_t count,
                    size_t size)
{
    void *array = mem_zalloc_array(count, size);

    if (array == NULL) {
        return PSD_ENOMEM;
    }
    if (*array_p != NULL && old_count > 0) {
        memcpy(array, *array_p, (old_count < count ? old_count : count) * size);
    }
    mem_free(*array_p);
    *array_p = array;
    return PSD_OK;
}

char *mem_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = mem_zalloc(size);

    if (copy != NULL) {
        memcpy(copy, text, size);
    }
    return copy;
}

void mem_free(void *pointer)
{
    free(pointer);
}

void *mem_map(size_t size)
{
    void *pointer;

    path_check();
    pointer = must_fail() ? MAP_FAILED
                          : mmap(NULL, size, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                                 -1, 0);
    if (pointer == MAP_FAILED) {
        log_error("mem: no address space for %zu bytes", size);
        return NULL;
    }
    if (size >= HUGE_FROM) {
        (void)madvise(pointer, size, MADV_HUGEPAGE); /* or it stays as it is */
    }
    return pointer;
}

void mem_unmap(void *pointer, size_t size)
{
    if (pointer != NULL) {
        munmap(pointer, size);
    }
}
