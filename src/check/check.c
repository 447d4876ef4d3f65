/*
 * check.c: see check.h. Reaches the hosts as psd_run does, with a probe in
 * the place of an agent; a host that cannot be reached is a finding, not the
 * end.
 */
#define _GNU_SOURCE
#include "check/check_state.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"

#define AT_ONCE   32 /* ssh connections under way */
#define TRIES     3
#define RETRY_MS  200  /* and as much again at random, doubled each time */
#define LIMIT_MS  9000 /* from its ssh to its facts */
#define EXIT_MS   300  /* for ssh to say why the stream has ended */
#define BEAT_MS   5000
#define STOP_MS   1000 /* for probes to end by themselves */

static void try_visit(struct visit *visit);
static void try_all(struct check *check);

void check_progress(const struct check *check, const char *format, ...)
{
    va_list args;

    if (!check->plan->progress) {
        return;
    }
    fprintf(stderr, "\r\033[K");
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fflush(stderr);
}

/* ---- the end of a visit ------------------------------------------------- */

static void settle(struct visit *visit, enum visit_state state)
{
    struct check *check = visit->check;
    bool under_way = visit->state == VISIT_CONNECTING ||
                     visit->state == VISIT_LOOKING;
    uint32_t left = 0;

    check->trying -= under_way;
    visit->state = state;
    loop_timer_stop(&visit->timer);
    try_all(check);
    for (uint32_t i = 0; i < check->count; i++) {
        left += check->visits[i].state < VISIT_READY;
    }
    if (check->phase == PHASE_VISIT && left == 0) {
        pairs_start(check);
    } else if (check->phase == PHASE_VISIT) {
        check_progress(check, "waiting for %" PRIu32 " of %" PRIu32 " hosts",
                       left, check->count);
    }
}

void visit_fail(struct visit *visit, const char *sentence)
{
    bool was_ready = visit->state == VISIT_READY;

    if (visit->state == VISIT_GONE) {
        return;
    }
    snprintf(visit->host->reason, sizeof(visit->host->reason), "%s",
             sentence);
    helper_close(&visit->helper);
    settle(visit, VISIT_GONE);
    if (was_ready) {
        pairs_lost(visit);
    }
}

/* What the version line said, when it was another one. */
static void take_version(struct visit *visit)
{
    char build[MESSAGE_BUILD_MAX] = "";

    if (sscanf(visit->helper.greeting, "poseidon %*31s %*d %63s", build) ==
        1) {
        snprintf(visit->host->version, sizeof(visit->host->version), "%s",
                 build);
    }
}

/* ssh_explain names the host; a finding has it beside. */
static const char *without_host(const struct visit *visit,
                                const char *sentence)
{
    const char *name = visit->host->where->name;
    size_t size = strlen("host ") + strlen(name) + strlen(": ");

    return strncmp(sentence, "host ", 5) == 0 && strlen(sentence) > size &&
                   strncmp(sentence + 5, name, strlen(name)) == 0
               ? sentence + size
               : sentence;
}

static void on_retry(struct loop_timer *timer)
{
    try_visit(list_entry(timer, struct visit, timer));
}

static void retry(struct visit *visit)
{
    uint64_t pause_ms = (uint64_t)RETRY_MS << visit->tries;
    uint64_t jitter = 0;

    (void)auth_random(&jitter, sizeof(jitter));
    settle(visit, VISIT_WAITING);
    loop_timer_start(visit->check->loop, &visit->timer,
                     (pause_ms + jitter % pause_ms) * CLOCK_NS_PER_MS,
                     on_retry);
}

/* The stream has ended before its time: why? */
static void explain(struct visit *visit)
{
    struct check_host *host = visit->host;
    char sentence[2048];

    helper_drain(&visit->helper);
    if (strstr(visit->said, "HOST IDENTIFICATION HAS CHANGED") != NULL) {
        host->key = CHECK_KEY_CHANGED;
    } else if (strstr(visit->said, "Host key verification failed") != NULL) {
        host->key = CHECK_KEY_UNKNOWN;
    }
    if (visit->state >= VISIT_LOOKING) {
        snprintf(sentence, sizeof(sentence),
                 "its connection ended while it was looked at%s%.1024s",
                 visit->said[0] == '\0' ? "" : ": ", visit->said);
        visit_fail(visit, sentence);
        return;
    }
    if (visit->failure[0] != '\0') {
        host->reached = true;
        take_version(visit);
        visit_fail(visit, visit->failure);
        return;
    }
    if (strstr(visit->said, "unknown command probe") != NULL) {
        host->reached = true;
        visit_fail(visit, "psd is an older version there, without `psd "
                          "check`; install the same version on every host, "
                          "or use --copy");
        return;
    }
    host->reached = strstr(visit->said, "psd not found") != NULL ||
                    strstr(visit->said, "loading shared lib") != NULL;
    if (ssh_explain(&visit->check->plan->way, host->where, visit->status,
                    visit->said, sentence, sizeof(sentence)) &&
        visit->tries < TRIES) {
        retry(visit);
        return;
    }
    visit_fail(visit, without_host(visit, sentence));
}

