/* probe.c: see probe.h. Python is the only thing that takes time, hence it
 * runs beside the loop; everything else is looked up at once. */
#define _GNU_SOURCE
#include "check/probe_state.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "config/address.h"
#include "launch/exit_code.h"
#include "launch/helper.h"
#include "launch/spawn.h"

#define LOOK_MS 1000

extern char **environ;

/* Versions as pip knows them; nothing is imported that takes time. The first
 * name of a row that is installed counts. */
static const char python_script[] =
    "import sys\n"
    "del sys.path[0]\n"
    "print('.version=%d.%d.%d' % sys.version_info[:3])\n"
    "print('.path=%s' % sys.executable)\n"
    "try:\n"
    "    from importlib.metadata import version\n"
    "except ImportError:\n"
    "    import pkg_resources\n"
    "    def version(name):\n"
    "        return pkg_resources.get_distribution(name).version\n"
    "for names in ('torch', 'tensorflow tensorflow-cpu tensorflow-gpu "
    "tensorflow-intel tensorflow-rocm tf-nightly', 'keras', 'numpy'):\n"
    "    for name in names.split():\n"
    "        try:\n"
    "            print('%s=%s' % (names.split()[0], version(name)))\n"
    "            break\n"
    "        except Exception:\n"
    "            pass\n";

/* ---- Python ------------------------------------------------------------- */

static void send_facts(struct probe *probe)
{
    struct pack pack;

    pack_init(&pack);
    probe_facts_pack(&pack, &probe->facts);
    if (probe_send(probe->link, PROBE_FACTS, 0, &pack) != PSD_OK) {
        probe->done = true;
    }
    pack_fini(&pack);
}

static void end_python(struct probe *probe)
{
    loop_timer_stop(&probe->python_timer);
    if (probe->python_fd >= 0) {
        loop_unwatch(probe->loop, &probe->python_watch);
        close(probe->python_fd);
        probe->python_fd = -1;
    }
    if (probe->python > 0) {
        kill(-probe->python, SIGKILL);
        waitpid(probe->python, NULL, 0);
        probe->python = 0;
    }
}

/* Its output has ended, or its time. */
static void judge_python(struct probe *probe, bool late)
{
    struct probe_facts *facts = &probe->facts;
    char command[LAUNCH_PATH_MAX];

    snprintf(command, sizeof(command), "%s", facts->python);
    end_python(probe);
    probe->text[probe->text_size] = '\0';
    probe_python_parse(facts, probe->text);
    if (facts->python_version[0] == '\0') {
        if (late) {
            snprintf(facts->python_reason, sizeof(facts->python_reason),
                     "%.300s did not answer in %d s; is its file system slow?",
                     command, PROBE_PYTHON_MS / 1000);
        } else {
            snprintf(facts->python_reason, sizeof(facts->python_reason),
                     "%.200s does not run; `%.200s --version` shows why",
                     command, command);
        }
        facts->python[0] = '\0';
    }
    send_facts(probe);
}

static void on_python(struct loop_watch *watch, uint32_t mask)
{
    struct probe *probe = list_entry(watch, struct probe, python_watch);
    size_t room = sizeof(probe->text) - 1 - probe->text_size;
    char rest[256];
    ssize_t got = room > 0 ? read(probe->python_fd,
                                  probe->text + probe->text_size, room)
                           : read(probe->python_fd, rest, sizeof(rest));

    (void)mask;
    if (got > 0) {
        probe->text_size += room > 0 ? (size_t)got : 0;
    } else if (got == 0 || (errno != EINTR && errno != EAGAIN)) {
        judge_python(probe, false);
    }
}

static void on_python_late(struct loop_timer *timer)
{
    judge_python(list_entry(timer, struct probe, python_timer), true);
}

static psd_status spawn_python(struct probe *probe, char *error, size_t size)
{
    char *argv[] = { probe->facts.python, (char *)"-c",
                     (char *)python_script, NULL };
    struct spawn_plan plan = { .argv = argv,
                               .variables = environ,
                               .folder = "/" };
    int ends[2] = { -1, -1 };
    int code;
    psd_status status = PSD_ESYSTEM;

    plan.err = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (plan.err >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
        plan.out = ends[1];
        status = spawn_process(&plan, &probe->python, &code, error, size);
        close(ends[1]);
    } else {
        snprintf(error, size, "no pipe: %s", strerror(errno));
    }
    if (plan.err >= 0) {
        close(plan.err);
    }
    if (status != PSD_OK) {
        probe->python = 0;
        if (ends[0] >= 0) {
            close(ends[0]);
        }
        return status;
    }
    probe->python_fd = ends[0];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    return PSD_OK;
}

