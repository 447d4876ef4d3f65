/*
 * exchange.c: every call of poseidon.h that exchanges something, with answers
 * that each rank can compute by itself. Run under psd_run in every way that a
 * gradient can go; exits with the line that was wrong.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "poseidon.h"

#define STEPS 12
#define BIG 150001 /* elements; several blocks on every way */

static struct psd_session *session;
static uint32_t rank;
static uint32_t size;

#define CHECK(condition)                                                  \
    do {                                                                  \
        if (!(condition)) {                                               \
            fprintf(stderr, "exchange: rank %u: line %d: %s (%s)\n",      \
                    rank, __LINE__, #condition, psd_error(session));      \
            psd_abort(session, 99, "exchange: a check failed");           \
            exit(99);                                                     \
        }                                                                 \
    } while (0)

static float value(uint32_t r, uint32_t step, size_t i)
{
    uint32_t x = (uint32_t)i * 2654435761u + r * 40503u + step * 977u;

    return (float)(int32_t)(x ^ (x >> 15)) * 0x1p-31f;
}

/* Rank r's samples in a step; sometimes none. */
static double samples(uint32_t r, uint32_t step)
{
    return (double)((r + step) % 4);
}

static float mean(uint32_t step, size_t i)
{
    double total = 0;
    float sum = 0;
    int first = 1;

    for (uint32_t r = 0; r < size; r++) {
        total += samples(r, step);
    }
    for (uint32_t r = 0; r < size; r++) {
        float w = (float)(samples(r, step) / total);

        if (samples(r, step) > 0) {
            sum = first ? w * value(r, step, i)
                        : sum + w * value(r, step, i);
            first = 0;
        }
    }
    return sum;
}

/* Means of a large and many small tensors, arena and private memory, pushed
 * in an order of each rank's own. */
static void train(const psd_tensor *tensors, float *const *data,
                  const size_t *count, uint32_t tensor_count)
{
    for (uint32_t step = 0; step < STEPS; step++) {
        psd_ticket tickets[64];
        int nobody = 1;

        psd_mark(session, "step", 1);
        psd_mark(session, "backward", 1);
        for (uint32_t r = 0; r < size; r++) {
            nobody = nobody && samples(r, step) == 0;
        }
        for (uint32_t k = 0; k < tensor_count; k++) {
            uint32_t t = (k + rank + step) % tensor_count;
            struct psd_push_args args = { .data = data[t],
                                          .weight = samples(rank, step) };

            for (size_t i = 0; i < count[t]; i++) {
                data[t][i] = value(rank, step, i);
            }
            if (samples(rank, step) == 0) {
                data[t][0] = NAN; /* must be skipped, not multiplied */
            }
            CHECK(psd_push(session, tensors[t], &args, &tickets[t]) ==
                  PSD_OK);
            CHECK(psd_push(session, tensors[t], &args, NULL) == PSD_EINVAL);
        }
        psd_mark(session, "backward", 0);
        for (uint32_t t = 0; t < tensor_count; t++) {
            struct psd_result result;

            CHECK(psd_wait(session, tickets[t], &result) == PSD_OK);
            CHECK(psd_wait(session, tickets[t], NULL) == PSD_EINVAL);
            CHECK(result.step == step);
            CHECK((int)result.no_weight == nobody && result.nobody == 0);
            CHECK(result.bad == 0);
            for (size_t i = 0; i < count[t]; i++) {
                float right = nobody ? 0 : mean(step, i);

                CHECK(memcmp(&data[t][i], &right, sizeof(right)) == 0);
            }
        }
        psd_mark(session, "step", 0);
    }
}

static void train_all(void)
{
    static const size_t count[] = { BIG, 1, 1000, 7, 20000, 1025 };
    struct psd_spec specs[6] = { { 0 } };
    char names[6][16];
    psd_tensor tensors[6];
    float *data[6];

    for (uint32_t t = 0; t < 6; t++) {
        snprintf(names[t], sizeof(names[t]), "layer%u", t);
        specs[t] = (struct psd_spec){ .name = names[t], .dtype = PSD_FLOAT32,
                                      .count = count[t],
                                      .priority = (int32_t)t };
    }
    CHECK(psd_register(session, specs, 6, tensors) == PSD_OK);
    for (uint32_t kind = 0; kind < 2; kind++) {
        for (uint32_t t = 0; t < 6; t++) {
            size_t bytes = count[t] * sizeof(float);

            data[t] = kind == 0 ? psd_alloc(session, bytes) : malloc(bytes);
            CHECK(data[t] != NULL);
            CHECK(psd_contains(session, data[t], bytes) == (kind == 0));
        }
        /* The second time the steps go on from STEPS, so begin anew. */
        if (kind == 1) {
            for (uint32_t t = 0; t < 6; t++) {
                names[t][0] = 'm';
            }
            CHECK(psd_register(session, specs, 6, tensors) == PSD_OK);
        }
        train(tensors, data, count, 6);
        for (uint32_t t = 0; t < 6; t++) {
            if (kind == 0) {
                psd_free(session, data[t]);
            } else {
                free(data[t]);
            }
        }
    }
}

static void reduce_others(void)
{
    struct psd_spec specs[] = {
        { .name = "int", .dtype = PSD_INT64, .count = 3000 },
        { .name = "double", .dtype = PSD_FLOAT64, .count = 3000 },
    };
    static int64_t whole[3000];
    static double real[3000];
    psd_tensor tensors[2];
    psd_ticket ticket;
    struct psd_result result;
    struct psd_push_args args = { .data = whole, .weight = 1,
                                  .op = PSD_OP_MEAN };

    CHECK(psd_register(session, specs, 2, tensors) == PSD_OK);
    CHECK(psd_push(session, tensors[0], &args, NULL) == PSD_EINVAL);
    for (int i = 0; i < 3000; i++) {
        whole[i] = INT64_C(1) << (rank + (uint32_t)i % 8);
        real[i] = rank == (uint32_t)i % size ? 7.5 : -1.0 * i;
    }
    CHECK(psd_push_pull(session, tensors[0], whole, 1, PSD_OP_OR, NULL) ==
          PSD_OK);
    CHECK(psd_push_pull(session, tensors[1], real, 1, PSD_OP_MAX, NULL) ==
          PSD_OK);
    for (int i = 0; i < 3000; i++) {
        CHECK(whole[i] == ((INT64_C(1) << size) - 1) << (i % 8));
        CHECK(real[i] == (size == 1 || i > -1 ? fmax(7.5, -1.0 * i) : 0));
    }
    /* Absent: rank 0 alone has something, then nobody. */
    if (rank == 0) {
        args = (struct psd_push_args){ .data = real, .weight = 2 };
        CHECK(psd_push(session, tensors[1], &args, &ticket) == PSD_OK);
    } else {
        CHECK(psd_push_absent(session, tensors[1], real, &ticket) == PSD_OK);
    }
    CHECK(psd_wait(session, ticket, &result) == PSD_OK);
    CHECK(result.contributors == 1 && result.nobody == 0);
    CHECK(real[0] == 7.5);
    real[1] = rank;
    CHECK(psd_push_absent(session, tensors[1], real, &ticket) == PSD_OK);
    CHECK(psd_wait(session, ticket, &result) == PSD_OK);
    CHECK(result.nobody == 1 && real[1] == rank);
}

static void gather_and_broadcast(void)
{
    struct psd_spec specs[] = {
        { .name = "rows", .dtype = PSD_INT32, .count = 5000,
          .kind = PSD_KIND_GATHER },
        { .name = "start", .dtype = PSD_FLOAT32, .count = BIG },
    };
    psd_tensor tensors[2];
    psd_ticket ticket;
    int32_t *out = malloc(sizeof(*out) * 5000 * size);
    float *start = malloc(sizeof(*start) * BIG);
    uint64_t *counts = malloc(sizeof(*counts) * size);
    int32_t mine[5000];

    CHECK(out != NULL && start != NULL && counts != NULL);
    CHECK(psd_register(session, specs, 2, tensors) == PSD_OK);
    for (uint32_t step = 0; step < 4; step++) {
        uint64_t many = rank == step ? 0 : (rank + 1) * 31 + step;
        size_t at = 0;

        for (uint64_t i = 0; i < many; i++) {
            mine[i] = (int32_t)(rank * 100000 + step * 10000 + i);
        }
        CHECK(psd_gather(session, tensors[0], mine, many, out, counts,
                         &ticket) == PSD_OK);
        CHECK(psd_wait(session, ticket, NULL) == PSD_OK);
        for (uint32_t r = 0; r < size; r++) {
            CHECK(counts[r] == (r == step ? 0 : (r + 1) * 31 + step));
            for (uint64_t i = 0; i < counts[r]; i++, at++) {
                CHECK(out[at] == (int32_t)(r * 100000 + step * 10000 + i));
            }
        }
    }
    for (uint32_t root = 0; root < size; root++) {
        for (size_t i = 0; i < BIG; i++) {
            start[i] = value(rank, 77, i);
        }
        CHECK(psd_broadcast(session, tensors[1], start, root) == PSD_OK);
        for (size_t i = 0; i < BIG; i++) {
            CHECK(start[i] == value(root, 77, i));
        }
    }
    free(out);
    free(start);
    free(counts);
}

/* The servers own the value: 20 steps of momentum, same arithmetic here. */
static void store(void)
{
    struct psd_spec spec = { .name = "owned", .dtype = PSD_FLOAT32,
                             .count = 9000, .kind = PSD_KIND_STORE,
                             .optim = "momentum", .rate = 0.1,
                             .momentum = 0.9 };
    static float grad[9000];
    static float sure[9000];
    static float velocity[9000];
    psd_tensor tensor;

    CHECK(psd_register(session, &spec, 1, &tensor) == PSD_OK);
    for (size_t i = 0; i < 9000; i++) {
        sure[i] = value(0, 5, i);
        grad[i] = rank == 0 ? sure[i] : -1;
    }
    CHECK(psd_broadcast(session, tensor, grad, 0) == PSD_OK);
    for (uint32_t step = 0; step < 20; step++) {
        for (size_t i = 0; i < 9000; i++) {
            float sum = 0;

            for (uint32_t r = 0; r < size; r++) {
                float w = (float)(1.0 / size);

                sum = r == 0 ? w * value(0, step, i)
                             : sum + w * value(r, step, i);
            }
            velocity[i] = 0.9f * velocity[i] + sum;
            sure[i] -= 0.1f * velocity[i];
            grad[i] = value(rank, step, i);
        }
        CHECK(psd_push_pull(session, tensor, grad, 1, PSD_OP_MEAN, NULL) ==
              PSD_OK);
        CHECK(memcmp(grad, sure, sizeof(sure)) == 0);
    }
}

/* The file by which a rank tells rank 0, beside the job, that it has made a
 * push. */
static const char *pushed_file(uint32_t other)
{
    static char name[32];

    snprintf(name, sizeof(name), "pushed.%u", (unsigned)other);
    return name;
}

/* One more for every number: as it is, or as what became of `seen`. */
static psd_ticket push_one_more(psd_tensor tensor, uint32_t push, float *data,
                                float *seen, float *base)
{
    struct psd_push_args args = { .data = data, .out = seen, .weight = 1,
                                  .base = push % 2 == 0 ? NULL : base };
    psd_ticket ticket;

    for (size_t i = 0; i < BIG; i++) {
        base[i] = seen[i];
        data[i] = 1 + (push % 2 == 0 ? 0 : base[i]);
    }
    if (push % 4 == 3) { /* in place */
        memcpy(seen, data, sizeof(*seen) * BIG);
        args.data = seen;
    }
    CHECK(psd_push(session, tensor, &args, &ticket) == PSD_OK);
    return ticket;
}

/* Everybody at its own pace: rank r pushes 10 (r + 1) times and is done, each
 * second time by what its copy has changed. Sums of whole numbers are exact in
 * any order, so nothing may be lost or counted twice; what a worker sees only
 * grows. */
static void shared(void)
{
    struct psd_spec specs[2] = {
        { .name = "common", .dtype = PSD_FLOAT32, .count = BIG,
          .kind = PSD_KIND_SHARED },
        { .name = "clock", .dtype = PSD_INT64, .count = 1,
          .kind = PSD_KIND_SHARED },
    };
    float *data = malloc(sizeof(*data) * BIG);
    float *seen = malloc(sizeof(*seen) * BIG);
    float *base = malloc(sizeof(*base) * BIG);
    uint32_t pushes = 10 * (rank + 1);
    int64_t total = 5 * (int64_t)size * (size + 1);
    int64_t clock = 100;
    int64_t before = 0;
    psd_tensor tensors[2];
    psd_ticket ticket;

    CHECK(data != NULL && seen != NULL && base != NULL);
    CHECK(psd_register(session, specs, 2, tensors) == PSD_OK);
    unlink(pushed_file(rank)); /* of an earlier run */
    for (size_t i = 0; i < BIG; i++) {
        seen[i] = rank == size - 1 ? (float)(i % 100) : -1.0f;
    }
    CHECK(psd_broadcast(session, tensors[0], seen, size - 1) == PSD_OK);
    CHECK(seen[7] >= 7 && seen[7] <= 7 + (float)total);
    CHECK(psd_broadcast(session, tensors[1], &clock, 0) == PSD_OK);
    for (uint32_t r = 1; rank == 0 && r < size; r++) {
        while (access(pushed_file(r), F_OK) != 0) {
            usleep(1000); /* busy elsewhere; the others need not wait */
        }
    }
    for (uint32_t push = 0; push < pushes; push++) {
        float last = seen[BIG - 1];

        ticket = push_one_more(tensors[0], push, data, seen, base);
        before = clock;
        clock = 1;
        CHECK(psd_push_pull(session, tensors[1], &clock, 1, 0, NULL) ==
              PSD_OK);
        CHECK(psd_wait(session, ticket, NULL) == PSD_OK);
        CHECK(clock > before && clock <= 100 + total);
        CHECK(seen[BIG - 1] > last);
        CHECK(push % 2 == 0 || memcmp(base, seen, sizeof(*seen) * BIG) == 0);
        if (push == 0) {
            CHECK(close(open(pushed_file(rank), O_CREAT | O_WRONLY, 0600)) ==
                  0);
        }
    }
    CHECK(psd_join(session) == PSD_OK);
    CHECK(psd_push_absent(session, tensors[0], seen, &ticket) == PSD_OK);
    CHECK(psd_wait(session, ticket, NULL) == PSD_OK);
    CHECK(psd_push_absent(session, tensors[1], &clock, &ticket) == PSD_OK);
    CHECK(psd_wait(session, ticket, NULL) == PSD_OK);
    CHECK(clock == 100 + total);
    for (size_t i = 0; i < BIG; i++) {
        CHECK(seen[i] == (float)(i % 100) + (float)total);
    }
    CHECK(psd_barrier(session) == PSD_OK);
    free(data);
    free(base);
    free(seen);
}

/* Each rank in turn has one number that is not finite, the next rank has
 * another elsewhere; then only the sum has. Who hears what is the same
 * everywhere. */
static void not_finite(void)
{
    struct psd_spec spec = { .name = "wild", .dtype = PSD_FLOAT32,
                             .count = BIG };
    float *data = psd_alloc(session, sizeof(*data) * BIG);
    psd_tensor tensor;

    CHECK(data != NULL);
    CHECK(psd_register(session, &spec, 1, &tensor) == PSD_OK);
    for (uint32_t step = 0; step < size + 2; step++) {
        struct psd_result result;
        uint32_t wanted = step < size ? step + 1 : 0;

        for (size_t i = 0; i < BIG; i++) {
            data[i] = value(rank, step, i);
        }
        if (step == rank) {
            data[BIG - 1] = NAN;
        } else if (step + 1 == rank) {
            data[0] = -INFINITY;
        } else if (step == size) {
            data[BIG / 2] = 3e38f;
            wanted = size == 1 ? 0 : size + 1;
        }
        CHECK(psd_push_pull(session, tensor, data, 1, PSD_OP_SUM, &result) ==
              PSD_OK);
        CHECK(result.bad == wanted);
        CHECK(result.nobody == 0 && result.contributors == size);
    }
    psd_free(session, data);
}

/* Rank r has data for r + 2 steps; twice, with private memory. */
static void join(void)
{
    struct psd_spec spec = { .name = "uneven", .dtype = PSD_FLOAT32,
                             .count = BIG };
    float *data = malloc(sizeof(*data) * BIG);
    psd_tensor tensor;

    CHECK(data != NULL);
    CHECK(psd_register(session, &spec, 1, &tensor) == PSD_OK);
    for (int epoch = 0; epoch < 2; epoch++) {
        for (uint32_t step = 0; step < rank + 2; step++) {
            struct psd_result result;
            uint32_t in = step < 2 ? size : size - (step - 1);

            for (size_t i = 0; i < BIG; i++) {
                data[i] = 1.0f;
            }
            CHECK(psd_push_pull(session, tensor, data, 1, PSD_OP_SUM,
                                &result) == PSD_OK);
            CHECK(result.contributors == in);
            CHECK(data[0] == (float)in && data[BIG - 1] == (float)in);
        }
        CHECK(psd_join(session) == PSD_OK);
    }
    CHECK(psd_barrier(session) == PSD_OK);
    free(data);
}

/* Proportional resident memory of this process, in bytes. */
static uint64_t resident(void)
{
    FILE *file = fopen("/proc/self/smaps_rollup", "re");
    char line[256];
    unsigned long long kib = 0;

    CHECK(file != NULL);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "Pss: %llu kB", &kib) == 1) {
            break;
        }
    }
    fclose(file);
    return (uint64_t)kib * 1024;
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SHADOWED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SHADOWED 1
#endif
#endif
#ifndef SHADOWED
#define SHADOWED 0
#endif

