/* helper.c: see helper.h. */
#define _GNU_SOURCE
#include "launch/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define HELPER_PAUSE_NS  1000000L
#define HELPER_NOISE_MAX (64u << 10) /* of a login shell */
#define HELPER_NAME      "poseidon"

static void child_run(char *const *argv, int stream, int errors)
    __attribute__((noreturn));

static void child_run(char *const *argv, int stream, int errors)
{
    sigset_t none;

    setsid(); /* the terminal's signals are for psd_run */
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGPIPE, SIG_DFL);
    dup2(stream, STDIN_FILENO);
    dup2(stream, STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execvp(argv[0], argv);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", argv[0], strerror(errno));
    _exit(127);
}

/* ---- its stderr --------------------------------------------------------- */

static void say_line(struct helper *helper)
{
    helper->line[helper->line_size] = '\0';
    helper->line_size = 0;
    if (helper->line[0] != '\0') {
        helper->events->said(helper->user, helper->line);
    }
}

static void close_errors(struct helper *helper)
{
    if (helper->error_fd >= 0) {
        loop_unwatch(helper->loop, &helper->errors);
        close(helper->error_fd);
        helper->error_fd = -1;
        say_line(helper);
    }
}

/* False: nothing more for now. */
static bool read_errors(struct helper *helper)
{
    char data[4096];
    ssize_t n = read(helper->error_fd, data, sizeof(data));

    if (n < 0 && errno == EINTR) {
        return true;
    }
    if (n < 0 && errno == EAGAIN) {
        return false;
    }
    if (n <= 0) {
        close_errors(helper);
        return false;
    }
    for (ssize_t i = 0; i < n; i++) {
        if (data[i] == '\n' || data[i] == '\r' ||
            helper->line_size + 1 == sizeof(helper->line)) {
            say_line(helper);
        }
        if (data[i] != '\n' && data[i] != '\r' && data[i] != '\0') {
            helper->line[helper->line_size++] = data[i];
        }
    }
    return true;
}

static void on_errors(struct loop_watch *watch, uint32_t mask)
{
    (void)mask;
    read_errors(list_entry(watch, struct helper, errors));
}

void helper_drain(struct helper *helper)
{
    while (helper->error_fd >= 0 && read_errors(helper)) {
    }
}

/* ---- the greeting ------------------------------------------------------- */

