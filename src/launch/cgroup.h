/*
 * cgroup.h: a control group for the processes of a host, where this user may
 * make one (cgroup v2 with cgroup.kill). It reaches what /proc cannot: orphans
 * whose guard and agent died in one instant. Its absence is not an error.
 */
#ifndef PSD_LAUNCH_CGROUP_H
#define PSD_LAUNCH_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#define CGROUP_PATH_MAX 4096

/* Where the group of `guard`'s job would be: below this process's own group,
 * which is the guard's too. False: there is no cgroup v2 here. */
bool cgroup_path(pid_t guard, char *path, size_t size);
/* Make it. False, and nothing made, when it cannot be made or killed. */
bool cgroup_make(const char *path);
/* Put this process in. Safe between fork and exec. */
void cgroup_enter(const char *path);
/* SIGKILL to everybody in it; nothing when there is none, or path is "". */
void cgroup_kill(const char *path);
/* Once it is empty. */
void cgroup_remove(const char *path);

#endif
