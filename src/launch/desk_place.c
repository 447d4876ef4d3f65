/* desk_place.c: see desk_place.h. Everything is done relative to a descriptor
 * of the folder that was checked; sockets are reached through /proc/self/fd,
 * so that no path is looked up twice and none is too long. */
#define _GNU_SOURCE
#include "launch/desk_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/log.h"

#define PLACE_BACKLOG   64
#define PLACE_NAMES_MAX 100 /* jobs of the same name and second */
#define PLACE_TRIES     10  /* the folder may go while it is opened */
#define LOCK_TRIES      100
#define LOCK_PAUSE_NS   10000000L
#define FILE_CUT        (DESK_FILE_MAX - 10) /* "~", eight digits, end */

/* ---- names -------------------------------------------------------------- */

static bool is_plain(char c, bool first)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= '0' && c <= '9') || c == '_' || c == '-' ||
           (c == '.' && !first);
}

void desk_place_file(const char *name, char *file, size_t size)
{
    size_t used = 0;
    bool cut = name[0] == '\0';

    PSD_ASSERT(size >= DESK_FILE_MAX);
    for (size_t i = 0; name[i] != '\0' && !cut; i++) {
        bool plain = is_plain(name[i], i == 0);

        cut = used + 3 >= FILE_CUT;
        if (!cut && plain) {
            file[used++] = name[i];
        } else if (!cut) {
            snprintf(file + used, 4, "%%%02X", (unsigned)(uint8_t)name[i]);
            used += 3;
        }
    }
    file[used] = '\0';
    if (cut) {
        snprintf(file + used, size - used, "~%08" PRIx32,
                 crc32c(0, name, strlen(name)));
    }
}

/* ---- folders ------------------------------------------------------------ */

/* Candidates in the order in which psd_run tries them; the last one only
 * those who look for jobs. Returns how many. */
static size_t list_folders(char paths[DESK_FOLDERS_MAX][LAUNCH_PATH_MAX],
                           bool look)
{
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    uint64_t uid = geteuid();
    size_t count = 0;

    if (runtime != NULL && runtime[0] == '/' &&
        (size_t)snprintf(paths[0], sizeof(paths[0]), "%s/poseidon", runtime) <
            sizeof(paths[0])) {
        count++;
    }
    snprintf(paths[count++], sizeof(paths[0]), "/tmp/poseidon-%" PRIu64, uid);
    snprintf(paths[count], sizeof(paths[0]), "/run/user/%" PRIu64 "/poseidon",
             uid);
    if (look && strcmp(paths[count], paths[0]) != 0) {
        count++;
    }
    return count;
}

psd_status desk_place_folder(const char *path, bool make, int *fd_p,
                             char *error, size_t error_size)
{
    struct stat about;
    int fd;

    if (make && mkdir(path, 0700) != 0 && errno != EEXIST) {
        snprintf(error, error_size, "cannot make the folder %s: %s", path,
                 strerror(errno));
        return PSD_ESYSTEM;
    }
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        snprintf(error, error_size, "there is no folder %s", path);
        return PSD_AGAIN;
    }
    if (fd < 0 || fstat(fd, &about) != 0) {
        snprintf(error, error_size,
                 "%s is a link, no folder, or somebody else's: %s; remove it",
                 path, strerror(errno));
        goto foreign;
    }
    if (about.st_uid != geteuid()) {
        snprintf(error, error_size,
                 "the folder %s belongs to user %" PRIu64 "; it is not used",
                 path, (uint64_t)about.st_uid);
        goto foreign;
    }
    if ((about.st_mode & 077) != 0) {
        snprintf(error, error_size,
                 "the folder %s is open to other users; it is not used (chmod "
                 "700 makes it yours)",
                 path);
        goto foreign;
    }
    *fd_p = fd;
    return PSD_OK;

foreign:
    if (fd >= 0) {
        close(fd);
    }
    return PSD_EAUTH;
}

/* Who makes or removes sockets has the lock. It is held for moments; a holder
 * that was stopped is not waited for. */
