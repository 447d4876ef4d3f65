/* guard.c: see guard.h. It does nothing but wait, so that nothing in it can
 * fail while there is something to clean up. Where there is a control group a
 * third process, the sweeper, waits for the end of both: killed in one instant
 * they leave the group to it. */
#define _GNU_SOURCE
#include "launch/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
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

/* Until the process is gone; at once when it is, and has no pidfd. */
static void wait_gone(int pidfd)
{
    struct pollfd one = { .fd = pidfd, .events = POLLIN };

    while (pidfd >= 0 && poll(&one, 1, -1) < 0 && errno == EINTR) {
    }
}

static void sweep(pid_t guard, pid_t agent, const char *folder,
                  const char *cgroup) __attribute__((noreturn));

static void sweep(pid_t guard, pid_t agent, const char *folder,
                  const char *cgroup)
{
    int guard_fd = (int)syscall(SYS_pidfd_open, guard, 0);
    int agent_fd = (int)syscall(SYS_pidfd_open, agent, 0);

    setsid();
    prctl(PR_SET_NAME, "psd sweeper");
    close_stream();
    dup2(STDIN_FILENO, STDERR_FILENO); /* or ssh would wait for it */
    if (guard_fd >= 0) {
        wait_gone(guard_fd);
        wait_gone(agent_fd);
        cgroup_kill(cgroup);
        folder_remove_run(folder);
        cgroup_remove(cgroup);
    }
    _exit(0);
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
    if (cgroup[0] != '\0' && fork() == 0) {
        sweep(self, agent, folder, cgroup);
    }
    close_stream();
    code = wait_agent(agent);
    cgroup_kill(cgroup);
    tree_end(GUARD_END_MS);
    folder_remove_run(folder);
    cgroup_remove(cgroup);
    return code;
}
