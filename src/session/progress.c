/*
 * progress.c: waiting. Whoever waits drives: looks for work, does it, and
 * looks again. When nothing moves it spins for a while if the cores suffice
 * for every worker's threads, gives its core away otherwise, and then sleeps
 * until it is called. See session.h.
 */
#define _GNU_SOURCE
#include <inttypes.h>
#include <sched.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "session/session.h"

#define SPIN_MIN_NS 5000u   /* spun before sleeping; adapts between these */
#define SPIN_MAX_NS 200000u
#define LOOKS_PER_CHECK 64
#define YIELD_MAX 24        /* looks before sleeping where cores are short */
#define SLEEP_NS (100 * CLOCK_NS_PER_MS)
#define SLEEP_MS 100
#define SLEEP_ON_ANYTHING UINT32_MAX

/* Threads that one worker computes with, as the launcher set them. */
static unsigned worker_threads(void)
{
    const char *text = getenv("OMP_NUM_THREADS");
    unsigned long threads = text == NULL ? 1 : strtoul(text, NULL, 10);

    return threads == 0 || threads > 4096 ? 1 : (unsigned)threads;
}

void idle_init(struct psd_session *session)
{
    session->idle.spin_ns = SPIN_MAX_NS;
    session->idle.spin = (uint64_t)session->local_size * worker_threads() <=
                         cpu_allowed();
}

void session_changed(struct psd_session *session)
{
    if (session->waiting > 0) {
        pthread_cond_broadcast(&session->changed);
    }
    if (session->loop != NULL) {
        loop_wake(session->loop);
    }
    if (session->shm.head != NULL) {
        shm_bell_ring(shm_bell(&session->shm, session->rank));
    }
}

/* ---- driving ----------------------------------------------------------- */

static unsigned drive(struct psd_session *session, bool urgent)
{
    struct loop_events events;
    unsigned moved;

    if (session->way == SESSION_BOARD) {
        mem_path_enter();
        moved = host_progress(&session->host, urgent);
        mem_path_leave();
        return moved;
    }
    if (!session->tcp) {
        return loop_dispatch(session->loop, NULL);
    }
    loop_wait(session->loop, &events, 0);
    return loop_dispatch(session->loop, &events);
}

/* Sleep on this rank's bell until the block that is waited for is done, or
 * anything else happens to us. Under lock; gives it up meanwhile. */
static void sleep_on_bell(struct psd_session *session,
                          const struct session_wait *wait)
{
    struct shm_bell *bell = shm_bell(&session->shm, session->rank);
    uint32_t rings = atomic_load(&bell->rings);
    uint32_t what = SLEEP_ON_ANYTHING;

    if (session->way == SESSION_BOARD) {
        uint32_t block = host_pending(&session->host, wait->tensor);

        what = block == UINT32_MAX ? SLEEP_ON_ANYTHING : block + 1;
        if (session->waiting > 0) {
            what = BOARD_ANY_BLOCK; /* theirs may be another one */
        }
    }
    atomic_store(&bell->sleeping, what);
    atomic_thread_fence(memory_order_seq_cst);
    if (drive(session, true) == 0 && !wait->ready(session, wait) &&
        atomic_load(&session->failed) == 0) {
        pthread_mutex_unlock(&session->lock);
        futex_wait(&bell->rings, rings, SLEEP_NS);
        pthread_mutex_lock(&session->lock);
    }
    atomic_store(&bell->sleeping, 0);
}

static void sleep_on_sockets(struct psd_session *session)
{
    struct loop_events events;

    pthread_mutex_unlock(&session->lock);
    loop_wait(session->loop, &events, SLEEP_MS);
    pthread_mutex_lock(&session->lock);
    loop_dispatch(session->loop, &events);
}

/* It was worth spinning if what came after it was short: the sleep, or, over
 * sockets, all the sleep of a wait. */
static void adapt(struct session_idle *how, uint64_t slept_ns)
{
    if (slept_ns < SPIN_MAX_NS) {
        how->spin_ns = how->spin_ns * 2 < SPIN_MAX_NS ? how->spin_ns * 2
                                                      : SPIN_MAX_NS;
    } else {
        how->spin_ns = how->spin_ns / 2 > SPIN_MIN_NS ? how->spin_ns / 2
                                                      : SPIN_MIN_NS;
    }
}

