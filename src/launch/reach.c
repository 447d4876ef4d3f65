/*
 * reach.c: how psd_run reaches a host and knows that it is there; see
 * supervise_state.h. A fault before anything runs is one sentence with host,
 * cause and cure; afterwards it is a lost host.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <signal.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/log.h"
#include "launch/agent.h"
#include "launch/exit_code.h"
#include "launch/supervise_state.h"

#define HOSTS_AT_ONCE 32 /* ssh connections under way */
#define HOST_TRIES    3
#define HOST_RETRY_MS 200  /* and as much again at random, doubled each time */
#define HOST_LIMIT_MS 9000 /* from its ssh to READY */
#define HOST_EXIT_MS  300  /* for ssh to say why the stream has ended */

static void try_host(struct host *host);

/* ---- faults ------------------------------------------------------------- */

static void settle(struct host *host)
{
    struct supervise *supervise = host->supervise;

    if (host->state == HOST_CONNECTING || host->state == HOST_PREPARING) {
        supervise->hosts_trying--;
    }
    loop_timer_stop(&host->timer);
}

void host_drop(struct host *host)
{
    if (host->state == HOST_GONE) {
        return;
    }
    if (host->state == HOST_CONNECTING && !host->where->local &&
        host->helper.pid > 0) {
        kill(host->helper.pid, SIGTERM); /* ssh would wait for its host */
    }
    settle(host);
    host->state = HOST_GONE;
    host->supervise->hosts_gone++;
    helper_close(&host->helper);
}

static void fail(struct host *host, int code, const char *sentence)
{
    struct supervise *supervise = host->supervise;
    bool ran = host->state == HOST_RUNNING;

    host_drop(host);
    if (ran) {
        supervise_host_lost(supervise, host, sentence);
    } else {
        supervise_unfit(supervise, code, sentence);
    }
}

static void on_retry(struct loop_timer *timer)
{
    try_host(list_entry(timer, struct host, timer));
}

static void retry(struct host *host)
{
    uint64_t pause_ms = (uint64_t)HOST_RETRY_MS << host->tries;
    uint64_t jitter = 0;

    (void)auth_random(&jitter, sizeof(jitter));
    helper_stop(&host->helper, 0);
    settle(host);
    host->state = HOST_WAITING;
    loop_timer_start(host->supervise->loop, &host->timer,
                     (pause_ms + jitter % pause_ms) * CLOCK_NS_PER_MS,
                     on_retry);
}

/* How a host that ran processes was lost. */
static void describe_loss(const struct host *host, char *sentence, size_t size)
{
    int used =
        host->where->local
            ? snprintf(sentence, size,
                       "the agent was lost, and with it every process "
                       "that it had started")
            : snprintf(sentence, size, "host %s was lost: its connection ended",
                       host->where->name);

    if (host->reaped && WIFSIGNALED(host->status)) {
        snprintf(sentence + used, size - (size_t)used,
                 ": its %s was killed by signal %d (SIG%s)",
                 host->where->local ? "guard" : "ssh", WTERMSIG(host->status),
                 sigabbrev_np(WTERMSIG(host->status)));
    } else if (host->reaped && WEXITSTATUS(host->status) > EXIT_CODE_SIGNAL) {
        snprintf(sentence + used, size - (size_t)used,
                 ": its agent was killed by signal %d",
                 WEXITSTATUS(host->status) - EXIT_CODE_SIGNAL);
    } else if (host->said[0] != '\0') {
        snprintf(sentence + used, size - (size_t)used, ": %s", host->said);
    }
}

/* The stream has ended: why? */
static void explain(struct host *host)
{
    const struct ssh_way *way = &host->supervise->plan->way;
    char sentence[2048];

    helper_drain(&host->helper);
    if (host->state == HOST_RUNNING) {
        describe_loss(host, sentence, sizeof(sentence));
    } else if (host->failure[0] != '\0') {
        snprintf(sentence, sizeof(sentence), "host %s: %s", host->where->name,
                 host->failure);
    } else if (ssh_explain(way, host->where, host->status, host->said, sentence,
                           sizeof(sentence)) &&
               host->tries < HOST_TRIES) {
        retry(host);
        return;
    }
    fail(host, EXIT_CODE_UNAVAILABLE, sentence);
}

static void on_no_exit(struct loop_timer *timer)
{
    explain(list_entry(timer, struct host, timer));
}

void host_down(struct host *host)
{
    link_close(host->helper.link);
    host->helper.link = NULL;
    if (host->state == HOST_GONE) {
        return;
    }
    if (host->supervise->stopping) {
        host_drop(host);
    } else if (host->reaped) {
        explain(host);
    } else { /* what it says last, and how it ends, says why */
        loop_timer_start(host->supervise->loop, &host->timer,
                         HOST_EXIT_MS * CLOCK_NS_PER_MS, on_no_exit);
    }
}

