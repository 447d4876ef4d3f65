/*
 * inproc.h: members of one process. Used for a worker's link to the shard in
 * its own process, and by the simulator, which steers a hub's faults.
 * One thread.
 */
#ifndef PSD_TRANSPORT_INPROC_H
#define PSD_TRANSPORT_INPROC_H

#include "transport/transport.h"

struct inproc_hub;

/* What can go wrong between two ends; all zero: nothing. Chances are per
 * frame, in 1/65536. */
struct inproc_faults {
    uint64_t seed;
    uint32_t lose_link;     /* the link goes down on both ends; frames on it
                             * are lost */
    uint32_t duplicate;     /* the frame is delivered twice */
    uint64_t delay_max_ns;  /* each link has its own delay, so that frames of
                             * different links are reordered; virtual time */
    bool mapped;            /* spans; false: payloads are copied inline */
};

/* A hub joins clients to listeners by name. `faults` is copied; NULL: none,
 * mapped. */
psd_status inproc_hub_create(struct psd_loop *loop,
                             const struct inproc_faults *faults,
                             struct inproc_hub **hub_p);
void inproc_hub_destroy(struct inproc_hub *hub);

/* Accept links opened to "inproc:NAME" in this hub. Keeps events and user. */
psd_status inproc_listen(struct inproc_hub *hub, const char *name,
                         const struct listen_events *events, void *user);
/* Everything of `name` disappears at once: its listener and the links that
 * were accepted by it go down on the other end (a death). */
void inproc_vanish(struct inproc_hub *hub, const char *name);

/* The hub that link_open("inproc:...") on this loop uses is the one created
 * on it. */

/* Time at which the next frame is due, UINT64_MAX when none: the simulator
 * moves its virtual clock there. */
uint64_t inproc_next_ns(const struct inproc_hub *hub);

#endif
