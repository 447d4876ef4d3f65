/*
 * check_pairs.c: what psd check asks of probes that are ready: their clocks;
 * then whether each reaches each, all at once, so that silence costs its time
 * only once; then the figures of every pair, in rounds in which a host is in
 * one pair at most.
 */
#define _GNU_SOURCE
#include "check/check_state.h"

#include <inttypes.h>
#include <time.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "check/schedule.h"

#define CLOCKS       8 /* questions to a host; the quickest answer counts */
#define REACH_WIDTH  32 /* connections under way from a host */
#define REACH_MS     3000
#define PINGS        20
#define SPARE_MS     3000 /* over what a probe may take by itself */
#define NOBODY       UINT32_MAX

static void next_round(struct check *check);
static void start_reach(struct check *check);

static bool is_ready(const struct visit *visit)
{
    return visit->state == VISIT_READY;
}

/* In pairs are those who listen somewhere. */
static bool takes_part(const struct visit *visit)
{
    return is_ready(visit) && visit->host->facts->url[0] != '\0';
}

/* ---- orders ------------------------------------------------------------- */

static void order(struct visit *visit, uint32_t peer, uint32_t pings,
                  uint32_t bulk_ms)
{
    struct probe_measure measure = { .peer = peer,
                                     .pings = pings,
                                     .bulk_ms = bulk_ms,
                                     .limit_ms = REACH_MS };
    struct pack pack;

    snprintf(measure.url, sizeof(measure.url), "%s",
             visit->check->visits[peer].host->facts->url);
    pack_init(&pack);
    probe_measure_pack(&pack, &measure);
    if (probe_send(visit->helper.link, PROBE_MEASURE, 0, &pack) == PSD_OK) {
        visit->open++;
    }
    pack_fini(&pack);
}

static void keep_reason(struct check_pair *pair, const char *reason)
{
    mem_free(pair->reason);
    pair->reason = mem_strdup(reason);
}

/* ---- clocks ------------------------------------------------------------- */

static uint64_t wall_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

static void ask_clock(struct visit *visit)
{
    visit->clock_ns = wall_ns();
    visit->asked_ns = clock_ns();
    (void)probe_send(visit->helper.link, PROBE_CLOCK, visit->clocks, NULL);
    link_flush(visit->helper.link);
}

static void check_clocks_done(struct check *check)
{
    for (uint32_t i = 0; i < check->count; i++) {
        if (is_ready(&check->visits[i]) && check->visits[i].clocks < CLOCKS) {
            return;
        }
    }
    start_reach(check);
}

/* Its clock was read somewhere between question and answer. */
static psd_status take_clock(struct visit *visit,
                             const struct frame_header *header,
                             const void *payload)
{
    struct check_host *host = visit->host;
    uint64_t trip_ns = clock_ns() - visit->asked_ns;
    double error_s = (double)trip_ns / 2.0 / (double)CLOCK_NS_PER_S;
    uint64_t theirs;
    psd_status status = probe_clock_unpack(&theirs, payload, header->size);

    if (status != PSD_OK || header->step != visit->clocks ||
        visit->clocks >= CLOCKS) {
        return PSD_EPROTO;
    }
    if (!host->has_clock || error_s < host->clock_error_s) {
        host->has_clock = true;
        host->clock_error_s = error_s;
        host->clock_s = (double)(int64_t)(theirs - visit->clock_ns) /
                            (double)CLOCK_NS_PER_S -
                        error_s;
    }
    visit->clocks++;
    if (visit->clocks < CLOCKS) {
        ask_clock(visit);
    } else if (visit->check->phase == PHASE_CLOCK) {
        check_clocks_done(visit->check);
    }
    return PSD_OK;
}

/* ---- limits ------------------------------------------------------------- */

/* Somebody owes a result that its probe should have sent long ago. */
static void on_limit(struct loop_timer *timer)
{
    struct check *check = list_entry(timer, struct check, limit);

    for (uint32_t i = 0; i < check->count; i++) {
        struct visit *visit = &check->visits[i];

        visit->late = is_ready(visit) && (check->phase == PHASE_CLOCK
                                              ? visit->clocks < CLOCKS
                                              : visit->open > 0);
    }
    for (uint32_t i = 0; i < check->count; i++) {
        if (check->visits[i].late) {
            visit_fail(&check->visits[i],
                       "its probe did not answer any more; is the host "
                       "overloaded?");
        }
    }
}

static void limit(struct check *check, uint64_t after_ms)
{
    loop_timer_start(check->loop, &check->limit, after_ms * CLOCK_NS_PER_MS,
                     on_limit);
}

/* ---- who reaches whom --------------------------------------------------- */

/* Everybody begins with the one behind him, so that nobody is swamped. */
static void reach_more(struct visit *visit)
{
    struct check *check = visit->check;

    while (takes_part(visit) && visit->open < REACH_WIDTH &&
           visit->next + 1 < check->count) {
        uint32_t peer = (visit->index + ++visit->next) % check->count;

        if (takes_part(&check->visits[peer])) {
            order(visit, peer, 0, 0);
        }
    }
}

static void check_reach_done(struct check *check)
{
    check->live_count = 0;
    for (uint32_t i = 0; i < check->count; i++) {
        if (is_ready(&check->visits[i]) && check->visits[i].open > 0) {
            return;
        }
    }
    for (uint32_t i = 0; i < check->count; i++) {
        if (takes_part(&check->visits[i])) {
            check->live[check->live_count++] = i;
        }
    }
    check->phase = PHASE_ROUNDS;
    check->round = 0;
    next_round(check);
}

