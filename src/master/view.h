/*
 * view.h: what the workers report about their progress, added up into what
 * psd_run shows. One thread; time is a parameter.
 *
 * A worker is SLOW when its compute time per step (the step's time less what
 * it spent inside psd_wait, over the last seconds) has been more than 1.3
 * times the median of all workers that train for VIEW_SLOW_NS. The median of
 * an even number is the lower of the two in the middle, so that of two
 * workers one can be slow. Nobody is slow alone.
 *
 * Workers report once a second, each at its own moment. So that this is not
 * taken for a lag, everybody's step is carried on to now at its own pace, for
 * VIEW_CARRY_NS at most, and a worker lags when it is then behind the foremost
 * by more than one and a half steps and by more than a second.
 */
#ifndef PSD_MASTER_VIEW_H
#define PSD_MASTER_VIEW_H

#include "launch/launch_message.h"

#define VIEW_EVERY_NS (100 * UINT64_C(1000000))  /* at most 10 per second */
#define VIEW_CELLS_NS (1000 * UINT64_C(1000000)) /* with cells: 1 per second */
#define VIEW_SLOW_NS  (5000 * UINT64_C(1000000))
#define VIEW_CARRY_NS (1500 * UINT64_C(1000000))

/* What one worker has reported. The three reports span the last seconds: see
 * view_note. */
struct view_worker {
    uint8_t state; /* LAUNCH_CELL_* */
    bool known;    /* latest is there */
    bool paced;    /* mark and older are */
    struct message_metrics latest;
    struct message_metrics mark;
    struct message_metrics older;
    uint64_t latest_ns; /* when it came */
    uint64_t compute_ns;
    uint64_t wait_ns;
    uint64_t slow_ns; /* since when it is slower than it should; 0: not */
};

/* Sums over the workers at one moment. */
struct view_totals {
    uint64_t at_ns;
    uint64_t samples;
    uint64_t exchanged;
    uint64_t sent;
    uint64_t received;
};

struct view {
    uint32_t workers;
    struct view_worker *worker; /* by rank */
    uint64_t *sorted;           /* room for the median */
    uint64_t opened_ns;         /* everybody was in; 0: not yet */
    uint64_t latest_ns;         /* of the last report */
    uint64_t shown_ns;          /* of the last view */
    uint64_t cells_ns;          /* of the last with cells */
    struct view_totals mark;    /* two, so that a rate is a recent one */
    struct view_totals older;
};

psd_status view_init(struct view *view, uint32_t workers);
void view_fini(struct view *view);

/* Everybody is in: the clock of the job starts. */
void view_open(struct view *view, uint64_t now_ns);
void view_note(struct view *view, uint32_t rank,
               const struct message_metrics *metrics, uint64_t now_ns);
/* What has become of a worker: LAUNCH_CELL_*. */
void view_state(struct view *view, uint32_t rank, uint8_t state);
/* Is it time to show another one? Remembers that it was shown if so. */
bool view_due(struct view *view, uint64_t now_ns);
/* The same for the cells. */
bool view_cells_due(struct view *view, uint64_t now_ns);
/* Fills what follows from the metrics and states; proofs are the caller's. */
void view_compose(const struct view *view, struct launch_view *out_p);
/* Adds the cells, and looks who is slow and who lags. */
void view_cells(struct view *view, uint64_t now_ns, struct launch_view *out_p);

#endif
