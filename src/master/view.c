/* view.c: see view.h. What a worker reports is not trusted to be in order: a
 * number that runs backwards starts its measuring anew. */
#include "master/view.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"

#define MARK_EVERY_NS (4 * CLOCK_NS_PER_S) /* rates of the job */
#define PACE_EVERY_NS (2 * CLOCK_NS_PER_S) /* step time of a worker */
#define SLOW_TENTHS   13                   /* more than 1.3 x the median */
#define LAG_STEPS     1.5
#define LAG_NS        ((double)CLOCK_NS_PER_S)

psd_status view_init(struct view *view, uint32_t workers)
{
    *view = (struct view){.workers = workers};
    view->worker = mem_zalloc_array(workers, sizeof(*view->worker));
    view->sorted = mem_zalloc_array(workers, sizeof(*view->sorted));
    if (view->worker == NULL || view->sorted == NULL) {
        view_fini(view);
        return PSD_ENOMEM;
    }
    return PSD_OK;
}

void view_fini(struct view *view)
{
    mem_free(view->worker);
    mem_free(view->sorted);
    *view = (struct view){.workers = 0};
}

void view_open(struct view *view, uint64_t now_ns)
{
    view->opened_ns = now_ns;
    view->latest_ns = now_ns;
    view->mark = (struct view_totals){.at_ns = now_ns};
    view->older = view->mark;
}

static struct view_totals totals(const struct view *view, uint64_t at_ns)
{
    struct view_totals sum = {.at_ns = at_ns};

    for (uint32_t i = 0; i < view->workers; i++) {
        const struct message_metrics *metrics = &view->worker[i].latest;

        sum.samples += metrics->samples;
        sum.exchanged += metrics->exchanged_bytes;
        sum.sent += metrics->sent_bytes;
        sum.received += metrics->received_bytes;
    }
    return sum;
}

/* Step time from the reports of the last two to four seconds, or from the
 * last two steps where these take longer. */
static void pace(struct view_worker *worker)
{
    const struct message_metrics *now = &worker->latest;
    const struct message_metrics *then = &worker->mark;
    uint64_t steps;

    if (!worker->paced || now->step < then->step ||
        now->elapsed_ns < then->elapsed_ns || now->wait_ns < then->wait_ns) {
        /* The first step says nothing about its own time: it may have been
         * resumed from anywhere. */
        worker->paced = now->elapsed_ns > 0;
        worker->mark = *now;
        worker->older = *now;
        return;
    }
    then = &worker->older;
    steps = now->step - then->step;
    if (steps > 0) {
        uint64_t step_ns = (now->elapsed_ns - then->elapsed_ns) / steps;
        uint64_t wait_ns = (now->wait_ns - then->wait_ns) / steps;

        worker->wait_ns = wait_ns < step_ns ? wait_ns : step_ns;
        worker->compute_ns = step_ns - worker->wait_ns;
    }
    if (now->step > worker->mark.step &&
        now->elapsed_ns - worker->mark.elapsed_ns >= PACE_EVERY_NS) {
        worker->older = worker->mark;
        worker->mark = *now;
    }
}

void view_note(struct view *view, uint32_t rank,
               const struct message_metrics *metrics, uint64_t now_ns)
{
    struct view_worker *worker = &view->worker[rank];

    worker->latest = *metrics;
    worker->latest_ns = now_ns;
    worker->known = true;
    pace(worker);
    view->latest_ns = now_ns;
    if (now_ns - view->mark.at_ns >= MARK_EVERY_NS) {
        view->older = view->mark;
        view->mark = totals(view, now_ns);
    }
}

void view_state(struct view *view, uint32_t rank, uint8_t state)
{
    view->worker[rank].state = state;
}

static bool due(uint64_t *last_ns, uint64_t now_ns, uint64_t every_ns)
{
    if (*last_ns != 0 && now_ns - *last_ns < every_ns) {
        return false;
    }
    *last_ns = now_ns;
    return true;
}

bool view_due(struct view *view, uint64_t now_ns)
{
    return due(&view->shown_ns, now_ns, VIEW_EVERY_NS);
}

bool view_cells_due(struct view *view, uint64_t now_ns)
{
    return due(&view->cells_ns, now_ns, VIEW_CELLS_NS);
}

static double per_second(uint64_t now, uint64_t then, uint64_t from_ns,
                         uint64_t to_ns)
{
    return to_ns <= from_ns || now <= then
               ? 0.0
               : (double)(now - then) * (double)CLOCK_NS_PER_S /
                     (double)(to_ns - from_ns);
}

static void compose_rates(const struct view *view, struct launch_view *out)
{
    struct view_totals now = totals(view, view->latest_ns);
    const struct view_totals *then = &view->older;

    out->samples = now.samples;
    out->exchanged_bytes = now.exchanged;
    out->wire_bytes = now.sent + now.received;
    out->rate = per_second(now.samples, then->samples, then->at_ns, now.at_ns);
    out->exchanged_rate =
        per_second(now.exchanged, then->exchanged, then->at_ns, now.at_ns);
    out->sent_rate = per_second(now.sent, then->sent, then->at_ns, now.at_ns);
    out->received_rate =
        per_second(now.received, then->received, then->at_ns, now.at_ns);
    out->mean_rate = per_second(now.samples, 0, view->opened_ns, now.at_ns);
}

