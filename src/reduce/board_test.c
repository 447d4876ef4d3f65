/*
 * board_test.c: ranks of one host as threads, or as processes that each map
 * the regions for themselves, sum over the board and compare what they get
 * with the reference, to the bit.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/claim.h"
#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "worker/host.h"

#define RANKS_MAX 4
#define ARENA_SIZE ((size_t)64 << 20)
#define BOARD_SIZE ((size_t)8 << 20)
#define SHARED_SIZE (BOARD_SIZE + RANKS_MAX * ARENA_SIZE)
#define BLOCK_SIZE (64u << 10)
#define STEPS 6
#define TENSORS 5
#define GIVE_UP_S 60
#define LOOKS_CALM 12

/* Tensor 0 is the barrier. */
enum { BARRIER, TINY, SMALL, MIDDLE, LARGE, GATHER, STORE, COMMON, ALL };
static const uint32_t counts[ALL] = { 1,      3,   1001, 50021,
                                      400009, 700, 9001, 70001 };

struct seat;
typedef void script_call(struct seat *seat);

struct plan {
    uint32_t ranks;
    uint64_t keep_min;   /* see host.h */
    script_call *script;
    bool processes;
};

/* One rank. */
struct seat {
    const struct plan *plan;
    uint32_t rank;
    int fd;                 /* of the regions; -1: `shared` is the view */
    char *shared;
    _Atomic uint32_t *wrong; /* in shared memory */
    struct shm_board shm;
    char *arenas[RANKS_MAX];
    struct arena arena;
    struct model model;
    struct flight flights[ALL];
    struct host host;
    char *own[ALL];         /* private memory by tensor */
    char *other[ALL];       /* more of it, for answers elsewhere */
    char *lent[ALL];        /* the arena's */
    pthread_t thread;
    pid_t pid;
};

static void check(struct seat *seat, bool good, const char *what)
{
    if (!good) {
        fprintf(stderr, "rank %u: %s\n", seat->rank, what);
        atomic_fetch_add(seat->wrong, 1);
    }
}

/* ---- a seat ------------------------------------------------------------- */

static void seat_done(void *user, uint32_t tensor)
{
    struct seat *seat = user;

    seat->flights[tensor].in_flight = false;
    seat->flights[tensor].step++;
}

static void seat_model(struct seat *seat)
{
    static const char *const names[ALL] = { "", "tiny", "small", "middle",
                                            "large", "gather", "store",
                                            "common" };
    struct message_spec specs[ALL];
    struct message_table table = { ALL - 1, specs + 1 };

    for (uint32_t t = 1; t < ALL; t++) {
        specs[t] = (struct message_spec){ .dtype = PSD_FLOAT32,
                                          .count = counts[t] };
        snprintf(specs[t].name, sizeof(specs[t].name), "%s", names[t]);
    }
    specs[GATHER].kind = PSD_KIND_GATHER;
    specs[COMMON].kind = PSD_KIND_SHARED;
    specs[STORE].kind = PSD_KIND_STORE;
    specs[STORE].rate = 0.1;
    specs[STORE].momentum = 0.9;
    snprintf(specs[STORE].optim, sizeof(specs[STORE].optim), "momentum");
    PSD_ASSERT(model_init(&seat->model, seat->plan->ranks, BLOCK_SIZE) == 0);
    PSD_ASSERT(model_add_builtin(&seat->model) == 0);
    PSD_ASSERT(model_add(&seat->model, &table) == 0);
}

