/* guard.c: see guard.h. It does nothing but wait, so that nothing in it can
 * fail while there is something to clean up. */
#define _GNU_SOURCE
#include "launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/agent.h"
#include "launch/cgroup.h"
#include "launch/exit_code.h"
#include "launch/folder.h"
#include "launch/tree.h"

#define GUARD_END_MS 60000

static void close_stream(void)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        if (null > STDERR_FILENO) {
            close(null);
        }
    }
}

static int wait_agent(pid_t agent)
{
    for (;;) {
        int status;
        pid_t pid = waitpid(-1, &status, 0);

        if (pid == agent) {
            return WIFSIGNALED(status) ? 128 + WTERMSIG(status)
                                       : WEXITSTATUS(status);
        }
        if (pid < 0 && errno != EINTR) {
            return EXIT_CODE_OS;
        }
    }
}

int guard_run(void)
{
    char folder[FOLDER_PATH_MAX];
    char cgroup[CGROUP_PATH_MAX] = "";
    pid_t self = getpid();
    pid_t agent;
    int code;

    setsid(); /* the terminal's Ctrl-C is for psd_run alone */
    signal(SIGPIPE, SIG_IGN);
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) {
        log_error("guard: cannot become a subreaper: %m");
        return EXIT_CODE_OS;
    }
    if (folder_make_run(folder, sizeof(folder)) != PSD_OK) {
        return EXIT_CODE_CANNOT_CREATE;
    }
    if (!cgroup_path(self, cgroup, sizeof(cgroup)) || !cgroup_make(cgroup)) {
        cgroup[0] = '\0';
    }
    agent = fork();
    if (agent < 0) {
        log_error("guard: cannot fork: %m");
        folder_remove_run(folder);
        cgroup_remove(cgroup);
        return EXIT_CODE_OS;
    }
    if (agent == 0) {
        prctl(PR_SET_NAME, "psd agent");
        _exit(agent_run(self, folder, cgroup));
    }
    prctl(PR_SET_NAME, "psd guard");
    close_stream();
    code = wait_agent(agent);
    cgroup_kill(cgroup);
    tree_end(GUARD_END_MS);
    folder_remove_run(folder);
    cgroup_remove(cgroup);
    return code;
}
