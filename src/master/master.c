/*
 * master.c: see master.h. Every frame is handled by one row of `handlers`;
 * every way for the job to end goes through master_end, once.
 */
#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "master/master_state.h"

#define DIFFER_HEAD "the workers registered different models:\n"

/* ---- sending ------------------------------------------------------------ */

void master_send(struct master *master, const struct master_member *to,
                 unsigned type, uint32_t block, const void *payload,
                 size_t size)
{
    struct frame_header header = {
        .size = (uint32_t)size,
        .type = (uint8_t)type,
        .flags = to != NULL && to->is_server ? FRAME_FLAG_SERVER : 0,
        .epoch = master->epoch,
        .block = block,
        .rank = (uint16_t)(to != NULL ? to->rank : WIRE_RANK_NONE),
        .length = (uint32_t)size,
    };

    master->events.send(master->events.user, &header, payload);
}

void master_send_pack(struct master *master, const struct master_member *to,
                      unsigned type, uint32_t block, const struct pack *pack)
{
    if (!pack->failed) {
        master_send(master, to, type, block, pack->data, pack->size);
    }
}

void master_send_end(struct master *master, const struct master_member *to,
                     const struct message_end *end)
{
    struct pack pack;

    pack_init(&pack);
    message_end_pack(&pack, end);
    master_send_pack(master, to, FRAME_END, 0, &pack);
    pack_fini(&pack);
}

static uint8_t seat_state(const struct master_seat *seat)
{
    if (seat->lost) {
        return LAUNCH_CELL_LOST;
    }
    if (seat->left) {
        return LAUNCH_CELL_DONE;
    }
    return seat->entered ? LAUNCH_CELL_IN : LAUNCH_CELL_WAITING;
}

static void send_view(struct master *master, bool final)
{
    uint64_t now_ns = clock_ns();
    struct launch_view out;
    struct pack pack;

    for (uint32_t i = 0; i < master->workers; i++) {
        view_state(&master->view, i, seat_state(&master->seats[i]));
    }
    view_compose(&master->view, &out);
    if (view_cells_due(&master->view, now_ns) || final) {
        view_cells(&master->view, now_ns, &out);
    }
    out.final = final;
    out.compared = master->compared;
    out.differences = master->differences;
    pack_init(&pack);
    launch_view_pack(&pack, &out);
    master_send_pack(master, NULL, FRAME_VIEW, 0, &pack);
    pack_fini(&pack);
}

/* ---- the end ------------------------------------------------------------ */

void master_end(struct master *master, psd_status status, int code,
                const struct master_member *culprit, const char *reason)
{
    struct launch_verdict verdict = { .status = status, .code = code };
    struct pack pack;

    if (master->over) {
        return;
    }
    master->over = true;
    master->end.status = status;
    snprintf(master->end.reason, sizeof(master->end.reason), "%s", reason);
    snprintf(verdict.reason, sizeof(verdict.reason), "%s", reason);
    if (culprit != NULL) {
        verdict.has_culprit = 1;
        verdict.is_server = culprit->is_server;
        verdict.rank = culprit->rank;
    }
    pack_init(&pack);
    launch_verdict_pack(&pack, &verdict);
    master_send_pack(master, NULL, FRAME_VERDICT, 0, &pack);
    pack_fini(&pack);
    for (uint32_t i = 0; i < master_member_count(master); i++) {
        struct master_member member = master_member(master, i);

        if (!member.seat->left && !member.seat->lost) {
            master_send_end(master, &member, &master->end);
        }
    }
}

void master_end_protocol(struct master *master,
                         const struct master_member *culprit, const char *what)
{
    char reason[256];

    snprintf(reason, sizeof(reason), "%s %" PRIu32 " sent %s", culprit->role,
             culprit->rank, what);
    master_end(master, PSD_EPROTO, MASTER_EXIT_PROTOCOL, culprit, reason);
}

void master_lost(struct master *master, bool is_server, uint32_t rank,
                 const char *sentence)
{
    uint32_t index = is_server ? master->workers + rank : rank;
    struct master_member member;

    if (rank >= (is_server ? master->servers : master->workers)) {
        log_error("master: lost member %" PRIu32 " is none", rank);
        return;
    }
    member = master_member(master, index);
    member.seat->lost = true;
    master_end(master, PSD_ELOST, 0, &member, sentence);
}

