/*
 * redirect.c: see redirect.h. The state is the process's, because the slots
 * of a library are. What a hook reads is never freed: arenas stand in a table
 * whose rows are used again, and a row is out of use only when no block of its
 * arena is out and nobody is about to take one.
 */
#define _GNU_SOURCE
#include "memory/redirect.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "memory/slot.h"

#define AREAS_MAX 8 /* arenas of which blocks are out, at one time */

/* Where a row stands, and how many blocks are out, in one word: so that an
 * arena ends in the very moment in which nothing is out. */
#define AREA_FREE (UINT64_C(0) << 62) /* the row is */
#define AREA_USED (UINT64_C(1) << 62)
#define AREA_RELEASED                                                          \
    (UINT64_C(2) << 62) /* its owner has left; it is freed
                                           * with the last block */
#define AREA_ENDING (UINT64_C(3) << 62)
#define AREA_NEXT   (UINT64_C(1) << 62) /* added: from each to the next */
#define AREA_HELD   (AREA_NEXT - 1)

struct area {
    _Atomic(char *) base;
    _Atomic size_t size;
    struct arena *arena;
    size_t limit;
    _Atomic uint64_t state;   /* AREA_... and blocks that are out, or about to
                             * be taken */
    _Atomic int on;           /* calls of redirect_on that are open */
    _Atomic uint64_t taken;   /* so far */
    _Atomic uint64_t refused; /* for want of room */
    _Atomic bool foreign;     /* the parent's: this is a forked child */
};

static struct {
    struct area area[AREAS_MAX];
    _Atomic unsigned areas;        /* rows that were ever used */
    _Atomic(struct area *) active; /* where new blocks come from */
    int (*memalign)(void **pointer_p, size_t align, size_t size);
    void (*free)(void *pointer);
    bool prepared;
} redirect;

/* ---- the hooks --------------------------------------------------------- */

static struct area *area_of(const void *pointer)
{
    unsigned areas =
        atomic_load_explicit(&redirect.areas, memory_order_acquire);

    for (unsigned i = 0; i < areas; i++) {
        struct area *area = &redirect.area[i];
        char *base = atomic_load(&area->base);
        size_t size = atomic_load(&area->size);

        /* Looked at twice: the row may just get another arena. */
        if ((uintptr_t)pointer - (uintptr_t)base < size &&
            atomic_load(&area->base) == base) {
            return area;
        }
    }
    return NULL;
}

/* One block less. If the owner has left and nothing is out, nobody can come
 * here any more. */
static void area_drop(struct area *area)
{
    uint64_t released = AREA_RELEASED;

    if (atomic_fetch_sub(&area->state, 1) != AREA_RELEASED + 1 ||
        !atomic_compare_exchange_strong(&area->state, &released, AREA_ENDING)) {
        return;
    }
    atomic_store(&area->size, 0);
    mem_unmap(area->arena->base, area->arena->size);
    arena_fini(area->arena);
    mem_free(area->arena);
    atomic_fetch_add(&area->state, AREA_NEXT); /* round to AREA_FREE */
}

static void *take(size_t size)
{
    struct area *area = atomic_load(&redirect.active);
    void *pointer = NULL;

    if (area == NULL ||
        atomic_load_explicit(&area->on, memory_order_relaxed) == 0) {
        return NULL;
    }
    atomic_fetch_add(&area->state, 1);
    if (atomic_load(&redirect.active) == area) {
        pointer = arena_alloc_below(area->arena, size, area->limit);
        atomic_fetch_add_explicit(pointer != NULL ? &area->taken
                                                  : &area->refused,
                                  1, memory_order_relaxed);
    }
    if (pointer == NULL) {
        area_drop(area);
    }
    return pointer;
}

static int hook_memalign(void **pointer_p, size_t align, size_t size)
{
    if (size >= REDIRECT_MIN && align <= ARENA_ALIGN) {
        void *pointer = take(size);

        if (pointer != NULL) {
            *pointer_p = pointer;
            return 0;
        }
    }
    return redirect.memalign(pointer_p, align, size);
}

static void hook_free(void *pointer)
{
    struct area *area = pointer == NULL ? NULL : area_of(pointer);

    if (area == NULL) {
        redirect.free(pointer);
    } else if (!atomic_load_explicit(&area->foreign, memory_order_relaxed)) {
        arena_free(area->arena, pointer);
        area_drop(area);
    }
}

static void in_forked_child(void)
{
    atomic_store(&redirect.active, NULL);
    for (unsigned i = 0; i < AREAS_MAX; i++) {
        atomic_store(&redirect.area[i].foreign, true);
    }
}

/* ---- installing -------------------------------------------------------- */

/* Slots lead here until the process ends, so this library has to stay. */
static psd_status prepare(char *why, size_t why_size)
{
    Dl_info info;

    if (redirect.prepared) {
        return PSD_OK;
    }
    if (dladdr((void *)(uintptr_t)hook_free, &info) == 0 ||
        pthread_atfork(NULL, NULL, in_forked_child) != 0) {
        snprintf(why, why_size, "redirection: the loader does not answer");
        return PSD_ENOSUP;
    }
    /* The program itself, which stays anyhow, has no name to open. */
    (void)dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_NODELETE);
    redirect.prepared = true;
    return PSD_OK;
}

