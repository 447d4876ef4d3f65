/*
 * settings.h: what a job can be told, one row each (see base/option.h). The
 * launcher parses the rows from its command line and hands them to every
 * process as PSD_<NAME>; a session reads only those.
 */
#ifndef PSD_SESSION_SETTINGS_H
#define PSD_SESSION_SETTINGS_H

#include "base/option.h"

struct psd_settings {
    const char *transport; /* auto, shm, tcp */
    const char *digest;    /* step, rotate, off */
    uint64_t block_size;   /* bytes; 0: what suits the transport */
    uint64_t threads;      /* I/O threads of a server */
    bool checksum;         /* crc on data frames too */
};

extern const struct option_row psd_settings_rows[];

#endif