static void on_no_exit(struct loop_timer *timer)
{
    explain(list_entry(timer, struct visit, timer));
}

static void stream_over(struct visit *visit)
{
    link_close(visit->helper.link);
    visit->helper.link = NULL;
    if (visit->state == VISIT_GONE) {
        return;
    }
    if (visit->reaped) {
        explain(visit);
    } else { /* what it says last, and how it ends, says why */
        loop_timer_start(visit->check->loop, &visit->timer,
                         EXIT_MS * CLOCK_NS_PER_MS, on_no_exit);
    }
}

static void reap_all(struct check *check)
{
    for (uint32_t i = 0; i < check->count; i++) {
        struct visit *visit = &check->visits[i];

        if (visit->helper.pid <= 0 ||
            !helper_reap(&visit->helper, &visit->status)) {
            continue;
        }
        visit->reaped = true;
        if (visit->state != VISIT_GONE && visit->helper.link == NULL &&
            visit->helper.fd < 0) {
            explain(visit);
        }
    }
}

/* ---- the stream --------------------------------------------------------- */

static void on_greeted(void *user)
{
    struct visit *visit = user;
    const struct check *check = visit->check;
    const struct cluster *cluster = check->plan->cluster;
    struct probe_begin begin = { .job = check->job,
                                 .index = visit->index,
                                 .hosts = check->count };
    struct pack pack;

    visit->state = VISIT_LOOKING;
    visit->host->reached = true;
    snprintf(visit->host->version, sizeof(visit->host->version), "%s",
             psd_version());
    snprintf(begin.host, sizeof(begin.host), "%s", visit->host->where->name);
    if (check->count > 1) {
        snprintf(begin.peer, sizeof(begin.peer), "%s",
                 cluster->hosts[visit->index == 0 ? 1 : 0].name);
    }
    if (cluster->interface != NULL) {
        snprintf(begin.interface, sizeof(begin.interface), "%s",
                 cluster->interface);
    }
    if (cluster->virtualenv != NULL) {
        snprintf(begin.virtualenv, sizeof(begin.virtualenv), "%s",
                 cluster->virtualenv);
    }
    snprintf(begin.ports, sizeof(begin.ports), "%s", check->plan->ports);
    snprintf(begin.logs, sizeof(begin.logs), "%s", check->plan->logs);
    if (getcwd(begin.folder, sizeof(begin.folder)) == NULL) {
        snprintf(begin.folder, sizeof(begin.folder), "/");
    }
    pack_init(&pack);
    probe_begin_pack(&pack, &begin);
    (void)probe_send(visit->helper.link, PROBE_BEGIN, 0, &pack);
    pack_wipe(&pack);
    explicit_bzero(&begin.job, sizeof(begin.job));
}

static void on_failed(void *user, const char *sentence)
{
    struct visit *visit = user;

    snprintf(visit->failure, sizeof(visit->failure), "%s", sentence);
    stream_over(visit);
}

/* ssh, a login script or the probe itself; the last lines are kept. */
static void on_said(void *user, const char *line)
{
    struct visit *visit = user;
    size_t used = strlen(visit->said);
    size_t size = strlen(line);

    log_info("check: %s: %s", visit->host->where->name, line);
    if (size + 2 > sizeof(visit->said)) {
        return;
    }
    while (used + size + 2 > sizeof(visit->said)) {
        const char *next = strchr(visit->said, '\n');
        size_t cut = next == NULL ? used : (size_t)(next - visit->said) + 1;

        memmove(visit->said, visit->said + cut, used - cut + 1);
        used -= cut;
    }
    snprintf(visit->said + used, sizeof(visit->said) - used, "%s%s",
             used == 0 ? "" : "\n", line);
}

