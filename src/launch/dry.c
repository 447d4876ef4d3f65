/* dry.c: see dry.h. Words are printed so that a shell would read them as they
 * are. */
#define _GNU_SOURCE
#include "launch/dry.h"

#include <inttypes.h>

#include "base/banned.h"

static void print_word(const char *word, FILE *file)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./+-@%,:=";

    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        fputs(word, file);
        return;
    }
    fputc('\'', file);
    for (; *word != '\0'; word++) {
        if (*word == '\'') {
            fputs("'\\''", file);
        } else {
            fputc(*word, file);
        }
    }
    fputc('\'', file);
}

static void print_words(const struct launch_words *words, FILE *file)
{
    for (uint32_t i = 0; i < words->count; i++) {
        if (i > 0) {
            fputc(' ', file);
        }
        print_word(words->words[i], file);
    }
    fputc('\n', file);
}

static void print_variables(const char *indent,
                            const struct launch_words *variables, FILE *file)
{
    for (uint32_t i = 0; i < variables->count; i++) {
        fputs(indent, file);
        print_word(variables->words[i], file);
        fputc('\n', file);
    }
}

static void print_task(const struct launch_task *task, FILE *file)
{
    fprintf(file, "  %s %" PRIu32 ": ",
            task->is_server == 0       ? "worker"
            : task->command.count == 0 ? "server"
                                       : "ps",
            task->rank);
    if (task->command.count == 0) {
        fprintf(file, "psd server\n");
    } else {
        fputs(task->shell ? "sh -c " : "", file);
        print_words(&task->command, file);
    }
    print_variables("    ", &task->variables, file);
}

static psd_status print_host(const struct supervise_plan *plan, uint32_t index,
                             FILE *file)
{
    static const char *const arguments[] = {"agent", NULL};
    const struct cluster_host *host = &plan->cluster->hosts[index];
    const struct launch_start *start = &plan->starts[index];
    struct launch_words argv;
    char name[512];
    psd_status status = ssh_words(&plan->way, host, arguments, &argv);

    if (status != PSD_OK) {
        return status;
    }
    cluster_host_text(host, name, sizeof(name));
    fprintf(file, "host %s%s\n  $ ", name, host->local ? ", this machine" : "");
    print_words(&argv, file);
    launch_words_fini(&argv);
    fprintf(file, "  in %s, logs in %s, secret ********\n", start->folder,
            start->logs);
    if (start->virtualenv[0] != '\0') {
        fprintf(file, "  virtualenv %s\n", start->virtualenv);
    }
    fprintf(file, "  environment of all:\n");
    print_variables("    ", &start->variables, file);
    for (uint32_t i = 0; i < start->task_count; i++) {
        print_task(&start->tasks[i], file);
    }
    return PSD_OK;
}

psd_status dry_print(const struct supervise_plan *plan, FILE *file)
{
    const struct cluster *cluster = plan->cluster;
    struct launch_words argv;
    psd_status status = supervise_master_words(plan, &argv);

    if (status != PSD_OK) {
        return status;
    }
    fprintf(file, "master on %s\n  $ ",
            cluster->master == CLUSTER_HERE
                ? "this machine"
                : cluster->hosts[cluster->master].name);
    print_words(&argv, file);
    launch_words_fini(&argv);
    for (uint32_t i = 0; i < cluster->host_count && status == PSD_OK; i++) {
        status = print_host(plan, i, file);
    }
    return status;
}
