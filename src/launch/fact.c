/* fact.c: see fact.h. */
#define _GNU_SOURCE
#include "launch/fact.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/banned.h"

#define PATH_SIZE        4096
#define FILES_SPARE      64
#define FILES_PER_WORKER 6 /* two pipes, two logs, an arena, a socket */
#define FILES_PER_SERVER 3

/* ---- files -------------------------------------------------------------- */

/* A small file as text; "" when it cannot be read. */
static void read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t used = 0;
    ssize_t got = 1;

    while (fd >= 0 && got > 0 && used + 1 < size) {
        got = read(fd, text + used, size - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    if (fd >= 0) {
        close(fd);
    }
    text[used] = '\0';
}

bool fact_is_folder(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

void fact_expand_home(char *path, size_t size)
{
    const char *home = getenv("HOME");
    char copy[PATH_SIZE];

    if (path[0] == '~' && (path[1] == '/' || path[1] == '\0') &&
        home != NULL) {
        snprintf(copy, sizeof(copy), "%s", path + 1);
        snprintf(path, size, "%s%s", home, copy);
    }
}

bool fact_disk(const char *path, struct fact_disk *disk)
{
    char at[PATH_SIZE];
    struct statvfs about;
    char *slash;

    if ((size_t)snprintf(at, sizeof(at), "%s", path) >= sizeof(at)) {
        return false;
    }
    while (!fact_is_folder(at)) {
        slash = strrchr(at, '/');
        if (slash == NULL || (slash == at && at[1] == '\0')) {
            return false;
        }
        slash[slash == at ? 1 : 0] = '\0';
    }
    if (statvfs(at, &about) != 0) {
        return false;
    }
    disk->total = about.f_blocks * about.f_frsize;
    disk->free = about.f_bavail * about.f_frsize;
    disk->writable = access(at, W_OK | X_OK) == 0;
    return true;
}

uint64_t fact_files_needed(uint32_t workers, uint32_t servers)
{
    return FILES_SPARE + (uint64_t)workers * FILES_PER_WORKER +
           (uint64_t)servers * FILES_PER_SERVER;
}

/* ---- GPUs --------------------------------------------------------------- */

#define GPU_FOLDER "/proc/driver/nvidia/gpus"

static int is_entry(const struct dirent *entry)
{
    return entry->d_name[0] != '.';
}

static unsigned list_folder(const char *path, struct dirent ***entries_p)
{
    int count = scandir(path, entries_p, is_entry, alphasort);

    return count < 0 ? 0 : (unsigned)count;
}

static void free_entries(struct dirent **entries, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        free(entries[i]);
    }
    if (count > 0) {
        free(entries);
    }
}

unsigned fact_gpus(char *text, size_t size, const char *ids[FACT_GPUS_MAX])
{
    const char *given = getenv("CUDA_VISIBLE_DEVICES");
    unsigned count = 0;

    if (given == NULL) {
        struct dirent **entries = NULL;
        unsigned found = list_folder(GPU_FOLDER, &entries);
        size_t used = 0;

        free_entries(entries, found);
        text[0] = '\0';
        for (unsigned i = 0; i < found && i < FACT_GPUS_MAX; i++) {
            used += (size_t)snprintf(text + used, size - used, "%s%u",
                                     i == 0 ? "" : ",", i);
        }
    } else {
        snprintf(text, size, "%s", given);
    }
    for (char *at = text; *at != '\0' && count < FACT_GPUS_MAX;) {
        size_t length = strcspn(at, ",");
        bool last = at[length] == '\0';

        at[length] = '\0';
        ids[count++] = at;
        at += last ? length : length + 1;
    }
    return count;
}

/* "Model: \t\t NVIDIA H200" -> "NVIDIA H200". */
static void take_model(const char *text, char name[FACT_GPU_MAX])
{
    const char *at = strstr(text, "Model:");

    if (at == NULL) {
        snprintf(name, FACT_GPU_MAX, "unknown");
        return;
    }
    at += strlen("Model:");
    at += strspn(at, " \t");
    snprintf(name, FACT_GPU_MAX, "%.*s", (int)strcspn(at, "\n"), at);
}

unsigned fact_gpu_names(const char *folder,
                        char names[FACT_GPUS_MAX][FACT_GPU_MAX])
{
    struct dirent **entries = NULL;
    unsigned found = list_folder(folder, &entries);
    unsigned count = found < FACT_GPUS_MAX ? found : FACT_GPUS_MAX;

    for (unsigned i = 0; i < count; i++) {
        char path[PATH_SIZE];
        char text[2048];

        snprintf(path, sizeof(path), "%s/%s/information", folder,
                 entries[i]->d_name);
        read_text(path, text, sizeof(text));
        take_model(text, names[i]);
    }
    free_entries(entries, found);
    return count;
}

/* ---- ports -------------------------------------------------------------- */

bool fact_port_is_free(const char *address, unsigned port)
{
    struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
                              .ai_flags = AI_NUMERICHOST };
    struct addrinfo *found = NULL;
    char service[16];
    bool free_port = true;
    int one = 1;
    int fd;

    snprintf(service, sizeof(service), "%u", port);
    if (getaddrinfo(address, service, &hints, &found) != 0) {
        return true;
    }
    fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        free_port = bind(fd, found->ai_addr, found->ai_addrlen) == 0 ||
                    errno != EADDRINUSE;
        close(fd);
    }
    freeaddrinfo(found);
    return free_port;
}

/* ---- memory ------------------------------------------------------------- */

uint64_t fact_meminfo(const char *text, const char *name)
{
    size_t size = strlen(name);

    while (text != NULL && *text != '\0') {
        if (strncmp(text, name, size) == 0 && text[size] == ':') {
            return (uint64_t)strtoull(text + size + 1, NULL, 10) * 1024;
        }
        text = strchr(text, '\n');
        text = text == NULL ? NULL : text + 1;
    }
    return 0;
}

/* A number in a file of the control group at `folder`; false: no limit. */
static bool read_number(const char *folder, const char *name,
                        uint64_t *number_p)
{
    char path[PATH_SIZE + 64];
    char text[64];
    char *end;

    snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", folder, name);
    read_text(path, text, sizeof(text));
    *number_p = strtoull(text, &end, 10);
    return end != text;
}

/* A group of this process, or one above it, may allow less. */
static void apply_groups(uint64_t *total_p, uint64_t *free_p)
{
    char text[PATH_SIZE];
    char *path;

    read_text("/proc/self/cgroup", text, sizeof(text));
    path = strstr(text, "0::/");
    if (path == NULL) {
        return;
    }
    path += strlen("0::");
    path[strcspn(path, "\n")] = '\0';
    for (;;) {
        char *slash = strrchr(path, '/');
        uint64_t limit;
        uint64_t used;

        if (read_number(path, "memory.max", &limit) &&
            read_number(path, "memory.current", &used)) {
            uint64_t left = used < limit ? limit - used : 0;

            *total_p = limit < *total_p ? limit : *total_p;
            *free_p = left < *free_p ? left : *free_p;
        }
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

void fact_memory(uint64_t *total_p, uint64_t *free_p)
{
    char text[8192];

    read_text("/proc/meminfo", text, sizeof(text));
    *total_p = fact_meminfo(text, "MemTotal");
    *free_p = fact_meminfo(text, "MemAvailable");
    apply_groups(total_p, free_p);
}
