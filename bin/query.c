/* query.c: see query.h. */
#include "query.h"

#include "base/log.h"
#include "launch/exit_code.h"

int query_complain(const struct query *query, int code, const char *sentence)
{
    fprintf(stderr, "psd %s: %s\n", query->name, sentence);
    return code;
}

int query_parse(const struct query *query, int argc, char **argv,
                const char *words[QUERY_WORDS_MAX])
{
    char error[512];
    unsigned count = 0;
    bool plain = false; /* after "--" */

    if (option_defaults(query->rows, query->settings) != PSD_OK) {
        return query_complain(query, EXIT_CODE_OS,
                              "the table of options is broken");
    }
    for (int at = 0; at + 1 < argc;) {
        int next = 1;

        if (!plain && option_parse(query->rows, query->settings, argc - at,
                                   argv + at, &next, error,
                                   sizeof(error)) != PSD_OK) {
            return query_complain(query, EXIT_CODE_USAGE, error);
        }
        at += next;
        plain |= next > 1 && strcmp(argv[at - 1], "--") == 0;
        if (at < argc && count < query->most) {
            words[count++] = argv[at];
        } else if (at < argc) {
            snprintf(error, sizeof(error), "what is %s? (--help tells more)",
                     argv[at]);
            return query_complain(query, EXIT_CODE_USAGE, error);
        }
    }
    if (*query->help) {
        printf("usage: psd %s\n\noptions:\n", query->usage);
        option_help(query->rows, stdout);
        return 0;
    }
    if (count < query->least) {
        return query_complain(query, EXIT_CODE_USAGE,
                              "something is missing (--help tells more)");
    }
    return QUERY_GO;
}

int query_ask(const struct query *query, const char *job,
              struct desk_ask *ask, struct caller *caller)
{
    char error[2048];
    psd_status status = caller_choose(job, caller, error, sizeof(error));

    if (status != PSD_OK) {
        return query_complain(query,
                              status == PSD_EINVAL ? EXIT_CODE_USAGE
                                                   : EXIT_CODE_UNAVAILABLE,
                              error);
    }
    status = caller_ask(caller, ask);
    return status == PSD_OK ? QUERY_GO : query_failed(query, caller, status);
}

int query_failed(const struct query *query, const struct caller *caller,
                 psd_status status)
{
    char sentence[256];

    if (status == PSD_ELOST) {
        snprintf(sentence, sizeof(sentence),
                 "the psd_run of job %s (pid %d) is gone, or has turned us "
                 "away",
                 caller->file, (int)caller->pid);
    } else if (status == PSD_ETIME) {
        snprintf(sentence, sizeof(sentence),
                 "job %s does not answer; was its psd_run (pid %d) stopped?",
                 caller->file, (int)caller->pid);
    } else {
        snprintf(sentence, sizeof(sentence), "the answer of job %s: %s",
                 caller->file, psd_status_text(status));
    }
    return query_complain(query,
                          status == PSD_EPROTO ? EXIT_CODE_PROTOCOL
                                               : EXIT_CODE_UNAVAILABLE,
                          sentence);
}

int query_done(const struct query *query, const struct caller *caller)
{
    static struct desk_done done;

    if (desk_done_unpack(&done, caller->payload, caller->header.size) !=
        PSD_OK) {
        return query_failed(query, caller, PSD_EPROTO);
    }
    return done.reason[0] == '\0'
               ? done.code
               : query_complain(query, done.code, done.reason);
}