static void seat_open(struct seat *seat)
{
    uint32_t ranks = seat->plan->ranks;

    if (seat->fd >= 0) {
        seat->shared = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE,
                            MAP_SHARED, seat->fd, 0);
        PSD_ASSERT(seat->shared != MAP_FAILED);
    }
    PSD_ASSERT(shm_board_init(&seat->shm, seat->shared, BOARD_SIZE, ranks,
                              0) == PSD_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        seat->arenas[r] = seat->shared + BOARD_SIZE + r * ARENA_SIZE;
    }
    arena_init(&seat->arena, seat->arenas[seat->rank], ARENA_SIZE);
    seat_model(seat);
    PSD_ASSERT(host_init(&seat->host, &seat->shm, &seat->model, seat->rank,
                         ranks, seat->arenas, &seat->arena) == PSD_OK);
    seat->host.user = seat;
    seat->host.done = seat_done;
    seat->host.keep_min = seat->plan->keep_min;
    PSD_ASSERT(host_add(&seat->host, seat->flights) == PSD_OK);
    for (uint32_t t = 0; t < ALL; t++) {
        size_t size = (size_t)seat->model.tensors[t].size * ranks + 64;

        seat->own[t] = mem_zalloc(size);
        seat->other[t] = mem_zalloc(size);
        seat->lent[t] = arena_alloc(&seat->arena, size);
        PSD_ASSERT(seat->own[t] && seat->other[t] && seat->lent[t]);
    }
}

static void seat_close(struct seat *seat)
{
    for (uint32_t t = 0; t < ALL; t++) {
        mem_free(seat->own[t]);
        mem_free(seat->other[t]);
    }
    host_fini(&seat->host);
    model_fini(&seat->model);
    arena_fini(&seat->arena);
    if (seat->fd >= 0) {
        munmap(seat->shared, SHARED_SIZE);
    }
}

/* ---- the reference ------------------------------------------------------ */

static uint64_t fate(uint32_t rank, uint32_t tensor, uint64_t step)
{
    return claim_mix(rank * 1000 + tensor * 100000 + step * 10000000);
}

static bool is_absent(uint32_t rank, uint32_t tensor, uint64_t step)
{
    return fate(rank, tensor, step) % 6 == 0;
}

static double weight_of(uint32_t rank, uint32_t tensor, uint64_t step)
{
    return (double)(fate(rank, tensor, step) / 6 % 4);
}

static float element(uint32_t rank, uint32_t tensor, uint64_t step,
                     uint64_t i)
{
    uint64_t bits = claim_mix(fate(rank, tensor, step) + i);

    return (float)((double)(bits >> 12) * 0x1p-50 - 2.0);
}

/* Who takes part in `step`: all, or those whose data last that long. */
struct round {
    uint32_t tensor;
    uint64_t step;
    bool takes_part[RANKS_MAX];
};

static float mean_at(const struct seat *seat, const struct round *round,
                     uint64_t i, double total)
{
    volatile float sum = 0;
    bool first = true;

    for (uint32_t r = 0; r < seat->plan->ranks; r++) {
        double n = weight_of(r, round->tensor, round->step);
        volatile float w = (float)(n / total);
        volatile float term;

        if (round->takes_part[r] &&
            !is_absent(r, round->tensor, round->step) && n > 0) {
            term = w * element(r, round->tensor, round->step, i);
            sum = first ? term : sum + term;
            first = false;
        }
    }
    return sum;
}

/* `untouched` is what was in the memory before. */
static void check_mean(struct seat *seat, const struct round *round,
                       const float *got, const float *untouched)
{
    const struct flight *flight = &seat->flights[round->tensor];
    double total = 0;
    bool any = false;
    uint32_t contributors = 0;

    for (uint32_t r = 0; r < seat->plan->ranks; r++) {
        if (round->takes_part[r]) { /* absent: zeros, by its weight */
            double n = weight_of(r, round->tensor, round->step);

            any = any || !is_absent(r, round->tensor, round->step);
            total += n;
            contributors += n > 0;
        }
    }
    contributors = any ? contributors : 0;
    check(seat, ((flight->flags & FRAME_FLAG_NOBODY) != 0) == !any, "nobody");
    check(seat, ((flight->flags & FRAME_FLAG_NOWEIGHT) != 0) ==
                    (any && contributors == 0), "no weight");
    check(seat, flight->contributors == contributors, "contributors");
    for (uint64_t i = 0; i < counts[round->tensor]; i++) {
        float wanted = any ? mean_at(seat, round, i, total) : untouched[i];

        if (memcmp(&wanted, &got[i], sizeof(wanted)) != 0) {
            check(seat, false, "an element is not the reference");
            return;
        }
    }
}

