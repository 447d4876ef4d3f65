/*
 * bench.c: `psd bench allreduce`, how long the mean of one tensor takes.
 *
 * Started by hand it starts a local job of itself; under psd_run it is an
 * ordinary worker over poseidon.h (bench_loop.c), and rank 0 prints.
 */
#define _GNU_SOURCE
#include "bench.h"

#include <ftw.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/option.h"
#include "launch/exit_code.h"

#define WORDS_MAX 32

#define FIELD(name) offsetof(struct bench_settings, name)

static const struct option_row bench_rows[] = {
    { .name = "bytes", .kind = OPTION_TEXT, .offset = FIELD(bytes),
      .initial = "64K,1M,16M,100M", .value_name = "SIZE,...",
      .help = "sizes of the tensor" },
    { .name = "workers", .letter = 'n', .kind = OPTION_UINT,
      .offset = FIELD(workers), .initial = "2", .low = 1, .high = 4096,
      .help = "workers to start; under psd_run its -n counts" },
    { .name = "servers", .letter = 's', .kind = OPTION_UINT,
      .offset = FIELD(servers), .initial = "0", .low = 0, .high = 4096,
      .help = "servers to start; 0 leaves it to psd_run" },
    { .name = "transport", .kind = OPTION_CHOICE,
      .offset = FIELD(transport), .initial = "auto",
      .choices = "auto|shm|tcp", .help = "as psd_run's --transport" },
    { .name = "digest", .kind = OPTION_CHOICE, .offset = FIELD(digest),
      .initial = "rotate", .choices = "step|rotate|off",
      .help = "as psd_run's --digest" },
    { .name = "memory", .kind = OPTION_CHOICE, .offset = FIELD(memory),
      .initial = "arena", .choices = "arena|private",
      .help = "where the tensor lies: psd_alloc, or memory of the worker" },
    { .name = "seconds", .kind = OPTION_DOUBLE, .offset = FIELD(seconds),
      .initial = "1", .low = 0.001, .high = 3600,
      .help = "time per size, about" },
    { .name = "tensors", .kind = OPTION_UINT, .offset = FIELD(tensors),
      .initial = "1", .low = 1, .high = 100000,
      .help = "tensors of that size in one run, pushed together" },
    { .name = "json", .kind = OPTION_FLAG, .offset = FIELD(json),
      .help = "one JSON object per size and line" },
    { .name = "help", .letter = 'h', .kind = OPTION_FLAG,
      .offset = FIELD(help), .help = "this page" },
    { .name = NULL },
};

/* ---- a job of its own --------------------------------------------------- */

