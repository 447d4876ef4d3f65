/* folder.c: see folder.h. */
#define _GNU_SOURCE
#include "launch/folder.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"

#define RUN_TEMPLATE "/psd-XXXXXX"
#define LOGS_TRIES   100

static_assert(FOLDER_PATH_MAX >= PATH_MAX, "paths of the system must fit");

static bool socket_fits(const char *parent)
{
    struct sockaddr_un address;

    return strlen(parent) + strlen(RUN_TEMPLATE) + 1 + strlen(FOLDER_SOCKET) <
           sizeof(address.sun_path);
}

psd_status folder_make_run(char *path, size_t size)
{
    const char *parents[] = {getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"),
                             "/tmp"};

    for (size_t i = 0; i < sizeof(parents) / sizeof(parents[0]); i++) {
        if (parents[i] == NULL || parents[i][0] != '/' ||
            !socket_fits(parents[i])) {
            continue;
        }
        snprintf(path, size, "%s%s", parents[i], RUN_TEMPLATE);
        if (mkdtemp(path) != NULL) { /* mode 0700 */
            return PSD_OK;
        }
    }
    log_error("folder: cannot make a private folder in /tmp: %m; set TMPDIR "
              "to a folder that you may write");
    return PSD_ESYSTEM;
}

/* Only what mkdtemp has made for us: another's folder is left as it is. */
static bool is_ours(int fd)
{
    struct stat about;

    return fstat(fd, &about) == 0 && about.st_uid == geteuid() &&
           (about.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

void folder_remove_run(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *stream;

    if (fd < 0) {
        return;
    }
    stream = is_ours(fd) ? fdopendir(fd) : NULL;
    if (stream == NULL) {
        close(fd);
        return;
    }
    for (struct dirent *entry = readdir(stream); entry != NULL;
         entry = readdir(stream)) {
        unlinkat(fd, entry->d_name, 0); /* refuses a folder */
    }
    closedir(stream);
    rmdir(path);
}

/* mkdir -p; an existing folder is fine. */
static psd_status make_all(const char *path)
{
    char part[FOLDER_PATH_MAX];
    size_t size = strlen(path);

    if (size >= sizeof(part)) {
        errno = ENAMETOOLONG;
        return PSD_ESYSTEM;
    }
    for (size_t i = 1; i <= size; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        memcpy(part, path, i);
        part[i] = '\0';
        if (mkdir(part, 0777) != 0 && errno != EEXIST) {
            return PSD_ESYSTEM;
        }
    }
    return PSD_OK;
}

psd_status folder_make(const char *path, char *error, size_t error_size)
{
    if (make_all(path) != PSD_OK || access(path, W_OK | X_OK) != 0) {
        snprintf(error, error_size,
                 "cannot make the folder %s: %s; name another with -o", path,
                 strerror(errno));
        return PSD_ESYSTEM;
    }
    return PSD_OK;
}

static psd_status make_stamped(const char *head, char *path, size_t size,
                               char *error, size_t error_size)
{
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];

    localtime_r(&now, &parts);
    strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &parts);
    for (int i = 1; i <= LOGS_TRIES; i++) {
        char suffix[16] = "";

        if (i > 1) {
            snprintf(suffix, sizeof(suffix), "_%d", i);
        }
        if ((size_t)snprintf(path, size, "%sposeidon_log_%s%s", head, stamp,
                             suffix) >= size) {
            errno = ENAMETOOLONG;
            break;
        }
        if (mkdir(path, 0777) == 0) {
            return PSD_OK;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    snprintf(error, error_size,
             "cannot make a log folder %s: %s; name another with -o", path,
             strerror(errno));
    return PSD_ESYSTEM;
}

psd_status folder_make_logs(const char *parent, const char *name, char *path,
                            size_t size, char *error, size_t error_size)
{
    bool here = strcmp(parent, ".") == 0;
    char head[FOLDER_PATH_MAX];

    if (folder_make(parent, error, error_size) != PSD_OK) {
        return PSD_ESYSTEM;
    }
    snprintf(head, sizeof(head), "%s%s", here ? "" : parent, here ? "" : "/");
    if (name == NULL) {
        return make_stamped(head, path, size, error, error_size);
    }
    if ((size_t)snprintf(path, size, "%s%s", head, name) >= size) {
        snprintf(error, error_size, "the path of the log folder is too long");
        return PSD_ESYSTEM;
    }
    return folder_make(path, error, error_size);
}
