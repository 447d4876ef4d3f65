/* copy.c: see copy.h. */
#define _GNU_SOURCE
#include "launch/copy.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/mem.h"

#define COPY_MAX   (256u << 20)
#define COPY_FIRST (1u << 20)

/* Those of these that are there, from the folder above bin: an installed
 * tree, or one that was built in place. */
static const struct {
    const char *path;
    const char *proof; /* there: it is ours; "": the path itself */
} parts[] = {
    {"bin/psd", ""},
    {"bin/psd_run", ""},
    {"lib/libposeidon.so.0", ""},
    {"libposeidon.so.0", ""},
    {"lib/libposeidon_tf.so", ""},
    {"libposeidon_tf.so", ""},
    {"lib/poseidon/python", "/boot/sitecustomize.py"},
    {"python", "/boot/sitecustomize.py"},
};

#define PART_COUNT (sizeof(parts) / sizeof(parts[0]))

static void child_run(const char *root, int out) __attribute__((noreturn));

static void child_run(const char *root, int out)
{
    char *argv[8 + PART_COUNT] = {"tar", "--exclude=__pycache__", "-chf", "-"};
    size_t count = 4;

    dup2(out, STDOUT_FILENO);
    if (chdir(root) != 0) {
        _exit(127);
    }
    for (size_t i = 0; i < PART_COUNT; i++) {
        char proof[64];

        snprintf(proof, sizeof(proof), "%s%s", parts[i].path, parts[i].proof);
        if (access(proof, R_OK) == 0) {
            argv[count++] = (char *)(uintptr_t)parts[i].path;
        }
    }
    argv[count] = NULL;
    execvp(argv[0], argv);
    _exit(127);
}

static psd_status read_all(struct copy *copy, int fd)
{
    size_t capacity = 0;

    for (;;) {
        ssize_t n;

        if (copy->size == capacity) {
            void *grown = copy->data;

            capacity = capacity == 0 ? COPY_FIRST : capacity * 2;
            if (capacity > COPY_MAX ||
                mem_grow(&grown, copy->size, capacity, 1) != PSD_OK) {
                return PSD_ENOMEM;
            }
            copy->data = grown;
        }
        n = read(fd, copy->data + copy->size, capacity - copy->size);
        if (n < 0 && errno == EINTR) {
            continue;
        }
        if (n <= 0) {
            return n == 0 ? PSD_OK : PSD_ESYSTEM;
        }
        copy->size += (size_t)n;
    }
}

psd_status copy_init(struct copy *copy, const char *psd, char *error,
                     size_t error_size)
{
    char root[PATH_MAX];
    int ends[2];
    int code = -1;
    pid_t pid;
    psd_status status;

    *copy = (struct copy){.data = NULL};
    snprintf(error, error_size,
             "cannot pack psd for --copy; is tar installed "
             "here?");
    snprintf(root, sizeof(root), "%s", psd);
    for (int i = 0; i < 2 && strrchr(root, '/') != NULL; i++) {
        *strrchr(root, '/') = '\0';
    }
    if (pipe2(ends, O_CLOEXEC) != 0) {
        return PSD_ESYSTEM;
    }
    pid = fork();
    if (pid == 0) {
        child_run(root, ends[1]);
    }
    close(ends[1]);
    status = pid < 0 ? PSD_ESYSTEM : read_all(copy, ends[0]);
    close(ends[0]);
    if (pid > 0 && (waitpid(pid, &code, 0) != pid || code != 0)) {
        status = PSD_ESYSTEM;
    }
    if (status != PSD_OK) {
        copy_fini(copy);
        return status;
    }
    snprintf(copy->id, sizeof(copy->id), "%s-%08" PRIx32 "-%zx", psd_version(),
             crc32c(0, copy->data, copy->size), copy->size);
    return PSD_OK;
}

void copy_fini(struct copy *copy)
{
    mem_free(copy->data);
    *copy = (struct copy){.data = NULL};
}
