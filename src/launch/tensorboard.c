/* tensorboard.c: see tensorboard.h. */
#define _GNU_SOURCE
#include "launch/tensorboard.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/banned.h"

#define NOT_FOUND 127

static void child_run(const char *folder, const char *virtualenv, int out)
    __attribute__((noreturn));

static void child_run(const char *folder, const char *virtualenv, int out)
{
    char program[4096];
    int null = open("/dev/null", O_RDONLY);
    sigset_t none;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    dup2(null, STDIN_FILENO);
    dup2(out, STDOUT_FILENO);
    dup2(out, STDERR_FILENO);
    if (virtualenv != NULL) {
        snprintf(program, sizeof(program), "%s/bin/tensorboard", virtualenv);
        execl(program, program, "--logdir", folder, (char *)NULL);
    }
    execlp("tensorboard", "tensorboard", "--logdir", folder, (char *)NULL);
    _exit(NOT_FOUND);
}

/* The line that has its address. */
static void take_line(struct tensorboard *board)
{
    const char *url;

    board->line[board->used] = '\0';
    url = strstr(board->line, "http");
    board->used = 0;
    if (url != NULL && strstr(board->line, "TensorBoard ") != NULL) {
        char sentence[1100];

        snprintf(sentence, sizeof(sentence), "TensorBoard at %.*s",
                 (int)strcspn(url, " "), url);
        board->say(board->user, sentence);
    }
}

static void ended(struct tensorboard *board)
{
    char sentence[256];
    int status = 0;

    loop_unwatch(board->loop, &board->watch);
    close(board->fd);
    waitpid(board->pid, &status, 0);
    board->pid = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == NOT_FOUND) {
        snprintf(sentence, sizeof(sentence),
                 "TensorBoard is not installed here; `pip install "
                 "tensorboard`");
    } else {
        snprintf(sentence, sizeof(sentence), "TensorBoard has ended: %.200s",
                 board->line);
    }
    board->say(board->user, sentence);
}

static void on_output(struct loop_watch *watch, uint32_t mask)
{
    struct tensorboard *board = list_entry(watch, struct tensorboard, watch);
    char data[1024];
    ssize_t n = read(board->fd, data, sizeof(data));

    (void)mask;
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) {
        return;
    }
    if (n <= 0) {
        ended(board);
        return;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (data[i] == '\n') {
            take_line(board);
        } else if (board->used + 1 < sizeof(board->line)) {
            board->line[board->used++] = data[i];
        }
    }
}

void tensorboard_start(struct tensorboard *board, struct psd_loop *loop,
                       const char *folder, const char *virtualenv)
{
    int ends[2];

    board->loop = loop;
    if (pipe2(ends, O_CLOEXEC) != 0) {
        board->say(board->user, "TensorBoard cannot be started: no pipe");
        return;
    }
    board->pid = fork();
    if (board->pid == 0) {
        child_run(folder, virtualenv, ends[1]);
    }
    close(ends[1]);
    board->fd = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    if (board->pid < 0 || loop_watch(loop, &board->watch, ends[0], EPOLLIN,
                                     on_output) != PSD_OK) {
        close(ends[0]);
        board->say(board->user, "TensorBoard cannot be started");
    }
}

void tensorboard_stop(struct tensorboard *board)
{
    if (board->pid > 0) {
        loop_unwatch(board->loop, &board->watch);
        close(board->fd);
        kill(-board->pid, SIGKILL);
        kill(board->pid, SIGKILL);
        waitpid(board->pid, NULL, 0);
        board->pid = 0;
    }
}
