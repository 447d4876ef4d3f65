/* cluster.c: see cluster.h. */
#include "cluster.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/mem.h"

#define BLOCK_SIZE 8192
#define MOVES_MAX 2000000

struct sim;

struct sim_worker {
    struct sim *sim;
    uint32_t rank;
    bool dead;
    bool ended;      /* got END */
    bool registered;
    bool joined;
    bool finished;
    uint32_t steps;  /* to make */
    uint32_t step;
    uint32_t open;   /* flights of this step not answered */
    struct psd_link *master;
    struct model model;
    struct worker worker;
    struct flight *flights;
    char **memory;   /* by tensor: where it pushes from and gets answers */
    struct loop_timer retry;
    bool started;
};

struct sim_shard {
    struct sim *sim;
    char name[32];
    struct shard shard;
    struct model model;
};

struct sim {
    const struct cluster_plan *plan;
    struct cluster_result *result;
    struct psd_loop *loop;         /* data links, with faults */
    struct psd_loop *control;      /* links to the master, without */
    struct inproc_hub *hub;
    struct inproc_hub *control_hub;
    struct master *master;
    struct psd_link **at_master;   /* by worker */
    struct sim_worker *workers;
    struct sim_shard *shards;
    struct message_table table;
    uint64_t now;
    uint64_t random;
    bool dead;                     /* the death has happened */
};

/* ---- chance ------------------------------------------------------------ */

static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t chance(struct sim *sim)
{
    sim->random = mix(sim->random);
    return sim->random;
}

/* What rank r pushes for tensor t in step s is a function of the seed, so
 * that the reference can be computed anywhere. */
static uint64_t fate(const struct sim *sim, uint32_t rank, uint32_t tensor,
                     uint32_t step)
{
    return mix(sim->plan->seed ^ mix(rank) ^ mix(tensor + 1000) ^
               mix(step + 2000000));
}

static bool is_absent(const struct sim *sim, uint32_t rank, uint32_t tensor,
                      uint32_t step)
{
    return fate(sim, rank, tensor, step) % 7 == 0;
}

static double weight_of(const struct sim *sim, uint32_t rank, uint32_t tensor,
                        uint32_t step)
{
    return (double)(fate(sim, rank, tensor, step) / 7 % 5);
}

static float element(const struct sim *sim, uint32_t rank, uint32_t tensor,
                     uint32_t step, uint64_t i)
{
    uint64_t bits = mix(fate(sim, rank, tensor, step) + i);

    return (float)((double)(bits >> 11) / (double)(1u << 30) - 4.0e6) *
           1e-6f;
}

static bool takes_part(const struct sim *sim, uint32_t rank, uint32_t step)
{
    return step < sim->workers[rank].steps;
}

/* ---- the reference ----------------------------------------------------- */

static bool answer_right(const struct sim *sim, const struct sim_worker *of,
                         uint32_t tensor, const float *answer,
                         const struct flight *flight)
{
    uint64_t count = of->model.tensors[tensor].count;
    uint32_t name = tensor - 1; /* tensor 0 is the barrier */
    uint32_t step = of->step;
    double total = 0;
    bool any = false;

    for (uint32_t r = 0; r < sim->plan->workers; r++) {
        if (takes_part(sim, r, step)) { /* absent: zeros, by its weight */
            any = any || !is_absent(sim, r, name, step);
            total += weight_of(sim, r, name, step);
        }
    }
    if (!any) {
        return (flight->flags & FRAME_FLAG_NOBODY) != 0;
    }
    for (uint64_t i = 0; i < count; i++) {
        float sum = 0.0f;
        bool first = true;

        for (uint32_t r = 0; r < sim->plan->workers; r++) {
            double n = weight_of(sim, r, name, step);
            float w;

            if (!takes_part(sim, r, step) || is_absent(sim, r, name, step) ||
                n == 0) {
                continue;
            }
            w = (float)(n / total);
            sum = first ? w * element(sim, r, name, step, i)
                        : sum + w * element(sim, r, name, step, i);
            first = false;
        }
        if (memcmp(&sum, &answer[i], sizeof(sum)) != 0) {
            return false;
        }
    }
    return true;
}

/* ---- workers ----------------------------------------------------------- */

static void worker_step(struct sim_worker *me);

static void on_done(void *user, uint32_t tensor)
{
    struct sim_worker *me = user;
    struct sim *sim = me->sim;
    struct flight *flight = &me->flights[tensor];
    const float *answer = (const float *)(void *)me->memory[tensor];

    sim->result->answers++;
    if (!answer_right(sim, me, tensor, answer, flight)) {
        sim->result->wrong++;
    }
    sim->result->digest = crc32c(
        sim->result->digest ^ (me->rank + 1) * 2654435761u, answer,
        (flight->flags & FRAME_FLAG_NOBODY) != 0
            ? 0
            : me->model.tensors[tensor].size);
    flight->in_flight = false;
    flight->step++;
    me->open--;
}

