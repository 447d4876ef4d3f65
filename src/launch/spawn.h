/*
 * spawn.h: starting one process of a job: its own session, /dev/null as its
 * input, pipes as its output, its environment. One thread.
 */
#ifndef PSD_LAUNCH_SPAWN_H
#define PSD_LAUNCH_SPAWN_H

#include <sys/resource.h>
#include <sys/types.h>

#include "launch/launch_message.h"

struct spawn_plan {
    char *const *argv;      /* argv[0] is looked for in PATH */
    char *const *variables; /* the whole environment */
    const char *folder;     /* working directory */
    int out;                /* becomes stdout */
    int err;                /* becomes stderr */
    const char *cgroup;     /* to enter; NULL or "": none */
    rlim_t files;           /* soft limit of open files; 0: as it is */
};

/* Start it. On failure `code` is what a shell would say (126, 127) or 71, and
 * `error` has the sentence. */
psd_status spawn_process(const struct spawn_plan *plan, pid_t *pid_p,
                         int *code_p, char *error, size_t error_size);

/* Would `word` be found and executed? 0, or what a shell would say: 126 or
 * 127. */
int spawn_look(const char *word, const char *folder, char *const *variables);

/* Would `sh -c` find the first word of `line`? True unless it is a plain word
 * that is neither a command nor a built-in. `word` receives it. */
bool spawn_shell_finds(const char *line, const char *folder,
                       char *const *variables, char *word, size_t size);

/* Environment: this process's, with `over` on top of it. */
psd_status spawn_environment(const struct launch_words *over,
                             struct launch_words *environment_p);
psd_status spawn_environment_add(struct launch_words *environment,
                                 const struct launch_words *over);
/* Set one variable; replaces an earlier value. */
psd_status spawn_environment_set(struct launch_words *environment,
                                 const char *name, const char *value);

#endif
