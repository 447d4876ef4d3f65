/*
 * memory_kill.h: did the kernel kill a process of this host's job for want of
 * memory? Known from the counter of the control group that the processes are
 * in (v2: memory.events, v1: memory.oom_control) and, where it can be read,
 * from the kernel's log, which also says which process it was and how much it
 * had. What cannot be read is not an error. The agent's thread.
 */
#ifndef PSD_LAUNCH_MEMORY_KILL_H
#define PSD_LAUNCH_MEMORY_KILL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "launch/launch_message.h"

#define MEMORY_KILL_FILES 3
#define MEMORY_KILL_LAST  16 /* victims that the log named, remembered */

struct memory_kill_file {
    char path[LAUNCH_PATH_MAX];
    uint64_t count; /* kills, when last looked at */
};

struct memory_kill_victim {
    pid_t pid;
    uint64_t size; /* bytes resident */
};

struct memory_kill {
    struct memory_kill_file files[MEMORY_KILL_FILES];
    unsigned file_count;
    int log;         /* the kernel's; -1: none */
    uint64_t due_ns; /* kills seen count until then; 0: none */
    struct memory_kill_victim victims[MEMORY_KILL_LAST];
    unsigned victim_count; /* all that were seen */
};

/* Begin to watch. `cgroup` is the one that processes enter, "" for none;
 * `root` stands before every path, "" outside of tests. */
void memory_kill_init(struct memory_kill *watch, const char *root,
                      const char *cgroup);
void memory_kill_fini(struct memory_kill *watch);

/* A process has failed, killed by SIGKILL (or its shell says so) or in another
 * way: was it that? `pids` are its own and its member's; `size_p` gets the
 * kernel's figure when there is one. */
enum launch_memory memory_kill_check(struct memory_kill *watch,
                                     const pid_t *pids, unsigned pid_count,
                                     bool killed, uint64_t *size_p);

#endif
