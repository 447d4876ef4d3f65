/*
 * bench.h: `psd bench`, a subcommand in three files: bench.c reads the command
 * line and starts a job, bench_loop.c is a worker of it, bench_cpu.c counts
 * what all of it costs.
 */
#ifndef PSD_BIN_BENCH_H
#define PSD_BIN_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_SIZES_MAX 32

struct bench_settings {
    const char *bytes;
    uint64_t workers, servers, tensors;
    const char *transport, *digest, *memory;
    double seconds;
    bool json, help;
    uint64_t size[BENCH_SIZES_MAX]; /* `bytes`, parsed */
    size_t size_count;
};

/* The subcommand; argv[0] is "bench". Returns the exit code: 0 done, 1 failed
 * or not identical, 64 wrong usage. */
int bench_main(int argc, char **argv);

/* Be a worker of the job in the environment; rank 0 prints. Exit code. */
int bench_worker(const struct bench_settings *settings);

/* CPU time of this process, in nanoseconds. */
uint64_t bench_cpu_own(void);
/* CPU time of those processes of the job that are not workers: launcher,
 * guard, agent, master, servers. To the tick of /proc (10 ms). Counts the
 * servers on the way; none where the workers play their role. */
uint64_t bench_cpu_others(uint64_t *servers_p);

#endif
