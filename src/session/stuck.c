/*
 * stuck.c: is a wait a long one? Looked at once a second by the control
 * thread, so that the path has nothing to count: when somebody waits and
 * nothing has moved since the last look, the master is told for what. And the
 * answer when the master asks whether this worker has done its part. See
 * wire/standing.h.
 */
#include "base/clock.h"
#include "base/log.h"
#include "session/session.h"
#include "wire/standing.h"

#define STUCK_NS CLOCK_NS_PER_S /* a wait of so long is worth telling */

/* How many joins this worker has behind it. */
static uint64_t joins(const struct psd_session *session)
{
    return session->way == SESSION_BOARD ? session->host.board.generation
                                         : session->worker.generation;
}

/* A number that changes when anything moves that this worker can see. */
static uint64_t sum_of(const struct psd_session *session)
{
    uint64_t sum = session->metrics.exchanged_bytes + session->tickets +
                   session->in_flight + joins(session);

    for (uint32_t i = 0; i < session->model.tensor_count; i++) {
        const struct flight *flight = &session->flights[i];

        sum = sum * 31 + flight->step;
        if (flight->in_flight) {
            sum += flight->blocks_left;
        }
        if (session->way == SESSION_BOARD && session->joining) {
            sum += atomic_load_explicit(
                &board_cell(&session->host.board,
                            session->model.tensors[i].block_first)
                     ->done,
                memory_order_relaxed);
        }
    }
    return sum;
}

/* The tensor that was pushed first and has no answer. */
static uint32_t oldest(const struct psd_session *session)
{
    uint32_t found = UINT32_MAX;

    for (uint32_t i = 0; i < session->model.tensor_count; i++) {
        const struct flight *flight = &session->flights[i];

        if (flight->in_flight &&
            (found == UINT32_MAX ||
             flight->ticket < session->flights[found].ticket)) {
            found = i;
        }
    }
    return found;
}

/* The shard that has not answered all of it. */
static uint32_t shard_awaited(const struct psd_session *session,
                              uint32_t tensor)
{
    const struct model_tensor *shape = &session->model.tensors[tensor];

    for (uint32_t i = 0;
         session->way == SESSION_LINKS && i < shape->block_count; i++) {
        uint32_t block = shape->block_first + i;

        if (session->worker.state[block] != WORKER_IDLE) {
            return session->model.blocks[block].shard;
        }
    }
    return STANDING_NO_SHARD;
}

/* Under lock. */
static void describe(const struct psd_session *session, uint64_t now,
                     struct message_stuck *stuck)
{
    uint64_t since = session->await_ns > session->stuck_ns
                         ? session->await_ns
                         : session->stuck_ns;

    stuck->waited_ns = now - since;
    if (session->in_flight > 0) {
        stuck->what = STANDING_TENSOR;
        stuck->tensor = oldest(session);
        stuck->step = session->flights[stuck->tensor].step;
        stuck->tensors = session->in_flight;
        stuck->shard = shard_awaited(session, stuck->tensor);
    } else if (session->joining && !session->apart) {
        /* On its own clock one that is done waits as long as others work. */
        stuck->what = STANDING_JOIN;
        stuck->step = joins(session);
    }
    if (stuck->waited_ns < STUCK_NS) {
        stuck->what = STANDING_NONE;
    }
}

void stuck_tick(struct psd_session *session)
{
    struct message_stuck stuck = { .what = STANDING_NONE,
                                   .shard = STANDING_NO_SHARD };
    uint64_t now = clock_ns();
    uint64_t sum;
    bool tell;

    pthread_mutex_lock(&session->lock);
    if (session->awaiting > 0) {
        sum = sum_of(session);
        if (sum != session->stuck_sum || session->stuck_ns == 0) {
            session->stuck_sum = sum;
            session->stuck_ns = now;
        }
        describe(session, now, &stuck);
    }
    tell = stuck.what != STANDING_NONE || session->stuck_told;
    session->stuck_told = stuck.what != STANDING_NONE;
    pthread_mutex_unlock(&session->lock);
    if (tell) {
        struct pack pack;

        pack_init(&pack);
        message_stuck_pack(&pack, &stuck);
        (void)member_send(&session->member, FRAME_STUCK, 0, &pack);
        pack_fini(&pack);
    }
}

/* Under lock. */
static enum standing_part part_of(const struct psd_session *session,
                                  const struct message_who *who)
{
    const struct flight *flight;

    switch (who->what) {
    case STANDING_TENSOR:
        if (who->tensor >= session->model.tensor_count) {
            return STANDING_MISSING;
        }
        flight = &session->flights[who->tensor];
        if (flight->step > who->step) {
            return STANDING_PAST;
        }
        return session->joining ||
                       (flight->in_flight && flight->step == who->step)
                   ? STANDING_GIVEN
                   : STANDING_MISSING;
    case STANDING_JOIN:
        if (joins(session) > who->step) {
            return STANDING_PAST;
        }
        return session->joining ? STANDING_GIVEN : STANDING_MISSING;
    default:
        return STANDING_PAST;
    }
}

void stuck_answer(struct psd_session *session,
                  const struct frame_header *header, const void *payload)
{
    struct message_standing standing;
    struct message_who who;
    struct pack pack;

    if (message_who_unpack(&who, payload, header->size) != PSD_OK) {
        return;
    }
    pthread_mutex_lock(&session->lock);
    standing.part = (uint8_t)part_of(session, &who);
    standing.waiting = session->awaiting > 0;
    pthread_mutex_unlock(&session->lock);
    pack_init(&pack);
    message_standing_pack(&pack, &standing);
    (void)member_send(&session->member, FRAME_WHO, header->block, &pack);
    pack_fini(&pack);
}
