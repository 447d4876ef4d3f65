/* folder.c: see folder.h. */
#define _GNU_SOURCE
#include "launch/folder.h"

#include <assert.h>
#include <errno.h>
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
    const char *parents[] = { getenv("XDG_RUNTIME_DIR"), getenv("TMPDIR"),
                              "/tmp" };

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

void folder_remove_run(const char *path)
{
    char name[FOLDER_PATH_MAX + sizeof(FOLDER_SOCKET) + 1];

    snprintf(name, sizeof(name), "%s/%s", path, FOLDER_SOCKET);
    unlink(name);
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

psd_status folder_make_logs(const char *parent, char *path, size_t size,
                            char *error, size_t error_size)
{
    bool here = strcmp(parent, ".") == 0;
    time_t now = time(NULL);
    struct tm parts;
    char stamp[32];

    localtime_r(&now, &parts);
    strftime(stamp, sizeof(stamp), "%Y%m%d_%H%M%S", &parts);
    if (make_all(parent) != PSD_OK) {
        snprintf(error, error_size,
                 "cannot make the folder %s: %s; name another with -o", parent,
                 strerror(errno));
        return PSD_ESYSTEM;
    }
    for (int i = 1; i <= LOGS_TRIES; i++) {
        char suffix[16] = "";

        if (i > 1) {
            snprintf(suffix, sizeof(suffix), "_%d", i);
        }
        if ((size_t)snprintf(path, size, "%s%sposeidon_log_%s%s",
                             here ? "" : parent, here ? "" : "/", stamp,
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
             "cannot make a log folder in %s: %s; name another with -o", parent,
             strerror(errno));
    return PSD_ESYSTEM;
}
