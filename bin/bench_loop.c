/*
 * bench_loop.c: a worker of `psd bench allreduce`.
 *
 * A run is one psd_push_pull (or, with several tensors, a push of each and one
 * wait for all). Before each, outside the clock, every rank writes new data,
 * as a backward pass would, and all meet in a barrier: otherwise the numbers
 * would lie in the caches of those who sum them, where no gradient ever is.
 * The time of a run is the mean over the ranks, because who leaves a barrier
 * first waits for the others; median and 99th percentile are rank 0's.
 * Before, between and after the timed segments stand checked runs: the result
 * of every rank compared bit by bit with the mean as ARCHITECTURE.md defines
 * it.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/option.h"
#include "poseidon.h"
#include "member/settings.h"

#define RUNS_MAX 1000000
#define RUNS_MIN 6
#define WARM_UP 5
#define SEGMENTS 3
#define CHUNK 4096 /* floats compared at a time */

/* What travels between the ranks beside the data: sums of them. */
enum {
    CONTROL_RUNS,
    CONTROL_WRONG,
    CONTROL_CPU_NS,
    CONTROL_TOTAL_NS,
    CONTROL_COUNT
};

struct bench {
    const struct bench_settings *settings;
    struct psd_settings job;
    struct psd_session *session;
    uint32_t rank, workers;
    uint64_t servers;    /* processes; counted by rank 0 */
    psd_tensor control;
    psd_tensor *tensor;  /* settings->tensors of them */
    float **data;
    size_t size, count;  /* of one tensor, now: bytes, elements */
    uint32_t fresh;      /* checked runs so far: the data differ by it */
    uint64_t *taken;     /* ns of each timed run */
};

struct bench_line {
    uint64_t runs, wrong, cpu_ns, total_ns;
};

/* Servers work for the whole loop, barriers included; rank 0 counts them. */
static uint64_t servers_cpu_ns(struct bench *bench)
{
    return bench->rank == 0 ? bench_cpu_others(&bench->servers) : 0;
}

static float value_of(size_t index, uint32_t rank, uint32_t fresh)
{
    uint32_t x = (uint32_t)index * UINT32_C(0x9e3779b1) +
                 rank * UINT32_C(0x85ebca77) + fresh * UINT32_C(0xc2b2ae3d);

    x = (x ^ (x >> 15)) * UINT32_C(0x2c1b3c6d);
    x ^= x >> 12;
    return (float)(int32_t)x * 0x1p-31F;
}

static psd_status run_once(struct bench *bench)
{
    uint64_t tensors = bench->settings->tensors;

    if (tensors == 1) {
        return psd_push_pull(bench->session, bench->tensor[0],
                             bench->data[0], 1, PSD_OP_MEAN, NULL);
    }
    for (uint64_t i = 0; i < tensors; i++) {
        struct psd_push_args args = { .data = bench->data[i], .weight = 1,
                                      .op = PSD_OP_MEAN };
        psd_ticket ticket;
        psd_status status = psd_push(bench->session, bench->tensor[i], &args,
                                     &ticket);

        if (status != PSD_OK) {
            return status;
        }
    }
    return psd_wait_all(bench->session);
}

/* Elements of tensor `t` that are not the weighted mean in rank order. */
static uint64_t count_wrong(const struct bench *bench, uint64_t t)
{
    static float sure[CHUNK];
    float weight = (float)(1.0 / bench->workers);
    uint64_t wrong = 0;

    for (size_t start = 0; start < bench->count; start += CHUNK) {
        size_t left = bench->count - start;
        size_t count = left < CHUNK ? left : CHUNK;
        const float *got = bench->data[t] + start;

        for (uint32_t rank = 0; rank < bench->workers; rank++) {
            for (size_t i = 0; i < count; i++) {
                float part = weight * value_of(t + start + i, rank,
                                               bench->fresh);

                sure[i] = rank == 0 ? part : sure[i] + part;
            }
        }
        if (memcmp(got, sure, count * sizeof(float)) != 0) {
            for (size_t i = 0; i < count; i++) {
                wrong += memcmp(&got[i], &sure[i], sizeof(float)) != 0;
            }
        }
    }
    return wrong;
}