/* The virtualenv's, or python3 as the shell would find it. */
static void start_python(struct probe *probe)
{
    struct probe_facts *facts = &probe->facts;
    char *virtualenv = probe->begin.virtualenv;
    char error[512] = "";

    snprintf(facts->python, sizeof(facts->python), "python3");
    if (virtualenv[0] != '\0') {
        fact_expand_home(virtualenv, sizeof(probe->begin.virtualenv));
        if ((size_t)snprintf(facts->python, sizeof(facts->python),
                             "%s/bin/python", virtualenv) >=
            sizeof(facts->python)) {
            facts->python[0] = '\0';
        }
        facts->has_virtualenv = access(facts->python, X_OK) == 0;
    }
    if ((virtualenv[0] != '\0' && !facts->has_virtualenv) ||
        spawn_python(probe, error, sizeof(error)) != PSD_OK) {
        snprintf(facts->python_reason, sizeof(facts->python_reason), "%.500s",
                 virtualenv[0] == '\0' ? error : "there is no such folder");
        facts->python[0] = '\0';
        send_facts(probe);
        return;
    }
    loop_timer_start(probe->loop, &probe->python_timer,
                     PROBE_PYTHON_MS * CLOCK_NS_PER_MS, on_python_late);
    if (loop_watch(probe->loop, &probe->python_watch, probe->python_fd,
                   EPOLLIN, on_python) != PSD_OK) {
        judge_python(probe, false);
    }
}

/* ---- the others --------------------------------------------------------- */

/* As prepare.c has it: from the same folder as psd check, or from home. */
static void look_at_disk(struct probe *probe)
{
    struct probe_begin *begin = &probe->begin;
    struct probe_facts *facts = &probe->facts;
    const char *home = getenv("HOME");
    const char *folder = begin->folder;
    struct fact_disk disk = { .total = 0 };
    char path[2 * LAUNCH_PATH_MAX];

    fact_expand_home(begin->logs, sizeof(begin->logs));
    if (!fact_is_folder(folder) && home != NULL) {
        folder = home;
    }
    if (begin->logs[0] == '/') {
        snprintf(path, sizeof(path), "%s", begin->logs);
    } else if (strcmp(begin->logs, ".") == 0 || begin->logs[0] == '\0') {
        snprintf(path, sizeof(path), "%s", folder);
    } else {
        snprintf(path, sizeof(path), "%s/%s", folder, begin->logs);
    }
    snprintf(facts->logs, sizeof(facts->logs), "%.*s",
             (int)sizeof(facts->logs) - 1, path);
    if (fact_disk(path, &disk)) {
        facts->disk = disk.total;
        facts->disk_free = disk.free;
        facts->disk_writable = disk.writable;
    }
}

static void look_at_gpus(struct probe_facts *facts)
{
    const char *ids[FACT_GPUS_MAX];
    char text[1024];

    facts->gpus = fact_gpus(text, sizeof(text), ids);
    facts->gpu_count =
        fact_gpu_names("/proc/driver/nvidia/gpus", facts->gpu_names);
}

static void look_at_network(struct probe *probe)
{
    const struct probe_begin *begin = &probe->begin;
    struct probe_facts *facts = &probe->facts;

    snprintf(facts->address, sizeof(facts->address), "127.0.0.1");
    if (begin->hosts == 1) {
        return;
    }
    if (address_choose(begin->host, begin->interface, begin->peer,
                       facts->address, sizeof(facts->address),
                       facts->address_reason,
                       sizeof(facts->address_reason)) != PSD_OK) {
        facts->address[0] = '\0';
        return;
    }
    facts->address_reason[0] = '\0';
    probe_listen(probe);
}

static void look_around(struct probe *probe)
{
    struct probe_facts *facts = &probe->facts;
    struct rlimit limit;

    facts->cores = cpu_allowed();
    fact_memory(&facts->memory, &facts->memory_free);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        facts->files = limit.rlim_cur;
        facts->files_max = limit.rlim_max;
    }
    look_at_disk(probe);
    look_at_gpus(facts);
    look_at_network(probe);
}

/* ---- psd check ---------------------------------------------------------- */