static void on_wants(void *user)
{
    struct visit *visit = user;
    const struct ssh_way *way = &visit->check->plan->way;

    helper_give(&visit->helper, way->copy_data, way->copy_size);
}

static psd_status take_facts(struct visit *visit, const void *payload,
                             size_t size)
{
    struct check_host *host = visit->host;
    psd_status status;

    if (visit->state != VISIT_LOOKING || host->facts != NULL) {
        return PSD_EPROTO;
    }
    host->facts = mem_zalloc(sizeof(*host->facts));
    if (host->facts == NULL) {
        return PSD_ENOMEM;
    }
    status = probe_facts_unpack(host->facts, payload, size);
    if (status != PSD_OK) {
        mem_free(host->facts);
        host->facts = NULL;
        return status;
    }
    settle(visit, VISIT_READY);
    return PSD_OK;
}

static psd_status deliver(void *user, struct psd_link *link,
                          const struct frame_header *header,
                          const void *payload)
{
    struct visit *visit = user;

    (void)link;
    if (header->type != FRAME_PROBE || visit->state == VISIT_GONE) {
        return PSD_EPROTO;
    }
    if (header->block == PROBE_FACTS) {
        return take_facts(visit, payload, header->size);
    }
    return visit->state == VISIT_READY
               ? pairs_deliver(visit, header, payload)
               : PSD_EPROTO;
}

static void down(void *user, struct psd_link *link, psd_status why)
{
    struct visit *visit = user;

    (void)link;
    if (why == PSD_EPROTO) {
        visit_fail(visit, "its probe sent what this psd does not understand; "
                          "install the same build on every host");
        return;
    }
    stream_over(visit);
}

static const struct link_events stream_events = { .deliver = deliver,
                                                  .down = down };

static const struct helper_events probe_events = {
    .link = &stream_events,
    .greeted = on_greeted,
    .failed = on_failed,
    .said = on_said,
    .wants = on_wants,
};

/* ---- reaching a host ---------------------------------------------------- */

static void on_limit(struct loop_timer *timer)
{
    struct visit *visit = list_entry(timer, struct visit, timer);
    char name[512];
    char sentence[1024];

    ssh_target(visit->host->where, name, sizeof(name));
    snprintf(sentence, sizeof(sentence), "no answer in %d s%s; try `ssh %s "
             "true`", LIMIT_MS / 1000,
             visit->state == VISIT_LOOKING ? " from its probe" : "", name);
    kill(visit->helper.pid, SIGKILL);
    visit_fail(visit, sentence);
}

static void try_visit(struct visit *visit)
{
    static const char *const arguments[] = { "probe", NULL };
    struct check *check = visit->check;
    struct launch_words argv;
    psd_status status;

    helper_stop(&visit->helper, clock_ns()); /* of an earlier try */
    visit->tries++;
    visit->reaped = false;
    visit->said[0] = '\0';
    visit->failure[0] = '\0';
    visit->state = VISIT_CONNECTING;
    check->trying++;
    status = ssh_words(&check->plan->way, visit->host->where, arguments,
                       &argv);
    if (status == PSD_OK) {
        status = helper_start(&visit->helper, check->loop, argv.words,
                              &probe_events, visit);
        launch_words_fini(&argv);
    }
    if (status != PSD_OK) {
        visit_fail(visit, "psd check has no more memory, files or processes "
                          "here");
        return;
    }
    loop_timer_start(check->loop, &visit->timer, LIMIT_MS * CLOCK_NS_PER_MS,
                     on_limit);
}

static void try_all(struct check *check)
{
    for (uint32_t i = 0; i < check->count && check->trying < AT_ONCE; i++) {
        struct visit *visit = &check->visits[i];

        if (visit->state == VISIT_WAITING && visit->tries == 0) {
            try_visit(visit);
        }
    }
}

/* ---- life --------------------------------------------------------------- */

static void on_signal(struct loop_watch *watch, uint32_t mask)
{
    struct check *check = list_entry(watch, struct check, signals);
    struct signalfd_siginfo info;

    (void)mask;
    while (read(check->signal_fd, &info, sizeof(info)) ==
           (ssize_t)sizeof(info)) {
        if (info.ssi_signo != SIGCHLD) {
            check->result->interrupted = true;
            check->done = true;
        }
    }
    reap_all(check);
}

