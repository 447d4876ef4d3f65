/* psd.c: one program, a table of subcommands. */
#include <string.h>

#include "base/log.h"
#include "base/word.h"
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
    { "check", "look whether a cluster is fit for a job", check_main },
    { "status", "show the running jobs", status_main },
    { "logs", "show what a worker of a running job writes", logs_main },
    { "attach", "show a running job as psd_run would", attach_main },
    { "stop", "end a running job", stop_main },
    { "bench", "measure how fast workers exchange gradients", bench_main },
    { "server", "be a parameter server (started by an agent)", server_main },
    { "agent", "start and watch the processes of a host (by psd_run)",
      agent_main },
    { "master", "hold a job together (started by psd_run)", master_main },
    { "probe", "look around on a host (started by psd check)", probe_main },
};

#define COMMAND_COUNT (sizeof(commands) / sizeof(commands[0]))

static void help(FILE *file)
{
    fprintf(file, "usage: psd COMMAND [OPTION...]\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        fprintf(file, "  %-10s %s\n", commands[i].name, commands[i].summary);
    }
    fprintf(file, "\n`psd COMMAND --help` tells more; psd_run starts a job.\n");
}

/* A slip of the finger or two away. */
static const char *nearest(const char *word)
{
    const char *found = NULL;
    size_t best = WORD_FAR;

    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (word_nearer(word, strlen(word), commands[i].name,
                        strlen(commands[i].name), &best)) {
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