static psd_status tell_clock(struct probe *probe, uint64_t step)
{
    struct timespec now;
    struct pack pack;
    psd_status status;

    clock_gettime(CLOCK_REALTIME, &now);
    pack_init(&pack);
    pack_u64(&pack, (uint64_t)now.tv_sec * CLOCK_NS_PER_S +
                        (uint64_t)now.tv_nsec);
    status = probe_send(probe->link, PROBE_CLOCK, step, &pack);
    pack_fini(&pack);
    link_flush(probe->link);
    return status;
}

static psd_status take_begin(struct probe *probe, const void *payload,
                             size_t size)
{
    psd_status status;

    if (probe->begun) {
        log_error("probe: a second begin");
        return PSD_EPROTO;
    }
    status = probe_begin_unpack(&probe->begin, payload, size);
    if (status == PSD_OK) {
        probe->begun = true;
        look_around(probe);
        start_python(probe);
    }
    return status;
}

static psd_status take_measure(struct probe *probe, const void *payload,
                               size_t size)
{
    struct probe_measure order;
    psd_status status = probe_measure_unpack(&order, payload, size);

    if (status == PSD_OK && !probe->begun) {
        log_error("probe: an order before the beginning");
        return PSD_EPROTO;
    }
    return status == PSD_OK ? probe_measure_start(probe, &order) : status;
}

static psd_status deliver(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    struct probe *probe = user;

    (void)link;
    probe->heard_ns = clock_ns();
    if (header->type == FRAME_BEAT) {
        return PSD_OK;
    }
    if (header->type != FRAME_PROBE) {
        return PSD_EPROTO;
    }
    switch (header->block) {
    case PROBE_BEGIN:
        return take_begin(probe, payload, header->size);
    case PROBE_CLOCK:
        return tell_clock(probe, header->step);
    case PROBE_MEASURE:
        return take_measure(probe, payload, header->size);
    default:
        return PSD_EPROTO;
    }
}

static void down(void *user, struct psd_link *link, psd_status why)
{
    struct probe *probe = user;

    (void)link;
    (void)why;
    probe->done = true;
}

static const struct link_events stream_events = { .deliver = deliver,
                                                  .down = down };

static void on_look(struct loop_timer *timer)
{
    struct probe *probe = list_entry(timer, struct probe, look);

    if (clock_ns() - probe->heard_ns > PROBE_SILENCE_MS * CLOCK_NS_PER_MS) {
        probe->done = true;
        return;
    }
    loop_timer_start(probe->loop, &probe->look, LOOK_MS * CLOCK_NS_PER_MS,
                     on_look);
}

/* What the transport says about a peer is told with the result; the rest goes
 * to psd check as it is. */
static void note(void *user, psd_log_level level, const char *line)
{
    struct probe *probe = user;

    if (strncmp(line, "tcp: ", strlen("tcp: ")) == 0) {
        snprintf(probe->notes[probe->note_next], PROBE_NOTE_MAX, "%s", line);
        probe->note_next = (probe->note_next + 1) % PROBE_NOTES;
    } else {
        log_stderr(NULL, level, line);
    }
}

static psd_status start(struct probe *probe)
{
    int in = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
    int out = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
    psd_status status = loop_create(&probe->loop);

    if (status != PSD_OK || in < 0 || out < 0) {
        return PSD_ESYSTEM;
    }
    close(STDIN_FILENO);
    close(STDOUT_FILENO);
    (void)open("/dev/null", O_RDONLY);
    (void)open("/dev/null", O_WRONLY);
    status = helper_greet(out, "probe");
    return status == PSD_OK ? link_adopt(probe->loop, in, out, &stream_events,
                                         probe, &probe->link)
                            : status;
}

int probe_run(void)
{
    static struct probe probe = { .python_fd = -1 };
    struct loop_events events;
    psd_status status;

    signal(SIGPIPE, SIG_IGN);
    list_init(&probe.tasks);
    list_init(&probe.guests);
    psd_log_set(note, &probe, PSD_LOG_WARN);
    status = start(&probe);
    probe.heard_ns = clock_ns();
    if (status == PSD_OK) {
        on_look(&probe.look);
    }
    while (status == PSD_OK && !probe.done) {
        loop_wait(probe.loop, &events, -1);
        loop_dispatch(probe.loop, &events);
    }
    end_python(&probe);
    probe_peers_close(&probe);
    link_close(probe.link);
    loop_destroy(probe.loop);
    explicit_bzero(&probe.begin.job, sizeof(probe.begin.job));
    psd_log_set(NULL, NULL, PSD_LOG_ERROR);
    return status == PSD_OK ? 0 : EXIT_CODE_OS;
}
