/* ps.c: see ps.h. */
#define _GNU_SOURCE
#include "launch/ps.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/banned.h"

unsigned ps_release(const char *folder)
{
    DIR *listing = opendir(folder);
    const struct dirent *entry;
    unsigned released = 0;

    while (listing != NULL && (entry = readdir(listing)) != NULL) {
        int fd;

        if (strncmp(entry->d_name, PS_PREFIX, strlen(PS_PREFIX)) != 0) {
            continue;
        }
        /* Refused when nobody reads: it has been killed. */
        fd = openat(dirfd(listing), entry->d_name,
                    O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
        if (fd >= 0) {
            close(fd);
            released++;
        }
    }
    if (listing != NULL) {
        closedir(listing);
    }
    return released;
}
