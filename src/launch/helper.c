/* helper.c: see helper.h. */
#define _GNU_SOURCE
#include "launch/helper.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define HELPER_PAUSE_NS 1000000L

static void child_run(const char *const *argv, int stream)
    __attribute__((noreturn));

static void child_run(const char *const *argv, int stream)
{
    sigset_t none;

    setsid(); /* the terminal's signals are for psd_run */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(stream, STDIN_FILENO);
    dup2(stream, STDOUT_FILENO);
    execv(argv[0], (char *const *)(uintptr_t)argv);
    log_error("run: cannot start %s: %m; it belongs beside psd_run", argv[0]);
    _exit(127);
}

psd_status helper_start(struct helper *helper, struct psd_loop *loop,
                        const char *const *argv,
                        const struct link_events *events, void *user)
{
    int ends[2];
    pid_t pid;

    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        log_error("run: no socket pair: %m");
        return PSD_ESYSTEM;
    }
    pid = fork();
    if (pid == 0) {
        child_run(argv, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        log_error("run: cannot fork: %m");
        close(ends[0]);
        return PSD_ESYSTEM;
    }
    helper->pid = pid;
    return link_adopt(loop, ends[0], ends[0], events, user, &helper->link);
}

bool helper_reap(struct helper *helper, int *status_p)
{
    if (helper->pid <= 0 ||
        waitpid(helper->pid, status_p, WNOHANG) != helper->pid) {
        return false;
    }
    helper->pid = 0;
    return true;
}

void helper_stop(struct helper *helper, unsigned limit_ms)
{
    struct timespec pause = { .tv_nsec = HELPER_PAUSE_NS };
    uint64_t due_ns = clock_ns() + limit_ms * CLOCK_NS_PER_MS;
    int status;

    link_close(helper->link);
    helper->link = NULL;
    while (helper->pid > 0 && !helper_reap(helper, &status)) {
        if (clock_ns() >= due_ns) {
            kill(helper->pid, SIGKILL);
            waitpid(helper->pid, &status, 0);
            helper->pid = 0;
            return;
        }
        nanosleep(&pause, NULL);
    }
}
