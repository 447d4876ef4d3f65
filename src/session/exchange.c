/*
 * exchange.c: the calls by which a gradient goes and its mean comes back. Each
 * fills in the flight of its tensor and lets the session's way carry it. See
 * session.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/clock.h"
#include "base/le.h"
#include "base/log.h"
#include "base/mem.h"
#include "reduce/change.h"
#include "session/session.h"

/* ---- tickets ----------------------------------------------------------- */

static psd_ticket ticket_make(uint32_t tensor, uint64_t step)
{
    return (psd_ticket){ (uint64_t)(tensor + 1) << 32 | (uint32_t)step };
}

static uint32_t ticket_tensor(psd_ticket ticket)
{
    return (uint32_t)(ticket.id >> 32) - 1;
}

/* ---- staging ----------------------------------------------------------- */

static size_t stage_size(const struct psd_session *session,
                         const struct model_tensor *tensor)
{
    return tensor->kind == PSD_KIND_GATHER
               ? reduce_gather_size(session->size, tensor->size) +
                     tensor->size
               : tensor->size;
}

/* The whole of a change, before it is sent; on the ways without links it is
 * made where it is added (reduce/change.c). */
static void stage_change(const struct model_tensor *tensor,
                         struct flight *flight)
{
    struct change change = { .data = flight->data, .base = flight->base,
                             .out = flight->staged };

    change_make(tensor->dtype, &change,
                tensor->size / dtype_size(tensor->dtype));
    flight->data = flight->staged;
}

/* Memory that the path can use where the caller's will not do: a gather's
 * answer is longer than what went in, a server on this host reads and writes
 * the arena only, and a change is nowhere yet. */
static psd_status flight_stage(struct psd_session *session, uint32_t index)
{
    const struct model_tensor *tensor = &session->model.tensors[index];
    struct flight *flight = &session->flights[index];
    bool gather = tensor->kind == PSD_KIND_GATHER;
    bool changed = flight->base != NULL && session->way == SESSION_LINKS;
    bool in_place = (flight->data == NULL || flight->data == flight->out) &&
                    arena_contains(session->arena, flight->out,
                                   tensor->size);
    char *to;

    flight->staged = NULL;
    if (session->way == SESSION_SOLO ||
        (!gather && !changed &&
         (session->way == SESSION_BOARD || session->tcp ||
          (in_place && flight->data != NULL)))) {
        return PSD_OK;
    }
    flight->staged = arena_alloc(session->arena, stage_size(session, tensor));
    if (flight->staged == NULL) {
        return session_fail(session, PSD_ENOMEM,
                            "the shared arena is full: no room to stage "
                            "tensor %s",
                            tensor->name);
    }
    to = flight->staged +
         (gather ? reduce_gather_size(session->size, tensor->size) : 0);
    if (changed) {
        stage_change(tensor, flight);
    } else if (flight->data != NULL) {
        memcpy(to, flight->data, gather ? flight->length : tensor->size);
    }
    return PSD_OK;
}

static void gather_unpack(struct psd_session *session, uint32_t index)
{
    const struct model_tensor *tensor = &session->model.tensors[index];
    struct flight *flight = &session->flights[index];
    const char *from = flight->staged + session->size * sizeof(uint64_t);
    size_t unit = dtype_size(tensor->dtype);
    size_t total = 0;

    for (uint32_t r = 0; r < session->size; r++) {
        uint64_t length = le_get_u64(flight->staged + r * sizeof(uint64_t));

        flight->counts[r] = length / unit;
        total += length;
    }
    if (total <= session->size * tensor->size && total > 0) {
        memcpy(flight->out, from, total);
    }
}

static void flight_unstage(struct psd_session *session, uint32_t index)
{
    struct flight *flight = &session->flights[index];
    const struct model_tensor *tensor = &session->model.tensors[index];

    if (flight->staged == NULL) {
        return;
    }
    if (tensor->kind == PSD_KIND_GATHER) {
        gather_unpack(session, index);
    } else if ((flight->flags & FRAME_FLAG_NOBODY) == 0) {
        memcpy(flight->out, flight->staged, tensor->size);
    }
    if (flight->base != NULL) {
        memcpy(flight->base, flight->staged, tensor->size);
    }
    arena_free(session->arena, flight->staged);
    flight->staged = NULL;
}

