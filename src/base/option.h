/*
 * option.h: every option of every program is one row: its flag, the PSD_NAME
 * variable by which it reaches a worker, its default, its help. Parsing,
 * --help, the environment and the manual come from the same row.
 */
#ifndef PSD_BASE_OPTION_H
#define PSD_BASE_OPTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "poseidon.h"

enum option_kind {
    OPTION_FLAG,   /* bool: present or not */
    OPTION_UINT,   /* uint64_t, in [low, high] */
    OPTION_SIZE,   /* uint64_t bytes, with suffix K, M, G */
    OPTION_DOUBLE, /* double, in [low, high] */
    OPTION_CHOICE, /* const char *, one of `choices`, separated by | */
    OPTION_TEXT,   /* const char *, borrowed from argv or the environment */
    OPTION_LIST,   /* struct option_list: each time it is given adds one */
};

/* In the order given; the texts are borrowed, option_fini frees the array. */
struct option_list {
    size_t count;
    const char **values;
};

struct option_row {
    const char *name;       /* "digest": --digest and PSD_DIGEST */
    char letter;            /* 'o': -o; 0: none */
    enum option_kind kind;
    size_t offset;          /* of the field in the settings */
    const char *initial;    /* default as text; NULL: zero. "auto" of a UINT
                             * or SIZE is a value, too: zero */
    const char *choices;    /* CHOICE: "step|rotate|off" */
    const char *value_name; /* "N", "DIR" in --help; NULL: from the kind */
    double low, high;       /* UINT, SIZE, DOUBLE; both 0: any */
    bool job;               /* reaches the workers as PSD_NAME */
    bool variable;          /* PSD_NAME sets it; job rows: always */
    bool config;            /* a key of the cluster file; job rows: always */
    const char *help;       /* one sentence */
};

/* Where the value of a row came from. A later origin beats an earlier one. */
enum option_origin {
    OPTION_FROM_DEFAULT,
    OPTION_FROM_ENVIRONMENT,
    OPTION_FROM_FILE,
    OPTION_FROM_WORDS, /* the command line */
};

struct option_source {
    enum option_origin origin;
    const char *file; /* FROM_FILE; borrowed */
    uint32_t line;
};

/* Set every field to its row's default. `rows` ends with a NULL name. */
psd_status option_defaults(const struct option_row *rows, void *settings);

/* The variable of a row: "block-size" -> "PSD_BLOCK_SIZE". */
void option_variable(const char *name, char *out, size_t size);

/* Free what OPTION_LIST rows hold. */
void option_fini(const struct option_row *rows, void *settings);

/* Take every job or variable row that the environment sets (PSD_NAME). */
psd_status option_environment(const struct option_row *rows, void *settings,
                              char *error, size_t error_size);

/* Parse argv[1..] until the first word that is no option, or "--", which is
 * passed over; `*next_p` is the index after. On PSD_EINVAL `error` has the
 * sentence, with the nearest known option when one is misspelled. */
psd_status option_parse(const struct option_row *rows, void *settings,
                        int argc, char **argv, int *next_p, char *error,
                        size_t error_size);

/* Where each value came from, when option_defaults, option_environment and
 * option_parse of these words have set them. `sources` is as long as `rows`,
 * without the last. */
void option_trace(const struct option_row *rows, int argc, char **argv,
                  struct option_source *sources);

/* May the cluster file have this row, under `name`, "_" or "-" alike? */
bool option_is_key(const struct option_row *row, const char *name);
/* Set one field; a LIST grows. PSD_EINVAL: `text` is no such value. */
psd_status option_set(const struct option_row *row, void *settings,
                      const char *text);
/* Would option_set take it? */
bool option_accepts(const struct option_row *row, const char *text);
/* The sentence about a text that is not accepted; `shown` is the option's
 * name as the user wrote it. */
void option_explain(const struct option_row *row, const char *shown,
                    const char *text, char *error, size_t error_size);

/* Write the field of `row` as text, as option_parse would accept it. */
void option_format(const struct option_row *row, const void *settings,
                   char *text, size_t size);

/* The rows as the OPTIONS part of a --help page; of a manual page, as scdoc
 * reads it, when PSD_HELP is scdoc in the environment. */
void option_help(const struct option_row *rows, FILE *file);

/* One line of --print-config: name, value, where it came from. */
void option_print_line(const char *name, const char *value,
                       const char *source, FILE *file);
/* All rows, but flags that are no key and no variable: they ask for something
 * (--help, --print-config) and set nothing. */
void option_print(const struct option_row *rows, const void *settings,
                  const struct option_source *sources, FILE *file);

/* "64K" -> 65536. PSD_EINVAL when it is no size. */
psd_status option_size(const char *text, uint64_t *size_p);

#endif