static psd_status run_checked(struct bench *bench, uint64_t *wrong_p)
{
    psd_status status;

    bench->fresh++;
    for (uint64_t t = 0; t < bench->settings->tensors; t++) {
        for (size_t i = 0; i < bench->count; i++) {
            bench->data[t][i] = value_of(t + i, bench->rank, bench->fresh);
        }
    }
    status = run_once(bench);
    for (uint64_t t = 0; status == PSD_OK && t < bench->settings->tensors;
         t++) {
        *wrong_p += count_wrong(bench, t);
    }
    return status;
}

/* New data, of this rank and run. */
static void refill(struct bench *bench, uint64_t run)
{
    float value = value_of(run, bench->rank, bench->fresh);

    for (uint64_t t = 0; t < bench->settings->tensors; t++) {
        for (size_t i = 0; i < bench->count; i++) {
            bench->data[t][i] = value;
        }
    }
}

/* `runs` runs; the times go to taken[], unless NULL. */
static psd_status run_loop(struct bench *bench, uint64_t runs,
                           uint64_t *taken, struct bench_line *line)
{
    psd_status status = PSD_OK;

    for (uint64_t i = 0; i < runs && status == PSD_OK; i++) {
        uint64_t cpu;
        uint64_t begin;
        uint64_t end;

        refill(bench, i);
        status = psd_barrier(bench->session);
        if (status != PSD_OK) {
            break;
        }
        cpu = bench_cpu_own();
        begin = clock_ns();
        status = run_once(bench);
        end = clock_ns();
        line->cpu_ns += bench_cpu_own() - cpu;
        line->total_ns += end - begin;
        if (taken != NULL) {
            taken[i] = end - begin;
        }
    }
    return status;
}

/* Rank 0's clock decides, and everybody loops as often. The first guess is
 * cold; the second, from a tenth of the time, is the one that counts. */
static psd_status decide_runs(struct bench *bench, uint64_t *runs_p)
{
    uint64_t runs = WARM_UP;
    double seconds = bench->settings->seconds;

    for (int guess = 0; guess < 2; guess++) {
        double share = guess == 0 ? 0.1 : 1.0;
        int64_t control[CONTROL_COUNT] = { 0 };
        struct bench_line line = { 0 };
        double wish;
        psd_status status = run_loop(bench, runs, NULL, &line);

        if (status != PSD_OK) {
            return status;
        }
        wish = share * seconds * 1e9 * (double)runs /
               (double)(line.total_ns + 1);
        wish = wish < RUNS_MIN ? RUNS_MIN : wish;
        wish = wish > RUNS_MAX ? RUNS_MAX : wish;
        control[CONTROL_RUNS] = (int64_t)wish;
        status = psd_broadcast(bench->session, bench->control, control, 0);
        if (status != PSD_OK) {
            return status;
        }
        runs = (uint64_t)control[CONTROL_RUNS];
    }
    *runs_p = runs / SEGMENTS * SEGMENTS;
    return PSD_OK;
}

static psd_status measure(struct bench *bench, struct bench_line *line)
{
    int64_t control[CONTROL_COUNT] = { 0 };
    uint64_t part;
    psd_status status = run_checked(bench, &line->wrong);

    if (status == PSD_OK) {
        status = decide_runs(bench, &line->runs);
    }
    part = line->runs / SEGMENTS;
    for (int i = 0; i < SEGMENTS && status == PSD_OK; i++) {
        uint64_t cpu = servers_cpu_ns(bench);

        status = run_loop(bench, part, bench->taken + (uint64_t)i * part,
                          line);
        line->cpu_ns += servers_cpu_ns(bench) - cpu;
        if (status == PSD_OK) {
            status = run_checked(bench, &line->wrong);
        }
    }
    if (status != PSD_OK) {
        return status;
    }
    control[CONTROL_WRONG] = (int64_t)line->wrong;
    control[CONTROL_CPU_NS] = (int64_t)line->cpu_ns;
    control[CONTROL_TOTAL_NS] = (int64_t)line->total_ns;
    status = psd_push_pull(bench->session, bench->control, control, 1,
                           PSD_OP_SUM, NULL);
    line->wrong = (uint64_t)control[CONTROL_WRONG];
    line->cpu_ns = (uint64_t)control[CONTROL_CPU_NS];
    line->total_ns = (uint64_t)control[CONTROL_TOTAL_NS] / bench->workers;
    return status;
}