void host_reaped(struct host *host, int status)
{
    char sentence[1024];

    host->reaped = true;
    host->status = status;
    if (host->state == HOST_RUNNING && host->where->local &&
        !host->supervise->stopping) { /* its agent ends everything */
        describe_loss(host, sentence, sizeof(sentence));
        supervise_over(host->supervise, EXIT_CODE_UNAVAILABLE, NULL, sentence);
    }
    if (host->state == HOST_GONE || host->helper.link != NULL ||
        host->helper.fd >= 0) {
        return; /* what it sent last is still to be read */
    }
    if (host->supervise->stopping) {
        host_drop(host);
    } else {
        explain(host);
    }
}

/* ---- connecting --------------------------------------------------------- */

static void on_greeted(void *user)
{
    struct host *host = user;
    struct pack pack;

    host->state = HOST_PREPARING;
    host->heard_ns = clock_ns();
    pack_init(&pack);
    launch_start_pack(&pack, host->start);
    supervise_send(host->helper.link, NULL, FRAME_START, &pack);
    pack_wipe(&pack);
}

static void on_failed(void *user, const char *sentence)
{
    struct host *host = user;

    snprintf(host->failure, sizeof(host->failure), "%s", sentence);
    host_down(host);
}

void host_keep_line(char *said, size_t size, const char *line)
{
    size_t used = strlen(said);
    size_t more = strlen(line);

    if (more + 2 > size) {
        return;
    }
    while (used + more + 2 > size) {
        const char *next = strchr(said, '\n');
        size_t cut = next == NULL ? used : (size_t)(next - said) + 1;

        memmove(said, said + cut, used - cut + 1);
        used -= cut;
    }
    snprintf(said + used, size - used, "%s%s", used == 0 ? "" : "\n", line);
}

/* ssh, a login script or the agent itself. */
static void on_said(void *user, const char *line)
{
    struct host *host = user;

    log_info("host %s: %s", host->where->name, line);
    if (host->state == HOST_RUNNING || host->state == HOST_READY) {
        screen_say(host->supervise->screen, "%s: %s", host->where->name, line);
    }
    host_keep_line(host->said, sizeof(host->said), line);
}

static void on_wants(void *user)
{
    struct host *host = user;
    const struct ssh_way *way = &host->supervise->plan->way;

    log_info("run: copying psd to %s", host->where->name);
    helper_give(&host->helper, way->copy_data, way->copy_size);
}

static const struct helper_events agent_events = {
    .link = &hub_agent_events,
    .greeted = on_greeted,
    .failed = on_failed,
    .said = on_said,
    .wants = on_wants,
};

static void on_limit(struct loop_timer *timer)
{
    struct host *host = list_entry(timer, struct host, timer);
    char sentence[1024];

    snprintf(sentence, sizeof(sentence),
             "host %s: no answer in %d s%s; is it switched on, and does a "
             "firewall let ssh through? See `ssh -v %s true`",
             host->where->name, HOST_LIMIT_MS / 1000,
             host->state == HOST_PREPARING ? " from its agent" : "",
             host->where->name);
    kill(host->helper.pid, SIGKILL);
    fail(host, EXIT_CODE_UNAVAILABLE, sentence);
}

static void try_host(struct host *host)
{
    struct supervise *supervise = host->supervise;
    static const char *const arguments[] = {"agent", NULL};
    struct launch_words argv;
    psd_status status;

    host->tries++;
    host->reaped = false;
    host->said[0] = '\0';
    host->failure[0] = '\0';
    host->state = HOST_CONNECTING;
    supervise->hosts_trying++;
    status = ssh_words(&supervise->plan->way, host->where, arguments, &argv);
    if (status == PSD_OK) {
        status = helper_start(&host->helper, supervise->loop, argv.words,
                              &agent_events, host);
        launch_words_fini(&argv);
    }
    if (status != PSD_OK) {
        fail(host, EXIT_CODE_OS, "psd_run has no more memory or processes");
        return;
    }
    host->guard_pid = host->where->local ? host->helper.pid : 0;
    loop_timer_start(supervise->loop, &host->timer,
                     HOST_LIMIT_MS * CLOCK_NS_PER_MS, on_limit);
}

void host_try_all(struct supervise *supervise)
{
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];

        if (supervise->hosts_trying >= HOSTS_AT_ONCE || supervise->stopping) {
            return;
        }
        if (host->state == HOST_WAITING && host->tries == 0) {
            try_host(host);
        }
    }
}

void host_ready(struct host *host, const struct launch_ready *ready)
{
    struct supervise *supervise = host->supervise;
    char sentence[WIRE_TEXT_MAX + 512];

    if (host->state != HOST_PREPARING) {
        return;
    }
    if (ready->code != 0) {
        if (supervise->host_count > 1) {
            snprintf(sentence, sizeof(sentence), "host %s: %s",
                     host->where->name, ready->reason);
        } else {
            snprintf(sentence, sizeof(sentence), "%s", ready->reason);
        }
        fail(host, ready->code, sentence);
        return;
    }
    settle(host);
    host->state = HOST_READY;
    supervise->hosts_ready++;
    if (host->where->local) {
        snprintf(host->folder, sizeof(host->folder), "%s", ready->folder);
    }
    snprintf(host->note, sizeof(host->note), "%s", ready->note);
    screen_detail(supervise->screen,
                  "host %s is ready, data links at %s, logs in %s",
                  host->where->name, ready->address, ready->logs);
    supervise_ready(supervise);
    host_try_all(supervise);
}