static void start_reach(struct check *check)
{
    uint32_t waves = check->count / REACH_WIDTH + 1;

    check->phase = PHASE_REACH;
    check_progress(check, "who reaches whom");
    limit(check, (uint64_t)waves * REACH_MS + SPARE_MS);
    for (uint32_t i = 0; i < check->count; i++) {
        reach_more(&check->visits[i]);
    }
    check_reach_done(check);
}

static void take_contact(struct visit *visit,
                         const struct probe_measured *measured)
{
    struct check_pair *pair =
        check_pair(visit->check->result, visit->index, measured->peer);

    pair->contact = measured->status == PSD_OK ? CHECK_REACHED
                                               : CHECK_NOT_REACHED;
    if (measured->status != PSD_OK) {
        keep_reason(pair, measured->reason);
    }
    reach_more(visit);
    check_reach_done(visit->check);
}

/* ---- rounds ------------------------------------------------------------- */

static bool can_measure(const struct check *check, uint32_t from, uint32_t to)
{
    return is_ready(&check->visits[from]) && is_ready(&check->visits[to]) &&
           check_pair(check->result, from, to)->contact == CHECK_REACHED;
}

static bool measure(struct check *check, uint32_t from, uint32_t to)
{
    if (!can_measure(check, from, to)) {
        return false;
    }
    check->visits[from].partner = to;
    check->visits[to].partner = from;
    order(&check->visits[from], to, PINGS, CHECK_PAIR_MS / 2);
    return true;
}

static void check_round_done(struct check *check)
{
    for (uint32_t i = 0; i < check->count; i++) {
        if (is_ready(&check->visits[i]) && check->visits[i].open > 0) {
            return;
        }
    }
    check->round++;
    next_round(check);
}

static void next_round(struct check *check)
{
    uint32_t rounds = schedule_rounds(check->live_count);
    uint32_t slots = schedule_slots(check->live_count);
    uint32_t busy = 0;

    while (check->round < rounds && busy == 0) {
        check_progress(check, "measuring, round %" PRIu32 " of %" PRIu32,
                       check->round + 1, rounds);
        for (uint32_t i = 0; i < check->count; i++) {
            check->visits[i].partner = NOBODY;
        }
        for (uint32_t slot = 0; slot < slots; slot++) {
            uint32_t a;
            uint32_t b;

            if (schedule_pair(check->live_count, check->round, slot, &a, &b)) {
                a = check->live[a];
                b = check->live[b];
                busy += measure(check, a, b) || measure(check, b, a);
            }
        }
        check->round += busy == 0;
    }
    if (busy == 0) {
        check->done = true;
        return;
    }
    limit(check, 2u * (REACH_MS + CHECK_PAIR_MS / 2) + SPARE_MS);
}

/* The lower index goes first, then the other the other way. */
static void take_figures(struct visit *visit,
                         const struct probe_measured *measured)
{
    struct check *check = visit->check;
    struct check_pair *pair =
        check_pair(check->result, visit->index, measured->peer);

    if (measured->status == PSD_OK) {
        pair->measured = true;
        pair->trip_s = (double)measured->trip_ns / (double)CLOCK_NS_PER_S;
        if (measured->time_ns > 0) {
            pair->rate = (double)measured->size * (double)CLOCK_NS_PER_S /
                         (double)measured->time_ns;
        }
    } else {
        keep_reason(pair, measured->reason);
    }
    if (visit->index > measured->peer ||
        !measure(check, measured->peer, visit->index)) {
        check_round_done(check);
    }
}

/* ---- frames ------------------------------------------------------------- */

static psd_status take_measured(struct visit *visit,
                                const struct frame_header *header,
                                const void *payload)
{
    struct check *check = visit->check;
    struct probe_measured measured;
    psd_status status =
        probe_measured_unpack(&measured, payload, header->size);

    if (status != PSD_OK) {
        return status;
    }
    if (visit->open == 0 || measured.peer >= check->count ||
        measured.peer == visit->index ||
        (check->phase == PHASE_ROUNDS && measured.peer != visit->partner)) {
        log_error("check: %s sent a result that was not asked for",
                  visit->host->where->name);
        return PSD_EPROTO;
    }
    visit->open--;
    if (check->phase == PHASE_REACH) {
        take_contact(visit, &measured);
    } else {
        take_figures(visit, &measured);
    }
    return PSD_OK;
}

psd_status pairs_deliver(struct visit *visit,
                         const struct frame_header *header,
                         const void *payload)
{
    switch (header->block) {
    case PROBE_CLOCK:
        return take_clock(visit, header, payload);
    case PROBE_MEASURED:
        return take_measured(visit, header, payload);
    default:
        return PSD_EPROTO;
    }
}

void pairs_lost(struct visit *visit)
{
    struct check *check = visit->check;

    visit->open = 0;
    switch (check->phase) {
    case PHASE_VISIT:
        break;
    case PHASE_CLOCK:
        check_clocks_done(check);
        break;
    case PHASE_REACH:
        check_reach_done(check);
        break;
    case PHASE_ROUNDS:
        check_round_done(check);
        break;
    }
}

void pairs_start(struct check *check)
{
    bool any = false;

    check->phase = PHASE_CLOCK;
    check_progress(check, "clocks");
    limit(check, SPARE_MS);
    for (uint32_t i = 0; i < check->count; i++) {
        if (is_ready(&check->visits[i])) {
            ask_clock(&check->visits[i]);
            any = true;
        }
    }
    if (!any) {
        check->done = true;
    }
}
