/*
 * register.c: psd_register: the batch is checked here, room is made for it
 * everywhere, and only then is it said to the master; when the master says go,
 * every shard and every board has the room too. See session.h.
 */
#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"

static psd_status spec_set(struct psd_session *session,
                           const struct psd_spec *from,
                           struct message_spec *to)
{
    char error[512];

    if (from->name == NULL || strlen(from->name) > WIRE_NAME_MAX) {
        return session_refuse(session,
                              "a tensor's name has 1 to %d bytes",
                              WIRE_NAME_MAX);
    }
    if (strncmp(from->name, MODEL_RESERVED, strlen(MODEL_RESERVED)) == 0) {
        return session_refuse(session,
                              "tensor %s: names that begin with "
                              MODEL_RESERVED " are reserved",
                              from->name);
    }
    if (from->optim != NULL && strlen(from->optim) >= sizeof(to->optim)) {
        return session_refuse(session, "tensor %s: there is no optim %s",
                              from->name, from->optim);
    }
    /* What does not fit a byte is none as well. */
    *to = (struct message_spec){
        .dtype = (unsigned)from->dtype > UINT8_MAX ? 0
                                                   : (uint8_t)from->dtype,
        .kind = (unsigned)from->kind > UINT8_MAX ? UINT8_MAX
                                                 : (uint8_t)from->kind,
        .count = from->count,
        .priority = from->priority,
        .rate = from->rate,
        .momentum = from->momentum,
    };
    snprintf(to->name, sizeof(to->name), "%s", from->name);
    snprintf(to->optim, sizeof(to->optim), "%s",
             from->optim == NULL ? "" : from->optim);
    if (model_check_spec(to, error, sizeof(error)) != PSD_OK) {
        return session_refuse(session, "%s", error);
    }
    if (from->kind == PSD_KIND_GATHER &&
        reduce_gather_size(session->size,
                           from->count * dtype_size(from->dtype)) >
            WIRE_DATA_MAX) {
        return session_refuse(session,
                              "tensor %s: what all workers gather must stay "
                              "below 1 GiB",
                              from->name);
    }
    return PSD_OK;
}

/* A name that is known must mean the same. */
static psd_status check_known(struct psd_session *session,
                              const struct message_table *table)
{
    for (uint32_t i = 0; i < table->count; i++) {
        uint32_t known = model_find(&session->model, table->specs[i].name);

        if (known != UINT32_MAX &&
            !model_matches(&session->model.tensors[known],
                           &table->specs[i])) {
            return session_refuse(session,
                                  "tensor %s is registered already with "
                                  "another spec",
                                  table->specs[i].name);
        }
    }
    return PSD_OK;
}

psd_status session_grow(struct psd_session *session, uint32_t before)
{
    uint32_t count = session->model.tensor_count;
    void *flights = session->flights;
    void *audits = session->audits;
    psd_status status;

    status = mem_grow(&flights, before, count, sizeof(*session->flights));
    if (status == PSD_OK) {
        session->flights = flights;
        status = mem_grow(&audits, before, count, sizeof(*session->audits));
    }
    if (status != PSD_OK) {
        return status;
    }
    session->audits = audits;
    session->apart = model_apart(&session->model);
    switch (session->way) {
    case SESSION_SOLO:
        return solo_add(session);
    case SESSION_BOARD:
        return host_add(&session->host, session->flights);
    case SESSION_LINKS:
        break;
    }
    if (session->apart) {
        loop_turns_off(session->loop); /* one may wait for this one alone */
    }
    status = worker_add(&session->worker, session->flights);
    if (status == PSD_OK && session->has_shard) {
        status = shard_add(&session->shard);
    }
    return status;
}

/* Under lock. */
static psd_status add_table(struct psd_session *session,
                            const struct message_table *table)
{
    uint32_t before = session->model.tensor_count;
    psd_status status = check_known(session, table);

    if (status != PSD_OK) {
        return status;
    }
    status = model_add(&session->model, table); /* all or nothing */
    if (status == PSD_EINVAL) {
        return session_refuse(session,
                              "this batch of %" PRIu32 " tensors has a name "
                              "twice with different specs, or too many or "
                              "too large tensors",
                              table->count);
    }
    if (status == PSD_OK) {
        status = session_grow(session, before);
    }
    if (status != PSD_OK) {
        return session_fail(session, status,
                            "there is no room for this batch of %" PRIu32
                            " tensors: %s",
                            table->count, psd_status_text(status));
    }
    return session->way == SESSION_SOLO ? PSD_OK
                                        : control_register(session, table);
}

psd_status psd_register(struct psd_session *session,
                        const struct psd_spec *specs, uint32_t count,
                        psd_tensor *tensors)
{
    struct message_table table = { .count = count };
    psd_status status = (psd_status)atomic_load(&session->failed);

    if (status != PSD_OK) {
        return status;
    }
    table.specs = mem_zalloc_array(count, sizeof(*table.specs));
    pthread_mutex_lock(&session->lock);
    if (table.specs == NULL) {
        session_refuse(session, "no memory for %" PRIu32 " specs", count);
        pthread_mutex_unlock(&session->lock);
        return PSD_ENOMEM;
    }
    if (session->open_tickets > 0) {
        status = session_refuse(session, "%" PRIu32 " tensors are in flight; "
                                "wait for them before psd_register",
                                session->open_tickets);
    }
    for (uint32_t i = 0; i < count && status == PSD_OK; i++) {
        status = spec_set(session, &specs[i], &table.specs[i]);
    }
    if (status == PSD_OK) {
        status = add_table(session, &table);
    }
    for (uint32_t i = 0; i < count && status == PSD_OK; i++) {
        tensors[i].id = model_find(&session->model, specs[i].name);
    }
    pthread_mutex_unlock(&session->lock);
    mem_free(table.specs);
    return status;
}
