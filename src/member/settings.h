/*
 * settings.h: what a job can be told, one row each (see base/option.h). The
 * launcher parses the rows from its command line and hands them to every
 * process as PSD_<NAME>; a session reads only those.
 */
#ifndef PSD_MEMBER_SETTINGS_H
#define PSD_MEMBER_SETTINGS_H

#include "base/option.h"

#define SETTINGS_ACCUM_MAX   1024
#define SETTINGS_THREADS_MAX 64

struct psd_settings {
    const char *transport; /* auto, shm, tcp */
    const char *digest;    /* step, rotate, off */
    uint64_t block_size;   /* bytes; 0: auto */
    uint64_t threads;      /* I/O threads of a server; 0: auto */
    bool checksum;         /* crc on data frames too */
    bool trace;            /* write what happened when, see session/trace.h */
    const char *ports;     /* where shards listen: "0", "7000", "7000-7100" */
    const char *batch;     /* split, per-worker, split-random */
    const char *accum;     /* auto, or 1 to SETTINGS_ACCUM_MAX */
    const char *nan;       /* allow, skip, stop */
    bool shard_eval;       /* evaluation is shared, too */
    bool tf_native;        /* TensorFlow's own runtime does the work */
    uint64_t seed;         /* of all workers; psd_run draws it */
};

extern const struct option_row psd_settings_rows[];

/* What a row alone cannot check. PSD_EINVAL with a sentence. */
psd_status settings_check(const struct psd_settings *settings, char *error,
                          size_t error_size);
/* The first and last port of "7000-7100"; false when it is no range. */
bool settings_ports(const char *text, uint16_t *first_p, uint16_t *last_p);

#endif
