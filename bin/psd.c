/* psd.c: one program, a table of subcommands. */
#include <string.h>

#include "base/log.h"
#include "bench.h"
#include "command.h"
#include "launch/exit_code.h"
#include "server/server.h"

struct command {
    const char *name;
    const char *summary;
    int (*call)(int argc, char **argv);
};

static const struct command commands[] = {
    { "bench", "measure how fast workers exchange gradients", bench_main },
    { "server", "be a parameter server (started by an agent)", server_main },
    { "agent", "start and watch the processes of a host (by psd_run)",
      agent_main },
    { "master", "hold a job together (started by psd_run)", master_main },
};

#define WORD_MAX      31
#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *file)
{
    fprintf(file, "usage: psd COMMAND [OPTION...]\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "\n`psd COMMAND --help` tells more; psd_run starts a job.\n");
}

/* Edits between two words. */
static size_t distance(const char *a, const char *b)
{
    size_t row[WORD_MAX + 1];
    size_t size = strlen(b);

    for (size_t j = 0; j <= size; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 1; j <= size; j++) {
            size_t best = diagonal + (a[i] != b[j - 1]);

            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            row[j] = best;
        }
    }
    return row[size];
}

/* A slip of the finger or two away. */
static const char *nearest(const char *word)
{
    const char *found = NULL;
    size_t best = 3;

    for (size_t i = 0; i < COMMAND_COUNT && strlen(word) <= WORD_MAX; i++) {
        size_t edits = distance(word, commands[i].name);

        if (edits < best) {
            best = edits;
            found = commands[i].name;
        }
    }
    return found;
}

int main(int argc, char **argv)
{
    const char *guess;

    psd_log_set(log_stderr, NULL, PSD_LOG_WARN);
    if (argc < 2) {
        help(stderr);
        return EXIT_CODE_USAGE;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0) {
        help(stdout);
        return 0;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("psd %s\n", psd_version());
        return 0;
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].call(argc - 1, argv + 1);
        }
    }
    guess = nearest(argv[1]);
    fprintf(stderr, "psd: unknown command %s%s%s%s (psd --help lists all)\n",
            argv[1], guess == NULL ? "" : "; did you mean ",
            guess == NULL ? "" : guess, guess == NULL ? "" : "?");
    return EXIT_CODE_USAGE;
}
