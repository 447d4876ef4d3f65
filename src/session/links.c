/*
 * links.c: the way LINKS: which shards there are, how they are reached, what
 * happens when a link is lost, and the thread that drives tcp links while no
 * caller waits. See session.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"

#define LINKS_OPEN_NS (10 * CLOCK_NS_PER_S)
#define LINKS_FLUSH_NS (5 * CLOCK_NS_PER_S)
#define LINKS_WAIT_MS 100
#define LINKS_BUSY_MS 1           /* while something is in flight */
#define LINKS_REST_NS (2 * CLOCK_NS_PER_MS) /* between hosts, see may_rest */
#define LINKS_TOGETHER_NS 20000u  /* pushes this close share a system call */

/* ---- one link ---------------------------------------------------------- */

static void retry_later(struct psd_session *session);

static psd_status open_one(struct psd_session *session, uint32_t shard)
{
    struct auth_identity identity = { session->rank, session->incarnation,
                                      shard };
    struct psd_link *link = NULL;
    psd_status status;

    if (!session->tcp) {
        struct psd_region mine = { (uint16_t)(session->local_rank + 1),
                                   session->arena->base, session->arena->size };

        status = shm_link_open(session->loop, &session->shm, session->rank,
                               shard, false, &worker_link_events,
                               &session->worker, &link);
        if (status == PSD_OK) {
            status = link_map(link, &mine);
        }
    } else {
        const char *url = session->has_shard && shard == session->rank
                              ? "inproc:self"
                              : session->members.urls[shard];

        status = link_open(session->loop, url, &session->member.welcome.job,
                           &identity, &worker_link_events, &session->worker,
                           &link);
    }
    if (status != PSD_OK) {
        return status;
    }
    link->crc = session->settings.checksum;
    worker_link(&session->worker, shard, link);
    if (!session->tcp) {
        worker_link_up(&session->worker, link);
    }
    return PSD_OK;
}

static void on_retry(struct loop_timer *timer)
{
    struct psd_session *session =
        list_entry(timer, struct psd_session, retry);

    session->retry_armed = false;
    for (uint32_t i = 0; i < session->worker.shard_count; i++) {
        if (session->worker.shards[i].link == NULL &&
            !(session->has_shard && session->left == i + 1) &&
            open_one(session, i) != PSD_OK) {
            retry_later(session);
        }
    }
}

static void retry_later(struct psd_session *session)
{
    if (!session->retry_armed && !atomic_load(&session->stopping)) {
        session->retry_armed = true;
        loop_timer_start(session->loop, &session->retry, SESSION_RETRY_NS,
                         on_retry);
    }
}

/* A lost link with both ends alive is opened again; the worker has put what
 * was in flight back into its queue. */
static void on_lost(void *user, uint32_t shard, psd_status why)
{
    struct psd_session *session = user;

    if (why == PSD_EAUTH || why == PSD_EPROTO) {
        session_fail(session, why, "link to shard %" PRIu32 ": %s", shard,
                     psd_status_text(why));
        return;
    }
    log_info("session: link to shard %" PRIu32 " is down (%s)", shard,
             psd_status_text(why));
    retry_later(session);
}

/* ---- opening ----------------------------------------------------------- */

static enum auth_verdict on_accept(void *user, struct psd_link *link)
{
    struct psd_session *session = user;

    link->crc = session->settings.checksum;
    return shard_accept(&session->shard, link);
}

static const struct listen_events accept_events = { .accept = on_accept };

static void on_wrong(void *user, uint32_t rank)
{
    struct psd_session *session = user;

    session_fail(session, PSD_EPROTO, "link of worker %" PRIu32 ": %s", rank,
                 psd_status_text(PSD_EPROTO));
}

/* The shard that this worker plays: one listener for the others, one link
 * inside the process for ourselves. */
static psd_status open_shard(struct psd_session *session)
{
    psd_status status;

    status = shard_init(&session->shard, &session->model, session->rank,
                        session->size);
    if (status == PSD_OK) {
        session->shard.wrong = on_wrong;
        session->shard.user = session;
        status = inproc_hub_create(session->loop, NULL, &session->hub);
    }
    if (status == PSD_OK) {
        status = inproc_listen(session->hub, "self", &accept_events, session);
    }
    return status;
}

psd_status links_shape(struct psd_session *session)
{
    psd_status status =
        worker_init(&session->worker, &session->model, session->rank,
                    session->size, session->model.shards);

    if (status != PSD_OK) {
        return status;
    }
    session->worker.user = session;
    session->worker.done = session_done;
    session->worker.lost = on_lost;
    session->worker.incarnation = session->incarnation;
    session->worker.paced = session->local_size != session->size;
    return session->has_shard ? open_shard(session) : PSD_OK;
}

psd_status links_url(struct psd_session *session, char url[MESSAGE_URL_MAX])
{
    return member_listen(&session->member, session->loop, &accept_events,
                         session, &session->listener, url);
}

static void *io_main(void *argument);
static bool links_busy(const struct psd_session *session);

static bool all_up(const struct psd_session *session)
{
    for (uint32_t i = 0; i < session->worker.shard_count; i++) {
        if (!session->worker.shards[i].up) {
            return false;
        }
    }
    return true;
}

