/*
 * session.c: opening and closing; see session.h. psd_open reads the
 * environment, joins the job through the agent and sets up the way that
 * gradients will go.
 */
#define _GNU_SOURCE
#include "session/session.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "memory/redirect.h"

static _Thread_local char open_error[SESSION_ERROR_MAX] = "";

/* ---- failures ---------------------------------------------------------- */

void session_open_error(const char *text)
{
    snprintf(open_error, sizeof(open_error), "%s", text);
}

psd_status session_refuse(struct psd_session *session, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    if (atomic_load(&session->failed) == 0) {
        vsnprintf(session->error, sizeof(session->error), format, args);
    }
    va_end(args);
    return PSD_EINVAL;
}

/* The first failure stays. */
void session_over(struct psd_session *session, psd_status status,
                  const char *reason)
{
    if (atomic_load(&session->failed) != 0) {
        return;
    }
    snprintf(session->error, sizeof(session->error), "%s", reason);
    log_error("session: %s", session->error);
    atomic_store(&session->failed, status);
    session_changed(session);
}

/* What psd_run ends with when a session fails by itself. */
static int exit_code_of(psd_status status)
{
    switch (status) {
    case PSD_EDIFFER:
        return EX_DATAERR;
    case PSD_ELOST:
    case PSD_ETIME:
        return EX_UNAVAILABLE;
    case PSD_ENOMEM:
    case PSD_ESYSTEM:
        return EX_OSERR;
    case PSD_EPROTO:
    case PSD_EAUTH:
        return EX_PROTOCOL;
    default:
        return EX_SOFTWARE;
    }
}

psd_status session_fail(struct psd_session *session, psd_status status,
                        const char *format, ...)
{
    char reason[SESSION_ERROR_MAX];
    va_list args;

    if (atomic_load(&session->failed) == 0) {
        va_start(args, format);
        vsnprintf(reason, sizeof(reason), format, args);
        va_end(args);
        session_over(session, status, reason);
        control_abort(session, exit_code_of(status), reason);
    }
    return (psd_status)atomic_load(&session->failed);
}

const char *psd_error(const struct psd_session *session)
{
    return session == NULL ? open_error : session->error;
}

/* ---- the environment --------------------------------------------------- */

static psd_status environment_number(const char *name, uint32_t limit,
                                     uint32_t *value_p)
{
    const char *text = getenv(name);
    char *end;
    unsigned long value;

    if (text == NULL) {
        return PSD_AGAIN;
    }
    errno = 0;
    value = strtoul(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || text[0] == '-' ||
        value > limit) {
        snprintf(open_error, sizeof(open_error),
                 "%s is '%s', it must be a number up to %" PRIu32, name, text,
                 limit);
        return PSD_EENV;
    }
    *value_p = (uint32_t)value;
    return PSD_OK;
}

/* PSD_OK: a job. PSD_AGAIN: none of it is set. */
static psd_status read_environment(struct psd_session *session)
{
    static const char *const needed[] = { "PSD_AGENT", "PSD_RANK",
                                          "PSD_SIZE" };
    unsigned there = 0;
    const char *missing = NULL;
    psd_status status;

    for (unsigned i = 0; i < 3; i++) {
        if (getenv(needed[i]) != NULL) {
            there++;
        } else {
            missing = needed[i];
        }
    }
    if (there == 0) {
        return PSD_AGAIN;
    }
    if (there < 3) {
        snprintf(open_error, sizeof(open_error),
                 "%s is not set but other PSD_ variables are; start the "
                 "program with psd_run, or unset PSD_AGENT, PSD_RANK and "
                 "PSD_SIZE to run it alone",
                 missing);
        return PSD_EENV;
    }
    status = environment_number("PSD_SIZE", WIRE_RANKS_MAX, &session->size);
    if (status == PSD_OK) {
        status = environment_number("PSD_RANK", WIRE_RANKS_MAX - 1,
                                    &session->rank);
    }
    if (status == PSD_OK && environment_number("PSD_INCARNATION", UINT32_MAX,
                                               &session->incarnation) < 0) {
        status = PSD_EENV;
    }
    if (status == PSD_OK && session->rank >= session->size) {
        snprintf(open_error, sizeof(open_error),
                 "PSD_RANK is %" PRIu32 " but PSD_SIZE is %" PRIu32,
                 session->rank, session->size);
        status = PSD_EENV;
    }
    return status;
}

static psd_status read_settings(struct psd_session *session)
{
    psd_status status =
        option_defaults(psd_settings_rows, &session->settings);

    if (status == PSD_OK) {
        status = option_environment(psd_settings_rows, &session->settings,
                                    open_error, sizeof(open_error));
    }
    return status == PSD_EINVAL ? PSD_EENV : status;
}

/* ---- memory ------------------------------------------------------------ */