psd_status helper_greet(int fd, const char *role)
{
    char line[HELPER_LINE_MAX];
    int size = snprintf(line, sizeof(line), HELPER_NAME " %s %d %s\n", role,
                        WIRE_VERSION, psd_version());

    if (write(fd, line, (size_t)size) != size) {
        log_error("%s: cannot greet: %m", role);
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

static void close_stream(struct helper *helper)
{
    if (helper->fd >= 0) {
        loop_unwatch(helper->loop, &helper->stream);
        close(helper->fd);
        helper->fd = -1;
    }
}

static void fail(struct helper *helper, const char *sentence)
{
    close_stream(helper);
    helper->events->failed(helper->user, sentence);
}

/* "poseidon agent 1 0.1.0": of our version? Somebody else's line that only
 * begins so is passed over. */
static void take_greeting(struct helper *helper, const char *line)
{
    char build[64] = "";
    char role[32] = "";
    char sentence[512];
    int version = -1;
    int fd = helper->fd;

    if (sscanf(line, HELPER_NAME " %31s %d %63s", role, &version, build) < 2) {
        return;
    }
    if (version != WIRE_VERSION || strcmp(build, psd_version()) != 0) {
        snprintf(sentence, sizeof(sentence),
                 "psd is version %s (protocol %d) there, %s (protocol %d) "
                 "here; install the same version on every host, or let "
                 "psd_run bring its own with --copy",
                 build[0] == '\0' ? "unknown" : build, version, psd_version(),
                 WIRE_VERSION);
        fail(helper, sentence);
        return;
    }
    loop_unwatch(helper->loop, &helper->stream);
    helper->fd = -1;
    if (link_adopt(helper->loop, fd, fd, helper->events->link, helper->user,
                   &helper->link) != PSD_OK) {
        fail(helper, "out of memory or files here");
        return;
    }
    helper->events->greeted(helper->user);
}

static void write_gift(struct helper *helper)
{
    while (helper->gift_size > 0) {
        ssize_t n = send(helper->fd, helper->gift, helper->gift_size,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            break; /* full, or gone: reading tells */
        }
        helper->gift += n;
        helper->gift_size -= (size_t)n;
    }
    (void)loop_rewatch(helper->loop, &helper->stream,
                       helper->gift_size > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void helper_give(struct helper *helper, const void *data, size_t size)
{
    helper->gift = data;
    helper->gift_size = size;
    write_gift(helper);
}

/* What a login script printed last may lack its end of line. */
static const char *last_words(const char *line)
{
    const char *found = line;
    const char *next = line;

    while ((next = strstr(next, HELPER_NAME " ")) != NULL) {
        found = next++;
    }
    return found;
}

static void take_line(struct helper *helper, const char *line)
{
    line = last_words(line);
    if (strcmp(line, HELPER_NAME " wants") == 0 &&
        helper->events->wants != NULL) {
        helper->events->wants(helper->user);
    } else if (strncmp(line, HELPER_NAME " ", strlen(HELPER_NAME " ")) == 0) {
        take_greeting(helper, line);
    }
}

/* Byte by byte: what follows the line is for the link. */
static void on_stream(struct loop_watch *watch, uint32_t mask)
{
    struct helper *helper = list_entry(watch, struct helper, stream);
    char byte = '\0';
    ssize_t n = 1;

    if ((mask & EPOLLOUT) != 0) {
        write_gift(helper);
    }
    while (helper->fd >= 0 &&
           (n = recv(helper->fd, &byte, 1, MSG_DONTWAIT)) == 1) {
        if (byte == '\n') {
            helper->greeting[helper->greeting_size] = '\0';
            helper->greeting_size = 0;
            take_line(helper, helper->greeting);
        } else if (helper->greeting_size + 1 < sizeof(helper->greeting)) {
            helper->greeting[helper->greeting_size++] = byte;
        }
        if (++helper->skipped > HELPER_NOISE_MAX && helper->fd >= 0) {
            fail(helper, "something else than psd answers there; does a login "
                         "script print without end?");
        }
    }
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) {
        fail(helper, "");
    }
}

/* ---- life --------------------------------------------------------------- */

psd_status helper_start(struct helper *helper, struct psd_loop *loop,
                        char *const *argv, const struct helper_events *events,
                        void *user)
{
    int errors[2];
    int ends[2];

    *helper = (struct helper){
        .loop = loop, .events = events, .user = user, .fd = -1, .error_fd = -1};
    if (pipe2(errors, O_CLOEXEC) != 0) {
        log_error("run: no pipe: %m");
        return PSD_ESYSTEM;
    }
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        log_error("run: no socket pair: %m");
        close(errors[0]);
        close(errors[1]);
        return PSD_ESYSTEM;
    }
    helper->pid = fork();
    if (helper->pid == 0) {
        child_run(argv, ends[1], errors[1]);
    }
    close(ends[1]);
    close(errors[1]);
    helper->fd = ends[0];
    helper->error_fd = errors[0];
    fcntl(errors[0], F_SETFL, O_NONBLOCK);
    if (helper->pid < 0) {
        log_error("run: cannot fork: %m");
        helper->pid = 0;
    } else if (loop_watch(loop, &helper->errors, errors[0], EPOLLIN,
                          on_errors) == PSD_OK &&
               loop_watch(loop, &helper->stream, ends[0], EPOLLIN, on_stream) ==
                   PSD_OK) {
        return PSD_OK;
    }
    helper_close(helper);
    return PSD_ESYSTEM;
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

void helper_close(struct helper *helper)
{
    if (helper->loop == NULL) {
        return; /* never started */
    }
    close_stream(helper);
    link_close(helper->link);
    helper->link = NULL;
}

void helper_stop(struct helper *helper, uint64_t due_ns)
{
    struct timespec pause = {.tv_nsec = HELPER_PAUSE_NS};
    int status;

    helper_close(helper);
    while (helper->pid > 0 && !helper_reap(helper, &status)) {
        if (clock_ns() >= due_ns) {
            kill(helper->pid, SIGKILL);
            waitpid(helper->pid, &status, 0);
            helper->pid = 0;
            break;
        }
        nanosleep(&pause, NULL);
    }
    if (helper->loop != NULL) {
        helper_drain(helper);
        close_errors(helper);
    }
}
