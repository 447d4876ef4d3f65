/* arena_test.c: blocks of the shared region, one thread and two. */
#include "base/claim.h"
#include "base/mem.h"
#include "memory/arena.h"

#define SIZE ((size_t)1 << 20)

struct place {
    struct arena arena;
    char *base;
};

static int set_up(void **state)
{
    struct place *place = mem_zalloc(sizeof(*place));

    if (place == NULL) {
        return -1;
    }
    place->base = mem_map(SIZE);
    arena_init(&place->arena, place->base, SIZE);
    *state = place;
    return place->base == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;

    arena_fini(&place->arena);
    mem_unmap(place->base, SIZE);
    mem_free(place);
    return 0;
}

static void blocks_are_aligned_inside_and_apart(void **state)
{
    struct place *place = *state;
    char *blocks[200];
    size_t sizes[200];

    for (size_t i = 0; i < 200; i++) {
        sizes[i] = claim_mix(i) % 3000 + (i == 0 ? 0 : 1);
        blocks[i] = arena_alloc(&place->arena, sizes[i]);
        assert_non_null(blocks[i]);
        assert_int_equal((uintptr_t)blocks[i] % 64, 0);
        assert_true(arena_contains(&place->arena, blocks[i], sizes[i]));
        memset(blocks[i], (int)i + 1, sizes[i]);
    }
    for (size_t i = 0; i < 200; i++) {
        for (size_t k = 0; k < sizes[i]; k++) {
            assert_int_equal((uint8_t)blocks[i][k], i + 1);
        }
        arena_free(&place->arena, blocks[i]);
    }
}

static void what_was_freed_last_is_given_first(void **state)
{
    struct place *place = *state;
    char *one = arena_alloc(&place->arena, 1000);
    char *two = arena_alloc(&place->arena, 1000);
    char *other = arena_alloc(&place->arena, 9000);
    size_t used = place->arena.used;

    arena_free(&place->arena, one);
    arena_free(&place->arena, other);
    arena_free(&place->arena, two);
    assert_ptr_equal(arena_alloc(&place->arena, 1000), two);
    assert_ptr_equal(arena_alloc(&place->arena, 1000), one);
    assert_ptr_equal(arena_alloc(&place->arena, 9000), other);
    assert_int_equal(place->arena.used, used);
    assert_ptr_not_equal(arena_alloc(&place->arena, 1000), one);
}

static void the_same_sizes_again_need_no_more_memory(void **state)
{
    struct place *place = *state;
    size_t used = 0;

    for (unsigned round = 0; round < 20; round++) {
        void *blocks[30];

        for (size_t i = 0; i < 30; i++) {
            blocks[i] = arena_alloc(&place->arena, 100 * i + 1);
            assert_non_null(blocks[i]);
        }
        for (size_t i = 0; i < 30; i++) {
            arena_free(&place->arena, blocks[(i * 7 + round) % 30]);
        }
        if (round == 0) {
            used = place->arena.used;
        }
        assert_int_equal(place->arena.used, used);
    }
}

static void a_full_arena_gives_nothing_until_something_is_freed(void **state)
{
    struct place *place = *state;
    void *last = NULL;
    void *block;
    unsigned count = 0;

    while ((block = arena_alloc(&place->arena, 10000)) != NULL) {
        last = block;
        count++;
    }
    assert_in_range(count, SIZE / 13000, SIZE / 10000);
    assert_null(arena_alloc(&place->arena, 10000));
    arena_free(&place->arena, last);
    assert_ptr_equal(arena_alloc(&place->arena, 10000), last);
    assert_null(arena_alloc(&place->arena, SIZE));
    assert_null(arena_alloc(&place->arena, SIZE + 1));
    assert_null(arena_alloc(&place->arena, SIZE_MAX));
    assert_null(arena_alloc(&place->arena, SIZE_MAX - 63));
}

static void one_block_may_take_most_of_the_arena(void **state)
{
    struct place *place = *state;
    size_t most = SIZE / 8 * 7 - 128;
    char *block = arena_alloc(&place->arena, most);

    assert_non_null(block);
    memset(block, 1, most);
    arena_free(&place->arena, block);
}

static void the_edges_of_the_arena_are_its_edges(void **state)
{
    struct place *place = *state;
    const struct arena *arena = &place->arena;
    static const struct arena none;

    assert_true(arena_contains(arena, place->base, SIZE));
    assert_true(arena_contains(arena, place->base + SIZE - 1, 1));
    assert_true(arena_contains(arena, place->base + SIZE, 0));
    assert_false(arena_contains(arena, place->base, SIZE + 1));
    assert_false(arena_contains(arena, place->base + 1, SIZE));
    assert_false(arena_contains(arena, place->base + SIZE, 1));
    assert_false(arena_contains(arena, place->base + 1, SIZE_MAX));
    assert_false(arena_contains(arena, place->base - 1, 2));
    assert_false(arena_contains(arena, &none, 1));
    assert_false(arena_contains(&none, place->base, 1));
}

static void free_twice(void)
{
    void *base = mem_map(SIZE);
    struct arena arena;
    void *block;

    arena_init(&arena, base, SIZE);
    block = arena_alloc(&arena, 10);
    arena_free(&arena, block);
    arena_free(&arena, block);
}

static void free_a_stranger(void)
{
    void *base = mem_map(SIZE);
    struct arena arena;
    char other[256] = { 0 };

    arena_init(&arena, base, SIZE);
    arena_free(&arena, other + 128);
}

static void freeing_twice_or_a_stranger_aborts(void **state)
{
    (void)state;
    assert_true(claim_aborts(free_twice));
    assert_true(claim_aborts(free_a_stranger));
}

struct user {
    struct arena *arena;
    uint8_t mark;
    unsigned spoiled;
};

#define HELD 16

/* Takes and gives back at random, and looks whether anybody else wrote. */
static void *use_arena(void *argument)
{
    struct user *user = argument;
    uint8_t *blocks[HELD] = { NULL };
    size_t sizes[HELD] = { 0 };
    uint64_t random = user->mark;

    for (unsigned i = 0; i < 20000; i++) {
        unsigned k;

        random = claim_mix(random);
        k = (unsigned)(random % HELD);
        if (blocks[k] != NULL) {
            for (size_t at = 0; at < sizes[k]; at += 13) {
                user->spoiled += blocks[k][at] != user->mark;
            }
            arena_free(user->arena, blocks[k]);
        }
        sizes[k] = random >> 8 & 0xff;
        blocks[k] = arena_alloc(user->arena, sizes[k]);
        if (blocks[k] != NULL) {
            memset(blocks[k], user->mark, sizes[k]);
        }
    }
    return NULL;
}

static void two_threads_never_hold_the_same_block(void **state)
{
    struct place *place = *state;
    struct user users[2] = { { &place->arena, 0x55, 0 },
                             { &place->arena, 0xaa, 0 } };
    pthread_t threads[2];

    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(
            pthread_create(&threads[i], NULL, use_arena, &users[i]), 0);
    }
    for (unsigned i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(users[i].spoiled, 0);
    }
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(blocks_are_aligned_inside_and_apart),
        HERE(what_was_freed_last_is_given_first),
        HERE(the_same_sizes_again_need_no_more_memory),
        HERE(a_full_arena_gives_nothing_until_something_is_freed),
        HERE(one_block_may_take_most_of_the_arena),
        HERE(the_edges_of_the_arena_are_its_edges),
        HERE(two_threads_never_hold_the_same_block),
        cmocka_unit_test(freeing_twice_or_a_stranger_aborts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