static size_t ram_size(void)
{
    long pages = sysconf(_SC_PHYS_PAGES);
    long page = sysconf(_SC_PAGESIZE);

    return pages > 0 && page > 0 ? (size_t)pages * (size_t)page
                                 : (size_t)1 << 32;
}

static psd_status make_arena(struct psd_session *session, void *base,
                             size_t size)
{
    session->arena = mem_zalloc(sizeof(*session->arena));
    if (session->arena == NULL) {
        return PSD_ENOMEM;
    }
    arena_init(session->arena, base, size);
    return PSD_OK;
}

static psd_status open_private_arena(struct psd_session *session)
{
    size_t size = ram_size();

    session->private_base = mem_map(size);
    if (session->private_base == NULL) {
        return PSD_ENOMEM;
    }
    return make_arena(session, session->private_base, size);
}

/* Map the board and every local worker's arena. */
static psd_status open_shared(struct psd_session *session)
{
    const struct message_welcome *welcome = &session->member.welcome;
    void *board = member_map(&session->member, 0, welcome->board_size);

    if (board == NULL) {
        return PSD_ESYSTEM;
    }
    if (shm_board_init(&session->shm, board, welcome->board_size,
                       welcome->workers, welcome->shards) != PSD_OK) {
        munmap(board, welcome->board_size);
        session->shm.head = NULL;
        return PSD_EPROTO;
    }
    session->arenas = mem_zalloc_array(welcome->local_workers,
                                       sizeof(*session->arenas));
    if (session->arenas == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < welcome->local_workers; i++) {
        session->arenas[i] =
            member_map(&session->member, i + 1, welcome->arena_size);
        if (session->arenas[i] == NULL) {
            return PSD_ESYSTEM;
        }
    }
    return make_arena(session, session->arenas[session->local_rank],
                      welcome->arena_size);
}

static void close_memory(struct psd_session *session)
{
    const struct message_welcome *welcome = &session->member.welcome;

    if (session->arena != NULL && !redirect_release(session->arena)) {
        session->arenas[session->local_rank] = NULL; /* blocks are out */
    } else if (session->arena != NULL) {
        arena_fini(session->arena);
        mem_free(session->arena);
    }
    for (uint32_t i = 0; session->arenas != NULL && i < welcome->local_workers;
         i++) {
        if (session->arenas[i] != NULL) {
            munmap(session->arenas[i], welcome->arena_size);
        }
    }
    mem_free(session->arenas);
    if (session->shm.head != NULL) {
        munmap(session->shm.head, session->shm.size);
    }
    mem_unmap(session->private_base, ram_size());
}

/* ---- opening ----------------------------------------------------------- */

/* The way gradients go. */
static void choose_way(struct psd_session *session)
{
    const struct message_welcome *welcome = &session->member.welcome;
    bool one_host = welcome->local_workers == welcome->workers;

    session->tcp =
        strcmp(session->settings.transport, "tcp") == 0 || !one_host;
    session->way = !session->tcp && welcome->shards == 0 ? SESSION_BOARD
                                                         : SESSION_LINKS;
    session->has_shard = session->tcp && welcome->shards == 0;
}

/* Can this job have as many shards as the master says? */
static bool can_have(const struct psd_session *session, uint32_t shards)
{
    if (session->way == SESSION_BOARD) {
        return shards == 0;
    }
    if (session->has_shard) {
        return shards == session->size;
    }
    return shards > 0 && shards <= session->member.welcome.shards;
}

static psd_status shape_model(struct psd_session *session)
{
    const struct message_members *members = &session->members;
    uint32_t shards = members->shard_count;
    psd_status status;

    if (!can_have(session, shards)) {
        return session_fail(session, PSD_EPROTO,
                            "the master knows %" PRIu32
                            " shards, which this job cannot have",
                            shards);
    }
    status = model_init(&session->model, shards > 0 ? shards : session->size,
                        members->block_size);
    session->model.spread =
        session->has_shard && session->local_size != session->size;
    return status;
}

static psd_status open_host(struct psd_session *session)
{
    psd_status status =
        host_init(&session->host, &session->shm, &session->model,
                  session->rank, session->size, session->arenas,
                  session->arena);

    session->host.user = session;
    session->host.done = session_done;
    session->host.helpers = cpu_allowed() - 1;
    session->host.keep_min = session->idle.spin ? 0 : HOST_KEEP_MIN;
    return status;
}

psd_status session_shape(struct psd_session *session)
{
    psd_status status =
        session->way == SESSION_SOLO
            ? model_init(&session->model, 1, WIRE_DATA_MAX)
            : shape_model(session);

    if (status == PSD_OK && session->way == SESSION_LINKS) {
        status = links_shape(session);
    } else if (status == PSD_OK && session->way == SESSION_BOARD) {
        status = open_host(session);
    }
    if (status == PSD_OK) {
        status = model_add_builtin(&session->model);
    }
    if (status == PSD_OK) {
        status = session_grow(session, 0);
    }
    if (status != PSD_OK) {
        return session_fail(session, status, "no session can be opened: %s",
                            psd_status_text(status));
    }
    return PSD_OK;
}

