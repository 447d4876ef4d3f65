/* tree.c: see tree.h. A pid may be given to somebody else between the walk
 * and the signal; a pidfd that still shows the same start time cannot. */
#define _GNU_SOURCE
#include "launch/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define TREE_FIRST     256
#define TREE_DEPTH_MAX 4096
#define TREE_PAUSE_NS  5000000L

struct node {
    pid_t pid;
    pid_t parent;
    uint64_t start; /* ticks since boot: with pid, unique */
    bool zombie;
    bool below;
};

struct walk {
    struct node *nodes;
    size_t count;
    size_t capacity;
};

/* "pid (name) state ppid ... starttime(22)"; the name may hold anything. */
static bool read_node(pid_t pid, struct node *node)
{
    char path[48];
    char text[1024];
    const char *at;
    char state;
    int parent;
    ssize_t size;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return false;
    }
    size = read(fd, text, sizeof(text) - 1);
    close(fd);
    if (size <= 0) {
        return false;
    }
    text[size] = '\0';
    at = strrchr(text, ')');
    *node = (struct node){ .pid = pid };
    if (at == NULL ||
        sscanf(at + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
               "%*d %*d %*d %*d %" SCNu64,
               &state, &parent, &node->start) != 3) {
        return false;
    }
    node->parent = parent;
    node->zombie = state == 'Z' || state == 'X';
    return true;
}

static int by_pid(const void *a, const void *b)
{
    const struct node *left = a;
    const struct node *right = b;

    return (left->pid > right->pid) - (left->pid < right->pid);
}

static struct node *find(const struct walk *walk, pid_t pid)
{
    struct node key = { .pid = pid };

    return bsearch(&key, walk->nodes, walk->count, sizeof(key), by_pid);
}

static psd_status add_node(struct walk *walk, const struct node *node)
{
    if (walk->count == walk->capacity) {
        size_t capacity = walk->capacity == 0 ? TREE_FIRST : walk->capacity * 2;
        void *nodes = walk->nodes;

        if (mem_grow(&nodes, walk->count, capacity, sizeof(*node)) != PSD_OK) {
            return PSD_ENOMEM;
        }
        walk->nodes = nodes;
        walk->capacity = capacity;
    }
    walk->nodes[walk->count++] = *node;
    return PSD_OK;
}

static void take_walk(struct walk *walk)
{
    DIR *proc = opendir("/proc");
    struct dirent *entry;

    *walk = (struct walk){ .nodes = NULL };
    if (proc == NULL) {
        log_error("tree: cannot read /proc: %m");
        return;
    }
    while ((entry = readdir(proc)) != NULL) {
        long pid = strtol(entry->d_name, NULL, 10);
        struct node node;

        if (pid > 0 && read_node((pid_t)pid, &node) &&
            add_node(walk, &node) != PSD_OK) {
            break;
        }
    }
    closedir(proc);
    if (walk->count > 0) {
        qsort(walk->nodes, walk->count, sizeof(*walk->nodes), by_pid);
    }
}

/* Follow the parents up; a chain that ends elsewhere is not below us. */
static bool is_below(const struct walk *walk, const struct node *node,
                     pid_t root)
{
    for (unsigned i = 0; node != NULL && i < TREE_DEPTH_MAX; i++) {
        if (node->below || node->parent == root) {
            return true;
        }
        node = find(walk, node->parent);
    }
    return false;
}

static void send_signal(const struct node *node, int signal)
{
    int fd = (int)syscall(SYS_pidfd_open, node->pid, 0);
    struct node now;

    if (fd < 0) {
        if (errno == ENOSYS) {
            kill(node->pid, signal);
        }
        return;
    }
    if (read_node(node->pid, &now) && now.start == node->start) {
        (void)syscall(SYS_pidfd_send_signal, fd, signal, NULL, 0);
    }
    close(fd);
}

unsigned tree_signal(int signal)
{
    struct walk walk;
    pid_t self = getpid();
    unsigned count = 0;

    take_walk(&walk);
    for (size_t i = 0; i < walk.count; i++) {
        struct node *node = &walk.nodes[i];

        node->below = node->pid != self && is_below(&walk, node, self);
        if (!node->below || node->zombie) {
            continue;
        }
        count++;
        if (signal != 0) {
            send_signal(node, signal);
        }
    }
    mem_free(walk.nodes);
    return count;
}

bool tree_descends(pid_t pid, pid_t ancestor)
{
    struct node node = { .parent = pid };

    if (getsid(pid) == ancestor) {
        return true;
    }
    for (unsigned i = 0; i < TREE_DEPTH_MAX && node.parent > 1; i++) {
        if (node.parent == ancestor) {
            return true;
        }
        if (!read_node(node.parent, &node)) {
            return false;
        }
    }
    return false;
}

void tree_end(unsigned limit_ms)
{
    uint64_t due_ns = clock_ns() + limit_ms * CLOCK_NS_PER_MS;
    struct timespec pause = { .tv_nsec = TREE_PAUSE_NS };

    for (;;) {
        unsigned left = tree_signal(SIGKILL);

        while (waitpid(-1, NULL, WNOHANG) > 0) {
        }
        if ((left == 0 && waitpid(-1, NULL, WNOHANG) < 0) ||
            clock_ns() >= due_ns) {
            return;
        }
        nanosleep(&pause, NULL);
    }
}