/* ---- one exchange ------------------------------------------------------ */

/* Everything of `tensor` is answered. Under lock. */
void session_done(void *user, uint32_t tensor)
{
    struct psd_session *session = user;
    struct flight *flight = &session->flights[tensor];

    flight_unstage(session, tensor);
    flight->base = NULL;
    if ((flight->flags & FRAME_FLAG_DISAGREE) != 0) {
        session_fail(session, PSD_EDIFFER,
                     "tensor %s, step %" PRIu64
                     ": the workers pushed it with different ops or roots",
                     session->model.tensors[tensor].name, flight->step);
    }
    audit_answer(session, tensor);
    session->metrics.exchanged_bytes +=
        session->model.tensors[tensor].kind == PSD_KIND_GATHER
            ? flight->length /* of this worker; the room may be far larger */
            : session->model.tensors[tensor].size;
    if (session->trace != NULL) {
        trace_span(session->trace, TRACE_EXCHANGE, tensor, flight->step,
                   flight->traced_ns);
    }
    flight->in_flight = false;
    flight->step++;
    session->in_flight--;
    if (session->waiting > 0) {
        pthread_cond_broadcast(&session->changed);
    }
}

static psd_status check_flight(struct psd_session *session, uint32_t tensor)
{
    if (atomic_load(&session->failed) != 0) {
        return (psd_status)atomic_load(&session->failed);
    }
    if (session->flights[tensor].in_flight ||
        session->flights[tensor].ticket > session->waited) {
        return session_refuse(session,
                              "tensor %s is in flight already; wait for it "
                              "before the next push",
                              session->model.tensors[tensor].name);
    }
    return PSD_OK;
}

/* The handle of a user: 0 is none, that tensor is psd_barrier's. */
static psd_status check_tensor(struct psd_session *session, uint32_t tensor)
{
    if (atomic_load(&session->failed) == 0 &&
        (tensor == MODEL_BARRIER || tensor >= session->model.tensor_count)) {
        return session_refuse(session, "there is no tensor %" PRIu32, tensor);
    }
    return check_flight(session, tensor);
}

/* The flight's fields are set; `wake`: the caller goes on computing, so let
 * the I/O thread carry it. Under lock. */
static psd_status launch(struct psd_session *session, uint32_t tensor,
                         bool wake, psd_ticket *ticket_p)
{
    struct flight *flight = &session->flights[tensor];
    uint64_t step = flight->step;
    uint64_t began = session->trace == NULL ? 0 : trace_clock();
    psd_status status = flight_stage(session, tensor);

    if (status != PSD_OK) {
        return status;
    }
    flight->flags = 0;
    flight->contributors = 0;
    flight->bad = 0;
    flight->in_flight = true;
    flight->traced_ns = began;
    flight->ticket = ++session->tickets;
    session->open_tickets++;
    session->in_flight++;
    if (ticket_p != NULL) {
        *ticket_p = ticket_make(tensor, flight->step);
    }
    switch (session->way) {
    case SESSION_SOLO:
        solo_post(session, tensor);
        break;
    case SESSION_BOARD:
        host_post(&session->host, tensor);
        break;
    case SESSION_LINKS:
        worker_post(&session->worker, tensor);
        worker_pump(&session->worker);
        links_pushed(session, wake);
        break;
    }
    if (session->trace != NULL) {
        trace_span(session->trace, TRACE_PUSH, tensor, step, began);
    }
    return (psd_status)atomic_load(&session->failed);
}

