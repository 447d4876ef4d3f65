/* inproc_test.c: claims about the faults of a hub. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/inproc.h"

#define SEEN_MAX 4096

struct end {
    struct psd_link *link;
    unsigned ups, downs;
    unsigned count;
    uint32_t seen[SEEN_MAX];
};

struct scene {
    struct psd_loop *loop;
    struct inproc_hub *hub;
    uint64_t now;
    struct end client;
    struct end server;
};

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct end *end = user;

    (void)link;
    (void)payload;
    assert_true(end->count < SEEN_MAX);
    end->seen[end->count++] = header->block;
    return PSD_OK;
}

static void on_up(void *user, struct psd_link *link)
{
    struct end *end = user;

    (void)link;
    end->ups++;
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct end *end = user;

    (void)link;
    assert_int_equal(why, PSD_ELOST);
    end->downs++;
}

static const struct link_events events = {
    .deliver = on_deliver,
    .up = on_up,
    .down = on_down,
};

static enum auth_verdict on_accept(void *user, struct psd_link *link)
{
    struct scene *scene = user;

    link->events = &events;
    link->user = &scene->server;
    scene->server.link = link;
    return AUTH_WELCOME;
}

static const struct listen_events accept_events = { .accept = on_accept };

static void scene_open(struct scene *scene)
{
    assert_int_equal(link_open(scene->loop, "inproc:shard", NULL, NULL,
                               &events, &scene->client, &scene->client.link),
                     PSD_OK);
    (void)loop_dispatch(scene->loop, NULL);
}

static void scene_init(struct scene *scene, const struct inproc_faults *faults)
{
    memset(scene, 0, sizeof(*scene));
    scene->now = 1000;
    clock_replace(&scene->now);
    assert_int_equal(loop_create(&scene->loop), PSD_OK);
    assert_int_equal(inproc_hub_create(scene->loop, faults, &scene->hub),
                     PSD_OK);
    assert_int_equal(inproc_listen(scene->hub, "shard", &accept_events,
                                   scene),
                     PSD_OK);
    scene_open(scene);
}

static void scene_fini(struct scene *scene)
{
    link_close(scene->client.link);
    link_close(scene->server.link);
    inproc_hub_destroy(scene->hub);
    loop_destroy(scene->loop);
    clock_replace(NULL);
}

static void scene_run(struct scene *scene)
{
    uint64_t next;

    while ((next = inproc_next_ns(scene->hub)) != UINT64_MAX) {
        scene->now = next > scene->now ? next : scene->now;
        (void)loop_dispatch(scene->loop, NULL);
    }
}

static psd_status send_block(struct psd_link *link, uint32_t block)
{
    struct frame_header header = { .type = FRAME_PUSH, .block = block };

    return link_send(link, &header, NULL);
}

static void a_hub_without_faults_delivers_in_the_next_dispatch(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, NULL);
    assert_true(scene.client.link->mapped);
    assert_int_equal(send_block(scene.client.link, 0), PSD_OK);
    assert_int_equal(send_block(scene.client.link, 1), PSD_OK);
    assert_int_equal(scene.server.count, 0);
    (void)loop_dispatch(scene.loop, NULL);
    assert_int_equal(scene.server.count, 2);
    assert_int_equal(inproc_next_ns(scene.hub), UINT64_MAX);
    scene_fini(&scene);
}

static void frames_come_after_their_delay(void **state)
{
    struct inproc_faults faults = { .seed = 3, .delay_max_ns = 1000000,
                                    .mapped = true };
    struct scene scene;
    uint64_t due;

    (void)state;
    scene_init(&scene, &faults);
    assert_int_equal(send_block(scene.client.link, 0), PSD_OK);
    due = inproc_next_ns(scene.hub);
    assert_true(due > scene.now && due <= scene.now + 1000000);
    scene.now = due - 1;
    (void)loop_dispatch(scene.loop, NULL);
    assert_int_equal(scene.server.count, 0);
    scene.now = due;
    (void)loop_dispatch(scene.loop, NULL);
    assert_int_equal(scene.server.count, 1);
    scene_fini(&scene);
}

static void a_duplicate_comes_after_its_frame(void **state)
{
    struct inproc_faults faults = { .seed = 11, .duplicate = 30000,
                                    .mapped = true };
    struct scene scene;
    unsigned next = 0;
    unsigned twice = 0;

    (void)state;
    scene_init(&scene, &faults);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_int_equal(send_block(scene.client.link, i), PSD_OK);
        if (i % 7 == 0) {
            scene_run(&scene);
        }
    }
    scene_run(&scene);
    for (unsigned i = 0; i < scene.server.count; i++) {
        if (scene.server.seen[i] == next) {
            next++;
        } else {
            assert_true(scene.server.seen[i] < next);
            twice++;
        }
    }
    assert_int_equal(next, 1000);
    assert_true(twice > 50);
    scene_fini(&scene);
}

static void a_lost_link_goes_down_on_both_ends_and_opens_again(void **state)
{
    struct inproc_faults faults = { .seed = 5, .lose_link = 2000,
                                    .mapped = true };
    struct scene scene;
    uint32_t sent = 0;

    (void)state;
    scene_init(&scene, &faults);
    for (unsigned lost = 1; lost <= 3; lost++) {
        while (scene.client.downs < lost) {
            psd_status status = send_block(scene.client.link, sent++);

            assert_true(status == PSD_OK || status == PSD_ELOST);
            scene_run(&scene);
        }
        assert_int_equal(scene.server.downs, lost);
        link_close(scene.client.link);
        link_close(scene.server.link);
        scene_open(&scene);
        assert_int_equal(scene.client.ups, lost + 1);
    }
    assert_true(scene.server.count < sent);
    scene_fini(&scene);
}

static void a_seed_repeats_its_faults(void **state)
{
    struct inproc_faults faults = { .seed = 99, .duplicate = 9000,
                                    .delay_max_ns = 5000, .mapped = true };
    static struct scene scenes[2];

    (void)state;
    for (unsigned s = 0; s < 2; s++) {
        scene_init(&scenes[s], &faults);
        for (uint32_t i = 0; i < 200; i++) {
            assert_int_equal(send_block(scenes[s].client.link, i), PSD_OK);
        }
        scene_run(&scenes[s]);
        scene_fini(&scenes[s]);
    }
    assert_int_equal(scenes[0].now, scenes[1].now);
    assert_int_equal(scenes[0].server.count, scenes[1].server.count);
    assert_memory_equal(scenes[0].server.seen, scenes[1].server.seen,
                        sizeof(scenes[0].server.seen));
}

static void whoever_vanishes_hears_nothing_and_is_missed(void **state)
{
    struct scene scene;

    (void)state;
    scene_init(&scene, NULL);
    assert_int_equal(send_block(scene.client.link, 0), PSD_OK);
    assert_int_equal(send_block(scene.server.link, 0), PSD_OK);
    inproc_vanish(scene.hub, "shard");
    scene_run(&scene);
    assert_int_equal(scene.server.count, 0);
    assert_int_equal(scene.server.downs, 0);
    assert_int_equal(scene.client.count, 0);
    assert_int_equal(scene.client.downs, 1);
    link_close(scene.client.link);
    scene_open(&scene); /* nobody is there any more */
    scene_run(&scene);
    assert_int_equal(scene.client.downs, 2);
    assert_int_equal(scene.client.ups, 1);
    scene_fini(&scene);
}

