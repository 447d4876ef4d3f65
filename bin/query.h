/*
 * query.h: what the subcommands that ask a running job share: their command
 * line and the words when it fails.
 */
#ifndef PSD_BIN_QUERY_H
#define PSD_BIN_QUERY_H

#include "base/option.h"
#include "launch/caller.h"

#define QUERY_WORDS_MAX 2
#define QUERY_GO        (-1) /* no exit code yet */

struct query {
    const char *name;  /* "stop" */
    const char *usage; /* of --help: the line and what it does */
    const struct option_row *rows; /* has a row "help" */
    const bool *help;              /* the field of that row */
    void *settings;
    unsigned least; /* words beside the options */
    unsigned most;
};

/* Parse; options and words may come in any order. Returns QUERY_GO, or the
 * exit code to end with. */
int query_parse(const struct query *query, int argc, char **argv,
                const char *words[QUERY_WORDS_MAX]);
/* Connect to the job (NULL: the only one) and ask. */
int query_ask(const struct query *query, const char *job,
              struct desk_ask *ask, struct caller *caller);
/* The stream has failed: say why; returns the exit code. */
int query_failed(const struct query *query, const struct caller *caller,
                 psd_status status);
/* FRAME_DONE: say the reason if there is one; returns the code. */
int query_done(const struct query *query, const struct caller *caller);
int query_complain(const struct query *query, int code, const char *sentence);

#endif
