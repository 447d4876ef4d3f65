/* view.c: see view.h. */
#include "master/view.h"

#include <math.h>

#include "base/clock.h"
#include "base/mem.h"

#define MARK_EVERY_NS (4 * CLOCK_NS_PER_S)

psd_status view_init(struct view *view, uint32_t workers)
{
    *view = (struct view){ .workers = workers };
    view->metrics = mem_zalloc_array(workers, sizeof(*view->metrics));
    view->known = mem_zalloc_array(workers, sizeof(*view->known));
    if (view->metrics == NULL || view->known == NULL) {
        view_fini(view);
        return PSD_ENOMEM;
    }
    return PSD_OK;
}

void view_fini(struct view *view)
{
    mem_free(view->metrics);
    mem_free(view->known);
    *view = (struct view){ .workers = 0 };
}

void view_open(struct view *view, uint64_t now_ns)
{
    view->opened_ns = now_ns;
    view->latest_ns = now_ns;
    view->mark_ns = now_ns;
    view->older_ns = now_ns;
}

static uint64_t samples(const struct view *view)
{
    uint64_t sum = 0;

    for (uint32_t i = 0; i < view->workers; i++) {
        sum += view->metrics[i].samples;
    }
    return sum;
}

void view_note(struct view *view, uint32_t rank,
               const struct message_metrics *metrics, uint64_t now_ns)
{
    view->metrics[rank] = *metrics;
    view->known[rank] = true;
    view->latest_ns = now_ns;
    if (now_ns - view->mark_ns >= MARK_EVERY_NS) {
        view->older_ns = view->mark_ns;
        view->older_samples = view->mark_samples;
        view->mark_ns = now_ns;
        view->mark_samples = samples(view);
    }
}

bool view_due(struct view *view, uint64_t now_ns)
{
    if (view->shown_ns != 0 && now_ns - view->shown_ns < VIEW_EVERY_NS) {
        return false;
    }
    view->shown_ns = now_ns;
    return true;
}

static double per_second(uint64_t count, uint64_t from_ns, uint64_t to_ns)
{
    return to_ns <= from_ns ? 0.0
                            : (double)count * (double)CLOCK_NS_PER_S /
                                  (double)(to_ns - from_ns);
}

void view_compose(const struct view *view, struct launch_view *out_p)
{
    uint64_t wait_ns = 0;
    uint64_t elapsed_ns = view->latest_ns - view->opened_ns;
    uint32_t known = 0;

    *out_p = (struct launch_view){ .loss = (double)NAN };
    for (uint32_t i = 0; i < view->workers; i++) {
        const struct message_metrics *metrics = &view->metrics[i];

        if (!view->known[i]) {
            continue;
        }
        if (known == 0 || metrics->step < out_p->step) {
            out_p->step = metrics->step;
        }
        if (isnan(out_p->loss)) {
            out_p->loss = metrics->loss;
        }
        out_p->exchanged_bytes += metrics->exchanged_bytes;
        out_p->wire_bytes += metrics->wire_bytes;
        wait_ns += metrics->wait_ns;
        known++;
    }
    out_p->samples = samples(view);
    out_p->rate = per_second(out_p->samples - view->older_samples,
                             view->older_ns, view->latest_ns);
    out_p->mean_rate =
        per_second(out_p->samples, view->opened_ns, view->latest_ns);
    if (known > 0 && elapsed_ns > 0) {
        out_p->wait_share =
            (double)wait_ns / ((double)elapsed_ns * (double)known);
    }
}