static int remove_one(const char *path, const struct stat *info, int kind,
                      struct FTW *where)
{
    (void)info;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

/* psd_run -n P ... -- psd bench allreduce (what we were called with). The
 * logs go to a folder of our own, which stays only when something failed. */
static int bench_launch(const struct bench_settings *settings, int argc,
                        char **argv)
{
    char self[4096] = { 0 };
    char launcher[4096 + 8];
    char workers[24], servers[24], folder[4096];
    const char *where = getenv("TMPDIR");
    char *words[WORDS_MAX + 16] = {
        launcher, "-n", workers, "-o", folder,
        "--transport", (char *)(uintptr_t)settings->transport,
        "--digest", (char *)(uintptr_t)settings->digest,
    };
    int used = 9;
    int state;
    pid_t child;

    if (readlink("/proc/self/exe", self, sizeof(self) - 1) <= 0) {
        fprintf(stderr, "psd bench: /proc/self/exe: %m\n");
        return 1;
    }
    snprintf(launcher, sizeof(launcher), "%.*s/psd_run",
             (int)(strrchr(self, '/') - self), self);
    snprintf(workers, sizeof(workers), "%" PRIu64, settings->workers);
    snprintf(servers, sizeof(servers), "%" PRIu64, settings->servers);
    snprintf(folder, sizeof(folder), "%s/psd_bench.XXXXXX",
             where != NULL ? where : "/tmp");
    if (mkdtemp(folder) == NULL) {
        fprintf(stderr, "psd bench: %s: %m\n", folder);
        return 1;
    }
    if (settings->servers > 0) {
        words[used++] = "-s";
        words[used++] = servers;
    }
    words[used++] = "--";
    words[used++] = self;
    for (int i = 0; i < argc; i++) {
        words[used++] = argv[i];
    }
    signal(SIGINT, SIG_IGN); /* psd_run answers it, and then we do */
    child = fork();
    if (child == 0) {
        signal(SIGINT, SIG_DFL);
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        execv(launcher, words);
        fprintf(stderr, "psd bench: %s: %m\n", launcher);
        _exit(1);
    }
    if (child < 0 || waitpid(child, &state, 0) != child) {
        fprintf(stderr, "psd bench: cannot start psd_run: %m\n");
        return 1;
    }
    if (!WIFEXITED(state) || WEXITSTATUS(state) != 0) {
        fprintf(stderr, "psd bench: failed; the logs are in %s\n", folder);
        return WIFEXITED(state) ? WEXITSTATUS(state) : 1;
    }
    nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}

/* ---- command line ------------------------------------------------------- */

static int usage(FILE *file)
{
    fputs("Usage: psd bench allreduce [OPTIONS]\n"
          "How long the mean of a tensor over all workers takes. By hand it "
          "starts a local\njob; under psd_run it is the worker.\n\n", file);
    option_help(bench_rows, file);
    return file == stdout ? 0 : EXIT_CODE_USAGE;
}

static size_t parse_sizes(const char *list, uint64_t *sizes)
{
    size_t count = 0;

    while (*list != '\0' && count < BENCH_SIZES_MAX) {
        char word[32];
        size_t size = strcspn(list, ",");

        snprintf(word, sizeof(word), "%.*s", (int)size, list);
        if (size >= sizeof(word) ||
            option_size(word, &sizes[count]) != PSD_OK || sizes[count] < 4) {
            return 0;
        }
        count++;
        list += size + (list[size] == ',');
    }
    return *list == '\0' ? count : 0;
}

int bench_main(int argc, char **argv)
{
    struct bench_settings settings = { 0 };
    char error[256];
    int next;

    option_defaults(bench_rows, &settings);
    if (argc < 2 || strcmp(argv[1], "allreduce") != 0) {
        bool help = argc > 1 && (strcmp(argv[1], "--help") == 0 ||
                                 strcmp(argv[1], "-h") == 0);

        if (argc > 1 && !help) {
            fprintf(stderr, "psd bench: no benchmark '%s', there is "
                    "allreduce\n", argv[1]);
        }
        return usage(help ? stdout : stderr);
    }
    if (option_parse(bench_rows, &settings, argc - 1, argv + 1, &next, error,
                     sizeof(error)) != PSD_OK) {
        fprintf(stderr, "psd bench: %s\n", error);
        return EXIT_CODE_USAGE;
    }
    if (settings.help) {
        return usage(stdout);
    }
    if (next < argc - 1 || argc > WORDS_MAX) {
        fprintf(stderr, "psd bench: '%s' is one word too many\n",
                argv[next < argc - 1 ? 1 + next : argc - 1]);
        return EXIT_CODE_USAGE;
    }
    settings.size_count = parse_sizes(settings.bytes, settings.size);
    if (settings.size_count == 0) {
        fprintf(stderr, "psd bench: --bytes is '%s', it must be up to %d "
                "sizes of 4 bytes or more, such as 64K,1M\n", settings.bytes,
                BENCH_SIZES_MAX);
        return EXIT_CODE_USAGE;
    }
    if (getenv("PSD_AGENT") != NULL) {
        return bench_worker(&settings);
    }
    return bench_launch(&settings, argc, argv);
}