void view_compose(const struct view *view, struct launch_view *out_p)
{
    double elapsed_ns = 0;
    double wait_ns = 0;
    double step_compute_ns = 0;
    double step_wait_ns = 0;
    uint32_t known = 0;
    uint32_t paced = 0;

    *out_p = (struct launch_view){.loss = (double)NAN};
    for (uint32_t i = 0; i < view->workers; i++) {
        const struct view_worker *worker = &view->worker[i];
        const struct message_metrics *metrics = &worker->latest;

        out_p->workers_in += worker->state == LAUNCH_CELL_IN;
        if (!worker->known) {
            continue;
        }
        if (known++ == 0 || metrics->step < out_p->step) {
            out_p->step = metrics->step;
        }
        if (isnan(out_p->loss)) {
            out_p->loss = metrics->loss;
        }
        elapsed_ns += (double)metrics->elapsed_ns;
        wait_ns += (double)metrics->wait_ns;
        if (worker->compute_ns + worker->wait_ns > 0) {
            step_compute_ns += (double)worker->compute_ns;
            step_wait_ns += (double)worker->wait_ns;
            paced++;
        }
    }
    compose_rates(view, out_p);
    if (paced > 0) {
        out_p->compute_ns = (uint64_t)(step_compute_ns / paced);
        out_p->wait_ns = (uint64_t)(step_wait_ns / paced);
    }
    if (elapsed_ns > 0) {
        out_p->wait_share = wait_ns / elapsed_ns;
    }
}

/* ---- cells -------------------------------------------------------------- */

static bool trains(const struct view_worker *worker)
{
    return worker->state == LAUNCH_CELL_IN &&
           worker->compute_ns + worker->wait_ns > 0;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

/* Of the compute times; 0: there are no two to compare. */
static uint64_t median(struct view *view)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < view->workers; i++) {
        if (trains(&view->worker[i])) {
            view->sorted[count++] = view->worker[i].compute_ns;
        }
    }
    if (count < 2) {
        return 0;
    }
    qsort(view->sorted, count, sizeof(*view->sorted), compare);
    return view->sorted[(count - 1) / 2];
}

static uint16_t judge(struct view_worker *worker, uint64_t median_ns,
                      uint64_t now_ns)
{
    double percent;

    if (median_ns == 0 || !trains(worker) ||
        (double)worker->compute_ns * 10.0 <= (double)median_ns * SLOW_TENTHS) {
        worker->slow_ns = 0;
        return 0;
    }
    if (worker->slow_ns == 0) {
        worker->slow_ns = now_ns;
    }
    if (now_ns - worker->slow_ns < VIEW_SLOW_NS) {
        return 0;
    }
    percent = 100.0 * (double)worker->compute_ns / (double)median_ns;
    return percent < (double)UINT16_MAX ? (uint16_t)percent : UINT16_MAX;
}

/* The step, carried on to now. */
static double place(const struct view_worker *worker, uint64_t now_ns)
{
    uint64_t step_ns = worker->compute_ns + worker->wait_ns;
    uint64_t since_ns = now_ns - worker->latest_ns;

    if (since_ns > VIEW_CARRY_NS) {
        since_ns = VIEW_CARRY_NS;
    }
    return (double)worker->latest.step + (double)since_ns / (double)step_ns;
}

static uint32_t lag(const struct view_worker *worker, double front,
                    uint64_t now_ns)
{
    double behind;

    if (!trains(worker)) {
        return 0;
    }
    behind = front - place(worker, now_ns);
    if (behind <= LAG_STEPS ||
        behind * (double)(worker->compute_ns + worker->wait_ns) <= LAG_NS) {
        return 0;
    }
    return behind < (double)UINT32_MAX ? (uint32_t)behind : UINT32_MAX;
}

void view_cells(struct view *view, uint64_t now_ns, struct launch_view *out_p)
{
    uint64_t median_ns = median(view);
    double front = 0;

    for (uint32_t i = 0; i < view->workers; i++) {
        if (trains(&view->worker[i])) {
            double at = place(&view->worker[i], now_ns);

            front = at > front ? at : front;
        }
    }
    out_p->cell_count = view->workers;
    for (uint32_t i = 0; i < view->workers; i++) {
        struct view_worker *worker = &view->worker[i];

        out_p->cells[i] = (struct launch_cell){
            .state = worker->state,
            .slow = judge(worker, median_ns, now_ns),
            .lag = lag(worker, front, now_ns),
            .step = worker->latest.step,
            .compute_ns = worker->compute_ns,
            .wait_ns = worker->wait_ns,
            .sent_bytes = worker->latest.sent_bytes,
            .received_bytes = worker->latest.received_bytes,
        };
    }
}