static void a_span_of_a_closed_end_is_never_delivered(void **state)
{
    struct scene scene;
    char bytes[8] = "1234567";
    struct frame_header span = { .type = FRAME_PUSH, .size = 8, .block = 1 };
    struct frame_header word = { .type = FRAME_BYE, .size = 8 };

    (void)state;
    scene_init(&scene, NULL);
    assert_int_equal(link_send(scene.client.link, &word, bytes), PSD_OK);
    assert_int_equal(link_send(scene.client.link, &span, bytes), PSD_OK);
    assert_int_equal(link_send(scene.client.link, &word, bytes), PSD_OK);
    link_close(scene.client.link);
    scene.client.link = NULL;
    scene_run(&scene);
    assert_int_equal(scene.server.count, 1); /* the copy before it is */
    assert_int_equal(scene.server.downs, 1);
    scene_fini(&scene);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_hub_without_faults_delivers_in_the_next_dispatch),
        cmocka_unit_test(frames_come_after_their_delay),
        cmocka_unit_test(a_duplicate_comes_after_its_frame),
        cmocka_unit_test(a_lost_link_goes_down_on_both_ends_and_opens_again),
        cmocka_unit_test(a_seed_repeats_its_faults),
        cmocka_unit_test(whoever_vanishes_hears_nothing_and_is_missed),
        cmocka_unit_test(a_span_of_a_closed_end_is_never_delivered),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