/* What several hosts say is said once. */
void host_say_notes(struct supervise *supervise)
{
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];
        uint32_t others = 0;

        if (host->note[0] == '\0') {
            continue;
        }
        for (uint32_t k = i + 1; k < supervise->host_count; k++) {
            if (strcmp(supervise->hosts[k].note, host->note) == 0) {
                supervise->hosts[k].note[0] = '\0';
                others++;
            }
        }
        if (others + 1 == supervise->host_count) {
            screen_note(supervise->screen, "%s", host->note);
        } else if (others > 0) {
            screen_note(supervise->screen, "host %s and %" PRIu32 " more: %s",
                        host->where->name, others, host->note);
        } else {
            screen_note(supervise->screen, "host %s: %s", host->where->name,
                        host->note);
        }
    }
}

/* ---- beats -------------------------------------------------------------- */

void host_master_text(const struct supervise *supervise, char *text,
                      size_t size)
{
    const struct cluster *cluster = supervise->plan->cluster;

    if (cluster->master == CLUSTER_HERE) {
        snprintf(text, size, "the master");
    } else {
        snprintf(text, size, "the master on %s",
                 cluster->hosts[cluster->master].name);
    }
}

void host_master_lost(struct supervise *supervise, const char *how)
{
    char who[CLUSTER_NAME_MAX + 32];
    char reason[CLUSTER_NAME_MAX + 512];

    helper_close(&supervise->master);
    supervise->master_done = true;
    if (supervise->stopping || supervise->run.reason[0] != '\0') {
        return;
    }
    host_master_text(supervise, who, sizeof(who));
    snprintf(reason, sizeof(reason), "%s was lost: %s", who, how);
    if (supervise->started) {
        supervise_over(supervise, EXIT_CODE_UNAVAILABLE, NULL, reason);
        supervise_stop(supervise, AGENT_END_MS);
    } else {
        supervise_unfit(supervise, EXIT_CODE_UNAVAILABLE, reason);
    }
}

/* Its link is there and silent, or never comes. */
static void look_for_master(struct supervise *supervise)
{
    const struct supervise_plan *plan = supervise->plan;
    uint64_t limit_ms =
        supervise->master.link == NULL ? HOST_LIMIT_MS : plan->dead_after_ms;
    uint64_t silence_ns = clock_ns() - supervise->master_heard_ns;
    char how[128];

    if (plan->cluster->master == CLUSTER_HERE || supervise->master_done ||
        silence_ns < limit_ms * CLOCK_NS_PER_MS) {
        return;
    }
    snprintf(how, sizeof(how), "nothing was heard of it for %.1f s",
             (double)silence_ns / (double)CLOCK_NS_PER_S);
    if (supervise->master.pid > 0) {
        kill(supervise->master.pid, SIGKILL);
    }
    host_master_lost(supervise, how);
}

/* Who slept is psd_run (Ctrl-Z, a closed lid), or it got no processor: what
 * was sent meanwhile is still to be read. */
static void excuse(struct supervise *supervise, uint64_t now)
{
    uint64_t late_ns = now - supervise->beat_ns;

    supervise->beat_ns = now;
    if (late_ns < supervise->plan->dead_after_ms * CLOCK_NS_PER_MS / 2) {
        return;
    }
    supervise->master_heard_ns = now;
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        supervise->hosts[i].heard_ns = now;
    }
}

void host_beat_all(struct supervise *supervise)
{
    uint64_t limit_ns = supervise->plan->dead_after_ms * CLOCK_NS_PER_MS;
    uint64_t now = clock_ns();
    struct frame_header header = {.type = FRAME_BEAT, .rank = WIRE_RANK_NONE};

    if (supervise->master.link != NULL) {
        (void)link_send(supervise->master.link, &header, NULL);
    }
    excuse(supervise, now);
    look_for_master(supervise);
    for (uint32_t i = 0; i < supervise->host_count; i++) {
        struct host *host = &supervise->hosts[i];
        char sentence[512];

        if (host->where->local || host->helper.link == NULL ||
            host->state < HOST_READY) {
            continue;
        }
        (void)link_send(host->helper.link, &header, NULL);
        if (now - host->heard_ns < limit_ns) {
            continue;
        }
        snprintf(sentence, sizeof(sentence),
                 "host %s was lost: nothing was heard of it for %.1f s; if it "
                 "lives, its agent ends everything there",
                 host->where->name,
                 (double)(now - host->heard_ns) / (double)CLOCK_NS_PER_S);
        kill(host->helper.pid, SIGKILL);
        host->state = HOST_RUNNING;
        fail(host, EXIT_CODE_UNAVAILABLE, sentence);
    }
}
