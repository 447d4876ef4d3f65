/*
 * view.h: what the workers report about their progress, added up into what
 * psd_run shows. One thread; time is a parameter.
 */
#ifndef PSD_MASTER_VIEW_H
#define PSD_MASTER_VIEW_H

#include "launch/launch_message.h"

#define VIEW_EVERY_NS (100 * UINT64_C(1000000)) /* at most 10 per second */

struct view {
    uint32_t workers;
    struct message_metrics *metrics; /* by rank; the latest */
    bool *known;
    uint64_t opened_ns; /* everybody was in; 0: not yet */
    uint64_t latest_ns; /* of the last report */
    uint64_t shown_ns;  /* of the last view */
    uint64_t mark_ns;   /* two marks, so that the rate is a recent one */
    uint64_t mark_samples;
    uint64_t older_ns;
    uint64_t older_samples;
};

psd_status view_init(struct view *view, uint32_t workers);
void view_fini(struct view *view);

/* Everybody is in: the clock of the job starts. */
void view_open(struct view *view, uint64_t now_ns);
void view_note(struct view *view, uint32_t rank,
               const struct message_metrics *metrics, uint64_t now_ns);
/* Is it time to show another one? Remembers that it was shown if so. */
bool view_due(struct view *view, uint64_t now_ns);
/* Fills what follows from the metrics; proofs and members are the caller's. */
void view_compose(const struct view *view, struct launch_view *out_p);

#endif
