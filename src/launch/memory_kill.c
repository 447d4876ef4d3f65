/* memory_kill.c: see memory_kill.h. */
#define _GNU_SOURCE
#include "launch/memory_kill.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/banned.h"
#include "base/clock.h"

#define RECENT_NS (2 * CLOCK_NS_PER_S) /* a kill explains deaths so long */
#define RECORDS_MAX 4096               /* of the log, at a time */
#define KIB 1024u

static const char log_phrase[] = "Killed process ";
static const char log_size[] = "anon-rss:";

/* ---- counters ----------------------------------------------------------- */

/* The line "oom_kill N", which both versions have. */
static bool read_count(const char *path, uint64_t *count_p)
{
    FILE *file = fopen(path, "re");
    char line[256];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "oom_kill ", 9) == 0) {
            *count_p = strtoull(line + 9, NULL, 10);
            found = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

static void add_file(struct memory_kill *watch, const char *root,
                     const char *folder, const char *name)
{
    struct memory_kill_file *file = &watch->files[watch->file_count];

    if (watch->file_count < MEMORY_KILL_FILES &&
        (size_t)snprintf(file->path, sizeof(file->path), "%s%s/%s", root,
                         folder, name) < sizeof(file->path) &&
        read_count(file->path, &file->count)) {
        watch->file_count++;
    }
}

/* "4:memory:/a/b" or "0::/a/b": the groups of this process, which those that
 * it starts are in too. */
static void add_groups(struct memory_kill *watch, const char *root)
{
    char path[LAUNCH_PATH_MAX];
    char line[LAUNCH_PATH_MAX];
    FILE *file;

    snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
    file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *list = strchr(line, ':');
        char *group = list == NULL ? NULL : strchr(list + 1, ':');

        if (group == NULL) {
            continue;
        }
        *group++ = '\0';
        group[strcspn(group, "\n")] = '\0';
        if (list[1] == '\0') {
            snprintf(path, sizeof(path), "/sys/fs/cgroup%.4000s", group);
            add_file(watch, root, path, "memory.events");
        } else if (strcmp(list + 1, "memory") == 0) {
            snprintf(path, sizeof(path), "/sys/fs/cgroup/memory%.4000s",
                     group);
            add_file(watch, root, path, "memory.oom_control");
            add_file(watch, root, "/sys/fs/cgroup/memory",
                     "memory.oom_control"); /* in a container of its own */
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

/* Have there been more since the last look? */
static bool look_at_files(struct memory_kill *watch)
{
    bool more = false;

    for (unsigned i = 0; i < watch->file_count; i++) {
        uint64_t count = 0;

        if (read_count(watch->files[i].path, &count) &&
            count > watch->files[i].count) {
            watch->files[i].count = count;
            more = true;
        }
    }
    return more;
}

/* ---- the kernel's log --------------------------------------------------- */

/* "... Killed process 4242 (python) total-vm:9kB, anon-rss:8kB, ..." */
static void read_record(struct memory_kill *watch, const char *text)
{
    const char *at = text;

    while ((at = strstr(at, log_phrase)) != NULL) {
        struct memory_kill_victim *victim =
            &watch->victims[watch->victim_count % MEMORY_KILL_LAST];
        const char *size;
        const char *end = at + strcspn(at, "\n");

        at += sizeof(log_phrase) - 1;
        size = strstr(at, log_size);
        victim->pid = (pid_t)strtol(at, NULL, 10);
        victim->size = 0;
        if (size != NULL && size < end) {
            victim->size =
                strtoull(size + sizeof(log_size) - 1, NULL, 10) * KIB;
        }
        watch->victim_count++;
    }
}

static void look_at_log(struct memory_kill *watch)
{
    char record[8193];

    for (unsigned i = 0; i < RECORDS_MAX && watch->log >= 0; i++) {
        ssize_t n = read(watch->log, record, sizeof(record) - 1);

        if (n < 0 && (errno == EPIPE || errno == EINTR)) {
            continue; /* records were lost */
        }
        if (n <= 0) {
            return;
        }
        record[n] = '\0';
        read_record(watch, record);
    }
}

static const struct memory_kill_victim *
find_victim(const struct memory_kill *watch, const pid_t *pids,
            unsigned pid_count)
{
    unsigned known = watch->victim_count < MEMORY_KILL_LAST
                         ? watch->victim_count
                         : MEMORY_KILL_LAST;

    for (unsigned i = 0; i < known; i++) {
        for (unsigned k = 0; k < pid_count; k++) {
            if (pids[k] > 0 && watch->victims[i].pid == pids[k]) {
                return &watch->victims[i];
            }
        }
    }
    return NULL;
}

/* ---- life --------------------------------------------------------------- */

void memory_kill_init(struct memory_kill *watch, const char *root,
                      const char *cgroup)
{
    char path[LAUNCH_PATH_MAX];

    *watch = (struct memory_kill){ .log = -1 };
    if (cgroup[0] != '\0') {
        add_file(watch, root, cgroup, "memory.events");
    }
    add_groups(watch, root);
    snprintf(path, sizeof(path), "%s/dev/kmsg", root);
    watch->log = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (watch->log >= 0 && lseek(watch->log, 0, SEEK_END) < 0) {
        close(watch->log);
        watch->log = -1;
    }
}

void memory_kill_fini(struct memory_kill *watch)
{
    if (watch->log >= 0) {
        close(watch->log);
        watch->log = -1;
    }
}

enum launch_memory memory_kill_check(struct memory_kill *watch,
                                     const pid_t *pids, unsigned pid_count,
                                     bool killed, uint64_t *size_p)
{
    unsigned before = watch->victim_count;
    const struct memory_kill_victim *victim;
    uint64_t now = clock_ns();

    look_at_log(watch);
    if (look_at_files(watch)) {
        watch->due_ns = now + RECENT_NS;
    }
    victim = killed ? find_victim(watch, pids, pid_count) : NULL;
    if (victim == NULL && (watch->due_ns == 0 || now >= watch->due_ns)) {
        return LAUNCH_MEMORY_FINE;
    }
    if (victim == NULL && before != watch->victim_count) { /* a child of it */
        victim = &watch->victims[(watch->victim_count - 1) % MEMORY_KILL_LAST];
    }
    if (victim != NULL && victim->size > 0) {
        *size_p = victim->size;
    }
    return killed ? LAUNCH_MEMORY_KILLED : LAUNCH_MEMORY_BELOW;
}
