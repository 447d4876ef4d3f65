/* psd_logs.c: `psd logs`: what a worker or server of a running job has
 * written, wherever its host is. */
#include <errno.h>
#include <inttypes.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"
#include "launch/exit_code.h"
#include "query.h"

static struct settings {
    const char *lines;
    bool follow;
    bool help;
} settings;

static const struct option_row rows[] = {
    { .name = "follow",
      .letter = 'f',
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, follow),
      .help = "go on until it has ended" },
    { .name = "lines",
      .letter = 'n',
      .kind = OPTION_TEXT,
      .offset = offsetof(struct settings, lines),
      .value_name = "N",
      .help = "only the last N lines of each of its files, then go on with "
              "-f; default: from the start" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, help),
      .help = "this text" },
    { .name = NULL },
};

static const struct query query = {
    .name = "logs",
    .usage = "logs [-f] [-n N] w3|s0 [JOB]\n\n"
             "Shows what worker 3 (w3) or server 0 (s0) of a running job of\n"
             "yours has written, from whatever host it is on: its stdout on\n"
             "stdout, its stderr on stderr. JOB is the name of the job or the\n"
             "pid of its psd_run; without it, the only one.",
    .rows = rows,
    .help = &settings.help,
    .settings = &settings,
    .least = 1,
    .most = 2,
};

static bool parse_number(const char *text, uint64_t most, uint64_t *number_p)
{
    char *end;
    uint64_t number;

    if (text[0] < '0' || text[0] > '9') {
        return false;
    }
    errno = 0;
    number = strtoull(text, &end, 10);
    if (errno != 0 || *end != '\0' || number > most) {
        return false;
    }
    *number_p = number;
    return true;
}

/* "w3", "worker3", "s0", "server0", or "3", which is a worker. */
static bool parse_process(const char *text, struct desk_ask *ask)
{
    static const struct {
        const char *prefix;
        uint8_t is_server;
    } forms[] = { { "worker", 0 }, { "server", 1 }, { "w", 0 },
                  { "s", 1 },      { "", 0 } };
    uint64_t rank;

    for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
        size_t size = strlen(forms[i].prefix);

        if (strncmp(text, forms[i].prefix, size) == 0 &&
            parse_number(text + size, UINT16_MAX, &rank)) {
            ask->is_server = forms[i].is_server;
            ask->rank = (uint32_t)rank;
            return true;
        }
    }
    return false;
}

static bool write_all(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        ssize_t n = write(fd, data, size);

        if (n < 0 && errno != EINTR) {
            return false;
        }
        data += n < 0 ? 0 : n;
        size -= n < 0 ? 0 : (size_t)n;
    }
    return true;
}

static int show(struct caller *caller)
{
    for (;;) {
        psd_status status = caller_next(caller, -1);

        if (status != PSD_OK) {
            return query_failed(&query, caller, status);
        }
        if (caller->header.type == FRAME_DONE) {
            return query_done(&query, caller);
        }
        if (caller->header.type == FRAME_OUTPUT &&
            !write_all(caller->header.block == LAUNCH_STREAM_STDERR
                           ? STDERR_FILENO
                           : STDOUT_FILENO,
                       caller->payload, caller->header.size)) {
            return query_complain(&query, EXIT_CODE_OS, strerror(errno));
        }
    }
}

int logs_main(int argc, char **argv)
{
    const char *words[QUERY_WORDS_MAX] = { NULL };
    int code = query_parse(&query, argc, argv, words);
    struct desk_ask ask = { .verb = DESK_LOGS,
                            .follow = settings.follow,
                            .lines = DESK_LINES_ALL };
    struct caller caller = { .fd = -1 };
    char error[256];

    if (code != QUERY_GO) {
        return code;
    }
    if (!parse_process(words[0], &ask)) {
        snprintf(error, sizeof(error),
                 "%s is no process of a job; w3 is worker 3, s0 is server 0",
                 words[0]);
        return query_complain(&query, EXIT_CODE_USAGE, error);
    }
    if (settings.lines != NULL &&
        !parse_number(settings.lines, DESK_LINES_MAX, &ask.lines)) {
        snprintf(error, sizeof(error), "-n must be in 0..%d, not %s",
                 DESK_LINES_MAX, settings.lines);
        return query_complain(&query, EXIT_CODE_USAGE, error);
    }
    code = query_ask(&query, words[1], &ask, &caller);
    if (code == QUERY_GO) {
        code = show(&caller);
    }
    caller_close(&caller);
    return code;
}
