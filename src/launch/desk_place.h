/*
 * desk_place.h: where a running job can be found: a Unix socket named after
 * the job, in a folder that is this user's alone. A folder that is somebody
 * else's, a link, or open to others is never used. What a killed psd_run has
 * left answers no more and is removed by whoever looks next. One thread.
 *
 * The folder is $XDG_RUNTIME_DIR/poseidon, or /tmp/poseidon-UID where that
 * cannot be had. Who looks for jobs looks in both, and in /run/user/UID, since
 * a login shell has the variable and a cron job has not.
 */
#ifndef PSD_LAUNCH_DESK_PLACE_H
#define PSD_LAUNCH_DESK_PLACE_H

#include <stdbool.h>
#include <sys/types.h>

#include "launch/launch_message.h"

#define DESK_FILE_MAX    72 /* of a socket's name, with its end */
#define DESK_FOLDERS_MAX 3
#define DESK_JOBS_MAX    256 /* that are looked at */

/* Where psd_run listens. */
struct desk_place {
    int folder; /* -1: none */
    int fd;     /* listens; -1: none */
    ino_t inode;
    char name[LAUNCH_NAME_MAX]; /* of the job, unique */
    char file[DESK_FILE_MAX];
    char path[LAUNCH_PATH_MAX]; /* of the folder */
};

/* A job that answers, or could. */
struct desk_job {
    int fd;    /* connected, not blocking; the caller closes it */
    pid_t pid; /* of psd_run */
    char file[DESK_FILE_MAX];
};

/* Listen under `name`. `exact`: a running job of that name is PSD_EINVAL;
 * otherwise a number is added to the name. PSD_ESYSTEM: there is no folder.
 * `error` has the sentence. */
psd_status desk_place_open(struct desk_place *place, const char *name,
                           bool exact, char *error, size_t error_size);
/* Is the socket still there? Somebody may clean /tmp, and a login that ends
 * takes its XDG_RUNTIME_DIR along. */
bool desk_place_stands(const struct desk_place *place);
/* Removes the socket, and the folder when it was the last one. Idempotent. */
void desk_place_close(struct desk_place *place);

/* Connect to every running job of this user; what is dead is removed. Returns
 * how many. */
size_t desk_place_list(struct desk_job *jobs, size_t count);
/* Does a job of that name run? Then `*pid_p` is its psd_run. */
bool desk_place_taken(const char *name, pid_t *pid_p);

/* The file of a name: letters, digits, "_-." and no dot in front stay, others
 * become %XX; a long one is cut and gets a checksum. */
void desk_place_file(const char *name, char *file, size_t size);
/* The folder, checked. `make`: made when it is not there, otherwise that is
 * PSD_AGAIN. PSD_EAUTH: not ours alone. `error` has the sentence. */
psd_status desk_place_folder(const char *path, bool make, int *fd_p,
                             char *error, size_t error_size);

#endif
