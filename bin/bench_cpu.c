/* bench_cpu.c: the CPU time of a whole local job; see bench.h. */
#define _GNU_SOURCE
#include "bench.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "base/banned.h"

#define PROCESSES_MAX 8192

uint64_t bench_cpu_own(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

struct process {
    int pid, parent;
    bool launched; /* named psd..., and not a worker of this benchmark */
    bool server;
    uint64_t ticks;
};

static size_t read_small(int pid, const char *name, char *text, size_t size)
{
    char path[64];
    FILE *file;
    size_t used = 0;

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    file = fopen(path, "re");
    if (file != NULL) {
        used = fread(text, 1, size - 1, file);
        fclose(file);
    }
    text[used] = '\0';
    return used;
}

static bool read_process(int pid, struct process *process)
{
    char text[1024];
    char words[256] = "";
    const char *name, *rest, *role;
    uint64_t user, kernel;

    if (read_small(pid, "stat", text, sizeof(text)) == 0) {
        return false;
    }
    name = strchr(text, '(');
    rest = strrchr(text, ')');
    if (name == NULL || rest == NULL ||
        sscanf(rest + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64
               " %" SCNu64, &process->parent, &user, &kernel) != 3) {
        return false;
    }
    process->pid = pid;
    process->ticks = user + kernel;
    process->launched = strncmp(name, "(psd", 4) == 0;
    if (process->launched) {
        read_small(pid, "cmdline", words, sizeof(words) - 1);
    }
    role = words + strlen(words) + 1; /* psd ROLE ... */
    process->server = strcmp(role, "server") == 0;
    process->launched = process->launched && strcmp(role, "bench") != 0;
    return true;
}

/* The job is the tree under the topmost ancestor of this process that is
 * named psd... */
uint64_t bench_cpu_others(uint64_t *servers_p)
{
    static struct process all[PROCESSES_MAX];
    struct process step;
    size_t count = 0;
    int root = 0;
    uint64_t ticks = 0;
    DIR *folder = opendir("/proc");
    const struct dirent *entry;

    *servers_p = 0;
    for (int pid = getppid(); pid > 1 && read_process(pid, &step);
         pid = step.parent) {
        root = step.launched ? pid : root;
    }
    while (folder != NULL && root != 0 && count < PROCESSES_MAX &&
           (entry = readdir(folder)) != NULL) {
        if (isdigit((unsigned char)entry->d_name[0]) &&
            read_process((int)strtol(entry->d_name, NULL, 10),
                         &all[count])) {
            count++;
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    for (size_t i = 0; i < count; i++) {
        int pid = all[i].launched ? all[i].pid : 0;

        for (size_t j = 0; pid > 1 && pid != root && j < count; j++) {
            if (all[j].pid == pid) {
                pid = all[j].parent;
                j = (size_t)-1;
            }
        }
        if (pid != 0 && pid == root) {
            ticks += all[i].ticks;
            *servers_p += all[i].server;
        }
    }
    return ticks * 1000000000 / (uint64_t)sysconf(_SC_CLK_TCK);
}