/* Nothing moved since `quiet_ns`, `looks` times in a row. True: it slept. */
static bool idle(struct psd_session *session, const struct session_wait *wait,
                 uint64_t quiet_ns, uint32_t looks)
{
    struct session_idle *how = &session->idle;
    uint64_t now = clock_ns();

    if (how->spin ? now - quiet_ns < how->spin_ns - how->spun_ns
                  : looks < YIELD_MAX) {
        pthread_mutex_unlock(&session->lock);
        if (how->spin) {
            cpu_pause();
        } else {
            sched_yield();
        }
        pthread_mutex_lock(&session->lock);
        return false;
    }
    if (session->tcp) {
        sleep_on_sockets(session);
        how->spun_ns = how->spin_ns;
        how->slept_ns += clock_ns() - now;
    } else {
        sleep_on_bell(session, wait);
        adapt(how, clock_ns() - now);
    }
    return true;
}

/* Something moved after `quiet_ns`. In shared memory each pause is a wait of
 * its own. Over sockets bytes keep trickling in at the rate of the line, each
 * a little after the last, so all pauses of a wait share one time to spin. */
static void stir(struct psd_session *session, uint64_t quiet_ns)
{
    struct session_idle *how = &session->idle;
    uint64_t spun = how->spun_ns + clock_ns() - quiet_ns;

    if (session->tcp) {
        how->spun_ns = spun < how->spin_ns ? spun : how->spin_ns;
    }
}

/* ---- waiting ----------------------------------------------------------- */

/* The sentence for a wait that a leaver made hopeless. */
static psd_status left_behind(struct psd_session *session,
                              const struct session_wait *wait)
{
    return session_fail(
        session, PSD_ELOST,
        "worker %" PRIu32 " has closed its session; %s%s waits for it",
        session->left - 1, wait->tensor == UINT32_MAX ? "" : "tensor ",
        wait->tensor == UINT32_MAX
            ? "this worker"
            : session->model.tensors[wait->tensor].name);
}

static psd_status await_check(struct psd_session *session,
                              const struct session_wait *wait)
{
    if (atomic_load(&session->failed) == 0 && session->shm.head != NULL &&
        atomic_load(&session->shm.head->failed) != 0) {
        return session_fail(session, PSD_EPROTO,
                            "the shared memory of this job is damaged");
    }
    if (atomic_load(&session->failed) == 0 && session->left != 0 &&
        clock_ns() - session->left_ns > SESSION_LEFT_GRACE_NS) {
        return left_behind(session, wait);
    }
    return (psd_status)atomic_load(&session->failed);
}

static psd_status drive_until(struct psd_session *session,
                              const struct session_wait *wait)
{
    psd_status status = PSD_OK;
    uint64_t quiet_ns = 0;
    uint32_t looks = 0;

    session->driving = true;
    session->idle.spun_ns = 0;
    session->idle.slept_ns = 0;
    atomic_store(&session->io_go, 0);
    while (!wait->ready(session, wait)) {
        if (drive(session, looks > YIELD_MAX / 2) > 0) {
            if (looks > 0) {
                stir(session, quiet_ns);
            }
            looks = 0;
            continue;
        }
        if (looks == 0) {
            quiet_ns = clock_ns();
        }
        if (idle(session, wait, quiet_ns, looks++) ||
            looks % LOOKS_PER_CHECK == 0) {
            status = await_check(session, wait);
            if (status != PSD_OK) {
                break;
            }
        }
    }
    if (session->idle.slept_ns > 0) {
        adapt(&session->idle, session->idle.slept_ns);
    }
    session->driving = false;
    links_unlock_io(session);
    if (session->waiting > 0) {
        pthread_cond_broadcast(&session->changed);
    }
    return status;
}

/* Sleep while another thread drives. On the board it may sleep until its own
 * block is done; woken, it sees that there are others. */
static void await_driver(struct psd_session *session)
{
    session->waiting++;
    if (session->way == SESSION_BOARD) {
        shm_bell_ring(shm_bell(&session->shm, session->rank));
    }
    pthread_cond_wait(&session->changed, &session->lock);
    session->waiting--;
}

psd_status session_await(struct psd_session *session,
                         const struct session_wait *wait)
{
    uint64_t started = clock_ns();
    psd_status status = PSD_OK;

    if (session->awaiting++ == 0) {
        session->await_ns = started;
    }
    while (!wait->ready(session, wait)) {
        status = (psd_status)atomic_load(&session->failed);
        if (status != PSD_OK) {
            break;
        }
        if (!session->driving) {
            status = drive_until(session, wait);
            break;
        }
        await_driver(session);
    }
    session->awaiting--;
    session->wait_ns += clock_ns() - started;
    return status;
}
