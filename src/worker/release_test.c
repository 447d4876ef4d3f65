/*
 * release_test.c: how far ahead of the answers a worker pushes; see pump.c.
 * One tensor of many blocks; its answers come by hand, in any order.
 */
#include "base/claim.h"
#include "base/mem.h"
#include "transport/recorder.h"
#include "worker/worker.h"

#define SHARDS 2
#define BLOCK 4096u
#define BLOCKS 60
#define TENSOR 0

struct scene {
    struct model model;
    struct worker worker;
    struct flight flight;
    struct recorder recorder[SHARDS];
    struct psd_link *links[SHARDS];
    char data[BLOCKS * BLOCK];
    unsigned done;
};

static void on_done(void *user, uint32_t tensor)
{
    struct scene *scene = user;

    assert_int_equal(tensor, TENSOR);
    scene->done++;
}

static void on_lost(void *user, uint32_t shard, psd_status why)
{
    (void)user;
    (void)shard;
    (void)why;
}

static void connect(struct scene *scene, uint32_t shard)
{
    scene->links[shard] = recorder_link(&scene->recorder[shard],
                                        &worker_link_events, &scene->worker);
    scene->recorder[shard].room = UINT32_MAX;
    worker_link(&scene->worker, shard, scene->links[shard]);
    worker_link_up(&scene->worker, scene->links[shard]);
}

static int set_up(void **state)
{
    struct scene *scene = mem_zalloc(sizeof(*scene));
    struct message_spec spec = { .name = "t", .dtype = PSD_FLOAT32,
                                 .count = sizeof(scene->data) / 4 };
    struct message_table table = { 1, &spec };

    *state = scene;
    assert_int_equal(model_init(&scene->model, SHARDS, BLOCK), PSD_OK);
    assert_int_equal(model_add(&scene->model, &table), PSD_OK);
    assert_int_equal(scene->model.block_count, BLOCKS);
    assert_int_equal(worker_init(&scene->worker, &scene->model, 0, 2, SHARDS),
                     PSD_OK);
    assert_int_equal(worker_add(&scene->worker, &scene->flight), PSD_OK);
    scene->worker.paced = true;
    scene->worker.user = scene;
    scene->worker.done = on_done;
    scene->worker.lost = on_lost;
    for (uint32_t i = 0; i < SHARDS; i++) {
        connect(scene, i);
    }
    scene->flight = (struct flight){ .data = scene->data, .out = scene->data,
                                     .weight = 1, .op = PSD_OP_SUM,
                                     .in_flight = true };
    return 0;
}

static int tear_down(void **state)
{
    struct scene *scene = *state;

    worker_fini(&scene->worker);
    model_fini(&scene->model);
    mem_free(scene);
    return 0;
}

static unsigned sent(const struct scene *scene)
{
    return scene->recorder[0].count + scene->recorder[1].count;
}

static void answer(struct scene *scene, uint32_t block)
{
    struct psd_link *link = scene->links[scene->model.blocks[block].shard];
    struct frame_header header = { .type = FRAME_ANSWER, .block = block,
                                   .weight = 2, .size = BLOCK,
                                   .length = BLOCK };
    void *to = NULL;

    assert_int_equal(link->events->place(link->user, link, &header, &to),
                     PSD_OK);
    assert_int_equal(link->events->deliver(link->user, link, &header, to),
                     PSD_OK);
}

static void post(struct scene *scene)
{
    worker_post(&scene->worker, TENSOR);
    worker_pump(&scene->worker);
}

/* ---- claims ------------------------------------------------------------- */

static void a_part_of_a_large_tensor_goes_first(void **state)
{
    struct scene *scene = *state;

    post(scene);
    assert_int_equal(sent(scene), BLOCKS / WORKER_AHEAD_PART);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        assert_int_equal(scene->worker.state[i],
                         i < BLOCKS / WORKER_AHEAD_PART ? WORKER_SENT
                                                        : WORKER_IDLE);
    }
}

static void within_a_host_all_blocks_go_at_once(void **state)
{
    struct scene *scene = *state;

    scene->worker.paced = false;
    post(scene);
    assert_int_equal(sent(scene), BLOCKS);
}

/* Whatever comes first, the worker is never further ahead than it may be,
 * never stops while something is left, and sends every block once. */
static void answers_in_any_order_release_the_rest(void **state)
{
    struct scene *scene = *state;
    uint64_t random = 7;

    post(scene);
    for (uint32_t answered = 0; answered < BLOCKS; answered++) {
        uint32_t left = BLOCKS - answered;
        uint32_t ahead = WORKER_AHEAD * SHARDS;
        uint32_t block;

        ahead = left / WORKER_AHEAD_PART > ahead ? left / WORKER_AHEAD_PART
                                                 : ahead;
        assert_true(sent(scene) > answered);
        assert_true(sent(scene) >= answered + (ahead < left ? ahead : left));
        do {
            random = claim_mix(random);
            block = (uint32_t)(random % BLOCKS);
        } while (scene->worker.state[block] != WORKER_SENT);
        assert_int_equal(scene->done, 0);
        answer(scene, block);
    }
    assert_int_equal(sent(scene), BLOCKS);
    assert_int_equal(scene->done, 1);
}

/* The end: no more than so many per shard are under way. */
static void near_the_end_the_shards_stay_together(void **state)
{
    struct scene *scene = *state;

    post(scene);
    for (uint32_t i = 0; i < BLOCKS / 2; i++) {
        answer(scene, i);
    }
    assert_int_equal(sent(scene), BLOCKS / 2 + WORKER_AHEAD * SHARDS);
    for (uint32_t i = BLOCKS / 2; i < BLOCKS; i++) {
        answer(scene, i);
    }
    assert_int_equal(scene->done, 1);
}

/* What is released while a link is down waits for the next one. */
static void a_lost_link_gets_the_released_blocks_when_it_is_back(void **state)
{
    struct scene *scene = *state;
    struct psd_link *link = scene->links[1];

    post(scene);
    link->events->down(&scene->worker, link, PSD_ELOST);
    scene->recorder[1].count = 0;
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (scene->worker.state[i] == WORKER_SENT) {
            answer(scene, i);
        }
    }
    assert_int_equal(scene->recorder[1].count, 0);
    connect(scene, 1);
    assert_true(scene->recorder[1].count >= WORKER_AHEAD);
    for (uint32_t i = 0; i < BLOCKS; i++) {
        if (scene->worker.state[i] == WORKER_SENT) {
            answer(scene, i);
        }
    }
    assert_int_equal(scene->done, 1);
    assert_int_equal(sent(scene), BLOCKS);
}

#define HERE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        HERE(a_part_of_a_large_tensor_goes_first),
        HERE(within_a_host_all_blocks_go_at_once),
        HERE(answers_in_any_order_release_the_rest),
        HERE(near_the_end_the_shards_stay_together),
        HERE(a_lost_link_gets_the_released_blocks_when_it_is_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