/* ---- registration ------------------------------------------------------- */

static void send_registered(struct master *master)
{
    uint32_t number = batch_first(&master->batch)->number;

    batch_clear(&master->batch);
    for (uint32_t i = 0; i < master->workers; i++) {
        struct master_member member = master_member(master, i);

        master_send(master, &member, FRAME_REGISTERED, number, NULL, 0);
    }
}

static void send_table(struct master *master)
{
    const struct batch_side *first = batch_first(&master->batch);

    master->placing = master->servers;
    for (uint32_t i = 0; i < master->servers; i++) {
        struct master_member member =
            master_member(master, master->workers + i);

        member.seat->placed = false;
        master_send(master, &member, FRAME_TABLE, first->number, first->payload,
                    first->size);
    }
}

/* Ids in digests are those of the model; all workers count the same way. */
static psd_status learn_names(struct master *master)
{
    const struct batch_side *first = batch_first(&master->batch);
    struct message_table table;
    psd_status status;

    status = message_table_unpack(&table, first->payload, first->size);
    if (status == PSD_OK) {
        status = model_add(&master->model, &table);
        message_table_fini(&table);
    }
    return status;
}

static void settle_batch(struct master *master)
{
    char reason[WIRE_TEXT_MAX] = DIFFER_HEAD;
    size_t head = strlen(DIFFER_HEAD);
    psd_status status;

    status =
        batch_compare(&master->batch, reason + head, sizeof(reason) - head);
    if (status == PSD_EDIFFER) {
        master_end(master, status, MASTER_EXIT_DIFFER, NULL, reason);
        return;
    }
    if (status != PSD_OK) {
        master_end(master, status, MASTER_EXIT_PROTOCOL, NULL, reason + head);
        return;
    }
    status = learn_names(master);
    if (status != PSD_OK) {
        master_end(master, status, MASTER_EXIT_PROTOCOL, NULL,
                   "the workers registered something that is no table of "
                   "tensors");
    } else if (master->servers > 0) {
        send_table(master);
    } else {
        send_registered(master);
    }
}

void master_check_leavers(struct master *master)
{
    char reason[256];

    if (master->batch.count == 0) {
        return;
    }
    for (uint32_t i = 0; i < master->workers; i++) {
        struct master_member member = master_member(master, i);

        if (member.seat->left) {
            snprintf(reason, sizeof(reason),
                     "worker %" PRIu32 " has closed its session while worker "
                     "%" PRIu32 " registers tensors",
                     i, master->batch.first);
            master_end(master, PSD_ELOST, MASTER_EXIT_UNAVAILABLE, &member,
                       reason);
            return;
        }
    }
}

static void take_register(struct master *master,
                          const struct master_member *from,
                          const struct frame_header *header,
                          const void *payload)
{
    psd_status status = PSD_EPROTO;

    if (!from->is_server && master->epoch != 0 && master->placing == 0) {
        status = batch_take(&master->batch, from->rank, header->block, payload,
                            header->size);
    }
    if (status == PSD_ENOMEM) {
        master_end(master, status, MASTER_EXIT_UNAVAILABLE, NULL,
                   "the master is out of memory");
    } else if (status != PSD_OK) {
        master_end_protocol(master, from, "a registration out of turn");
    } else if (master->batch.count == master->workers) {
        settle_batch(master);
    } else {
        master_check_leavers(master);
    }
}

static void take_table_ok(struct master *master,
                          const struct master_member *from,
                          const struct frame_header *header,
                          const void *payload)
{
    (void)payload;
    if (!from->is_server || master->placing == 0 || from->seat->placed ||
        header->block != batch_first(&master->batch)->number) {
        master_end_protocol(master, from, "a table-ok out of turn");
        return;
    }
    from->seat->placed = true;
    if (--master->placing == 0) {
        send_registered(master);
    }
}

/* ---- digests ------------------------------------------------------------ */