static psd_status open_job(struct psd_session *session)
{
    char error[WIRE_TEXT_MAX] = "";
    psd_status status;

    status = member_open(&session->member, getenv("PSD_AGENT"), false,
                         session->rank, session->incarnation, error,
                         sizeof(error));
    if (status != PSD_OK) {
        session_open_error(error);
        return status;
    }
    session->has_member = true;
    session->local_rank = session->member.welcome.local_rank;
    session->local_size = session->member.welcome.local_workers;
    if (session->member.welcome.workers != session->size ||
        session->local_rank >= session->local_size) {
        session_open_error("PSD_SIZE is not what the agent says");
        return PSD_EENV;
    }
    status = open_shared(session);
    if (status != PSD_OK) {
        session_open_error("the shared memory of this job cannot be mapped");
        return status;
    }
    choose_way(session);
    return session->way == SESSION_LINKS ? loop_create(&session->loop)
                                         : PSD_OK;
}

static psd_status open_solo(struct psd_session *session)
{
    session->way = SESSION_SOLO;
    session->size = 1;
    session->local_size = 1;
    return open_private_arena(session);
}

static psd_status open_trace(struct psd_session *session)
{
    const char *folder = getenv("PSD_LOG_DIR");

    return trace_open(&session->trace, folder == NULL ? "." : folder,
                      session->rank, open_error, sizeof(open_error));
}

static psd_status open_all(struct psd_session *session)
{
    psd_status status = read_environment(session);

    if (status == PSD_AGAIN) {
        status = open_solo(session);
    } else if (status == PSD_OK) {
        status = read_settings(session);
        if (status == PSD_OK && session->settings.trace) {
            status = open_trace(session);
        }
        if (status == PSD_OK) {
            status = open_job(session);
        }
    }
    return status;
}

psd_status psd_open(struct psd_session **session_p)
{
    struct psd_session *session;
    psd_status status;

    open_error[0] = '\0';
    if (session_p == NULL) {
        session_open_error("psd_open needs a place for the session");
        return PSD_EINVAL;
    }
    session = mem_zalloc(sizeof(*session));
    if (session == NULL) {
        session_open_error(psd_status_text(PSD_ENOMEM));
        return PSD_ENOMEM;
    }
    pthread_mutex_init(&session->lock, NULL);
    pthread_cond_init(&session->changed, NULL);
    session->member.fd = -1;
    status = open_all(session);
    if (status == PSD_OK) {
        idle_init(session);
        status = control_enter(session);
    }
    if (status != PSD_OK) {
        if (open_error[0] == '\0') {
            session_open_error(session->error[0] != '\0'
                                   ? session->error
                                   : psd_status_text(status));
        }
        psd_close(session);
        return status;
    }
    *session_p = session;
    return PSD_OK;
}

void psd_close(struct psd_session *session)
{
    if (session == NULL) {
        return;
    }
    if (session->members_known && atomic_load(&session->failed) == 0) {
        control_flush(session);
    }
    if (session->way == SESSION_LINKS) {
        links_close(session);
    }
    if (session->has_member) {
        if (session->members_known) {
            (void)member_send(&session->member, FRAME_BYE, 0, NULL);
        }
        member_close(&session->member);
    }
    message_members_fini(&session->members);
    if (session->way == SESSION_BOARD) {
        host_fini(&session->host);
    }
    solo_close(session);
    trace_close(session->trace, &session->model);
    model_fini(&session->model);
    close_memory(session);
    mem_free(session->flights);
    mem_free(session->audits);
    mem_free(session->proofs);
    pthread_cond_destroy(&session->changed);
    pthread_mutex_destroy(&session->lock);
    mem_free(session);
}

uint32_t psd_rank(const struct psd_session *session)
{
    return session->rank;
}

uint32_t psd_size(const struct psd_session *session)
{
    return session->size;
}

uint32_t psd_local_rank(const struct psd_session *session)
{
    return session->local_rank;
}

uint32_t psd_local_size(const struct psd_session *session)
{
    return session->local_size;
}

void *psd_alloc(struct psd_session *session, size_t size)
{
    return arena_alloc(session->arena, size);
}

void psd_free(struct psd_session *session, void *pointer)
{
    if (pointer != NULL) {
        arena_free(session->arena, pointer);
    }
}

void psd_mark(struct psd_session *session, const char *name, int begin)
{
    if (session->trace != NULL && name != NULL) {
        trace_mark(session->trace, name, begin != 0);
    }
}

int psd_contains(const struct psd_session *session, const void *pointer,
                 size_t size)
{
    return arena_contains(session->arena, pointer, size);
}
