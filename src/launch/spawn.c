/* spawn.c: see spawn.h. Between fork and exec only calls that are safe there;
 * an exec that fails is told through a pipe that closes when it succeeds. */
#define _GNU_SOURCE
#include "launch/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "launch/cgroup.h"
#include "launch/exit_code.h"

extern char **environ;

/* What went wrong in the child, told through the pipe. */
struct failure {
    int error;
    int in_folder; /* chdir, not exec */
};

static void reset_signals(void)
{
    sigset_t none;

    for (int i = 1; i < NSIG; i++) {
        if (i != SIGKILL && i != SIGSTOP) {
            signal(i, SIG_DFL);
        }
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

static void limit_files(rlim_t files)
{
    struct rlimit limit;

    if (files > 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = files < limit.rlim_max ? files : limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void child_run(const struct spawn_plan *plan, pid_t parent, int tell)
    __attribute__((noreturn));

static void child_run(const struct spawn_plan *plan, pid_t parent, int tell)
{
    struct failure failure = { .error = 0 };
    int null;

    setsid();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(EXIT_CODE_OS); /* died before it could be told of it */
    }
    if (plan->cgroup != NULL && plan->cgroup[0] != '\0') {
        cgroup_enter(plan->cgroup);
    }
    reset_signals();
    limit_files(plan->files);
    null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(plan->out, STDOUT_FILENO);
    dup2(plan->err, STDERR_FILENO);
    if (null > STDERR_FILENO) {
        close(null);
    }
    if (chdir(plan->folder) != 0) {
        failure.error = errno;
        failure.in_folder = 1;
    } else {
        environ = (char **)(uintptr_t)plan->variables; /* its PATH, too */
        execvp(plan->argv[0], plan->argv);
        failure.error = errno;
    }
    (void)!write(tell, &failure, sizeof(failure));
    _exit(EXIT_CODE_NOT_FOUND);
}

/* The sentence and the code of a start that failed. */
static int explain(const struct spawn_plan *plan, const struct failure *failure,
                   char *error, size_t size)
{
    const char *name = plan->argv[0];

    if (failure->in_folder) {
        snprintf(error, size, "cannot work in the folder %s: %s", plan->folder,
                 strerror(failure->error));
        return EXIT_CODE_OS;
    }
    switch (failure->error) {
    case ENOENT:
        snprintf(error, size,
                 "%s: command not found; give its path, or add its folder to "
                 "PATH",
                 name);
        return EXIT_CODE_NOT_FOUND;
    case EACCES:
    case ENOEXEC:
    case EISDIR:
        snprintf(error, size,
                 "%s: cannot be executed: %s; is it a program, "
                 "and is `chmod +x` missing?",
                 name, strerror(failure->error));
        return EXIT_CODE_NOT_EXECUTABLE;
    default:
        snprintf(error, size, "%s: cannot be started: %s", name,
                 strerror(failure->error));
        return EXIT_CODE_OS;
    }
}

psd_status spawn_process(const struct spawn_plan *plan, pid_t *pid_p,
                         int *code_p, char *error, size_t error_size)
{
    struct failure failure;
    pid_t parent = getpid();
    ssize_t got;
    int tell[2];
    pid_t pid;

    *code_p = EXIT_CODE_OS;
    if (pipe2(tell, O_CLOEXEC) != 0) {
        snprintf(error, error_size, "no pipe: %s; raise `ulimit -n`",
                 strerror(errno));
        return PSD_ESYSTEM;
    }
    pid = fork();
    if (pid == 0) {
        child_run(plan, parent, tell[1]);
    }
    close(tell[1]);
    if (pid < 0) {
        snprintf(error, error_size, "cannot fork: %s; raise `ulimit -u`",
                 strerror(errno));
        close(tell[0]);
        return PSD_ESYSTEM;
    }
    do {
        got = read(tell[0], &failure, sizeof(failure));
    } while (got < 0 && errno == EINTR);
    close(tell[0]);
    if (got == (ssize_t)sizeof(failure)) {
        waitpid(pid, NULL, 0);
        *code_p = explain(plan, &failure, error, error_size);
        return PSD_ESYSTEM;
    }
    *code_p = 0;
    *pid_p = pid;
    return PSD_OK;
}

/* ---- looking ------------------------------------------------------------- */

/* 0, or the exit code of a start that would fail. */
static int look_at(int folder, const char *path)
{
    struct stat about;

    if (fstatat(folder, path, &about, 0) != 0) {
        return errno == EACCES ? EXIT_CODE_NOT_EXECUTABLE
                               : EXIT_CODE_NOT_FOUND;
    }
    return S_ISREG(about.st_mode) && faccessat(folder, path, X_OK, 0) == 0
               ? 0
               : EXIT_CODE_NOT_EXECUTABLE;
}

static const char *path_of(char *const *variables)
{
    for (; *variables != NULL; variables++) {
        if (strncmp(*variables, "PATH=", 5) == 0) {
            return *variables + 5;
        }
    }
    return "/bin:/usr/bin";
}

int spawn_look(const char *word, const char *folder, char *const *variables)
{
    int fd = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
    const char *at = path_of(variables);
    int code = EXIT_CODE_NOT_FOUND;
    bool last = fd < 0;

    if (fd >= 0 && strchr(word, '/') != NULL) {
        code = look_at(fd, word);
        last = true;
    }
    while (!last && code != 0) {
        size_t size = strcspn(at, ":");
        char path[PATH_MAX];
        int found = EXIT_CODE_NOT_FOUND;

        if (word[0] != '\0' &&
            (size_t)snprintf(path, sizeof(path), "%.*s%s%s", (int)size, at,
                             size == 0 ? "" : "/", word) < sizeof(path)) {
            found = look_at(fd, path);
        }
        code = found == EXIT_CODE_NOT_FOUND ? code : found;
        last = at[size] == '\0';
        at += size + 1;
    }
    if (fd >= 0) {
        close(fd);
    }
    return code;
}

/* ---- sh ------------------------------------------------------------------ */

bool spawn_shell_finds(const char *line, const char *folder,
                       char *const *variables, char *word, size_t size)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyz"
                                "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-@%,";
    char *argv[] = { "sh", "-c", "command -v -- \"$1\" >/dev/null",
                     "sh", word, NULL };
    struct spawn_plan plan = { .argv = argv,
                               .variables = variables,
                               .folder = folder };
    char error[256];
    size_t length;
    int status = 0;
    int code;
    pid_t pid;

    line += strspn(line, " \t\n");
    length = strcspn(line, " \t\n;&|()<>");
    if (length == 0 || length >= size || strspn(line, plain) < length) {
        return true; /* not plain: the shell will say */
    }
    memcpy(word, line, length);
    word[length] = '\0';
    if (word[0] == '/') {
        return access(word, X_OK) == 0; /* command -v does not look */
    }
    plan.out = open("/dev/null", O_WRONLY | O_CLOEXEC);
    plan.err = plan.out;
    if (spawn_process(&plan, &pid, &code, error, sizeof(error)) == PSD_OK) {
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
        }
    }
    close(plan.out);
    return !WIFEXITED(status) || WEXITSTATUS(status) == 0;
}

/* ---- environment --------------------------------------------------------- */

psd_status spawn_environment_set(struct launch_words *environment,
                                 const char *name, const char *value)
{
    size_t size = strlen(name);

    for (uint32_t i = 0; i < environment->count; i++) {
        char *word = environment->words[i];

        if (strncmp(word, name, size) == 0 && word[size] == '=') {
            environment->words[i] = environment->words[environment->count - 1];
            environment->words[--environment->count] = NULL;
            mem_free(word);
            break;
        }
    }
    return launch_words_add(environment, name, value);
}

psd_status spawn_environment_add(struct launch_words *environment,
                                 const struct launch_words *over)
{
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < over->count && status == PSD_OK; i++) {
        char name[256];
        const char *equal = strchr(over->words[i], '=');
        size_t size = equal == NULL ? 0 : (size_t)(equal - over->words[i]);

        if (size == 0 || size >= sizeof(name)) {
            log_error("spawn: %s is no variable", over->words[i]);
            return PSD_EINVAL;
        }
        memcpy(name, over->words[i], size);
        name[size] = '\0';
        status = spawn_environment_set(environment, name, equal + 1);
    }
    return status;
}

psd_status spawn_environment(const struct launch_words *over,
                             struct launch_words *environment_p)
{
    struct launch_words environment = { .count = 0 };
    uint32_t count = 0;
    psd_status status;

    while (environ[count] != NULL) {
        count++;
    }
    status = launch_words_set(&environment, count, environ);
    if (status == PSD_OK) {
        status = spawn_environment_add(&environment, over);
    }
    if (status != PSD_OK) {
        launch_words_fini(&environment);
        return status;
    }
    *environment_p = environment;
    return PSD_OK;
}