static void on_beat(struct loop_timer *timer)
{
    struct check *check = list_entry(timer, struct check, beat);
    const struct frame_header header = { .type = FRAME_BEAT,
                                         .rank = WIRE_RANK_NONE };

    for (uint32_t i = 0; i < check->count; i++) {
        if (check->visits[i].helper.link != NULL) {
            (void)link_send(check->visits[i].helper.link, &header, NULL);
        }
    }
    loop_timer_start(check->loop, &check->beat, BEAT_MS * CLOCK_NS_PER_MS,
                     on_beat);
}

static void count_seats(struct check_result *result)
{
    const struct cluster *cluster = result->plan->cluster;

    for (uint32_t i = 0; i < cluster->workers; i++) {
        result->hosts[cluster->worker_seats[i].host].workers++;
    }
    for (uint32_t i = 0; i < cluster->servers; i++) {
        result->hosts[cluster->server_seats[i].host].servers++;
    }
}

static psd_status prepare(struct check *check)
{
    struct check_result *result = check->result;
    size_t count = check->count;
    sigset_t set;

    result->hosts = mem_zalloc_array(count, sizeof(*result->hosts));
    result->pairs = mem_zalloc_array(count * count, sizeof(*result->pairs));
    check->visits = mem_zalloc_array(count, sizeof(*check->visits));
    check->live = mem_zalloc_array(count, sizeof(*check->live));
    if (result->hosts == NULL || result->pairs == NULL ||
        check->visits == NULL || check->live == NULL) {
        return PSD_ENOMEM;
    }
    result->count = check->count;
    for (uint32_t i = 0; i < check->count; i++) {
        result->hosts[i].where = &check->plan->cluster->hosts[i];
        check->visits[i] = (struct visit){ .check = check,
                                           .index = i,
                                           .host = &result->hosts[i] };
    }
    count_seats(result);
    if (auth_random(&check->job, sizeof(check->job)) != PSD_OK ||
        loop_create(&check->loop) != PSD_OK) {
        return PSD_ESYSTEM;
    }
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    check->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (check->signal_fd < 0) {
        log_error("check: no signals: %m");
        return PSD_ESYSTEM;
    }
    return loop_watch(check->loop, &check->signals, check->signal_fd, EPOLLIN,
                      on_signal);
}

static void end(struct check *check)
{
    uint64_t due_ns = clock_ns() + STOP_MS * CLOCK_NS_PER_MS;

    loop_timer_stop(&check->beat);
    loop_timer_stop(&check->limit);
    for (uint32_t i = 0; i < check->count && check->visits != NULL; i++) {
        loop_timer_stop(&check->visits[i].timer);
        helper_close(&check->visits[i].helper);
    }
    for (uint32_t i = 0; i < check->count && check->visits != NULL; i++) {
        helper_stop(&check->visits[i].helper, due_ns);
    }
    if (check->signal_fd >= 0) {
        loop_unwatch(check->loop, &check->signals);
        close(check->signal_fd);
    }
    loop_destroy(check->loop);
    mem_free(check->visits);
    mem_free(check->live);
    explicit_bzero(&check->job, sizeof(check->job));
}

psd_status check_run(const struct check_plan *plan,
                     struct check_result *result)
{
    struct check check = { .plan = plan,
                           .result = result,
                           .count = plan->cluster->host_count,
                           .signal_fd = -1 };
    uint64_t start_ns = clock_ns();
    struct loop_events events;
    psd_status status;

    *result = (struct check_result){ .plan = plan };
    signal(SIGPIPE, SIG_IGN);
    status = prepare(&check);
    if (status == PSD_OK) {
        on_beat(&check.beat);
        try_all(&check);
    }
    while (status == PSD_OK && !check.done) {
        loop_wait(check.loop, &events, -1);
        loop_dispatch(check.loop, &events);
    }
    check_progress(&check, "%s", "");
    end(&check);
    result->seconds =
        (double)(clock_ns() - start_ns) / (double)CLOCK_NS_PER_S;
    return status;
}

void check_fini(struct check_result *result)
{
    size_t count = result->count;

    for (size_t i = 0; i < count; i++) {
        mem_free(result->hosts[i].facts);
    }
    for (size_t i = 0; i < count * count; i++) {
        mem_free(result->pairs[i].reason);
    }
    for (uint32_t i = 0; i < result->problem_count; i++) {
        mem_free(result->problems[i].text);
    }
    mem_free(result->hosts);
    mem_free(result->pairs);
    mem_free(result->problems);
    *result = (struct check_result){ .plan = NULL };
}