static bool lock(int folder, unsigned tries)
{
    struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };

    while (flock(folder, LOCK_EX | LOCK_NB) != 0) {
        if (--tries == 0) {
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

static bool is_removed(int folder)
{
    struct stat about;

    return fstat(folder, &about) != 0 || about.st_nlink == 0;
}

/* ---- sockets ------------------------------------------------------------ */

static void set_address(struct sockaddr_un *address, int folder,
                        const char *file)
{
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    snprintf(address->sun_path, sizeof(address->sun_path),
             "/proc/self/fd/%d/%s", folder, file);
}

/* A connected descriptor; -1 with errno, ECONNREFUSED: nobody listens. */
static int reach(int folder, const char *file, pid_t *pid_p)
{
    struct sockaddr_un address;
    struct ucred peer;
    socklen_t size = sizeof(peer);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int why;

    set_address(&address, folder, file);
    if (fd < 0) {
        return -1;
    }
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        why = errno;
    } else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
               peer.uid != geteuid()) {
        why = EACCES;
    } else {
        *pid_p = peer.pid;
        return fd;
    }
    close(fd);
    errno = why;
    return -1;
}

static bool is_socket(int folder, const char *file)
{
    struct stat about;

    return file[0] != '.' && strlen(file) < DESK_FILE_MAX &&
           fstatat(folder, file, &about, AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISSOCK(about.st_mode);
}

/* Connect to all; remove the dead when `locked`. */
static size_t visit(int folder, bool locked, struct desk_job *jobs,
                    size_t count)
{
    int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *entry;
    size_t found = 0;

    if (entries == NULL) {
        if (copy >= 0) {
            close(copy);
        }
        return 0;
    }
    while ((entry = readdir(entries)) != NULL && found < count) {
        struct desk_job *job = &jobs[found];

        if (!is_socket(folder, entry->d_name)) {
            continue;
        }
        job->fd = reach(folder, entry->d_name, &job->pid);
        if (job->fd >= 0) {
            snprintf(job->file, sizeof(job->file), "%.*s", DESK_FILE_MAX - 1,
                     entry->d_name);
            found++;
        } else if (errno == ECONNREFUSED && locked) {
            unlinkat(folder, entry->d_name, 0);
        }
    }
    closedir(entries);
    return found;
}

static void drop(struct desk_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        close(jobs[i].fd);
    }
}

size_t desk_place_list(struct desk_job *jobs, size_t count)
{
    char paths[DESK_FOLDERS_MAX][LAUNCH_PATH_MAX];
    size_t folders = list_folders(paths, true);
    char error[512];
    size_t found = 0;

    for (size_t i = 0; i < folders; i++) {
        bool locked;
        int folder;

        if (desk_place_folder(paths[i], false, &folder, error,
                              sizeof(error)) != PSD_OK) {
            continue;
        }
        locked = lock(folder, 1);
        found += visit(folder, locked, jobs + found, count - found);
        if (locked) {
            (void)rmdir(paths[i]); /* when it is empty */
        }
        close(folder);
    }
    return found;
}

bool desk_place_taken(const char *name, pid_t *pid_p)
{
    static struct desk_job jobs[DESK_JOBS_MAX];
    size_t count = desk_place_list(jobs, DESK_JOBS_MAX);
    char file[DESK_FILE_MAX];
    bool taken = false;

    desk_place_file(name, file, sizeof(file));
    for (size_t i = 0; i < count; i++) {
        if (strcmp(jobs[i].file, file) == 0) {
            *pid_p = jobs[i].pid;
            taken = true;
        }
    }
    drop(jobs, count);
    return taken;
}

/* ---- psd_run's ---------------------------------------------------------- */

