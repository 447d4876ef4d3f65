/* cgroup.c: see cgroup.h. */
#define _GNU_SOURCE
#include "launch/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "base/banned.h"

#define REMOVE_TRIES    100 /* the dead leave a group a little later */
#define REMOVE_PAUSE_NS 1000000L

static const char *mount_point(void)
{
    static const char *const places[] = { "/sys/fs/cgroup",
                                          "/sys/fs/cgroup/unified" };

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
        struct statfs about;

        if (statfs(places[i], &about) == 0 &&
            about.f_type == CGROUP2_SUPER_MAGIC) {
            return places[i];
        }
    }
    return NULL;
}

/* The line "0::/path" of /proc/self/cgroup. */
static bool own_group(char *group, size_t size)
{
    FILE *file = fopen("/proc/self/cgroup", "re");
    char line[CGROUP_PATH_MAX];
    bool found = false;

    while (file != NULL && !found && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, "0::/", 4) == 0) {
            line[strcspn(line, "\n")] = '\0';
            found = (size_t)snprintf(group, size, "%s", line + 3) < size;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return found;
}

bool cgroup_path(pid_t guard, char *path, size_t size)
{
    const char *mount = mount_point();
    char group[CGROUP_PATH_MAX];

    if (mount == NULL || !own_group(group, sizeof(group))) {
        return false;
    }
    return (size_t)snprintf(path, size, "%s%s/poseidon-%d", mount, group,
                            (int)guard) < size;
}

static bool put(const char *path, const char *name, const char *text)
{
    char file[CGROUP_PATH_MAX + 32];
    bool good;
    int fd;

    if (path[0] == '\0') {
        return false;
    }
    snprintf(file, sizeof(file), "%s/%s", path, name);
    fd = open(file, O_WRONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    good = write(fd, text, 1) == 1;
    close(fd);
    return good;
}

bool cgroup_make(const char *path)
{
    char file[CGROUP_PATH_MAX + 32];

    if (mkdir(path, 0755) != 0) {
        return false;
    }
    snprintf(file, sizeof(file), "%s/cgroup.kill", path);
    if (access(file, W_OK) != 0) { /* before Linux 5.14 */
        rmdir(path);
        return false;
    }
    return true;
}

void cgroup_enter(const char *path)
{
    (void)put(path, "cgroup.procs", "0");
}

void cgroup_kill(const char *path)
{
    (void)put(path, "cgroup.kill", "1");
}

void cgroup_remove(const char *path)
{
    struct timespec pause = { .tv_nsec = REMOVE_PAUSE_NS };

    for (int i = 0; i < REMOVE_TRIES && path[0] != '\0'; i++) {
        if (rmdir(path) == 0 || errno != EBUSY) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}
