/* shm_test.c: claims about boards, bells and spans. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/shm.h"

#define ARENA 65536
#define FRAMES 20000

struct scene {
    struct psd_loop *loop;
    void *memory;
    size_t size;
    struct shm_board board;
    struct psd_link *worker;
    struct psd_link *shard;
    char *arena;
    unsigned delivered;
    unsigned downs;
    psd_status why;
    const void *payload;
};

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct scene *scene = user;

    (void)link;
    (void)header;
    scene->delivered++;
    scene->payload = payload;
    return PSD_OK;
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct scene *scene = user;

    (void)link;
    scene->downs++;
    scene->why = why;
}

static const struct link_events events = { .deliver = on_deliver,
                                           .down = on_down };

static int set_up(void **state)
{
    static struct scene scene;

    memset(&scene, 0, sizeof(scene));
    scene.size = shm_board_front(3, 2);
    scene.memory = mem_map(scene.size);
    scene.arena = mem_map(ARENA);
    shm_board_format(scene.memory, 3, 2);
    assert_int_equal(loop_create(&scene.loop), PSD_OK);
    assert_int_equal(shm_board_init(&scene.board, scene.memory, scene.size, 3,
                                    2),
                     PSD_OK);
    assert_int_equal(shm_link_open(scene.loop, &scene.board, 2, 1, false,
                                   &events, &scene, &scene.worker),
                     PSD_OK);
    assert_int_equal(shm_link_open(scene.loop, &scene.board, 2, 1, true,
                                   &events, &scene, &scene.shard),
                     PSD_OK);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    link_close(scene->worker);
    link_close(scene->shard);
    loop_destroy(scene->loop);
    mem_unmap(scene->memory, scene->size);
    mem_unmap(scene->arena, ARENA);
    return 0;
}

static void map_both(struct scene *scene)
{
    struct psd_region region = { 1, scene->arena, ARENA };

    assert_int_equal(link_map(scene->worker, &region), PSD_OK);
    assert_int_equal(link_map(scene->shard, &region), PSD_OK);
}

static psd_status push(struct psd_link *link, const void *payload,
                       uint32_t size)
{
    struct frame_header header = { .type = FRAME_PUSH, .length = size };

    return link_send(link, &header, payload);
}

static void a_board_of_another_shape_is_refused(void **state)
{
    struct scene *scene = *state;
    struct shm_board board;

    assert_int_equal(scene->size % 4096, 0);
    assert_int_equal(shm_board_init(&board, scene->memory, scene->size, 2, 2),
                     PSD_EPROTO);
    assert_int_equal(shm_board_init(&board, scene->memory, scene->size - 1, 3,
                                    2),
                     PSD_EPROTO);
    scene->board.head->version++;
    assert_int_equal(shm_board_init(&board, scene->memory, scene->size, 3, 2),
                     PSD_EPROTO);
    scene->board.head->version--;
}

static void a_payload_arrives_as_the_same_memory(void **state)
{
    struct scene *scene = *state;

    map_both(scene);
    assert_int_equal(push(scene->worker, scene->arena + 100, 500), PSD_OK);
    assert_int_equal(shm_poll(scene->loop), 1);
    assert_ptr_equal(scene->payload, scene->arena + 100);
    assert_int_equal(push(scene->worker, scene->arena + ARENA, 0), PSD_OK);
    assert_int_equal(shm_poll(scene->loop), 1);
    assert_ptr_equal(scene->payload, scene->arena + ARENA);
}

static void a_payload_outside_every_region_is_not_sent(void **state)
{
    struct scene *scene = *state;

    assert_int_equal(push(scene->worker, scene->arena, 8), PSD_EINVAL);
    map_both(scene);
    assert_int_equal(push(scene->worker, scene->arena + ARENA - 7, 8),
                     PSD_EINVAL);
    assert_int_equal(push(scene->worker, scene, 8), PSD_EINVAL);
    assert_int_equal(shm_poll(scene->loop), 0);
}

/* What a peer with a free hand writes into its ring. */
static void forge(struct scene *scene, const struct frame_header *header)
{
    struct shm_ring *rings = (struct shm_ring *)(void *)(
        (char *)scene->memory + sizeof(struct shm_head) +
        5 * sizeof(struct shm_bell));
    struct shm_ring *ring = &rings[(2 * 2 + 1) * 2];

    ring->slots[atomic_load(&ring->tail) % SHM_RING_SLOTS] = *header;
    atomic_fetch_add(&ring->tail, 1);
    (void)shm_poll(scene->loop);
    assert_int_equal(scene->downs, 1);
    assert_int_equal(scene->why, PSD_EPROTO);
    assert_int_equal(scene->delivered, 0);
}