/* Listen in the folder, which is locked, under the name or the next one. */
static psd_status take_name(struct desk_place *place, const char *name,
                            bool exact, char *error, size_t error_size)
{
    struct sockaddr_un address;
    struct stat about;

    for (int i = 1; i <= (exact ? 1 : PLACE_NAMES_MAX); i++) {
        snprintf(place->name, sizeof(place->name), "%s", name);
        if (i > 1) {
            snprintf(place->name, sizeof(place->name), "%.*s_%d",
                     LAUNCH_NAME_MAX - 5, name, i);
        }
        desk_place_file(place->name, place->file, sizeof(place->file));
        set_address(&address, place->folder, place->file);
        place->fd =
            socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (place->fd >= 0 &&
            bind(place->fd, (struct sockaddr *)&address, sizeof(address)) ==
                0 &&
            listen(place->fd, PLACE_BACKLOG) == 0 &&
            fstatat(place->folder, place->file, &about,
                    AT_SYMLINK_NOFOLLOW) == 0) {
            place->inode = about.st_ino;
            return PSD_OK;
        }
        if (place->fd < 0 || errno != EADDRINUSE) {
            break;
        }
        close(place->fd);
        place->fd = -1;
    }
    if (errno == EADDRINUSE) {
        snprintf(error, error_size,
                 "a job with the name %s is running; end it with `psd stop "
                 "%s`, or take another --name",
                 name, name);
        return PSD_EINVAL;
    }
    snprintf(error, error_size, "cannot listen in %s: %s", place->path,
             strerror(errno));
    return PSD_ESYSTEM;
}

static void forget(struct desk_place *place)
{
    if (place->fd >= 0) {
        close(place->fd);
    }
    if (place->folder >= 0) {
        close(place->folder); /* and the lock */
    }
    place->fd = -1;
    place->folder = -1;
}

/* PSD_AGAIN: the folder was removed meanwhile. */
static psd_status open_in(struct desk_place *place, const char *path,
                          const char *name, bool exact, char *error,
                          size_t error_size)
{
    static struct desk_job jobs[DESK_JOBS_MAX];
    psd_status status;

    snprintf(place->path, sizeof(place->path), "%s", path);
    status = desk_place_folder(path, true, &place->folder, error, error_size);
    if (status != PSD_OK) {
        return status;
    }
    if (!lock(place->folder, LOCK_TRIES)) {
        snprintf(error, error_size,
                 "the folder %s is locked by another process that does not go "
                 "on",
                 path);
        status = PSD_ESYSTEM;
    } else if (is_removed(place->folder)) {
        status = PSD_AGAIN;
    } else {
        drop(jobs, visit(place->folder, true, jobs, DESK_JOBS_MAX));
        status = take_name(place, name, exact, error, error_size);
        flock(place->folder, LOCK_UN);
    }
    if (status != PSD_OK) {
        forget(place);
    }
    return status;
}

psd_status desk_place_open(struct desk_place *place, const char *name,
                           bool exact, char *error, size_t error_size)
{
    char paths[DESK_FOLDERS_MAX][LAUNCH_PATH_MAX];
    size_t folders = list_folders(paths, false);
    psd_status status = PSD_ESYSTEM;

    *place = (struct desk_place){ .folder = -1, .fd = -1 };
    for (size_t i = 0; i < folders; i++) {
        for (int k = 0; k < PLACE_TRIES; k++) {
            status = open_in(place, paths[i], name, exact, error, error_size);
            if (status != PSD_AGAIN) {
                break;
            }
        }
        if (status == PSD_OK || status == PSD_EINVAL) {
            return status;
        }
        log_warn("desk: %s", error);
    }
    return PSD_ESYSTEM;
}

bool desk_place_stands(const struct desk_place *place)
{
    struct stat about;

    return place->folder >= 0 && !is_removed(place->folder) &&
           fstatat(place->folder, place->file, &about, AT_SYMLINK_NOFOLLOW) ==
               0 &&
           about.st_ino == place->inode;
}

void desk_place_close(struct desk_place *place)
{
    if (place->folder >= 0) {
        bool locked = lock(place->folder, LOCK_TRIES);

        if (desk_place_stands(place)) {
            unlinkat(place->folder, place->file, 0);
        }
        if (locked) {
            (void)rmdir(place->path); /* when it is empty */
        }
    }
    forget(place);
}
