/*
 * folder.h: the folders of a job: the private one where an agent listens, and
 * the one where logs go. One thread.
 */
#ifndef PSD_LAUNCH_FOLDER_H
#define PSD_LAUNCH_FOLDER_H

#include <stddef.h>

#include "poseidon.h"

#define FOLDER_PATH_MAX 4096
#define FOLDER_SOCKET   "agent" /* the socket's name in the run folder */

/* A new folder for this user only, in $XDG_RUNTIME_DIR, $TMPDIR or /tmp,
 * short enough for the path of a socket. PSD_ESYSTEM. */
psd_status folder_make_run(char *path, size_t size);
/* With the files in it: the socket, and what workers on this host tell each
 * other (python/poseidon/torch/_host.py). They make no folders there, and a
 * folder that is open to others is left alone. What is not there is not an
 * error. */
void folder_remove_run(const char *path);

/* mkdir -p; one that is there is fine. On PSD_ESYSTEM `error` has the
 * sentence. */
psd_status folder_make(const char *path, char *error, size_t error_size);

/* The log folder below `parent`, which is made when it is not there: a new
 * poseidon_log_<timestamp>, or the one of that `name` (NULL: none), new or
 * not. On PSD_ESYSTEM `error` has the sentence. */
psd_status folder_make_logs(const char *parent, const char *name, char *path,
                            size_t size, char *error, size_t error_size);

#endif