static void a_span_that_leaves_its_region_is_refused(void **state)
{
    struct scene *scene = *state;
    struct frame_header header = { .type = FRAME_PUSH, .region = 1,
                                   .offset = UINT64_MAX - 3, .length = 8 };

    map_both(scene);
    frame_seal(&header, NULL);
    forge(scene, &header);
}

static void a_span_of_an_unknown_region_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_PUSH, .region = 65535,
                                   .length = 8 };

    map_both(*state);
    frame_seal(&header, NULL);
    forge(*state, &header);
}

static void an_inline_payload_in_a_slot_is_refused(void **state)
{
    struct frame_header header = { .type = FRAME_PUSH, .size = 8 };

    frame_seal(&header, NULL);
    forge(*state, &header);
}

static void a_bell_is_rung_only_for_a_sleeper(void **state)
{
    struct scene *scene = *state;
    struct shm_bell *bell = shm_bell(&scene->board, 4);

    shm_bell_ring(bell);
    assert_int_equal(atomic_load(&bell->rings), 0);
    atomic_store(&bell->sleeping, 1);
    assert_int_equal(push(scene->worker, NULL, 0), PSD_OK); /* to shard 1 */
    assert_int_equal(atomic_load(&bell->rings), 1);
}

/* ---- two threads ------------------------------------------------------- */

struct party {
    struct scene *scene;
    struct psd_loop *loop;
    struct psd_link *link;
    struct shm_bell *bell;
    unsigned got;
};

static psd_status on_party(void *user, struct psd_link *link,
                           const struct frame_header *header,
                           const void *payload)
{
    struct party *party = user;

    (void)link;
    assert_int_equal(header->block, party->got);
    assert_int_equal(*(const char *)payload, (char)party->got);
    party->got++;
    return PSD_OK;
}

static const struct link_events party_events = { .deliver = on_party };

static void party_sleep(struct party *party, bool *idle_p)
{
    uint32_t rings = atomic_load(&party->bell->rings);

    atomic_exchange(&party->bell->sleeping, 1);
    *idle_p = loop_dispatch(party->loop, NULL) == 0;
    if (*idle_p) {
        futex_wait(&party->bell->rings, rings, CLOCK_NS_PER_S);
    }
    atomic_store(&party->bell->sleeping, 0);
}

static void *shard_main(void *argument)
{
    struct party *party = argument;
    bool idle;

    while (party->got < FRAMES) {
        party_sleep(party, &idle);
    }
    return NULL;
}

static void frames_cross_threads_and_wake_the_sleeper(void **state)
{
    struct scene *scene = *state;
    struct psd_region region = { 1, scene->arena, ARENA };
    struct party shard = { .scene = scene };
    struct party worker = { .scene = scene };
    pthread_t thread;

    shard.bell = shm_bell(&scene->board, 3);
    worker.bell = shm_bell(&scene->board, 0);
    assert_int_equal(loop_create(&shard.loop), PSD_OK);
    assert_int_equal(loop_create(&worker.loop), PSD_OK);
    assert_int_equal(shm_link_open(shard.loop, &scene->board, 0, 0, true,
                                   &party_events, &shard, &shard.link),
                     PSD_OK);
    assert_int_equal(shm_link_open(worker.loop, &scene->board, 0, 0, false,
                                   &party_events, &worker, &worker.link),
                     PSD_OK);
    assert_int_equal(link_map(shard.link, &region), PSD_OK);
    assert_int_equal(link_map(worker.link, &region), PSD_OK);
    assert_int_equal(pthread_create(&thread, NULL, shard_main, &shard), 0);
    for (uint32_t i = 0; i < FRAMES; i++) {
        struct frame_header header = { .type = FRAME_PUSH, .block = i,
                                       .length = 1 };
        bool idle;

        scene->arena[i % 4096] = (char)i; /* 128 slots: long consumed */
        while (link_send(worker.link, &header, scene->arena + i % 4096) ==
               PSD_AGAIN) {
            party_sleep(&worker, &idle);
        }
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(shard.got, FRAMES);
    link_close(shard.link);
    link_close(worker.link);
    loop_destroy(shard.loop);
    loop_destroy(worker.loop);
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CLAIM(a_board_of_another_shape_is_refused),
        CLAIM(a_payload_arrives_as_the_same_memory),
        CLAIM(a_payload_outside_every_region_is_not_sent),
        CLAIM(a_span_that_leaves_its_region_is_refused),
        CLAIM(a_span_of_an_unknown_region_is_refused),
        CLAIM(an_inline_payload_in_a_slot_is_refused),
        CLAIM(a_bell_is_rung_only_for_a_sleeper),
        CLAIM(frames_cross_threads_and_wake_the_sleeper),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
