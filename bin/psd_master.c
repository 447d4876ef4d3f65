/* psd_master.c: `psd master`: the state machine of src/master behind a stream
 * of frames on stdin and stdout. Ends when the stream does. */
#include <signal.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "command.h"
#include "launch/exit_code.h"
#include "launch/helper.h"
#include "master/master.h"
#include "transport/transport.h"

#define LOOK_MS 250          /* for stalls, and whether psd_run is there */
#define BEAT_NS (UINT64_C(2500) * CLOCK_NS_PER_MS) /* psd_run's is 1 s */

struct settings {
    uint64_t workers;
    uint64_t servers;
    uint64_t threads;
    uint64_t threads_max;
    uint64_t silence;
    uint64_t stall_after;
    bool help;
};

#define FIELD(name) offsetof(struct settings, name)

static const struct option_row rows[] = {
    { .name = "workers",
      .kind = OPTION_UINT,
      .offset = FIELD(workers),
      .initial = "1",
      .low = 1,
      .high = WIRE_RANKS_MAX,
      .help = "workers of the job" },
    { .name = "servers",
      .kind = OPTION_UINT,
      .offset = FIELD(servers),
      .initial = "0",
      .low = 0,
      .high = WIRE_SHARDS_MAX,
      .help = "servers of the job" },
    { .name = "threads",
      .kind = OPTION_UINT,
      .offset = FIELD(threads),
      .initial = "1",
      .low = 1,
      .high = WIRE_SHARDS_MAX,
      .help = "I/O threads of each server, at least" },
    { .name = "threads-max",
      .kind = OPTION_UINT,
      .offset = FIELD(threads_max),
      .initial = "1",
      .low = 1,
      .high = WIRE_SHARDS_MAX,
      .help = "the same, at most, however many a worker asks for" },
    { .name = "silence",
      .kind = OPTION_UINT,
      .offset = FIELD(silence),
      .initial = "0",
      .low = 0,
      .high = UINT32_MAX,
      .value_name = "MS",
      .help = "end when psd_run is silent so long; 0: at the end of its "
              "stream only" },
    { .name = "stall-after",
      .kind = OPTION_UINT,
      .offset = FIELD(stall_after),
      .initial = "0",
      .low = 0,
      .high = UINT32_MAX,
      .value_name = "MS",
      .help = "a wait that lasts longer is a stall; 0: 60 s, or ten times the "
              "median step when that is more" },
    { .name = "help",
      .letter = 'h',
      .kind = OPTION_FLAG,
      .offset = FIELD(help),
      .help = "this text" },
    { .name = NULL },
};

struct desk {
    struct psd_link *link;
    struct master *master;
    uint64_t heard_ns;
    uint64_t looked_ns;
    bool done;
};

static void send_frame(void *user, const struct frame_header *header,
                       const void *payload)
{
    struct desk *desk = user;

    if (link_send(desk->link, header, payload) != PSD_OK) {
        desk->done = true; /* psd_run is gone or does not listen */
    }
}

static psd_status deliver(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    struct desk *desk = user;

    desk->heard_ns = clock_ns();
    if (header->type == FRAME_BEAT) { /* psd_run, too, wants to know */
        return link_send(link, header, NULL);
    }
    return master_deliver(desk->master, header, payload);
}

static void down(void *user, struct psd_link *link, psd_status why)
{
    struct desk *desk = user;

    (void)link;
    (void)why;
    desk->done = true;
}

/* While psd_run says nothing (it was stopped, say) nobody can be heard, and
 * nothing is to be concluded from that. */
static void look(struct desk *desk, const struct settings *settings)
{
    uint64_t now = clock_ns();
    uint64_t silence_ns = now - desk->heard_ns;

    if (silence_ns < BEAT_NS &&
        now - desk->looked_ns >= LOOK_MS * CLOCK_NS_PER_MS) {
        desk->looked_ns = now;
        master_tick(desk->master);
    }
    desk->done |= settings->silence > 0 &&
                  silence_ns > settings->silence * CLOCK_NS_PER_MS;
}

static psd_status serve(const struct settings *settings)
{
    static const struct link_events link_events = { .deliver = deliver,
                                                    .down = down };
    struct desk desk = { .done = false };
    struct master_events events = { .user = &desk, .send = send_frame };
    struct master_size size = {
        .workers = (uint32_t)settings->workers,
        .servers = (uint32_t)settings->servers,
        .threads = (uint32_t)settings->threads,
        .threads_max = (uint32_t)settings->threads_max,
    };
    struct psd_loop *loop = NULL;
    struct loop_events found;
    psd_status status = master_create(&size, &events, &desk.master);

    if (status != PSD_OK) {
        return status;
    }
    status = loop_create(&loop);
    if (status != PSD_OK) {
        goto undo_master;
    }
    status = helper_greet(STDOUT_FILENO, "master");
    if (status != PSD_OK) {
        goto undo_loop;
    }
    status = link_adopt(loop, STDIN_FILENO, STDOUT_FILENO, &link_events, &desk,
                        &desk.link);
    if (status != PSD_OK) {
        goto undo_loop;
    }
    master_stall_after(desk.master,
                       settings->stall_after * CLOCK_NS_PER_MS);
    desk.heard_ns = clock_ns();
    while (!desk.done) {
        loop_wait(loop, &found, LOOK_MS);
        loop_dispatch(loop, &found);
        look(&desk, settings);
    }
    link_close(desk.link);

undo_loop:
    loop_destroy(loop);
undo_master:
    master_destroy(desk.master);
    return status;
}

int master_main(int argc, char **argv)
{
    struct settings settings = { .help = false };
    char error[512];
    int next;

    signal(SIGPIPE, SIG_IGN);
    if (option_defaults(rows, &settings) != PSD_OK ||
        option_parse(rows, &settings, argc, argv, &next, error,
                     sizeof(error)) != PSD_OK) {
        fprintf(stderr, "psd master: %s\n", error);
        return EXIT_CODE_USAGE;
    }
    if (settings.help || isatty(STDIN_FILENO)) {
        printf("usage: psd master [OPTION...]\nStarted by psd_run, which "
               "speaks to it on stdin and stdout.\n\n");
        option_help(rows, stdout);
        return settings.help ? 0 : EXIT_CODE_USAGE;
    }
    return serve(&settings) == PSD_OK ? 0 : EXIT_CODE_OS;
}
