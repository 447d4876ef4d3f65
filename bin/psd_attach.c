/* psd_attach.c: `psd attach`: shows a running job as its psd_run would, from
 * now on. Ctrl-C leaves the job alone. */
#define _GNU_SOURCE
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "command.h"
#include "launch/exit_code.h"
#include "screen/screen.h"
#include "query.h"

#define ANSWER_MS 5000
#define BEHIND    (1u << 20) /* bytes that wait for a slow terminal */

static struct settings {
    bool help;
} settings;

static const struct option_row rows[] = {
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = offsetof(struct settings, help),
      .help = "this text" },
    { .name = NULL },
};

static const struct query query = {
    .name = "attach",
    .usage = "attach [JOB]\n\n"
             "Shows a running job of yours as its psd_run would, from now on:\n"
             "its progress and the output that its --tee lets through. Ctrl-C\n"
             "leaves the job alone. Returns the job's exit code when it ends.\n"
             "JOB is its name or the pid of its psd_run; without it, the only\n"
             "one.",
    .rows = rows,
    .help = &settings.help,
    .settings = &settings,
    .most = 1,
};

struct attach {
    struct caller caller;
    struct psd_loop *loop;
    struct screen *screen;
    struct loop_watch stream;
    struct loop_watch signals;
    int signal_fd;
    bool paused;       /* the terminal does not keep up */
    size_t behind[2];  /* bytes that the screen has not shown */
    bool detached;     /* by Ctrl-C */
    psd_status status; /* PSD_OK: goes on */
    bool done;         /* DONE is there */
};

static void on_stream(struct loop_watch *watch, uint32_t mask);

/* ---- showing ------------------------------------------------------------ */

static void on_taken(void *user, unsigned which)
{
    struct attach *attach = user;

    attach->behind[which] = 0;
    if (attach->paused && attach->behind[1 - which] < BEHIND &&
        loop_watch(attach->loop, &attach->stream, attach->caller.fd, EPOLLIN,
                   on_stream) == PSD_OK) {
        attach->paused = false;
    }
}

static void show_output(struct attach *attach)
{
    const struct frame_header *header = &attach->caller.header;
    unsigned which = header->block == LAUNCH_STREAM_STDERR ? 1 : 0;

    attach->behind[which] += header->size;
    screen_output(attach->screen, header->rank, header->block,
                  attach->caller.payload, header->size);
    if (attach->behind[which] >= BEHIND && !attach->paused) {
        loop_unwatch(attach->loop, &attach->stream);
        attach->paused = true;
    }
}

static void take(struct attach *attach)
{
    const struct frame_header *header = &attach->caller.header;
    const uint8_t *payload = attach->caller.payload;
    static struct launch_view view;

    switch (header->type) {
    case FRAME_OUTPUT:
        show_output(attach);
        break;
    case FRAME_VIEW:
        attach->status = launch_view_unpack(&view, payload, header->size);
        if (attach->status == PSD_OK) {
            screen_view(attach->screen, &view);
        }
        break;
    case FRAME_SAY:
        screen_say(attach->screen, "%.*s", (int)header->size,
                   header->size > 0 ? (const char *)payload : "");
        break;
    case FRAME_DONE:
        attach->done = true;
        break;
    default:
        attach->status = PSD_EPROTO;
        break;
    }
}

static void on_stream(struct loop_watch *watch, uint32_t mask)
{
    struct attach *attach = list_entry(watch, struct attach, stream);
    psd_status status = PSD_OK;

    (void)mask;
    while (!attach->done && !attach->paused && attach->status == PSD_OK) {
        status = caller_read(&attach->caller);
        if (status != PSD_OK) {
            break;
        }
        take(attach);
    }
    if (attach->status == PSD_OK && status != PSD_AGAIN) {
        attach->status = status;
    }
}

static void on_signal(struct loop_watch *watch, uint32_t mask)
{
    struct attach *attach = list_entry(watch, struct attach, signals);

    (void)mask;
    attach->detached = true;
}

/* ---- life --------------------------------------------------------------- */

static psd_status prepare(struct attach *attach,
                          const struct desk_status *status)
{
    struct screen_options options = { .tee = (enum screen_tee)status->tee };
    struct screen_events events = { .user = attach, .taken = on_taken };
    psd_status result = loop_create(&attach->loop);
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, NULL);
    signal(SIGPIPE, SIG_IGN);
    attach->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (result == PSD_OK) {
        result = screen_create(attach->loop, status->workers, &options,
                               &events, &attach->screen);
    }
    if (result == PSD_OK) {
        result = loop_watch(attach->loop, &attach->signals, attach->signal_fd,
                            EPOLLIN, on_signal);
    }
    if (result == PSD_OK) {
        result = loop_watch(attach->loop, &attach->stream, attach->caller.fd,
                            EPOLLIN, on_stream);
    }
    return result;
}

static int follow(struct attach *attach)
{
    struct loop_events events;

    while (attach->status == PSD_OK && !attach->done && !attach->detached) {
        loop_wait(attach->loop, &events, -1);
        loop_dispatch(attach->loop, &events);
    }
    screen_finish(attach->screen);
    if (!attach->detached) {
        screen_destroy(attach->screen);
        attach->screen = NULL;
    }
    if (attach->done) {
        return query_done(&query, &attach->caller);
    }
    if (attach->detached) {
        fprintf(stderr,
                "psd attach: detached; the job goes on (`psd attach %s` shows "
                "it again, `psd stop %s` ends it)\n",
                attach->caller.file, attach->caller.file);
        return 0;
    }
    return query_failed(&query, &attach->caller, attach->status);
}

/* The first answer says what there is to see. */
static int greet(struct attach *attach, struct desk_status *status)
{
    psd_status result = caller_next(&attach->caller, ANSWER_MS);

    if (result == PSD_OK && attach->caller.header.type == FRAME_DONE) {
        return query_done(&query, &attach->caller);
    }
    if (result == PSD_OK && attach->caller.header.type != FRAME_STATUS) {
        result = PSD_EPROTO;
    }
    if (result == PSD_OK) {
        result = desk_status_unpack(status, attach->caller.payload,
                                    attach->caller.header.size);
    }
    if (result != PSD_OK) {
        return query_failed(&query, &attach->caller, result);
    }
    fprintf(stderr,
            "psd attach: job %s (pid %d), %s; Ctrl-C leaves it alone\n",
            attach->caller.file, (int)attach->caller.pid,
            desk_state_name(status->state));
    return QUERY_GO;
}

int attach_main(int argc, char **argv)
{
    static struct attach attach = { .caller = { .fd = -1 } };
    static struct desk_status status;
    const char *words[QUERY_WORDS_MAX] = { NULL };
    struct desk_ask ask = { .verb = DESK_ATTACH, .lines = DESK_LINES_ALL };
    int code = query_parse(&query, argc, argv, words);

    if (code == QUERY_GO) {
        code = query_ask(&query, words[0], &ask, &attach.caller);
    }
    if (code == QUERY_GO) {
        code = greet(&attach, &status);
    }
    if (code == QUERY_GO) {
        code = prepare(&attach, &status) == PSD_OK
                   ? follow(&attach)
                   : query_complain(&query, EXIT_CODE_OS,
                                    "the system refused; see above");
    }
    desk_status_fini(&status);
    caller_close(&attach.caller);
    return code;
}
