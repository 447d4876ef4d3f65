/*
 * mpi_allreduce.c: the loop of `psd bench allreduce`, with MPI_Allreduce.
 *
 *     mpirun -n 2 mpi_allreduce 65536,1048576 1.0
 *
 * Arguments: sizes in bytes, seconds per size. Before each run, outside the
 * clock, every rank writes new data and all meet in a barrier; warm-up decides
 * the number of runs; their time is the mean over the ranks, median and 99th
 * percentile are rank 0's. One JSON object per size and line. The sum is in
 * place, in private memory; the division that would make it a mean is left
 * out, to MPI's favour.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define RUNS_MAX 1000000
#define WARM_UP 5

static int rank, size;
static double *taken; /* seconds of each run */

static double cpu_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Sums of small integers are exact, so the answer is known. */
static int check(float *data, int count)
{
    int good = 1;

    for (int i = 0; i < count; i++) {
        data[i] = (float)(rank + i % 1000);
    }
    MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
                  MPI_COMM_WORLD);
    for (int i = 0; i < count; i++) {
        good &= data[i] == (float)(size * (size - 1) / 2 + size * (i % 1000));
    }
    MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return good;
}

/* Returns seconds; adds this rank's processor time. */
static double loop(float *data, int count, int runs, double *cpu_p)
{
    double total = 0;

    for (int i = 0; i < runs; i++) {
        float value = (float)(rank + i % 1000);
        double cpu, begin;

        for (int k = 0; k < count; k++) {
            data[k] = value;
        }
        MPI_Barrier(MPI_COMM_WORLD);
        cpu = cpu_seconds();
        begin = MPI_Wtime();
        MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
                      MPI_COMM_WORLD);
        taken[i] = MPI_Wtime() - begin;
        *cpu_p += cpu_seconds() - cpu;
        total += taken[i];
    }
    return total;
}

static void measure(long bytes, double seconds)
{
    int count = (int)(bytes / 4), runs, identical;
    float *data = malloc((size_t)bytes);
    double cpu = 0, gigabytes;
    double sums[2]; /* processor seconds, seconds */

    if (data == NULL) {
        MPI_Abort(MPI_COMM_WORLD, 1);
        return;
    }
    identical = check(data, count);
    runs = (int)(seconds / (loop(data, count, WARM_UP, &cpu) / WARM_UP));
    runs = runs < 5 ? 5 : runs > RUNS_MAX ? RUNS_MAX : runs;
    MPI_Bcast(&runs, 1, MPI_INT, 0, MPI_COMM_WORLD);
    cpu = 0;
    sums[1] = loop(data, count, runs, &cpu);
    sums[0] = cpu;
    MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    identical &= check(data, count);
    if (rank == 0) {
        qsort(taken, (size_t)runs, sizeof(*taken), by_value);
        gigabytes = 1e-9 * (double)bytes * runs;
        printf("{\"bench\": \"allreduce\", \"bytes\": %ld, \"workers\": %d, "
               "\"runs\": %d, \"ms\": %.6f, \"ms_median\": %.6f, "
               "\"ms_p99\": %.6f, \"cpu_s_per_GB\": %.4f, "
               "\"identical\": %s}\n", bytes, size, runs,
               1e3 * sums[1] / size / runs,
               1e3 * taken[runs / 2], 1e3 * taken[(int)(0.99 * runs)],
               sums[0] / gigabytes, identical ? "true" : "false");
        fflush(stdout);
    }
    free(data);
}

int main(int argc, char **argv)
{
    char *list;
    double seconds;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    taken = calloc(RUNS_MAX, sizeof(*taken));
    if (argc != 3 || taken == NULL) {
        fprintf(stderr, "usage: mpi_allreduce BYTES,BYTES,... SECONDS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
        return 2;
    }
    seconds = strtod(argv[2], NULL);
    list = argv[1];
    while (*list != '\0') {
        measure(strtol(list, &list, 10), seconds);
        list += *list == ',';
    }
    MPI_Finalize();
    return 0;
}