/* ---- one exchange ------------------------------------------------------- */

static void await(struct seat *seat, uint32_t tensor)
{
    unsigned looks = 0;

    while (seat->flights[tensor].in_flight) {
        mem_path_enter();
        if (host_progress(&seat->host, looks > LOOKS_CALM) > 0) {
            looks = 0;
        } else {
            looks++;
            sched_yield();
        }
        mem_path_leave();
    }
}

static void launch(struct seat *seat, uint32_t tensor, const char *data,
                   char *out, double weight, unsigned op)
{
    struct flight *flight = &seat->flights[tensor];

    flight->data = data;
    flight->out = out;
    flight->weight = weight;
    flight->op = (uint8_t)op;
    flight->flags = 0;
    flight->contributors = 0;
    flight->bad = 0;
    flight->in_flight = true;
    host_post(&seat->host, tensor);
}

static void barrier(struct seat *seat)
{
    int32_t *one = (void *)seat->own[BARRIER];

    *one = 1;
    launch(seat, BARRIER, (char *)one, (char *)one, 1, PSD_OP_SUM);
    await(seat, BARRIER);
    check(seat, *one == (int32_t)seat->plan->ranks, "the barrier's count");
}

/* Push from memory of a kind that differs by rank, tensor and step; returns
 * where the answer will be. `before` gets what is there now. */
static char *push(struct seat *seat, uint32_t tensor, uint64_t step,
                  float *before)
{
    unsigned kind = (unsigned)(seat->rank + tensor + step) % 4;
    bool absent = is_absent(seat->rank, tensor, step);
    char *data = kind == 0 || kind == 3 ? seat->lent[tensor]
                                        : seat->own[tensor];
    char *out = kind == 2 || kind == 3 ? seat->other[tensor] : data;
    float *numbers = (void *)data;

    for (uint64_t i = 0; i < counts[tensor]; i++) {
        numbers[i] = element(seat->rank, tensor, step, i);
    }
    memcpy(before, out, counts[tensor] * sizeof(float));
    launch(seat, tensor, absent ? NULL : data, out,
           weight_of(seat->rank, tensor, step), PSD_OP_MEAN);
    return out;
}

/* ---- scripts ------------------------------------------------------------ */

static void make_step(struct seat *seat, uint64_t step, struct round *round)
{
    char *out[TENSORS];
    float *before[TENSORS];

    for (uint32_t k = 1; k < TENSORS; k++) { /* an order of one's own */
        uint32_t t = 1 + (k * (1 + seat->rank % 2 * 2) + seat->rank) % 4;

        before[t] = mem_zalloc_array(counts[t], sizeof(float));
        out[t] = push(seat, t, step, before[t]);
    }
    for (uint32_t t = 1; t < TENSORS; t++) {
        check(seat, seat->flights[t].step == step ||
                        !seat->flights[t].in_flight, "the step");
        await(seat, t);
        round->tensor = t;
        round->step = step;
        check_mean(seat, round, (void *)out[t], before[t]);
        mem_free(before[t]);
    }
}

static void steps_script(struct seat *seat)
{
    struct round round = { .takes_part = { true, true, true, true } };

    for (uint64_t step = 0; step < STEPS; step++) {
        make_step(seat, step, &round);
    }
}

/* Rank r has data for STEPS - r steps. */
static void join_script(struct seat *seat)
{
    struct board *board = &seat->host.board;
    struct round round = { .tensor = 0 };

    for (uint32_t step = 0; step + seat->rank < STEPS; step++) {
        for (uint32_t r = 0; r < seat->plan->ranks; r++) {
            round.takes_part[r] = step + r < STEPS;
        }
        make_step(seat, step, &round);
    }
    board_join(board);
    while (!board_joined(board)) {
        host_progress(&seat->host, false);
        sched_yield();
    }
    board->generation++;
    for (uint32_t t = 0; t < ALL; t++) {
        const struct board_cell *cell =
            board_cell(board, seat->model.tensors[t].block_first);

        seat->flights[t].step = atomic_load(&cell->done);
        check(seat, seat->flights[t].step ==
                        (t == BARRIER ? 1 : t < TENSORS ? STEPS : 0),
              "equal steps");
    }
    memset(round.takes_part, true, sizeof(round.takes_part));
    make_step(seat, STEPS, &round);
    make_step(seat, STEPS + 1, &round);
}

