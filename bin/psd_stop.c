/* psd_stop.c: `psd stop`: ends a running job as Ctrl-C would, and waits. */
#include "base/log.h"
#include "command.h"
#include "launch/exit_code.h"
#include "query.h"

static struct settings {
    bool now;
    bool help;
} settings;

static const struct option_row rows[] = {
    { .name = "now",
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, now),
      .help = "without grace, as Ctrl-C twice" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, help),
      .help = "this text" },
    { .name = NULL },
};

static const struct query query = {
    .name = "stop",
    .usage = "stop [--now] [JOB]\n\n"
             "Ends a running job of yours: SIGTERM to its processes, SIGKILL\n"
             "after its --grace. Returns when nothing of it is left. JOB is\n"
             "its name or the pid of its psd_run; without it, the only one.",
    .rows = rows,
    .help = &settings.help,
    .settings = &settings,
    .most = 1,
};

/* DONE with a reason: it has not understood. DONE without, or the end of the
 * stream: it is over. */
static int wait_end(struct caller *caller)
{
    static struct desk_done done;
    psd_status status;

    do {
        status = caller_next(caller, -1);
    } while (status == PSD_OK && caller->header.type != FRAME_DONE);
    if (status == PSD_OK) {
        status =
            desk_done_unpack(&done, caller->payload, caller->header.size);
    }
    if (status != PSD_OK && status != PSD_ELOST) {
        return query_failed(&query, caller, status);
    }
    if (done.reason[0] != '\0') {
        return query_complain(&query, done.code, done.reason);
    }
    caller_wait(caller);
    fprintf(stderr, "psd stop: job %s has ended\n", caller->file);
    return 0;
}

int stop_main(int argc, char **argv)
{
    const char *words[QUERY_WORDS_MAX] = { NULL };
    int code = query_parse(&query, argc, argv, words);
    struct desk_ask ask = { .verb = DESK_STOP, .now = settings.now };
    struct caller caller = { .fd = -1 };

    if (code != QUERY_GO) {
        return code;
    }
    code = query_ask(&query, words[0], &ask, &caller);
    if (code != QUERY_GO) {
        caller_close(&caller);
        return code;
    }
    fprintf(stderr, "psd stop: ending job %s (pid %d)\n", caller.file,
            (int)caller.pid);
    code = wait_end(&caller);
    caller_close(&caller);
    return code;
}