static psd_status hook(const char *library, char *why, size_t why_size)
{
    struct slot_list take_slots;
    struct slot_list give_slots;
    void *take_hook = (void *)(uintptr_t)hook_memalign;
    void *give_hook = (void *)(uintptr_t)hook_free;
    psd_status status;

    status = slot_find(library, "posix_memalign", &take_slots, why, why_size);
    if (status == PSD_OK) {
        status = slot_find(library, "free", &give_slots, why, why_size);
    }
    if (status != PSD_OK || take_slots.previous == take_hook) {
        return status;
    }
    if (redirect.free != NULL &&
        ((void *)(uintptr_t)redirect.free != give_slots.previous ||
         (void *)(uintptr_t)redirect.memalign != take_slots.previous)) {
        snprintf(why, why_size,
                 "%s: it uses another allocator than the library before",
                 library);
        return PSD_ENOSUP;
    }
    redirect.memalign =
        (int (*)(void **, size_t, size_t))(uintptr_t)take_slots.previous;
    redirect.free = (void (*)(void *))(uintptr_t)give_slots.previous;
    /* First the way back. */
    status = slot_set(&give_slots, give_hook);
    if (status == PSD_OK) {
        status = slot_set(&take_slots, take_hook);
    }
    if (status != PSD_OK) {
        snprintf(why, why_size, "%s: its table cannot be written", library);
        return PSD_ENOSUP;
    }
    log_debug("redirect: %s, %u slots", library,
              take_slots.count + give_slots.count);
    return PSD_OK;
}

static struct area *area_find(const struct arena *arena)
{
    for (unsigned i = 0; i < AREAS_MAX; i++) {
        struct area *area = &redirect.area[i];

        if ((atomic_load(&area->state) & ~AREA_HELD) == AREA_USED &&
            area->arena == arena) {
            return area;
        }
    }
    return NULL;
}

static struct area *area_make(struct arena *arena, size_t limit)
{
    for (unsigned i = 0; i < AREAS_MAX; i++) {
        struct area *area = &redirect.area[i];

        uint64_t unused = AREA_FREE;

        if (!atomic_compare_exchange_strong(&area->state, &unused, AREA_USED)) {
            continue;
        }
        area->arena = arena;
        area->limit = limit < arena->size ? limit : arena->size;
        atomic_store(&area->on, 0);
        atomic_store(&area->taken, 0);
        atomic_store(&area->refused, 0);
        atomic_store(&area->foreign, false);
        atomic_store(&area->base, arena->base);
        atomic_store(&area->size, arena->size);
        if (i >= atomic_load(&redirect.areas)) {
            atomic_store(&redirect.areas, i + 1);
        }
        return area;
    }
    return NULL;
}

psd_status redirect_install(struct arena *arena, size_t limit,
                            const char *library, char *why, size_t why_size)
{
    struct area *active = atomic_load(&redirect.active);
    struct area *area;
    psd_status status;

    if (active != NULL && active->arena != arena) {
        snprintf(why, why_size,
                 "redirection: another session of this process has it");
        return PSD_ENOSUP;
    }
    status = prepare(why, why_size);
    if (status == PSD_OK) {
        status = hook(library, why, why_size);
    }
    if (status != PSD_OK || active != NULL) {
        return status;
    }
    area = area_find(arena);
    if (area == NULL) {
        area = area_make(arena, limit);
    }
    if (area == NULL) {
        snprintf(why, why_size,
                 "redirection: blocks of %d closed sessions are still in use",
                 AREAS_MAX);
        return PSD_ENOSUP;
    }
    atomic_store(&redirect.active, area);
    return PSD_OK;
}

void redirect_on(struct arena *arena)
{
    struct area *area = atomic_load(&redirect.active);

    if (area != NULL && area->arena == arena) {
        atomic_fetch_add(&area->on, 1);
    }
}

void redirect_off(struct arena *arena)
{
    struct area *area = atomic_load(&redirect.active);

    if (area != NULL && area->arena == arena &&
        atomic_fetch_sub(&area->on, 1) <= 0) {
        atomic_fetch_add(&area->on, 1); /* off more often than on */
    }
}

void redirect_remove(struct arena *arena)
{
    struct area *area = atomic_load(&redirect.active);

    if (area == NULL || area->arena != arena) {
        return;
    }
    atomic_store(&redirect.active, NULL);
    log_debug("redirect: %" PRIu64 " blocks in the arena, %" PRIu64
              " that it had no room for, %" PRIu64 " still in use",
              atomic_load(&area->taken), atomic_load(&area->refused),
              atomic_load(&area->state) & AREA_HELD);
}

bool redirect_release(struct arena *arena)
{
    struct area *area = area_find(arena);

    if (area == NULL) {
        return true;
    }
    redirect_remove(arena);
    /* With a block of our own, so that it ends here if it is the last. */
    atomic_fetch_add(&area->state, AREA_NEXT + 1);
    area_drop(area);
    return false;
}

uint64_t redirect_held(const struct arena *arena)
{
    const struct area *area = area_find(arena);

    return area == NULL ? 0 : atomic_load(&area->state) & AREA_HELD;
}