static uint32_t gather_count(uint32_t rank, uint64_t step)
{
    return (uint32_t)(fate(rank, GATHER, step) % (counts[GATHER] + 1));
}

static void gather_script(struct seat *seat)
{
    uint32_t ranks = seat->plan->ranks;
    size_t front = reduce_gather_size(ranks, counts[GATHER] * 4);

    for (uint64_t step = 0; step < STEPS; step++) {
        struct flight *flight = &seat->flights[GATHER];
        uint32_t mine = gather_count(seat->rank, step);
        char *room = arena_alloc(&seat->arena, front + counts[GATHER] * 4);
        const float *at = (void *)(room + ranks * 8);
        float *data = (void *)(room + front);

        for (uint32_t i = 0; i < mine; i++) {
            data[i] = element(seat->rank, GATHER, step, i);
        }
        flight->staged = room;
        flight->length = mine * 4;
        launch(seat, GATHER, (char *)data, seat->other[GATHER], 1,
               WIRE_OP_GATHER);
        await(seat, GATHER);
        for (uint32_t r = 0; r < ranks; r++) {
            uint32_t count = gather_count(r, step);

            check(seat, le_get_u64(room + 8 * r) == count * 4, "a length");
            for (uint32_t i = 0; i < count; i++) {
                check(seat, *at++ == element(r, GATHER, step, i), "gathered");
            }
        }
        arena_free(&seat->arena, room);
    }
}

/* Everybody at its own pace: rank r adds 1 to every element 20 (r + 1) times.
 * Sums of whole numbers are exact in any order. */
static void common_script(struct seat *seat)
{
    uint32_t ranks = seat->plan->ranks;
    float total = (float)(10 * ranks * (ranks + 1));
    float *data = (void *)seat->own[COMMON];
    const float *seen = (void *)seat->other[COMMON];
    float before = 0;

    for (uint32_t k = 0; k < 20 * (seat->rank + 1); k++) {
        for (uint32_t i = 0; i < counts[COMMON]; i++) {
            data[i] = 1;
        }
        launch(seat, COMMON, (char *)data, seat->other[COMMON], 1,
               PSD_OP_SUM);
        await(seat, COMMON);
        check(seat, seen[0] > before && seen[0] <= total, "it grows");
        before = seen[0];
    }
    barrier(seat);
    launch(seat, COMMON, NULL, seat->other[COMMON], 0, 0);
    await(seat, COMMON);
    for (uint32_t i = 0; i < counts[COMMON]; i++) {
        check(seat, seen[i] == total, "no push is lost or counted twice");
    }
    barrier(seat); /* the value is in somebody's arena */
}

static float store_grad(const struct seat *seat, uint64_t step, uint64_t i)
{
    volatile float sum = 0;

    for (uint32_t r = 0; r < seat->plan->ranks; r++) {
        volatile float w = (float)(1.0 / seat->plan->ranks);
        volatile float term = w * element(r, STORE, step, i);

        sum = r == 0 ? term : sum + term;
    }
    return sum;
}