static void on_retry(struct loop_timer *timer)
{
    struct sim_worker *me = list_entry(timer, struct sim_worker, retry);

    for (uint32_t i = 0; i < me->worker.shard_count; i++) {
        struct auth_identity identity = { me->rank, 0, i };
        struct psd_link *link;
        char url[48];

        if (me->dead || me->worker.shards[i].link != NULL) {
            continue;
        }
        snprintf(url, sizeof(url), "inproc:%s", me->sim->shards[i].name);
        if (link_open(me->sim->loop, url, NULL, &identity,
                      &worker_link_events, &me->worker, &link) == PSD_OK) {
            worker_link(&me->worker, i, link);
        }
    }
}

static void on_lost(void *user, uint32_t shard, psd_status why)
{
    struct sim_worker *me = user;

    (void)shard;
    (void)why;
    me->sim->result->links_lost++;
    loop_timer_start(me->sim->loop, &me->retry, 1000, on_retry);
}

/* Push every tensor of this step, in an order of this rank's own. */
static void worker_step(struct sim_worker *me)
{
    struct sim *sim = me->sim;
    uint32_t count = sim->table.count;
    uint32_t from = (uint32_t)(chance(sim) % count);

    me->open = count;
    for (uint32_t k = 0; k < count; k++) {
        uint32_t name = (from + k) % count;
        uint32_t tensor = name + 1;
        struct flight *flight = &me->flights[tensor];
        float *memory = (float *)(void *)me->memory[tensor];

        for (uint64_t i = 0; i < sim->table.specs[name].count; i++) {
            memory[i] = element(sim, me->rank, name, me->step, i);
        }
        flight->out = (char *)memory;
        flight->data = is_absent(sim, me->rank, name, me->step)
                           ? NULL
                           : (char *)memory;
        flight->staged =
            sim->plan->faults.mapped && flight->data == NULL ? flight->out
                                                             : NULL;
        flight->weight = weight_of(sim, me->rank, name, me->step);
        flight->op = PSD_OP_MEAN;
        flight->flags = 0;
        flight->in_flight = true;
        worker_post(&me->worker, tensor);
    }
    worker_pump(&me->worker);
}

static void worker_run(struct sim_worker *me)
{
    if (me->dead || me->ended || me->finished || !me->registered) {
        return;
    }
    if (!me->started) {
        me->started = true;
        worker_step(me);
        return;
    }
    if (me->open > 0) {
        return;
    }
    if (!me->joined && ++me->step < me->steps) {
        worker_step(me);
    } else if (!me->joined) {
        me->joined = true;
        worker_join(&me->worker);
    } else if (worker_joined(&me->worker)) {
        me->finished = true;
        me->sim->result->finished++;
    }
}

/* ---- talking with the master ------------------------------------------- */

static void say(struct sim_worker *me, unsigned type, const struct pack *pack)
{
    struct frame_header header = { .type = (uint8_t)type,
                                   .rank = (uint16_t)me->rank,
                                   .size = (uint32_t)pack->size };

    PSD_ASSERT(link_send(me->master, &header, pack->data) == PSD_OK);
}

static void say_register(struct sim_worker *me)
{
    struct pack pack;
    struct message_table table = me->sim->table;

    if (me->sim->plan->differ && me->rank + 1 == me->sim->plan->workers) {
        table.count--;
    }
    pack_init(&pack);
    message_table_pack(&pack, &table);
    say(me, FRAME_REGISTER, &pack);
    pack_fini(&pack);
}

static psd_status worker_hears(void *user, struct psd_link *link,
                               const struct frame_header *header,
                               const void *payload)
{
    struct sim_worker *me = user;
    struct message_members members;
    struct message_end end;

    (void)link;
    if (header->type == FRAME_MEMBERS &&
        message_members_unpack(&members, payload, header->size) == PSD_OK) {
        me->worker.epoch = members.epoch;
        message_members_fini(&members);
        say_register(me);
    } else if (header->type == FRAME_REGISTERED) {
        me->registered = true;
        loop_timer_start(me->sim->loop, &me->retry, 1, on_retry);
    } else if (header->type == FRAME_END && !me->ended) {
        me->ended = true;
        me->sim->result->told++;
        if (me->sim->result->reason[0] == '\0' &&
            message_end_unpack(&end, payload, header->size) == PSD_OK) {
            snprintf(me->sim->result->reason,
                     sizeof(me->sim->result->reason), "%.500s", end.reason);
        }
    }
    return PSD_OK;
}

