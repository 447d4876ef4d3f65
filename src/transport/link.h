/*
 * link.h: what transports share about links; private to this room. A handler
 * may close its own link, so whoever calls handlers does it between
 * link_enter and link_leave, and stops when link->closed is set.
 */
#ifndef PSD_TRANSPORT_LINK_H
#define PSD_TRANSPORT_LINK_H

#include "transport/transport.h"

extern const struct psd_transport psd_transport_tcp;
extern const struct psd_transport psd_transport_shm;
extern const struct psd_transport psd_transport_inproc;

/* A link with zeroed state. */
psd_status link_create(const struct psd_transport *transport,
                       struct psd_loop *loop, const struct link_events *events,
                       void *user, struct psd_link **link_p);
/* Undo link_create; the transport has nothing left in it. */
void link_destroy(struct psd_link *link);

static inline void link_enter(struct psd_link *link)
{
    link->busy++;
}

/* May free the link. */
void link_leave(struct psd_link *link);

/* The handlers, each with its default. */
static inline psd_status link_deliver(struct psd_link *link,
                                      const struct frame_header *header,
                                      const void *payload)
{
    if (link->events->deliver == NULL) {
        return PSD_OK;
    }
    return link->events->deliver(link->user, link, header, payload);
}

static inline void link_ready(struct psd_link *link)
{
    if (link->events->ready != NULL) {
        link->events->ready(link->user, link);
    }
}

static inline void link_up(struct psd_link *link)
{
    if (link->events->up != NULL) {
        link->events->up(link->user, link);
    }
}

static inline void link_down(struct psd_link *link, psd_status why)
{
    if (link->events->down != NULL) {
        link->events->down(link->user, link, why);
    }
}

#endif
