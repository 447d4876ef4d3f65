/* look.c: see look.h. */
#define _GNU_SOURCE
#include "launch/look.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/agent_state.h"
#include "launch/tree.h"

#define LOOK_EVERY_MS 100
#define LOOK_DEPTH    16 /* shells within shells */

int look_signal(void)
{
    return SIGRTMIN + 5;
}

/* ---- /proc -------------------------------------------------------------- */

static size_t read_file(pid_t pid, const char *name, char *text, size_t size)
{
    char path[128];
    ssize_t used = 0;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0) {
        used = read(fd, text, size - 1);
        close(fd);
    }
    text[used > 0 ? used : 0] = '\0';
    return strlen(text);
}

/* "4242 (a name) S ...": the name may have blanks and brackets in it. */
static void read_stat(pid_t pid, struct launch_look *look)
{
    char text[1024];
    char *open;
    char *end;

    if (read_file(pid, "stat", text, sizeof(text)) == 0) {
        return;
    }
    open = strchr(text, '(');
    end = strrchr(text, ')');
    if (open == NULL || end == NULL || end < open || end[1] != ' ') {
        return;
    }
    look->state = (uint8_t)end[2];
    *end = '\0';
    snprintf(look->name, sizeof(look->name), "%.*s", LAUNCH_WHERE_MAX - 1,
             open + 1);
}

/* Caught signals, as a mask in hexadecimal. */
static bool read_catches(pid_t pid, int signo)
{
    static const char key[] = "SigCgt:";
    char text[8192];
    const char *at;

    (void)read_file(pid, "status", text, sizeof(text));
    at = strstr(text, key);
    return at != NULL &&
           (strtoull(at + sizeof(key) - 1, NULL, 16) >> (signo - 1) & 1) != 0;
}

void look_at(pid_t pid, int signo, struct launch_look *look, bool *catches_p)
{
    char where[256];

    *look = (struct launch_look){ .pid = (uint32_t)pid };
    read_stat(pid, look);
    *catches_p = look->state != 0 && read_catches(pid, signo);
    if (look->state == 'Z' || look->state == 'X') {
        look->state = 0;
    }
    (void)read_file(pid, "wchan", where, sizeof(where));
    if (strcmp(where, "0") != 0) {
        snprintf(look->where, sizeof(look->where), "%.*s",
                 LAUNCH_WHERE_MAX - 1, where);
    }
}

pid_t look_below(pid_t pid)
{
    for (int depth = 0; depth < LOOK_DEPTH; depth++) {
        char name[64];
        char text[256];
        char *end;
        long child;

        snprintf(name, sizeof(name), "task/%d/children", (int)pid);
        (void)read_file(pid, name, text, sizeof(text));
        child = strtol(text, &end, 10);
        if (child <= 0 || end[strspn(end, " \n")] != '\0') {
            return pid; /* none, or several */
        }
        pid = (pid_t)child;
    }
    return pid;
}

/* ---- one look ----------------------------------------------------------- */

static struct output *stderr_of(struct process *process)
{
    return &process->outputs[process->output_count - 1];
}

static off_t log_size(struct process *process)
{
    struct stat about;

    output_drain(stderr_of(process));
    return stat(stderr_of(process)->path, &about) == 0 ? about.st_size : 0;
}

static void read_stack(struct process *process, struct launch_look *look)
{
    int fd = open(stderr_of(process)->path, O_RDONLY | O_CLOEXEC);
    ssize_t used = 0;

    if (fd >= 0) {
        used = pread(fd, look->stack, sizeof(look->stack) - 1,
                     process->look.from);
        close(fd);
    }
    used = used > 0 ? used : 0;
    look->stack[used] = '\0';
    for (ssize_t i = 0; i < used; i++) {
        if (look->stack[i] == '\0') {
            look->stack[i] = '?';
        }
    }
    look->stack_is = used > 0 ? LAUNCH_STACK_SHOWN : LAUNCH_STACK_SILENT;
}

static void answer(struct process *process, const struct launch_look *look)
{
    struct pack pack;

    process->look.busy = false;
    pack_init(&pack);
    launch_look_pack(&pack, look);
    agent_send(process->owner, process, FRAME_LOOK, &pack);
    pack_fini(&pack);
}

/* It is all there when no more comes. */
static void on_timer(struct loop_timer *timer)
{
    struct look *look = list_entry(timer, struct look, timer);
    struct process *process = list_entry(look, struct process, look);
    struct agent *agent = process->owner;
    off_t size = log_size(process);
    struct launch_look found;
    bool catches;

    if (clock_ns() < look->due_ns &&
        (size == look->from || size != look->seen)) {
        look->seen = size;
        loop_timer_start(agent->loop, timer, LOOK_EVERY_MS * CLOCK_NS_PER_MS,
                         on_timer);
        return;
    }
    look_at(look->pid, look_signal(), &found, &catches);
    read_stack(process, &found);
    answer(process, &found);
}

/* The member, when there is one: a shell or a wrapper may be above it. */
static pid_t choose(const struct process *process)
{
    if (process->seat == SEAT_TAKEN && process->member_pid > 0 &&
        tree_descends(process->member_pid, process->pid)) {
        return process->member_pid;
    }
    return look_below(process->pid);
}

void look_start(struct process *process)
{
    struct agent *agent = process->owner;
    struct look *look = &process->look;
    struct launch_look found = { .pid = (uint32_t)process->pid };
    bool catches = false;

    if (look->busy) {
        return; /* the answer is under way */
    }
    if (!process->alive) {
        answer(process, &found);
        return;
    }
    look->pid = choose(process);
    look_at(look->pid, look_signal(), &found, &catches);
    /* A stopped one could not run its handler. */
    if (!catches || found.state == 'T' || found.state == 't' ||
        found.state == 0) {
        answer(process, &found);
        return;
    }
    look->busy = true;
    look->from = log_size(process);
    look->seen = look->from;
    look->due_ns = clock_ns() + LOOK_ANSWER_MS * CLOCK_NS_PER_MS;
    (void)kill(look->pid, look_signal());
    loop_timer_start(agent->loop, &look->timer,
                     LOOK_EVERY_MS * CLOCK_NS_PER_MS, on_timer);
}

void look_stop(struct look *look)
{
    if (look->busy) {
        loop_timer_stop(&look->timer);
        look->busy = false;
    }
}