/* ---- printing ----------------------------------------------------------- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* What "auto" has become: shared memory on one host, tcp between hosts. */
static const char *transport_of(const struct bench *bench)
{
    const char *here = getenv("PSD_LOCAL_SIZE");

    if (strcmp(bench->job.transport, "auto") != 0) {
        return bench->job.transport;
    }
    return here == NULL || strtoul(here, NULL, 10) == bench->workers ? "shm"
                                                                     : "tcp";
}

static void print_line(const struct bench *bench,
                       const struct bench_line *line)
{
    const struct bench_settings *settings = bench->settings;
    double runs = (double)line->runs;
    double bytes = (double)bench->size * (double)settings->tensors;
    double ms = 1e-6 * (double)line->total_ns / runs;
    double p = bench->workers;
    double busbw = bytes / ms * 1e-6 * 2 * (p - 1) / p;
    double cpu = 1e-9 * (double)line->cpu_ns / (1e-9 * bytes * runs);
    double median, p99;

    qsort(bench->taken, line->runs, sizeof(bench->taken[0]), by_value);
    median = 1e-6 * (double)bench->taken[line->runs / 2];
    p99 = 1e-6 * (double)bench->taken[line->runs * 99 / 100];
    if (settings->json) {
        printf("{\"bench\": \"allreduce\", \"bytes\": %zu, \"tensors\": "
               "%" PRIu64 ", \"workers\": %u, \"servers\": %" PRIu64
               ", \"transport\": \"%s\", \"memory\": \"%s\", \"digest\": "
               "\"%s\", \"runs\": %" PRIu64 ", \"ms\": %.6f, \"ms_median\": "
               "%.6f, \"ms_p99\": %.6f, \"busbw_GBps\": %.4f, "
               "\"cpu_s_per_GB\": %.4f, \"identical\": %s}\n",
               bench->size, settings->tensors, bench->workers,
               bench->servers, transport_of(bench), settings->memory,
               bench->job.digest, line->runs, ms, median, p99, busbw, cpu,
               line->wrong == 0 ? "true" : "false");
    } else {
        printf("%11zu %8" PRIu64 " %10.4f %10.4f %10.4f %8.3f %9.3f  %s\n",
               bench->size, line->runs, ms, median, p99, busbw, cpu,
               line->wrong == 0 ? "yes" : "NO");
    }
    fflush(stdout);
}

static void print_head(const struct bench *bench)
{
    if (bench->rank == 0 && !bench->settings->json) {
        printf("allreduce: %u workers, transport %s, memory %s, digest %s, "
               "%" PRIu64 " tensors a run\n", bench->workers,
               transport_of(bench), bench->settings->memory,
               bench->job.digest, bench->settings->tensors);
        printf("%11s %8s %10s %10s %10s %8s %9s  %s\n", "bytes", "runs", "ms",
               "median", "p99", "GB/s", "cpu s/GB", "identical");
    }
}

/* ---- a worker ----------------------------------------------------------- */

static psd_status take_memory(struct bench *bench)
{
    bool arena = strcmp(bench->settings->memory, "arena") == 0;

    for (uint64_t i = 0; i < bench->settings->tensors; i++) {
        bench->data[i] = arena ? psd_alloc(bench->session, bench->size)
                               : mem_zalloc(bench->size);
        if (bench->data[i] == NULL) {
            fprintf(stderr, "psd bench: no memory for %" PRIu64
                    " tensors of %zu bytes\n", bench->settings->tensors,
                    bench->size);
            return PSD_ENOMEM;
        }
    }
    return PSD_OK;
}

