/*
 * option.h: every option of every program is one row: its flag, the PSD_NAME
 * variable by which it reaches a worker, its default, its help. Parsing,
 * --help, the environment and the manual come from the same row.
 */
#ifndef PSD_BASE_OPTION_H
#define PSD_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "poseidon.h"

enum option_kind {
    OPTION_FLAG,   /* bool: present or not */
    OPTION_UINT,   /* uint64_t, in [low, high] */
    OPTION_SIZE,   /* uint64_t bytes, with suffix K, M, G */
    OPTION_DOUBLE, /* double, in [low, high] */
    OPTION_CHOICE, /* const char *, one of `choices`, separated by | */
    OPTION_TEXT,   /* const char *, borrowed from argv or the environment */
};

struct option_row {
    const char *name;       /* "digest": --digest and PSD_DIGEST */
    char letter;            /* 'o': -o; 0: none */
    enum option_kind kind;
    size_t offset;          /* of the field in the settings */
    const char *initial;    /* default as text; NULL: zero */
    const char *choices;    /* CHOICE: "step|rotate|off" */
    const char *value_name; /* "N", "DIR" in --help; NULL: from the kind */
    double low, high;       /* UINT, SIZE, DOUBLE; both 0: any */
    bool job;               /* reaches the workers as PSD_NAME */
    const char *help;       /* one sentence */
};

/* Set every field to its row's default. `rows` ends with a NULL name. */
psd_status option_defaults(const struct option_row *rows, void *settings);

/* The variable of a row: "block-size" -> "PSD_BLOCK_SIZE". */
void option_variable(const char *name, char *out, size_t size);

/* Take every job row that the environment sets (PSD_NAME). */
psd_status option_environment(const struct option_row *rows, void *settings,
                              char *error, size_t error_size);

/* Parse argv[1..] until the first word that is no option, or "--", which is
 * passed over; `*next_p` is the index after. On PSD_EINVAL `error` has the
 * sentence, with the nearest known option when one is misspelled. */
psd_status option_parse(const struct option_row *rows, void *settings,
                        int argc, char **argv, int *next_p, char *error,
                        size_t error_size);

/* Write the field of `row` as text, as option_parse would accept it. */
void option_format(const struct option_row *row, const void *settings,
                   char *text, size_t size);

/* The rows as the OPTIONS part of a --help page. */
void option_help(const struct option_row *rows, FILE *file);

/* "64K" -> 65536. PSD_EINVAL when it is no size. */
psd_status option_size(const char *text, uint64_t *size_p);

#endif