static void store_script(struct seat *seat)
{
    bool root = seat->rank == 1;
    float *data = (void *)seat->own[STORE];
    float *value = mem_zalloc_array(counts[STORE], sizeof(float));
    float *velocity = mem_zalloc_array(counts[STORE], sizeof(float));

    for (uint32_t i = 0; i < counts[STORE]; i++) {
        value[i] = element(99, STORE, 0, i);
        data[i] = root ? value[i] : 0;
    }
    launch(seat, STORE, root ? (char *)data : NULL, (char *)data, root,
           WIRE_OP_COPY);
    await(seat, STORE);
    check(seat, memcmp(data, value, counts[STORE] * 4) == 0, "broadcast");
    for (uint64_t step = 1; step <= 20; step++) {
        for (uint32_t i = 0; i < counts[STORE]; i++) {
            volatile float kept = 0.9f * velocity[i];
            volatile float change;

            velocity[i] = kept + store_grad(seat, step, i);
            change = 0.1f * velocity[i];
            value[i] = value[i] - change;
            data[i] = element(seat->rank, STORE, step, i);
        }
        launch(seat, STORE, (char *)data, (char *)data, 1, PSD_OP_MEAN);
        await(seat, STORE);
        check(seat, memcmp(data, value, counts[STORE] * 4) == 0, "stored");
    }
    mem_free(value);
    mem_free(velocity);
}

/* In step s rank s % ranks has a NaN in the last block, rank 0 an infinity in
 * the first every third step, and every fifth the sum overflows besides. */
static uint32_t spoil(float *data, uint32_t rank, uint32_t ranks,
                      uint64_t step)
{
    uint64_t last = counts[MIDDLE] - 1;
    bool all = step % 3 == 0;

    data[last / 2] = step % 5 == 0 ? 3e38f : 1;
    if (step % 4 != 3 && rank == step % ranks) {
        data[last] = NAN;
    }
    if (all && rank == 0) {
        data[0] = INFINITY;
    }
    return all                ? 1
           : step % 4 != 3    ? (uint32_t)(step % ranks) + 1
           : step % 5 == 0    ? ranks + 1
                              : 0;
}

static void not_finite_script(struct seat *seat)
{
    for (uint64_t step = 0; step < 24; step++) {
        bool lent = (seat->rank + step) % 2 == 0;
        float *data = (void *)(lent ? seat->lent[MIDDLE] : seat->own[MIDDLE]);
        uint32_t wanted;

        for (uint64_t i = 0; i < counts[MIDDLE]; i++) {
            data[i] = element(seat->rank, MIDDLE, step, i);
        }
        wanted = spoil(data, seat->rank, seat->plan->ranks, step);
        launch(seat, MIDDLE, (char *)data, (char *)data, 1, PSD_OP_SUM);
        await(seat, MIDDLE);
        check(seat, seat->flights[MIDDLE].bad == wanted, "who is not finite");
        check(seat, seat->flights[MIDDLE].flags == 0, "no flag");
    }
}

/* ---- running them ------------------------------------------------------- */

static void *seat_run(void *seat)
{
    seat_open(seat);
    barrier(seat);
    ((struct seat *)seat)->plan->script(seat);
    seat_close(seat);
    return NULL;
}

static void run(const struct plan *plan)
{
    int fd = memfd_create("board", MFD_CLOEXEC);
    char *shared;
    struct seat *seats = mem_zalloc_array(plan->ranks, sizeof(*seats));
    _Atomic uint32_t *wrong = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_int_equal(ftruncate(fd, (off_t)SHARED_SIZE), 0);
    shared = mmap(NULL, SHARED_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                  0);
    assert_true(shared != MAP_FAILED && wrong != MAP_FAILED);
    shm_board_format(shared, plan->ranks, 0);
    alarm(GIVE_UP_S);
    for (uint32_t r = 0; r < plan->ranks; r++) {
        struct seat *seat = &seats[r];

        *seat = (struct seat){ .plan = plan, .rank = r, .shared = shared,
                               .fd = plan->processes ? fd : -1,
                               .wrong = wrong };
        if (!plan->processes) {
            assert_int_equal(
                pthread_create(&seat->thread, NULL, seat_run, seat), 0);
        } else if ((seat->pid = fork()) == 0) {
            alarm(GIVE_UP_S);
            seat_run(seat);
            _exit(0);
        }
    }
    for (uint32_t r = 0; r < plan->ranks; r++) {
        int status = 0;

        assert_true(plan->processes
                        ? waitpid(seats[r].pid, &status, 0) == seats[r].pid
                        : pthread_join(seats[r].thread, NULL) == 0);
        assert_int_equal(status, 0);
    }
    alarm(0);
    assert_int_equal(atomic_load(wrong), 0);
    munmap(shared, SHARED_SIZE);
    munmap((void *)(uintptr_t)wrong, 4096);
    close(fd);
    mem_free(seats);
}

