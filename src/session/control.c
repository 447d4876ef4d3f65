/*
 * control.c: the session's side of the talk with the master: entering, being
 * told who is there, registering, the end of the job; metrics and digests
 * once a second. Frames come on the control thread. See session.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <math.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"

/* ---- frames ------------------------------------------------------------ */

static void on_members(struct psd_session *session, const void *payload,
                       size_t size)
{
    struct message_members members;

    if (session->members_known ||
        message_members_unpack(&members, payload, size) != PSD_OK) {
        return;
    }
    session->members = members;
    session->members_known = true;
    session->entered_ns = clock_ns();
}

static void on_end(struct psd_session *session, const void *payload,
                   size_t size)
{
    struct message_end end;

    if (message_end_unpack(&end, payload, size) != PSD_OK) {
        snprintf(end.reason, sizeof(end.reason), "the job has ended");
        end.status = PSD_EABORT;
    }
    session_over(session,
                 end.status < 0 ? (psd_status)end.status : PSD_EABORT,
                 end.reason);
}

static void on_frame(void *user, const struct frame_header *header,
                     const void *payload)
{
    struct psd_session *session = user;

    if (header->type == FRAME_WHO) {
        stuck_answer(session, header, payload);
        return;
    }
    pthread_mutex_lock(&session->lock);
    switch (header->type) {
    case FRAME_MEMBERS:
        on_members(session, payload, header->size);
        break;
    case FRAME_REGISTERED:
        session->registered = header->block + 1;
        break;
    case FRAME_LEFT:
        session->left = header->block + 1;
        session->left_ns = clock_ns();
        break;
    case FRAME_END:
        on_end(session, payload, header->size);
        break;
    default:
        log_warn("session: the master sent a %s frame",
                 frame_type_name(header->type));
    }
    session_changed(session);
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

static void on_gone(void *user)
{
    struct psd_session *session = user;

    pthread_mutex_lock(&session->lock);
    session_over(session, PSD_ELOST,
                 "the agent of this host is gone; the job is over");
    pthread_cond_broadcast(&session->changed);
    pthread_mutex_unlock(&session->lock);
}

/* ---- metrics ------------------------------------------------------------ */

/* Payload over sockets: of our links and of the shard we play. */
static void count_traffic(struct psd_session *session)
{
    struct message_metrics *metrics = &session->metrics;

    if (session->loop == NULL) {
        return; /* no links, or closed by now: what was counted stays */
    }
    metrics->sent_bytes = session->worker.past_sent;
    metrics->received_bytes = session->worker.past_received;
    if (session->has_shard) {
        shard_traffic(&session->shard, &metrics->sent_bytes,
                      &metrics->received_bytes);
    }
    for (uint32_t i = 0; session->tcp && i < session->worker.shard_count;
         i++) {
        const struct psd_link *link = session->worker.shards[i].link;

        if (link != NULL && !link->mapped) {
            metrics->sent_bytes += link->sent_bytes;
            metrics->received_bytes += link->received_bytes;
        }
    }
}

/* This worker is at `step` now. Under lock. */
static void reach_step(struct psd_session *session, uint64_t step)
{
    struct message_metrics *metrics = &session->metrics;

    metrics->step = step;
    if (session->entered_ns == 0) {
        return; /* alone, or not in yet */
    }
    metrics->elapsed_ns = clock_ns() - session->entered_ns;
    /* Threads that wait at the same time count twice. */
    metrics->wait_ns = session->wait_ns < metrics->elapsed_ns
                           ? session->wait_ns
                           : metrics->elapsed_ns;
}

/* A program that tells nothing: the tensor that was exchanged most often is
 * the best clock there is. Under lock. */
static void guess_step(struct psd_session *session)
{
    uint64_t step = 0;

    for (uint32_t i = MODEL_BARRIER + 1; i < session->model.tensor_count;
         i++) {
        if (session->flights[i].step > step) {
            step = session->flights[i].step;
        }
    }
    if (step > session->metrics.step) {
        reach_step(session, step);
    }
}

/* Hand in metrics, and digests when there are any. Any thread, no lock. */
void control_flush(struct psd_session *session)
{
    struct message_digest digest;
    struct message_metrics metrics;
    struct pack pack;

    pack_init(&pack);
    pthread_mutex_lock(&session->lock);
    count_traffic(session);
    if (!session->told && atomic_load(&session->failed) == 0) {
        guess_step(session);
    }
    session->metrics.proofs = session->proof_total;
    metrics = session->metrics;
    digest.count = session->proof_count;
    digest.proofs = session->proofs;
    if (digest.count > 0) {
        message_digest_pack(&pack, &digest);
        session->proof_count = 0;
    }
    pthread_mutex_unlock(&session->lock);
    if (pack.size > 0) {
        (void)member_send(&session->member, FRAME_DIGEST, 0, &pack);
    }
    pack_fini(&pack);
    message_metrics_pack(&pack, &metrics);
    (void)member_send(&session->member, FRAME_METRICS, 0, &pack);
    pack_fini(&pack);
}

static void on_tick(void *user)
{
    struct psd_session *session = user;

    if (atomic_load(&session->failed) == 0) {
        control_flush(session);
        stuck_tick(session);
    }
}

/* ---- calls that wait for the master ------------------------------------ */

/* Sleep until everybody is there, or the session fails. Under lock. */
static psd_status await_members(struct psd_session *session)
{
    while (!session->members_known && atomic_load(&session->failed) == 0) {
        session->waiting++;
        pthread_cond_wait(&session->changed, &session->lock);
        session->waiting--;
    }
    return (psd_status)atomic_load(&session->failed);
}

static psd_status send_enter(struct psd_session *session)
{
    char url[1][MESSAGE_URL_MAX];
    struct message_enter enter = {
        .pid = (uint32_t)getpid(),
        .threads = (uint32_t)session->settings.threads,
        .block_size = (uint32_t)session->settings.block_size,
        .urls = url,
    };
    struct pack pack;
    psd_status status = PSD_OK;

    if (session->has_shard) {
        status = links_url(session, url[0]);
        enter.url_count = 1;
    }
    if (status != PSD_OK) {
        pthread_mutex_lock(&session->lock);
        session_fail(session, status,
                     "cannot listen on %s, ports %s: is it taken?",
                     session->member.welcome.host,
                     session->member.welcome.ports);
        pthread_mutex_unlock(&session->lock);
        return status;
    }
    pack_init(&pack);
    message_enter_pack(&pack, &enter);
    status = member_send(&session->member, FRAME_ENTER, 0, &pack);
    pack_fini(&pack);
    return status;
}

/* The job, if there is one; then the tensors that every model has. */
psd_status control_enter(struct psd_session *session)
{
    struct member_events events = { session, on_frame, on_gone, on_tick };
    bool solo = session->way == SESSION_SOLO;
    psd_status status;

    session->metrics.loss = NAN;
    session->proofs =
        mem_zalloc_array(SESSION_PROOFS_MAX, sizeof(*session->proofs));
    status = session->proofs == NULL ? PSD_ENOMEM : PSD_OK;
    if (status == PSD_OK && !solo) {
        status = member_start(&session->member, &events);
    }
    if (status == PSD_OK && !solo) {
        status = send_enter(session);
    }
    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&session->lock);
    status = solo ? PSD_OK : await_members(session);
    if (status == PSD_OK) {
        status = session_shape(session);
    }
    if (status == PSD_OK && session->way == SESSION_LINKS) {
        status = links_connect(session);
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}

/* Under lock. */
psd_status control_register(struct psd_session *session,
                            const struct message_table *table)
{
    uint32_t batch = session->batches++;
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    message_table_pack(&pack, table);
    pthread_mutex_unlock(&session->lock);
    status = member_send(&session->member, FRAME_REGISTER, batch, &pack);
    pthread_mutex_lock(&session->lock);
    pack_fini(&pack);
    links_unlock_io(session);
    while (status == PSD_OK && session->registered <= batch &&
           atomic_load(&session->failed) == 0) {
        session->waiting++;
        pthread_cond_wait(&session->changed, &session->lock);
        session->waiting--;
    }
    if (status != PSD_OK) {
        return session_fail(session, status,
                            "the batch of tensors could not be registered");
    }
    return (psd_status)atomic_load(&session->failed);
}

/* ---- the public ones --------------------------------------------------- */

void control_abort(struct psd_session *session, int code, const char *reason)
{
    struct message_end end = { .status = code };
    struct pack pack;

    if (!session->has_member) {
        return;
    }
    snprintf(end.reason, sizeof(end.reason), "%s", reason);
    pack_init(&pack);
    message_end_pack(&pack, &end);
    (void)member_send(&session->member, FRAME_ABORT, 0, &pack);
    pack_fini(&pack);
}

void psd_abort(struct psd_session *session, int code, const char *reason)
{
    char sentence[WIRE_TEXT_MAX];

    if (reason == NULL) {
        reason = "no reason given";
    }
    snprintf(sentence, sizeof(sentence), "this worker aborted: %.4000s",
             reason);
    control_abort(session, code < 1 || code > 255 ? 1 : code, reason);
    pthread_mutex_lock(&session->lock);
    session_over(session, PSD_EABORT, sentence);
    pthread_mutex_unlock(&session->lock);
}

psd_status psd_metrics(struct psd_session *session, uint64_t step, double loss,
                       uint64_t samples)
{
    pthread_mutex_lock(&session->lock);
    reach_step(session, step);
    session->told = true;
    session->metrics.loss = loss;
    session->metrics.samples += samples;
    pthread_mutex_unlock(&session->lock);
    return (psd_status)atomic_load(&session->failed);
}
