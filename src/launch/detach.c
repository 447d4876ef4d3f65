/* detach.c: see detach.h. */
#define _GNU_SOURCE
#include "launch/detach.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "launch/exit_code.h"
#include "launch/launch_message.h"

#define WORDS_MAX (64u << 10) /* of the background that are repeated */

static volatile sig_atomic_t child_pid;

/* Ctrl-C while the job is being set up ends the set-up. */
static void pass_on(int signo)
{
    int before = errno;

    kill((pid_t)child_pid, signo);
    errno = before;
}

/* ---- the background ----------------------------------------------------- */

static int go_on(const char *console, int ready_fd, int *ready_fd_p)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int out = open(console, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                   0666);

    setsid();
    if (null < 0 || out < 0) {
        fprintf(stderr, "psd_run: cannot make %s: %s; name another folder with "
                        "-o\n",
                console, strerror(errno));
        return EXIT_CODE_CANNOT_CREATE;
    }
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    close(null);
    close(out);
    *ready_fd_p = ready_fd;
    return DETACH_GO;
}

/* ---- the one who waits -------------------------------------------------- */

/* The job's name; "" when it never ran. */
static void read_name(int fd, char *name, size_t size)
{
    size_t used = 0;

    while (used + 1 < size) {
        ssize_t n = read(fd, name + used, size - 1 - used);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break;
        }
        used += (size_t)n;
    }
    name[used] = '\0';
}

static void repeat(const char *console)
{
    static char text[WORDS_MAX];
    int fd = open(console, O_RDONLY | O_CLOEXEC);
    ssize_t n;

    if (fd < 0) {
        return;
    }
    if (lseek(fd, -(off_t)sizeof(text), SEEK_END) < 0) {
        lseek(fd, 0, SEEK_SET); /* shorter than that */
    }
    n = read(fd, text, sizeof(text));
    if (n > 0) {
        fwrite(text, 1, (size_t)n, stderr);
    }
    close(fd);
}

static int wait_for(pid_t pid, int fd, const char *logs, const char *console)
{
    struct sigaction action = { .sa_handler = pass_on };
    char name[LAUNCH_NAME_MAX];
    int status;

    child_pid = pid;
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    read_name(fd, name, sizeof(name));
    close(fd);
    if (name[0] != '\0') {
        char *path = realpath(logs, NULL);

        printf("job %s runs in the background, pid %d\n"
               "  logs in %s, its own output in console.log there\n"
               "  psd attach %s   shows it\n"
               "  psd stop %s     ends it\n",
               name, (int)pid, path == NULL ? logs : path, name, name);
        fflush(stdout);
        free(path);
        return 0;
    }
    while (waitpid(pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return EXIT_CODE_OS;
        }
    }
    repeat(console);
    return WIFSIGNALED(status) ? EXIT_CODE_SIGNAL + WTERMSIG(status)
                               : WEXITSTATUS(status);
}

int detach_start(const char *logs, int *ready_fd_p)
{
    char console[LAUNCH_PATH_MAX + 16];
    int ends[2];
    pid_t pid;

    snprintf(console, sizeof(console), "%s/console.log", logs);
    fflush(NULL);
    if (pipe2(ends, O_CLOEXEC) != 0) {
        fprintf(stderr, "psd_run: no pipe: %s\n", strerror(errno));
        return EXIT_CODE_OS;
    }
    pid = fork();
    if (pid < 0) {
        fprintf(stderr, "psd_run: cannot fork: %s\n", strerror(errno));
        return EXIT_CODE_OS;
    }
    if (pid == 0) {
        close(ends[0]);
        return go_on(console, ends[1], ready_fd_p);
    }
    close(ends[1]);
    return wait_for(pid, ends[0], logs, console);
}
