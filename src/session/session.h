/*
 * session.h: what stands behind struct psd_session. The public calls are thin
 * shells: they check, fill in a flight, and let one of three ways carry it:
 *
 *   SOLO   a job of one: the answer is the input
 *   BOARD  every worker is on this host and there are no servers: the workers
 *          sum in shared memory (worker/host.c)
 *   LINKS  shards behind links (worker/worker.c): servers of their own over
 *          shm or tcp, or one shard inside each worker over tcp
 *
 * Threads: callers, under `lock`; one of them at a time drives the way
 * forward while it waits. The control thread (member.c). With tcp an I/O
 * thread drives while no caller waits.
 */
#ifndef PSD_SESSION_SESSION_H
#define PSD_SESSION_SESSION_H

#include <pthread.h>
#include <stdatomic.h>

#include "memory/arena.h"
#include "server/shard.h"
#include "member/member.h"
#include "member/settings.h"
#include "session/trace.h"
#include "transport/inproc.h"
#include "transport/shm.h"
#include "worker/host.h"
#include "worker/worker.h"

#define SESSION_ERROR_MAX WIRE_TEXT_MAX
#define SESSION_PROOFS_MAX 65536 /* digests waiting for the control thread */
#define SESSION_LEFT_GRACE_NS (2 * CLOCK_NS_PER_S)
#define SESSION_RETRY_NS (50 * CLOCK_NS_PER_MS)

enum session_way { SESSION_SOLO, SESSION_BOARD, SESSION_LINKS };

/* What waiting costs and how: see progress.c. */
struct session_idle {
    bool spin;        /* the cores suffice for every worker's threads */
    uint64_t spin_ns; /* before sleeping; adapts */
    uint64_t spun_ns; /* over sockets: of spin_ns, in this wait */
    uint64_t slept_ns; /* over sockets: in this wait */
};

struct psd_session {
    enum session_way way;
    struct psd_settings settings;
    uint32_t rank;
    uint32_t size;
    uint32_t local_rank;
    uint32_t local_size;
    uint32_t incarnation;

    pthread_mutex_t lock;
    pthread_cond_t changed;   /* a ticket, the driver's seat, control */
    unsigned waiting;         /* callers in pthread_cond_wait */
    bool driving;             /* a caller moves things forward */

    struct model model;
    struct flight *flights;   /* by tensor */
    uint64_t *audits;         /* by tensor: calls of psd_audit */
    uint32_t in_flight;       /* tensors that are not answered */
    uint64_t tickets;         /* given so far */
    uint64_t waited;          /* tickets up to this one are waited for */
    uint32_t open_tickets;    /* given and not waited for */

    struct member member;
    bool has_member;
    bool members_known;
    struct message_members members;
    uint32_t batches;         /* sent to the master */
    uint32_t registered;      /* acknowledged by it */
    uint32_t left;            /* a rank that has closed, + 1 */
    uint64_t left_ns;

    void *private_base;       /* SOLO: what the arena lies in */
    struct shm_board shm;
    char **arenas;            /* by local rank, as mapped here */
    struct arena *arena;      /* of its own, as it may outlive the session:
                               * memory/redirect.h */
    struct host host;

    struct reduce_round solo; /* SOLO: the one rank's rounds */
    float **solo_value;       /* SOLO: by tensor, of STORE */
    uint32_t solo_count;

    struct psd_loop *loop;
    struct inproc_hub *hub;
    struct worker worker;
    struct shard shard;       /* played here, when has_shard */
    bool has_shard;
    bool tcp;
    struct psd_listener *listener;
    struct loop_timer retry;
    bool retry_armed;
    uint64_t pushed_ns;       /* when the last push was */
    pthread_t io_thread;
    bool io_started;
    _Atomic uint32_t io_go;   /* 1: the I/O thread may drive */
    bool io_quiet;            /* it sees nothing to do, and waits long */
    _Atomic bool stopping;

    struct session_idle idle;
    bool apart;               /* there are SHARED tensors: every worker trains
                               * on its own clock */

    _Atomic int failed;       /* psd_status; 0: fine */
    char error[SESSION_ERROR_MAX];

    /* For the control thread; under `lock`. */
    struct message_proof *proofs;
    uint32_t proof_count;
    uint64_t proof_total;
    struct message_metrics metrics;
    bool told;                /* the program calls psd_metrics */
    uint64_t entered_ns;      /* everybody was in; 0: not yet */
    uint64_t wait_ns;         /* inside psd_wait, so far */

    struct trace *trace;      /* --trace; NULL: off */

    /* Who waits, and since when; stuck.c tells the master. Under `lock`. */
    unsigned awaiting;        /* callers in session_await */
    uint64_t await_ns;        /* when the first of them came */
    bool joining;             /* one is in psd_join */
    uint64_t stuck_sum;       /* of all that moves, when last looked at */
    uint64_t stuck_ns;        /* when it was first seen like that */
    bool stuck_told;
};

/* session.c */
/* This session cannot go on: tells the master, which ends the job. Returns the
 * first failure. Under lock. */
psd_status session_fail(struct psd_session *session, psd_status status,
                        const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The job is over; the master knows. Under lock. */
void session_over(struct psd_session *session, psd_status status,
                  const char *reason);
/* A caller's mistake: sets the sentence, does not end the session. */
psd_status session_refuse(struct psd_session *session, const char *format,
                          ...) __attribute__((format(printf, 2, 3)));
/* Set what psd_error(NULL) says in this thread. */
void session_open_error(const char *text);

/* Make room for the tensors that every model has, in the shape that the master
 * has told. Under lock. */
psd_status session_shape(struct psd_session *session);

/* links.c: the way LINKS is set up and torn down. */
psd_status links_shape(struct psd_session *session);   /* after MEMBERS, */
psd_status links_connect(struct psd_session *session); /* then this */
void links_close(struct psd_session *session);
/* Listen for the others' links; `url` is how they reach us. */
psd_status links_url(struct psd_session *session, char url[MESSAGE_URL_MAX]);
void links_unlock_io(struct psd_session *session); /* let the thread drive */
/* After a push; `wake`: the caller goes on computing. */
void links_pushed(struct psd_session *session, bool wake);

/* control.c: the master's frames; the calls that wait for them. */
psd_status control_enter(struct psd_session *session);
psd_status control_register(struct psd_session *session,
                            const struct message_table *table);
void control_flush(struct psd_session *session);
void control_abort(struct psd_session *session, int code, const char *reason);

/* register.c: room for what the model has gained. */
psd_status session_grow(struct psd_session *session, uint32_t tensors_before);

/* progress.c: waiting, driving. */
struct session_wait {
    /* Is what the caller waits for there? Under lock. */
    bool (*ready)(struct psd_session *session, const struct session_wait *w);
    uint32_t tensor; /* what to sleep on: a tensor, UINT32_MAX: anything */
    uint64_t step;
};
psd_status session_await(struct psd_session *session,
                         const struct session_wait *wait);
void idle_init(struct psd_session *session);
void session_changed(struct psd_session *session); /* under lock */

/* audit.c: digests. */
void audit_answer(struct psd_session *session, uint32_t tensor);

/* stuck.c: is a wait a long one? Control thread, no lock. */
void stuck_tick(struct psd_session *session);
void stuck_answer(struct psd_session *session,
                  const struct frame_header *header, const void *payload);

/* exchange.c */
void session_done(void *user, uint32_t tensor);

/* solo.c: a job of one. */
psd_status solo_add(struct psd_session *session);
void solo_post(struct psd_session *session, uint32_t tensor);
void solo_close(struct psd_session *session);

#endif
