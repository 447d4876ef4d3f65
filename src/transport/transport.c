/*
 * transport.c: the table of transports and the life of a link; see
 * transport.h. What moves bytes is in the transports' own files.
 */
#include "transport/transport.h"

#include "base/log.h"
#include "base/mem.h"
#include "transport/link.h"

#define STATE_ALIGN 64

const struct psd_transport *const psd_transports[] = {
    &psd_transport_tcp,
    &psd_transport_shm,
    &psd_transport_inproc,
    NULL,
};

const struct psd_transport *transport_find(const char *url)
{
    for (size_t i = 0; psd_transports[i] != NULL; i++) {
        size_t size = strlen(psd_transports[i]->name);

        if (strncmp(url, psd_transports[i]->name, size) == 0 &&
            url[size] == ':') {
            return psd_transports[i];
        }
    }
    return NULL;
}

psd_status link_create(const struct psd_transport *transport,
                       struct psd_loop *loop, const struct link_events *events,
                       void *user, struct psd_link **link_p)
{
    size_t front = (sizeof(struct psd_link) + STATE_ALIGN - 1) /
                   STATE_ALIGN * STATE_ALIGN;
    struct psd_link *link = mem_zalloc(front + transport->link_size);

    if (link == NULL) {
        return PSD_ENOMEM;
    }
    link->transport = transport;
    link->loop = loop;
    link->events = events;
    link->user = user;
    link->state = (char *)link + front;
    *link_p = link;
    return PSD_OK;
}

void link_destroy(struct psd_link *link)
{
    mem_free(link);
}

void link_leave(struct psd_link *link)
{
    link->busy--;
    if (link->closed && link->busy == 0) {
        link->transport->close(link);
        link_destroy(link);
    }
}

psd_status link_open(struct psd_loop *loop, const char *url,
                     const struct auth_job *job,
                     const struct auth_identity *identity,
                     const struct link_events *events, void *user,
                     struct psd_link **link_p)
{
    const struct psd_transport *transport = transport_find(url);
    struct psd_link *link;
    psd_status status;

    if (transport == NULL) {
        log_error("link: no transport for %s", url);
        return PSD_EINVAL;
    }
    status = link_create(transport, loop, events, user, &link);
    if (status != PSD_OK) {
        return status;
    }
    if (identity != NULL) {
        link->identity = *identity;
    }
    link->job = job;
    status = transport->open(link, url);
    if (status != PSD_OK) {
        link_destroy(link);
        return status;
    }
    *link_p = link;
    return PSD_OK;
}

psd_status link_send(struct psd_link *link, const struct frame_header *header,
                     const void *payload)
{
    uint32_t limit = frame_is_control(header) ? WIRE_CONTROL_MAX
                                              : WIRE_DATA_MAX;
    struct frame_header copy = *header;

    copy.size = header->size > 0 || payload == NULL ? header->size
                                                    : header->length;
    copy.length = copy.size;
    copy.region = 0;
    copy.offset = 0;
    copy.credit = 0;
    if (copy.size > limit || (copy.size > 0 && payload == NULL)) {
        log_error("link: a %s of %u bytes cannot be sent",
                  frame_type_name(copy.type), copy.size);
        return PSD_EINVAL;
    }
    return link->transport->send(link, &copy, payload);
}

void link_flush_large(struct psd_link *link)
{
    if (link_pending(link) >= LINK_FLUSH) {
        link_flush(link);
    }
}

void link_flush(struct psd_link *link)
{
    link->transport->flush(link);
}

size_t link_pending(const struct psd_link *link)
{
    return link->transport->pending(link);
}

psd_status link_map(struct psd_link *link, const struct psd_region *region)
{
    if (link->transport->map == NULL) {
        return PSD_ENOSUP;
    }
    return link->transport->map(link, region);
}

void link_close(struct psd_link *link)
{
    if (link == NULL || link->closed) {
        return;
    }
    link->closed = true;
    if (link->busy == 0) {
        link->transport->close(link);
        link_destroy(link);
    }
}
