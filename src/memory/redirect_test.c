/*
 * redirect_test.c: blocks that a library of our own takes and gives back. It
 * is loaded twice: with slots that the loader has bound and sealed, and with
 * slots that are bound when they are first used.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/claim.h"
#include "base/mem.h"
#include "memory/redirect.h"
#include "memory/slot.h"

#define SIZE  ((size_t)64 << 20)
#define LARGE ((size_t)1 << 20)

struct borrower {
    const char *file;
    void *(*take)(size_t align, size_t size);
    void (*give)(void *pointer);
    void (*give_by_pointer)(void *pointer);
    void (*give_by_table)(void *pointer);
};

static struct borrower borrowers[] = {
    {.file = "libpsd_borrower_now.so"},
    {.file = "libpsd_borrower_lazy.so"},
};

static struct arena *arena_make(void)
{
    struct arena *arena = mem_zalloc(sizeof(*arena));

    assert_non_null(arena);
    arena_init(arena, mem_map(SIZE), SIZE);
    return arena;
}

static void install(struct arena *arena, size_t limit, const char *library)
{
    char why[256] = "";

    if (redirect_install(arena, limit, library, why, sizeof(why)) != PSD_OK) {
        fail_msg("%s", why);
    }
}

static int load(void **state)
{
    const char *folder = getenv("PSD_TEST_LIBRARIES");

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(borrowers); i++) {
        struct borrower *it = &borrowers[i];
        char path[4096];
        void *library;

        snprintf(path, sizeof(path), "%s/%s", folder == NULL ? "." : folder,
                 it->file);
        library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
        if (library == NULL) {
            fprintf(stderr, "%s\n", dlerror());
            return -1;
        }
        it->take = (void *(*)(size_t, size_t))(uintptr_t)dlsym(library,
                                                               "borrower_take");
        it->give = (void (*)(void *))(uintptr_t)dlsym(library, "borrower_give");
        it->give_by_pointer = (void (*)(void *))(uintptr_t)dlsym(
            library, "borrower_give_by_pointer");
        it->give_by_table = (void (*)(void *))(uintptr_t)dlsym(
            library, "borrower_give_by_table");
    }
    return 0;
}

/* First: nothing has called these functions, so the lazy slots are unbound. */
static void slots_are_found_bound_or_not_sealed_or_not(void **state)
{
    char why[256] = "";
    struct slot_list list;

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(borrowers); i++) {
        assert_int_equal(slot_find(borrowers[i].file, "posix_memalign", &list,
                                   why, sizeof(why)),
                         PSD_OK);
        assert_in_range(list.count, 1, SLOT_MAX);
        assert_non_null(list.previous);
        assert_int_equal(list.slot[0].sealed, i == 0);
        assert_int_equal(
            slot_find(borrowers[i].file, "free", &list, why, sizeof(why)),
            PSD_OK);
        assert_in_range(list.count, 2, SLOT_MAX);
    }
    assert_int_equal(
        slot_find(borrowers[0].file, "psd_open", &list, why, sizeof(why)),
        PSD_ENOSUP);
    assert_non_null(strstr(why, "does not call psd_open"));
    assert_int_equal(slot_find("libnone.so", "free", &list, why, sizeof(why)),
                     PSD_ENOSUP);
    assert_non_null(strstr(why, "no such library"));
    assert_int_equal(
        slot_find("libpsd_borrower_no", "free", &list, why, sizeof(why)),
        PSD_ENOSUP);
}

static void large_blocks_lie_in_the_arena_while_it_is_on(void **state)
{
    struct arena *arena = arena_make();

    (void)state;
    for (size_t i = 0; i < CLAIM_COUNT(borrowers); i++) {
        struct borrower *it = &borrowers[i];
        char *block;

        install(arena, SIZE, it->file);
        block = it->take(64, LARGE);
        assert_false(arena_contains(arena, block, 1));
        it->give(block);
        redirect_on(arena);
        redirect_on(arena);
        redirect_off(arena);
        block = it->take(64, LARGE);
        assert_true(arena_contains(arena, block, LARGE));
        assert_int_equal((uintptr_t)block % 64, 0);
        memset(block, 7, LARGE);
        it->give(block);
        assert_ptr_equal(it->take(64, LARGE), block);
        it->give_by_pointer(block);
        assert_ptr_equal(it->take(64, LARGE), block);
        it->give_by_table(block);
        block = it->take(64, REDIRECT_MIN - 1);
        assert_false(arena_contains(arena, block, 1));
        it->give_by_pointer(block);
        block = it->take(4096, LARGE); /* more than the arena's alignment */
        assert_false(arena_contains(arena, block, 1));
        it->give_by_table(block);
        redirect_off(arena);
        redirect_off(arena); /* once too often */
        redirect_on(arena);
        block = it->take(64, LARGE);
        assert_true(arena_contains(arena, block, LARGE));
        redirect_off(arena);
        it->give(block); /* off: it goes back all the same */
        it->give(NULL);
        assert_int_equal(redirect_held(arena), 0);
    }
    assert_false(redirect_release(arena));
}