static psd_status master_hears(void *user, struct psd_link *link,
                               const struct frame_header *header,
                               const void *payload)
{
    struct sim *sim = user;
    struct frame_header trusted = *header;

    trusted.rank = (uint16_t)link->identity.rank;
    return master_deliver(sim->master, &trusted, payload);
}

static void nothing(void *user, struct psd_link *link)
{
    (void)user;
    (void)link;
}

static void control_down(void *user, struct psd_link *link, psd_status why)
{
    (void)user;
    (void)link;
    (void)why;
}

static void worker_up(void *user, struct psd_link *link)
{
    struct sim_worker *me = user;
    struct message_enter enter = { .pid = me->rank + 1 };
    struct pack pack;

    (void)link;
    pack_init(&pack);
    message_enter_pack(&pack, &enter);
    say(me, FRAME_ENTER, &pack);
    pack_fini(&pack);
}

static const struct link_events at_worker = {
    .deliver = worker_hears, .ready = nothing, .up = worker_up,
    .down = control_down,
};
static const struct link_events at_master = {
    .deliver = master_hears, .ready = nothing, .up = nothing,
    .down = control_down,
};

static enum auth_verdict master_accepts(void *user, struct psd_link *link)
{
    struct sim *sim = user;

    link->events = &at_master;
    link->user = sim;
    sim->at_master[link->identity.rank] = link;
    return AUTH_WELCOME;
}

static void master_sends(void *user, const struct frame_header *header,
                         const void *payload)
{
    struct sim *sim = user;

    if (header->type == FRAME_VERDICT || header->type == FRAME_VIEW) {
        return;
    }
    if (!sim->workers[header->rank].dead) {
        PSD_ASSERT(link_send(sim->at_master[header->rank], header, payload) ==
                   PSD_OK);
    }
}

static enum auth_verdict shard_accepts(void *user, struct psd_link *link)
{
    struct sim_shard *me = user;

    return shard_accept(&me->shard, link);
}

static const struct listen_events master_listens = { master_accepts };
static const struct listen_events shard_listens = { shard_accepts };

/* ---- the run ----------------------------------------------------------- */

static void make_table(struct sim *sim)
{
    const struct cluster_plan *plan = sim->plan;

    sim->table.count = plan->tensors;
    sim->table.specs =
        mem_zalloc_array(plan->tensors, sizeof(*sim->table.specs));
    for (uint32_t i = 0; i < plan->tensors; i++) {
        struct message_spec *spec = &sim->table.specs[i];

        snprintf(spec->name, sizeof(spec->name), "layer%u", i);
        spec->dtype = PSD_FLOAT32;
        spec->count = 1 + chance(sim) % plan->tensor_max;
        spec->priority = (int32_t)(chance(sim) % 4);
    }
}

static void make_worker(struct sim *sim, uint32_t rank)
{
    struct sim_worker *me = &sim->workers[rank];
    struct auth_identity identity = { rank, 0, 0 };

    me->sim = sim;
    me->rank = rank;
    me->steps = sim->plan->steps - rank % (sim->plan->spread + 1);
    list_init(&me->retry.node);
    PSD_ASSERT(model_init(&me->model, sim->plan->shards, BLOCK_SIZE) == 0);
    PSD_ASSERT(model_add_builtin(&me->model) == 0);
    PSD_ASSERT(model_add(&me->model, &sim->table) == 0);
    PSD_ASSERT(worker_init(&me->worker, &me->model, rank, sim->plan->workers,
                           sim->plan->shards) == 0);
    me->worker.paced = sim->plan->seed % 4 != 0;
    me->worker.user = me;
    me->worker.done = on_done;
    me->worker.lost = on_lost;
    me->flights = mem_zalloc_array(me->model.tensor_count,
                                   sizeof(*me->flights));
    me->memory = mem_zalloc_array(me->model.tensor_count,
                                  sizeof(*me->memory));
    for (uint32_t t = 1; t < me->model.tensor_count; t++) {
        me->memory[t] = mem_zalloc(me->model.tensors[t].size);
    }
    PSD_ASSERT(worker_add(&me->worker, me->flights) == 0);
    PSD_ASSERT(link_open(sim->control, "inproc:master", NULL, &identity,
                         &at_worker, me, &me->master) == 0);
}

static void make_shard(struct sim *sim, uint32_t index)
{
    struct sim_shard *me = &sim->shards[index];

    me->sim = sim;
    snprintf(me->name, sizeof(me->name), "shard%u", index);
    PSD_ASSERT(model_init(&me->model, sim->plan->shards, BLOCK_SIZE) == 0);
    PSD_ASSERT(model_add_builtin(&me->model) == 0);
    PSD_ASSERT(model_add(&me->model, &sim->table) == 0);
    PSD_ASSERT(shard_init(&me->shard, &me->model, index,
                          sim->plan->workers) == 0);
    PSD_ASSERT(shard_add(&me->shard) == 0);
    me->shard.epoch = 1;
    PSD_ASSERT(inproc_listen(sim->hub, me->name, &shard_listens, me) == 0);
}