static void run_all(script_call *script)
{
    for (uint32_t ranks = 2; ranks <= RANKS_MAX; ranks++) {
        struct plan plan = { ranks, UINT64_MAX, script, false };

        run(&plan);        /* private memory is staged */
        plan.keep_min = 0; /* its owner keeps it */
        run(&plan);
        if (!CLAIM_TSAN) {
            plan.processes = true;
            run(&plan);
            plan.keep_min = UINT64_MAX;
            run(&plan);
        }
    }
}

static void steps_in_any_order_and_memory_are_the_reference(void **state)
{
    (void)state;
    run_all(steps_script);
}

static void who_joins_is_not_waited_for_and_comes_back(void **state)
{
    (void)state;
    run_all(join_script);
}

static void gathering_gives_every_rank_all_in_rank_order(void **state)
{
    (void)state;
    run_all(gather_script);
}

static void stored_values_follow_the_reference_for_20_steps(void **state)
{
    (void)state;
    run_all(store_script);
}

static void a_shared_value_takes_every_push_of_every_rank(void **state)
{
    (void)state;
    run_all(common_script);
}

static void every_rank_hears_who_was_not_finite(void **state)
{
    (void)state;
    run_all(not_finite_script);
}

/* What another process wrote is looked at before it is followed. */
static void an_entry_that_leads_astray_fails_the_job(void **state)
{
    static const struct {
        uint64_t offset;
        uint32_t length;
        uint8_t op;
    } bad[] = {
        { ARENA_SIZE, 12, PSD_OP_MEAN },
        { ARENA_SIZE - 11, 12, PSD_OP_MEAN },
        { UINT64_MAX - 3, 12, PSD_OP_MEAN },
        { 64, 16, PSD_OP_MEAN },
        { 64, 12, WIRE_OP_GATHER },
        { 64, 12, PSD_OP_OR },
        { 64, 12, 99 },
    };
    struct plan plan = { 2, UINT64_MAX, NULL, false };
    _Atomic uint32_t wrong = 0;
    struct seat seat = { .plan = &plan, .fd = -1, .wrong = &wrong };

    (void)state;
    seat.shared = mem_map(SHARED_SIZE);
    shm_board_format(seat.shared, 2, 0);
    seat_open(&seat);
    for (size_t i = 0; i < CLAIM_COUNT(bad); i++) {
        struct board_cell *cell =
            board_cell(&seat.host.board, seat.model.tensors[TINY].block_first);
        struct board_entry *entry = &cell->entry[1];

        memset(seat.lent[TINY], 0x55, 32);
        atomic_store(&seat.shm.head->failed, 0);
        entry->offset = bad[i].offset;
        entry->length = bad[i].length;
        entry->op = bad[i].op;
        entry->weight = 1;
        atomic_store(&entry->turn, (uint32_t)i + 1);
        launch(&seat, TINY, NULL, seat.lent[TINY], 0, 0);
        await(&seat, TINY);
        assert_int_equal(atomic_load(&seat.shm.head->failed), 1);
        for (unsigned k = 0; k < 32; k++) {
            assert_int_equal(seat.lent[TINY][k], 0x55);
        }
    }
    seat_close(&seat);
    mem_unmap(seat.shared, SHARED_SIZE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_in_any_order_and_memory_are_the_reference),
        cmocka_unit_test(who_joins_is_not_waited_for_and_comes_back),
        cmocka_unit_test(gathering_gives_every_rank_all_in_rank_order),
        cmocka_unit_test(stored_values_follow_the_reference_for_20_steps),
        cmocka_unit_test(a_shared_value_takes_every_push_of_every_rank),
        cmocka_unit_test(every_rank_hears_who_was_not_finite),
        cmocka_unit_test(an_entry_that_leads_astray_fails_the_job),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