static void a_full_arena_leaves_it_to_the_allocator_before(void **state)
{
    struct borrower *it = &borrowers[0];
    struct arena *arena = arena_make();
    char *inside[8];
    unsigned count = 0;

    (void)state;
    install(arena, 4 * LARGE + 1024, it->file);
    redirect_on(arena);
    for (unsigned i = 0; i < 8; i++) {
        inside[i] = it->take(64, LARGE);
        assert_non_null(inside[i]);
        memset(inside[i], (int)i, LARGE);
        count += arena_contains(arena, inside[i], LARGE);
    }
    assert_int_equal(count, 4);
    assert_non_null(arena_alloc(arena, LARGE)); /* not the limit's */
    for (unsigned i = 0; i < 8; i++) {
        assert_int_equal(inside[i][LARGE - 1], i);
        it->give(inside[i]);
    }
    redirect_off(arena);
    assert_false(redirect_release(arena));
}

static void blocks_outlive_the_arenas_owner(void **state)
{
    struct borrower *it = &borrowers[1];
    char why[256];
    char *first;
    char *second;
    struct arena *one = arena_make();
    struct arena *two = arena_make();

    (void)state;
    install(one, SIZE, it->file);
    redirect_on(one);
    first = it->take(64, LARGE);
    assert_true(arena_contains(one, first, LARGE));
    assert_int_equal(redirect_install(two, SIZE, it->file, why, sizeof(why)),
                     PSD_ENOSUP);
    assert_non_null(strstr(why, "another session"));
    assert_false(redirect_release(one));
    memset(first, 1, LARGE); /* still there */
    install(two, SIZE, it->file);
    redirect_on(two);
    second = it->take(64, LARGE);
    assert_true(arena_contains(two, second, LARGE));
    it->give(first); /* and so is the way back; frees `one` */
    redirect_remove(two);
    memset(second, 2, LARGE);
    first = it->take(64, LARGE);
    assert_false(arena_contains(two, first, 1));
    it->give(first);
    it->give(second);
    assert_int_equal(redirect_held(two), 0);
    assert_false(redirect_release(two));
}

static void an_arena_that_was_never_installed_is_its_owners(void **state)
{
    struct arena *arena = arena_make();

    (void)state;
    redirect_on(arena);
    redirect_off(arena);
    redirect_remove(arena);
    assert_true(redirect_release(arena));
    mem_unmap(arena->base, SIZE);
    arena_fini(arena);
    mem_free(arena);
}

static int in_child(struct borrower *it, struct arena *arena, char *inherited)
{
    uint64_t first = arena->free[0];
    size_t used = arena->used;
    char *block;

    redirect_on(arena);
    block = it->take(64, LARGE);
    if (block == NULL || arena_contains(arena, block, 1)) {
        return 1;
    }
    it->give(block);
    it->give(inherited);
    it->give(inherited); /* nothing happens, however often */
    return arena->free[0] == first && arena->used == used ? 0 : 2;
}

static void a_forked_child_leaves_the_arena_alone(void **state)
{
    struct borrower *it = &borrowers[0];
    struct arena *arena = arena_make();
    int status = -1;
    char *block;
    pid_t child;

    (void)state;
    install(arena, SIZE, it->file);
    redirect_on(arena);
    block = it->take(64, LARGE);
    pthread_mutex_lock(&arena->lock); /* as another thread might hold it */
    child = fork();
    if (child == 0) {
        _exit(in_child(it, arena, block));
    }
    pthread_mutex_unlock(&arena->lock);
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    assert_int_equal(redirect_held(arena), 1);
    it->give(block);
    assert_false(redirect_release(arena));
}

static _Atomic bool stop;

static void *borrow(void *argument)
{
    struct borrower *it = argument;

    while (!atomic_load(&stop)) {
        char *block = it->take(64, REDIRECT_MIN);

        if (block != NULL) {
            block[0] = 1;
            block[REDIRECT_MIN - 1] = 1;
        }
        it->give(block);
    }
    return NULL;
}

static void threads_borrow_while_arenas_come_and_go(void **state)
{
    pthread_t threads[2];

    (void)state;
    atomic_store(&stop, false);
    for (size_t i = 0; i < CLAIM_COUNT(threads); i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, borrow, &borrowers[i]), 0);
    }
    for (unsigned i = 0; i < 200; i++) {
        struct arena *arena = arena_make();

        install(arena, SIZE, borrowers[i % 2].file);
        redirect_on(arena);
        usleep(100);
        assert_false(redirect_release(arena));
    }
    atomic_store(&stop, true);
    for (size_t i = 0; i < CLAIM_COUNT(threads); i++) {
        pthread_join(threads[i], NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slots_are_found_bound_or_not_sealed_or_not),
        cmocka_unit_test(large_blocks_lie_in_the_arena_while_it_is_on),
        cmocka_unit_test(a_full_arena_leaves_it_to_the_allocator_before),
        cmocka_unit_test(blocks_outlive_the_arenas_owner),
        cmocka_unit_test(an_arena_that_was_never_installed_is_its_owners),
        cmocka_unit_test(a_forked_child_leaves_the_arena_alone),
        cmocka_unit_test(threads_borrow_while_arenas_come_and_go),
    };

    return cmocka_run_group_tests(tests, load, NULL);
}