static void end_differ(struct master *master, const struct master_member *from,
                       const struct message_proof *proof,
                       const struct proof_known *known)
{
    char reason[WIRE_TEXT_MAX];
    char name[WIRE_NAME_MAX + 16];
    char others[48] = "";

    if (proof->tensor < master->model.tensor_count) {
        snprintf(name, sizeof(name), "\"%s\"",
                 master->model.tensors[proof->tensor].name);
    } else {
        snprintf(name, sizeof(name), "number %" PRIu32, proof->tensor);
    }
    if (known->holders > 1) {
        snprintf(others, sizeof(others), " and %" PRIu32 " more",
                 known->holders - 1);
    }
    snprintf(reason, sizeof(reason),
             "replicas differ: %s %s at step %" PRIu64 ": worker %" PRIu32
             "%s has crc %08" PRIx32 ", worker %" PRIu32 " has crc %08" PRIx32,
             proof->kind == 0 ? "the answer for tensor" : "parameter", name,
             proof->step, known->first_rank, others, known->crc, from->rank,
             proof->crc);
    master->differences++;
    master_end(master, PSD_EDIFFER, MASTER_EXIT_DIFFER, NULL, reason);
}

static void take_digest(struct master *master, const struct master_member *from,
                        const struct frame_header *header, const void *payload)
{
    struct message_digest digest;

    if (from->is_server ||
        message_digest_unpack(&digest, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "a digest that cannot be read");
        return;
    }
    for (uint32_t i = 0; i < digest.count && !master->over; i++) {
        struct proof_known known;

        switch (
            proof_note(master->proofs, &digest.proofs[i], from->rank, &known)) {
        case PROOF_FIRST:
            break;
        case PROOF_EQUAL:
            master->compared++;
            break;
        case PROOF_DIFFER:
            end_differ(master, from, &digest.proofs[i], &known);
            break;
        }
    }
    message_digest_fini(&digest);
}

/* ---- progress and leaving ----------------------------------------------- */

static void take_metrics(struct master *master,
                         const struct master_member *from,
                         const struct frame_header *header, const void *payload)
{
    struct message_metrics metrics;
    uint64_t now_ns = clock_ns();

    if (from->is_server ||
        message_metrics_unpack(&metrics, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "metrics that cannot be read");
        return;
    }
    view_note(&master->view, from->rank, &metrics, now_ns);
    stall_step(&master->stall, from->rank, metrics.step, now_ns);
    if (view_due(&master->view, now_ns)) {
        send_view(master, false);
    }
}

static void take_abort(struct master *master, const struct master_member *from,
                       const struct frame_header *header, const void *payload)
{
    struct message_end abort;
    char reason[WIRE_TEXT_MAX];
    int code;

    if (message_end_unpack(&abort, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "an abort that cannot be read");
        return;
    }
    code = abort.status >= 1 && abort.status <= 255 ? abort.status : 1;
    /* The prefix counts too: what does not fit is cut. */
    snprintf(reason, sizeof(reason), "%s %" PRIu32 " aborted: %.*s", from->role,
             from->rank, WIRE_TEXT_MAX - 64, abort.reason);
    master_end(master, PSD_EABORT, code, from, reason);
}

/* ---- dispatch ----------------------------------------------------------- */

struct handler {
    void (*call)(struct master *master, const struct master_member *from,
                 const struct frame_header *header, const void *payload);
    bool late; /* also once the job is over */
};

static const struct handler handlers[] = {
    [FRAME_ENTER] = { .call = roll_enter },
    [FRAME_REGISTER] = { .call = take_register },
    [FRAME_TABLE_OK] = { .call = take_table_ok },
    [FRAME_DIGEST] = { .call = take_digest },
    [FRAME_METRICS] = { .call = take_metrics, .late = true },
    [FRAME_ABORT] = { .call = take_abort },
    [FRAME_BYE] = { .call = roll_bye, .late = true },
    [FRAME_STUCK] = { .call = stall_stuck, .late = true },
    [FRAME_WHO] = { .call = stall_who, .late = true },
    [FRAME_SHARDS] = { .call = roll_shards },
};

static psd_status deliver_lost(struct master *master,
                               const struct frame_header *header,
                               const void *payload)
{
    struct launch_lost lost;
    psd_status status;

    status = launch_lost_unpack(&lost, payload, header->size);
    if (status == PSD_OK) {
        master_lost(master, (header->flags & FRAME_FLAG_SERVER) != 0,
                    header->rank, lost.reason);
    }
    return status;
}