static void somebody_dies(struct sim *sim)
{
    uint32_t who = (uint32_t)(chance(sim) % sim->plan->workers);

    sim->dead = true;
    if (sim->plan->shard_dies) {
        uint32_t shard = (uint32_t)(chance(sim) % sim->plan->shards);

        inproc_vanish(sim->hub, sim->shards[shard].name);
        /* It was played by a worker: that is who the master loses. */
        who = shard % sim->plan->workers;
    }
    sim->workers[who].dead = true;
    for (uint32_t i = 0; i < sim->plan->shards; i++) {
        link_close(sim->workers[who].worker.shards[i].link);
        sim->workers[who].worker.shards[i].link = NULL;
        sim->workers[who].worker.shards[i].up = false;
    }
    master_lost(sim->master, false, who, "worker was killed by signal 9");
}

static bool all_settled(const struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->workers; i++) {
        const struct sim_worker *me = &sim->workers[i];

        if (!me->dead && !me->ended && !me->finished) {
            return false;
        }
    }
    return true;
}

/* One round of everybody; moves the clock on when nothing is due. */
static void sim_move(struct sim *sim)
{
    unsigned moved = loop_dispatch(sim->control, NULL);
    uint64_t next;

    moved += loop_dispatch(sim->loop, NULL);
    for (uint32_t i = 0; i < sim->plan->workers; i++) {
        worker_run(&sim->workers[i]);
    }
    if (sim->plan->dies_at != 0 && !sim->dead &&
        sim->result->answers >= sim->plan->dies_at) {
        somebody_dies(sim);
    }
    next = inproc_next_ns(sim->hub);
    if (moved == 0) {
        sim->now = next != UINT64_MAX && next > sim->now ? next
                                                         : sim->now + 500;
    }
}

static void sim_free(struct sim *sim)
{
    for (uint32_t i = 0; i < sim->plan->workers; i++) {
        struct sim_worker *me = &sim->workers[i];

        loop_timer_stop(&me->retry);
        worker_fini(&me->worker);
        link_close(me->master);
        link_close(sim->at_master[i]);
        for (uint32_t t = 1; t < me->model.tensor_count; t++) {
            mem_free(me->memory[t]);
        }
        mem_free(me->memory);
        mem_free(me->flights);
        model_fini(&me->model);
    }
    for (uint32_t i = 0; i < sim->plan->shards; i++) {
        shard_fini(&sim->shards[i].shard);
        model_fini(&sim->shards[i].model);
    }
    master_destroy(sim->master);
    inproc_hub_destroy(sim->hub);
    inproc_hub_destroy(sim->control_hub);
    loop_destroy(sim->loop);
    loop_destroy(sim->control);
    mem_free(sim->table.specs);
    mem_free(sim->workers);
    mem_free(sim->shards);
    mem_free(sim->at_master);
    clock_replace(NULL);
}

void cluster_run(const struct cluster_plan *plan,
                 struct cluster_result *result)
{
    struct sim sim = { .plan = plan, .result = result, .now = 1,
                       .random = plan->seed };
    struct master_events events = { &sim, master_sends };
    struct inproc_faults none = { .mapped = false };
    struct master_size size = { plan->workers, 0, 1, 1 };

    *result = (struct cluster_result){ .answers = 0 };
    clock_replace(&sim.now);
    PSD_ASSERT(loop_create(&sim.loop) == 0);
    PSD_ASSERT(loop_create(&sim.control) == 0);
    PSD_ASSERT(inproc_hub_create(sim.loop, &plan->faults, &sim.hub) == 0);
    PSD_ASSERT(inproc_hub_create(sim.control, &none, &sim.control_hub) == 0);
    PSD_ASSERT(master_create(&size, &events, &sim.master) == 0);
    PSD_ASSERT(inproc_listen(sim.control_hub, "master", &master_listens,
                             &sim) == 0);
    sim.workers = mem_zalloc_array(plan->workers, sizeof(*sim.workers));
    sim.shards = mem_zalloc_array(plan->shards, sizeof(*sim.shards));
    sim.at_master = mem_zalloc_array(plan->workers, sizeof(*sim.at_master));
    make_table(&sim);
    for (uint32_t i = 0; i < plan->shards; i++) {
        make_shard(&sim, i);
    }
    for (uint32_t i = 0; i < plan->workers; i++) {
        make_worker(&sim, i);
    }
    for (uint32_t moves = 0; !all_settled(&sim); moves++) {
        if (moves == MOVES_MAX) {
            result->hung = true;
            break;
        }
        sim_move(&sim);
    }
    sim_free(&sim);
}