/* Under lock, before any other thread drives. */
psd_status links_connect(struct psd_session *session)
{
    uint64_t due = clock_ns() + LINKS_OPEN_NS;

    session->worker.epoch = session->members.epoch;
    session->shard.epoch = session->members.epoch;
    for (uint32_t i = 0; i < session->worker.shard_count; i++) {
        psd_status status = open_one(session, i);

        if (status != PSD_OK) {
            return session_fail(session, status, "cannot reach shard %" PRIu32
                                " at %s", i, session->members.urls[i]);
        }
    }
    while (!all_up(session)) {
        struct loop_events events;

        if (atomic_load(&session->failed) != 0) {
            return (psd_status)atomic_load(&session->failed);
        }
        if (clock_ns() > due) {
            return session_fail(session, PSD_ETIME,
                                "not every shard could be reached in 10 s");
        }
        pthread_mutex_unlock(&session->lock);
        loop_wait(session->loop, &events, LINKS_WAIT_MS);
        pthread_mutex_lock(&session->lock);
        loop_dispatch(session->loop, &events);
    }
    if (session->tcp) {
        if (pthread_create(&session->io_thread, NULL, io_main, session) !=
            0) {
            return session_fail(session, PSD_ESYSTEM,
                                "cannot start the I/O thread");
        }
        session->io_started = true;
        links_unlock_io(session); /* others may still want to connect */
    }
    return PSD_OK;
}

/* ---- the I/O thread ---------------------------------------------------- */

/* Between hosts a little delay costs less than a system call for each small
 * thing, unless workers have clocks of their own: then one may wait for this
 * one alone. */
static bool may_gather(const struct psd_session *session)
{
    return session->worker.paced && !session->apart;
}

/* While the program computes, what comes from other hosts may lie for a little:
 * one look at many packets takes less of the program's time than a look at
 * each. No round is complete before this worker has pushed, and once it waits
 * it drives the loop itself; who pushes and then computes for long may hold
 * the others up by that little. Not while something waits to be sent, for the
 * line would fall idle. Under lock. */
static bool may_rest(const struct psd_session *session)
{
    return may_gather(session) && !session->driving && !session->io_quiet &&
           loop_writers(session->loop) == 0;
}

/* Ends with a failure: the callers, told of it, have their memory back. */
static void *io_main(void *argument)
{
    static const struct timespec rest = { .tv_nsec = LINKS_REST_NS };
    struct psd_session *session = argument;
    bool rests = false;
    int wait_ms = LINKS_BUSY_MS;

    while (!atomic_load(&session->stopping) &&
           atomic_load(&session->failed) == 0) {
        struct loop_events events;

        if (atomic_load(&session->io_go) == 0) {
            futex_wait(&session->io_go, 0, CLOCK_NS_PER_S);
            continue;
        }
        if (rests) {
            nanosleep(&rest, NULL);
        }
        loop_wait(session->loop, &events, wait_ms);
        pthread_mutex_lock(&session->lock);
        if (!session->driving && atomic_load(&session->failed) == 0) {
            loop_dispatch(session->loop, &events);
        }
        session->io_quiet = !links_busy(session);
        wait_ms = session->io_quiet ? LINKS_WAIT_MS : LINKS_BUSY_MS;
        rests = may_rest(session);
        pthread_mutex_unlock(&session->lock);
    }
    return NULL;
}

/* Is there anything that must move while no caller waits? Under lock. */
static bool links_busy(const struct psd_session *session)
{
    return session->in_flight > 0 || session->retry_armed ||
           (session->has_shard && (shard_busy(&session->shard) ||
                                   !shard_complete(&session->shard)));
}

/* Workers with clocks of their own come to the shard at any time. */
void links_unlock_io(struct psd_session *session)
{
    bool on_call = session->has_shard && session->apart;

    if (session->io_started && atomic_load(&session->io_go) == 0 &&
        (on_call || links_busy(session))) {
        atomic_store(&session->io_go, 1);
        futex_wake(&session->io_go, 1);
    }
}

/* Pushes that follow each other closely go together, between hosts all that
 * are small (LINK_FLUSH); a lone one goes at once, and so does every one while
 * another thread waits, which may sleep. What is held back goes with the next
 * push, the next wait, or by the I/O thread when it looks next, within
 * LINKS_BUSY_MS or LINKS_REST_NS; where that sleeps it is woken. */
void links_pushed(struct psd_session *session, bool wake)
{
    uint64_t now = clock_ns();

    if (!wake || session->driving ||
        (!may_gather(session) &&
         now - session->pushed_ns > LINKS_TOGETHER_NS)) {
        worker_flush(&session->worker);
    }
    session->pushed_ns = now;
    if (wake && !session->driving) {
        links_unlock_io(session);
        if (session->io_quiet) {
            session->io_quiet = false; /* it has to look often again */
            loop_wake(session->loop);
        }
    }
}

/* ---- closing ----------------------------------------------------------- */

/* The others may still wait for answers of the shard that we play. */
static void flush(struct psd_session *session)
{
    uint64_t due = clock_ns() + LINKS_FLUSH_NS;

    while (session->has_shard && atomic_load(&session->failed) == 0 &&
           shard_busy(&session->shard) && clock_ns() < due) {
        struct loop_events events;

        loop_wait(session->loop, &events, 1);
        loop_dispatch(session->loop, &events);
    }
}

void links_close(struct psd_session *session)
{
    atomic_store(&session->stopping, true);
    if (session->io_started) {
        atomic_store(&session->io_go, 1);
        futex_wake(&session->io_go, 1);
        loop_wake(session->loop);
        pthread_join(session->io_thread, NULL);
    }
    if (session->loop == NULL) {
        return;
    }
    pthread_mutex_lock(&session->lock);
    flush(session);
    loop_timer_stop(&session->retry);
    worker_fini(&session->worker);
    if (session->has_shard) {
        shard_fini(&session->shard);
    }
    listener_close(session->listener);
    if (session->hub != NULL) {
        inproc_hub_destroy(session->hub);
    }
    loop_destroy(session->loop);
    session->loop = NULL;
    pthread_mutex_unlock(&session->lock);
}