static psd_status check_push(struct psd_session *session, uint32_t tensor,
                             const struct psd_push_args *args, unsigned *op_p)
{
    const struct model_tensor *shape;
    psd_status status = check_tensor(session, tensor);
    unsigned op = args->op;

    if (status != PSD_OK) {
        return status;
    }
    shape = &session->model.tensors[tensor];
    if (args->memory != PSD_MEMORY_HOST) {
        session_refuse(session, "tensor %s: only host memory is supported",
                       shape->name);
        return PSD_ENOSUP;
    }
    if (op == 0) {
        op = shape->dtype == PSD_INT32 || shape->dtype == PSD_INT64 ||
                     shape->kind == PSD_KIND_SHARED
                 ? PSD_OP_SUM
                 : PSD_OP_MEAN;
    }
    if (shape->kind == PSD_KIND_GATHER || op > PSD_OP_OR ||
        !reduce_op_fits(shape, op)) {
        return session_refuse(session,
                              "tensor %s: op %u does not fit its type and "
                              "kind",
                              shape->name, op);
    }
    if (!reduce_weight_fits(args->weight) ||
        (args->data == NULL &&
         (args->out == NULL || args->weight == 0.0))) {
        return session_refuse(session,
                              "tensor %s: a push needs data and a weight of "
                              "0 to 2^40; without data it is zeros, and "
                              "needs out and a weight above 0",
                              shape->name);
    }
    if (args->data == NULL && !reduce_zeros_fit(shape, op)) {
        return session_refuse(session,
                              "tensor %s: zeros without data are for mean, "
                              "sum and or",
                              shape->name);
    }
    if (args->base != NULL &&
        (shape->kind != PSD_KIND_SHARED || args->data == NULL ||
         args->weight == 0.0)) {
        return session_refuse(session,
                              "tensor %s: a base is for the data of a shared "
                              "value, and needs a weight above 0",
                              shape->name);
    }
    *op_p = op;
    return PSD_OK;
}

static psd_status push(struct psd_session *session, uint32_t tensor,
                       const struct psd_push_args *args, bool wake,
                       psd_ticket *ticket_p)
{
    unsigned op = 0;
    psd_status status = check_push(session, tensor, args, &op);
    struct flight *flight;

    if (status != PSD_OK) {
        return status;
    }
    flight = &session->flights[tensor];
    flight->data = args->data;
    flight->out = args->out != NULL ? args->out
                                    : (char *)(uintptr_t)args->data;
    flight->base = args->base;
    flight->weight = args->weight;
    flight->op = (uint8_t)op;
    flight->length = 0;
    return launch(session, tensor, wake, ticket_p);
}

/* Nothing from me. */
static psd_status push_nothing(struct psd_session *session, uint32_t tensor,
                               void *out, bool wake, psd_ticket *ticket_p)
{
    psd_status status = check_tensor(session, tensor);
    struct flight *flight;

    if (status != PSD_OK) {
        return status;
    }
    if (out == NULL ||
        session->model.tensors[tensor].kind == PSD_KIND_GATHER) {
        return session_refuse(session,
                              "tensor %s: an absent push needs out, and is "
                              "not for gather",
                              session->model.tensors[tensor].name);
    }
    flight = &session->flights[tensor];
    flight->data = NULL;
    flight->out = out;
    flight->weight = 0;
    flight->op = 0;
    flight->length = 0;
    return launch(session, tensor, wake, ticket_p);
}

psd_status psd_push(struct psd_session *session, psd_tensor tensor,
                    const struct psd_push_args *args, psd_ticket *ticket_p)
{
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = push(session, tensor.id, args, true, ticket_p);
    pthread_mutex_unlock(&session->lock);
    return status;
}

psd_status psd_push_absent(struct psd_session *session, psd_tensor tensor,
                           void *out, psd_ticket *ticket_p)
{
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = push_nothing(session, tensor.id, out, true, ticket_p);
    pthread_mutex_unlock(&session->lock);
    return status;
}