psd_status master_deliver(struct master *master,
                          const struct frame_header *header,
                          const void *payload)
{
    bool is_server = (header->flags & FRAME_FLAG_SERVER) != 0;
    const struct handler *handler;
    struct master_member from;

    if (header->type == FRAME_LOST) {
        return deliver_lost(master, header, payload);
    }
    if (header->type == FRAME_STOP) {
        stall_last(master);
        send_view(master, true);
        return PSD_OK;
    }
    if (header->rank >= (is_server ? master->servers : master->workers) ||
        header->type >= sizeof(handlers) / sizeof(handlers[0]) ||
        handlers[header->type].call == NULL) {
        log_error("master: no use for a %s frame of %s %u",
                  frame_type_name(header->type),
                  is_server ? "server" : "worker", (unsigned)header->rank);
        return PSD_EPROTO;
    }
    handler = &handlers[header->type];
    from = master_member(master, is_server ? master->workers + header->rank
                                           : header->rank);
    stall_heard(&master->stall, (uint32_t)(from.seat - master->seats),
                clock_ns());
    if (!from.seat->entered && header->type != FRAME_ENTER &&
        header->type != FRAME_ABORT && !master->over) {
        master_end_protocol(master, &from, "a frame before it entered");
        return PSD_OK;
    }
    if (master->over && !handler->late) {
        master_send_end(master, &from, &master->end);
        return PSD_OK;
    }
    handler->call(master, &from, header, payload);
    return PSD_OK;
}

/* ---- life --------------------------------------------------------------- */

static bool is_job(const struct master_size *size)
{
    return size->workers > 0 && size->workers <= WIRE_RANKS_MAX &&
           size->servers <= WIRE_SHARDS_MAX && size->threads > 0 &&
           size->threads <= size->threads_max &&
           size->threads_max <= WIRE_SHARDS_MAX &&
           size->servers * size->threads_max <= WIRE_SHARDS_MAX;
}

psd_status master_create(const struct master_size *size,
                         const struct master_events *events,
                         struct master **master_p)
{
    uint32_t workers = size->workers;
    uint32_t servers = size->servers;
    struct master *master;
    psd_status status;

    if (!is_job(size)) {
        log_error("master: %" PRIu32 " workers, %" PRIu32 " servers of %" PRIu32
                  " to %" PRIu32 " threads are no job",
                  workers, servers, size->threads, size->threads_max);
        return PSD_EINVAL;
    }
    master = mem_zalloc(sizeof(*master));
    if (master == NULL) {
        return PSD_ENOMEM;
    }
    master->workers = workers;
    master->servers = servers;
    master->threads = size->threads;
    master->threads_max = size->threads_max;
    master->events = *events;
    status = PSD_ENOMEM;
    master->seats =
        mem_zalloc_array(master_member_count(master), sizeof(*master->seats));
    if (master->seats == NULL) {
        goto undo_master;
    }
    status = batch_init(&master->batch, workers);
    if (status != PSD_OK) {
        goto undo_seats;
    }
    status = model_init(&master->model, 1, WIRE_DATA_MAX);
    if (status != PSD_OK) {
        goto undo_batch;
    }
    status = model_add_builtin(&master->model);
    if (status != PSD_OK) {
        goto undo_model;
    }
    status = proof_table_create(workers, &master->proofs);
    if (status != PSD_OK) {
        goto undo_model;
    }
    status = view_init(&master->view, workers);
    if (status != PSD_OK) {
        goto undo_proofs;
    }
    status = stall_init(&master->stall, workers, servers);
    if (status != PSD_OK) {
        goto undo_view;
    }
    *master_p = master;
    return PSD_OK;

undo_view:
    view_fini(&master->view);
undo_proofs:
    proof_table_destroy(master->proofs);
undo_model:
    model_fini(&master->model);
undo_batch:
    batch_fini(&master->batch);
undo_seats:
    mem_free(master->seats);
undo_master:
    mem_free(master);
    return status;
}

void master_destroy(struct master *master)
{
    if (master == NULL) {
        return;
    }
    stall_fini(&master->stall);
    view_fini(&master->view);
    proof_table_destroy(master->proofs);
    model_fini(&master->model);
    batch_fini(&master->batch);
    for (uint32_t i = 0; i < master_member_count(master); i++) {
        mem_free(master->seats[i].urls);
    }
    mem_free(master->seats);
    mem_free(master);
}