/* What three steps of a large private tensor cost beyond the gradient: at most
 * as much again, and 64 MiB. */
static void memory(void)
{
    uint64_t bytes = UINT64_C(96) << 20;
    struct psd_spec spec = { .name = "large", .dtype = PSD_FLOAT32,
                             .count = bytes / sizeof(float) };
    float *data = malloc(bytes);
    psd_tensor tensor;
    uint64_t before;
    uint64_t after;

    CHECK(data != NULL);
    memset(data, 1, bytes); /* touched: it is there before */
    before = resident();
    CHECK(psd_register(session, &spec, 1, &tensor) == PSD_OK);
    for (int step = 0; step < 3; step++) {
        CHECK(psd_push_pull(session, tensor, data, 1, PSD_OP_MEAN, NULL) ==
              PSD_OK);
    }
    after = resident();
    if (rank == 0) {
        printf("exchange: %llu MiB more for %llu MiB of gradients\n",
               (unsigned long long)((after - before) >> 20),
               (unsigned long long)(bytes >> 20));
    }
    CHECK(after - before <= bytes + (UINT64_C(64) << 20));
    CHECK(psd_barrier(session) == PSD_OK);
    free(data);
}

int main(int argc, char **argv)
{
    if (psd_open(&session) != PSD_OK) {
        fprintf(stderr, "exchange: %s\n", psd_error(NULL));
        return 98;
    }
    rank = psd_rank(session);
    size = psd_size(session);
    /* At once: the servers may not have heard of the job's epoch yet. */
    CHECK(psd_barrier(session) == PSD_OK);
    if (argc > 1 && strcmp(argv[1], "memory") == 0) {
        if (SHADOWED) {
            puts("exchange: shadowed");
        } else {
            memory();
        }
        psd_close(session);
        return 0;
    }
    train_all();
    reduce_others();
    gather_and_broadcast();
    store();
    shared();
    not_finite();
    join();
    CHECK(psd_barrier(session) == PSD_OK);
    if (rank == 0) {
        puts("exchange: all answers right");
    }
    psd_close(session);
    return 0;
}