static void drop_memory(struct bench *bench)
{
    bool arena = strcmp(bench->settings->memory, "arena") == 0;

    for (uint64_t i = 0; i < bench->settings->tensors; i++) {
        if (arena) {
            psd_free(bench->session, bench->data[i]);
        } else {
            mem_free(bench->data[i]);
        }
        bench->data[i] = NULL;
    }
}

static psd_status register_tensors(struct bench *bench)
{
    uint64_t count = bench->settings->tensors;
    struct psd_spec *specs = mem_zalloc_array(count, sizeof(*specs));
    char(*names)[48] = mem_zalloc_array(count, sizeof(*names));
    psd_status status = PSD_ENOMEM;

    if (specs != NULL && names != NULL) {
        for (uint64_t i = 0; i < count; i++) {
            snprintf(names[i], sizeof(names[i]), "bench.%zu.%" PRIu64,
                     bench->size, i);
            specs[i].name = names[i];
            specs[i].dtype = PSD_FLOAT32;
            specs[i].count = bench->count;
        }
        status = psd_register(bench->session, specs, (uint32_t)count,
                              bench->tensor);
    }
    mem_free(names);
    mem_free(specs);
    return status;
}

static psd_status bench_size(struct bench *bench, uint64_t size, bool *good_p)
{
    struct bench_line line = { 0 };
    psd_status status;

    bench->count = size / sizeof(float);
    bench->size = bench->count * sizeof(float);
    status = register_tensors(bench);
    if (status == PSD_OK) {
        status = take_memory(bench);
    }
    if (status == PSD_OK) {
        status = measure(bench, &line);
    }
    if (status == PSD_OK) {
        if (bench->rank == 0) {
            print_line(bench, &line);
        }
        *good_p = *good_p && line.wrong == 0;
    }
    drop_memory(bench);
    return status;
}

static psd_status open_session(struct bench *bench)
{
    struct psd_spec spec = { .name = "bench.control", .dtype = PSD_INT64,
                             .count = CONTROL_COUNT };
    char error[256] = "";
    psd_status status;

    option_defaults(psd_settings_rows, &bench->job);
    status = option_environment(psd_settings_rows, &bench->job, error,
                                sizeof(error));
    if (status != PSD_OK) {
        fprintf(stderr, "psd bench: %s\n", error);
        return status;
    }
    bench->taken = mem_zalloc_array(RUNS_MAX, sizeof(uint64_t));
    bench->tensor = mem_zalloc_array(bench->settings->tensors,
                                     sizeof(psd_tensor));
    bench->data = mem_zalloc_array(bench->settings->tensors, sizeof(float *));
    if (bench->taken == NULL || bench->tensor == NULL ||
        bench->data == NULL) {
        return PSD_ENOMEM;
    }
    status = psd_open(&bench->session);
    if (status != PSD_OK) {
        return status;
    }
    bench->rank = psd_rank(bench->session);
    bench->workers = psd_size(bench->session);
    return psd_register(bench->session, &spec, 1, &bench->control);
}

int bench_worker(const struct bench_settings *settings)
{
    struct bench bench = { .settings = settings };
    psd_status status = open_session(&bench);
    bool good = true;

    if (status == PSD_OK) {
        print_head(&bench);
    }
    for (size_t i = 0; i < settings->size_count && status == PSD_OK; i++) {
        status = bench_size(&bench, settings->size[i], &good);
    }
    if (status != PSD_OK) {
        fprintf(stderr, "psd bench: %s: %s\n", psd_status_name(status),
                psd_error(bench.session));
        if (bench.session != NULL) {
            psd_abort(bench.session, 1, "psd bench failed");
        }
    }
    psd_close(bench.session);
    mem_free(bench.data);
    mem_free(bench.tensor);
    mem_free(bench.taken);
    return status == PSD_OK && good ? 0 : 1;
}