psd_status psd_gather(struct psd_session *session, psd_tensor tensor,
                      const void *data, uint64_t count, void *out,
                      uint64_t *counts, psd_ticket *ticket_p)
{
    const struct model_tensor *shape;
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = check_tensor(session, tensor.id);
    if (status == PSD_OK) {
        shape = &session->model.tensors[tensor.id];
        if (shape->kind != PSD_KIND_GATHER || count > shape->count ||
            out == NULL || counts == NULL || (data == NULL && count > 0)) {
            status = session_refuse(
                session,
                "tensor %s: a gather needs kind GATHER, out, counts and at "
                "most %" PRIu64 " elements",
                shape->name, shape->count);
        } else {
            struct flight *flight = &session->flights[tensor.id];

            flight->data = data != NULL ? data : (const char *)out;
            flight->out = out;
            flight->counts = counts;
            flight->weight = 1;
            flight->op = WIRE_OP_GATHER;
            flight->length = (uint32_t)(count * dtype_size(shape->dtype));
            status = launch(session, tensor.id, true, ticket_p);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* ---- waiting ----------------------------------------------------------- */

static bool one_ready(struct psd_session *session,
                      const struct session_wait *wait)
{
    const struct flight *flight = &session->flights[wait->tensor];

    return !flight->in_flight || (uint32_t)flight->step !=
                                     (uint32_t)wait->step;
}

static bool all_ready(struct psd_session *session,
                      const struct session_wait *wait)
{
    (void)wait;
    return session->in_flight == 0;
}

/* Under lock. */
static psd_status wait_one(struct psd_session *session, psd_ticket ticket,
                           struct psd_result *result_p)
{
    struct session_wait wait = { one_ready, ticket_tensor(ticket),
                                 (uint32_t)ticket.id };
    uint64_t began = session->trace == NULL ? 0 : trace_clock();
    struct flight *flight;
    psd_status status = (psd_status)atomic_load(&session->failed);

    if (status != PSD_OK) {
        return status;
    }
    if (wait.tensor >= session->model.tensor_count) {
        return session_refuse(session, "that is no ticket");
    }
    flight = &session->flights[wait.tensor];
    if (flight->ticket <= session->waited ||
        (uint32_t)(flight->step - !flight->in_flight) !=
            (uint32_t)wait.step) {
        return session_refuse(session,
                              "that ticket of tensor %s was waited for "
                              "already",
                              session->model.tensors[wait.tensor].name);
    }
    status = session_await(session, &wait);
    if (status != PSD_OK) {
        return status;
    }
    flight = &session->flights[wait.tensor];
    if (session->trace != NULL) {
        trace_span(session->trace, TRACE_WAIT, wait.tensor, flight->step - 1,
                   began);
    }
    flight->ticket = 0;
    session->open_tickets--;
    if (result_p != NULL) {
        *result_p = (struct psd_result){
            .step = flight->step - 1,
            .contributors = flight->contributors,
            .nobody = (flight->flags & FRAME_FLAG_NOBODY) != 0,
            .no_weight = (flight->flags & FRAME_FLAG_NOWEIGHT) != 0,
            .bad = flight->bad,
        };
    }
    return (psd_status)atomic_load(&session->failed);
}

psd_status psd_wait(struct psd_session *session, psd_ticket ticket,
                    struct psd_result *result_p)
{
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = wait_one(session, ticket, result_p);
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* Under lock. */
static psd_status wait_all(struct psd_session *session)
{
    struct session_wait wait = { all_ready, UINT32_MAX, 0 };
    uint64_t began = session->trace == NULL ? 0 : trace_clock();
    psd_status status = session_await(session, &wait);

    if (session->trace != NULL) {
        trace_span(session->trace, TRACE_WAIT_ALL, UINT32_MAX, 0, began);
    }
    if (status == PSD_OK) {
        session->waited = session->tickets;
        session->open_tickets = 0;
        status = (psd_status)atomic_load(&session->failed);
    }
    return status;
}

psd_status psd_wait_all(struct psd_session *session)
{
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = wait_all(session);
    pthread_mutex_unlock(&session->lock);
    return status;
}

psd_status psd_push_pull(struct psd_session *session, psd_tensor tensor,
                         void *data, double weight, psd_op op,
                         struct psd_result *result_p)
{
    struct psd_push_args args = { .data = data, .weight = weight, .op = op };
    psd_ticket ticket = { 0 };
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = push(session, tensor.id, &args, false, &ticket);
    if (status == PSD_OK) {
        status = wait_one(session, ticket, result_p);
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* ---- all together ------------------------------------------------------ */

/* Under lock, as the next two. */
static psd_status check_broadcast(struct psd_session *session, uint32_t tensor,
                                  const void *data, uint32_t root)
{
    psd_status status = check_tensor(session, tensor);

    if (status == PSD_OK &&
        (root >= session->size || data == NULL ||
         session->model.tensors[tensor].kind == PSD_KIND_GATHER)) {
        status = session_refuse(session,
                                "tensor %s: a broadcast needs data, a root "
                                "below %" PRIu32 ", and no kind GATHER",
                                session->model.tensors[tensor].name,
                                session->size);
    }
    return status;
}

/* This worker's part: it gives the bits, or asks for them. */
static psd_status broadcast_part(struct psd_session *session, uint32_t tensor,
                                 void *data, bool gives)
{
    struct flight *flight = &session->flights[tensor];
    struct psd_result result = { 0 };
    psd_ticket ticket = { 0 };
    psd_status status;

    if (gives) {
        flight->data = data;
        flight->out = data;
        flight->weight = 1;
        flight->op = WIRE_OP_COPY;
        flight->length = 0;
        status = launch(session, tensor, false, &ticket);
    } else {
        status = push_nothing(session, tensor, data, false, &ticket);
    }
    if (status == PSD_OK) {
        status = wait_one(session, ticket, &result);
    }
    if (status == PSD_OK && result.nobody != 0) {
        status = session_fail(session, PSD_EDIFFER,
                              "tensor %s: the workers named different roots "
                              "of a broadcast",
                              session->model.tensors[tensor].name);
    }
    return status;
}

static psd_status barrier(struct psd_session *session)
{
    int32_t nothing = 0;
    struct flight *flight;
    psd_ticket ticket;
    psd_status status = check_flight(session, MODEL_BARRIER);

    if (status == PSD_OK) {
        flight = &session->flights[MODEL_BARRIER];
        flight->data = (char *)&nothing;
        flight->out = (char *)&nothing;
        flight->weight = 1;
        flight->op = PSD_OP_SUM;
        flight->length = 0;
        status = launch(session, MODEL_BARRIER, false, &ticket);
    }
    if (status == PSD_OK) {
        status = wait_one(session, ticket, NULL);
    }
    return status;
}

psd_status psd_broadcast(struct psd_session *session, psd_tensor tensor,
                         void *data, uint32_t root)
{
    psd_status status;
    bool gives, shared;

    pthread_mutex_lock(&session->lock);
    status = check_broadcast(session, tensor.id, data, root);
    if (status == PSD_OK) {
        gives = root == session->rank;
        shared = session->model.tensors[tensor.id].kind == PSD_KIND_SHARED;
        /* Who asks for a shared value is answered at once, so it must have
         * been set by then. */
        if (gives || !shared) {
            status = broadcast_part(session, tensor.id, data, gives);
        }
        if (shared && status == PSD_OK) {
            status = barrier(session);
        }
        if (shared && !gives && status == PSD_OK) {
            status = broadcast_part(session, tensor.id, data, false);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}

psd_status psd_barrier(struct psd_session *session)
{
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = barrier(session);
    pthread_mutex_unlock(&session->lock);
    return status;
}

static bool join_ready(struct psd_session *session,
                       const struct session_wait *wait)
{
    (void)wait;
    return session->way == SESSION_BOARD ? board_joined(&session->host.board)
                                         : worker_joined(&session->worker);
}

/* Take up the steps that the others made meanwhile. */
static void board_follow(struct psd_session *session)
{
    session->host.board.generation++;
    for (uint32_t i = 0; i < session->model.tensor_count; i++) {
        struct flight *flight = &session->flights[i];
        const struct board_cell *cell = board_cell(
            &session->host.board, session->model.tensors[i].block_first);

        if (session->model.tensors[i].kind != PSD_KIND_SHARED) {
            flight->step += atomic_load(&cell->done) - (uint32_t)flight->step;
        }
    }
}

psd_status psd_join(struct psd_session *session)
{
    struct session_wait wait = { join_ready, UINT32_MAX, 0 };
    psd_status status;

    pthread_mutex_lock(&session->lock);
    status = wait_all(session);
    if (status == PSD_OK && session->way != SESSION_SOLO) {
        if (session->way == SESSION_BOARD) {
            board_join(&session->host.board);
        } else {
            worker_join(&session->worker);
        }
        session->joining = true;
        status = session_await(session, &wait);
        session->joining = false;
        if (status == PSD_OK && session->way == SESSION_BOARD) {
            board_follow(session);
        }
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}
