/* server.c: see server.h. */
#define _GNU_SOURCE
#include "server/server.h"

#include <inttypes.h>
#include <sched.h>
#include <sysexits.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "member/member.h"
#include "server/shard.h"
#include "member/settings.h"
#include "transport/shm.h"
#include "wire/standing.h"

#define SERVER_TABLES_MAX 64         /* batches waiting for one thread */
#define SERVER_LOOKS 64              /* before a thread sleeps */
#define SERVER_WAIT_MS 100

struct server;

/* One shard with its thread. What is above the line belongs to the thread. */
struct server_thread {
    struct server *server;
    uint32_t index; /* of the shard in the job */
    struct psd_loop *loop;
    struct model model;
    struct shard shard;
    struct psd_listener *listener;
    char url[MESSAGE_URL_MAX];
    /* From the control thread, under the server's lock. */
    struct message_table tables[SERVER_TABLES_MAX];
    uint32_t table_count;
    uint32_t batch; /* the last one taken, + 1 */
    uint32_t epoch;
    _Atomic bool news; /* something of the above has changed */
    pthread_t thread;
    bool started;
};

struct server {
    struct psd_settings settings;
    struct member member;
    bool tcp;
    struct shm_board shm;
    char **arenas;
    struct message_shape shape; /* no threads: not told yet */
    struct server_thread *threads;
    uint32_t count;
    uint32_t batches; /* acknowledged to the master */
    pthread_mutex_t lock;
    pthread_cond_t changed; /* the shape, the end, the epoch */
    bool over;
    _Atomic bool stopping;
    int exit_code;
};

/* ---- a shard's thread -------------------------------------------------- */

/* The first end counts. Under lock. */
static void server_end(struct server *server, int exit_code)
{
    server->exit_code = server->over ? server->exit_code : exit_code;
    server->over = true;
    pthread_cond_broadcast(&server->changed);
}

static void lock_and_end(struct server *server, int exit_code)
{
    pthread_mutex_lock(&server->lock);
    server_end(server, exit_code);
    pthread_mutex_unlock(&server->lock);
}

/* Take over what the control thread has left. Returns false when it cannot
 * be. */
static bool take_tables(struct server_thread *thread)
{
    struct server *server = thread->server;
    bool good = true;
    uint32_t done = UINT32_MAX;

    pthread_mutex_lock(&server->lock);
    thread->shard.epoch = thread->epoch;
    for (uint32_t i = 0; i < thread->table_count; i++) {
        good = good &&
               model_add(&thread->model, &thread->tables[i]) == PSD_OK &&
               shard_add(&thread->shard) == PSD_OK;
        message_table_fini(&thread->tables[i]);
        thread->batch++;
    }
    thread->table_count = 0;
    if (model_apart(&thread->model)) {
        loop_turns_off(thread->loop);
    }
    for (uint32_t i = 0; i < server->count; i++) {
        if (server->threads[i].batch < done) {
            done = server->threads[i].batch;
        }
    }
    for (; good && server->batches < done; server->batches++) {
        (void)member_send(&server->member, FRAME_TABLE_OK, server->batches,
                          NULL);
    }
    pthread_mutex_unlock(&server->lock);
    return good;
}

/* Sleep until a worker of this host has something. */
static void sleep_on_bell(struct server_thread *thread)
{
    struct server *server = thread->server;
    struct shm_bell *bell =
        shm_bell(&server->shm, server->member.welcome.workers + thread->index);
    uint32_t rings = atomic_load(&bell->rings);

    atomic_store(&bell->sleeping, 1);
    atomic_thread_fence(memory_order_seq_cst);
    if (loop_dispatch(thread->loop, NULL) == 0 && !atomic_load(&thread->news)) {
        futex_wait(&bell->rings, rings, SERVER_WAIT_MS * CLOCK_NS_PER_MS);
    }
    atomic_store(&bell->sleeping, 0);
}

/* Workers may know the epoch before we do; what they send meanwhile has to
 * wait in its ring or socket, not to be refused. */
static void await_epoch(struct server_thread *thread)
{
    struct server *server = thread->server;

    pthread_mutex_lock(&server->lock);
    while (thread->epoch == 0 && !atomic_load(&server->stopping)) {
        pthread_cond_wait(&server->changed, &server->lock);
    }
    pthread_mutex_unlock(&server->lock);
}

static void *thread_main(void *argument)
{
    struct server_thread *thread = argument;
    struct server *server = thread->server;
    unsigned looks = 0;

    await_epoch(thread);
    while (!atomic_load(&server->stopping)) {
        struct loop_events events;

        if (atomic_exchange(&thread->news, false) && !take_tables(thread)) {
            lock_and_end(server, EX_OSERR);
            break;
        }
        if (server->tcp) {
            loop_wait(thread->loop, &events, SERVER_WAIT_MS);
            loop_dispatch(thread->loop, &events);
        } else if (loop_dispatch(thread->loop, NULL) > 0) {
            looks = 0;
        } else if (looks++ < SERVER_LOOKS) {
            sched_yield();
        } else {
            sleep_on_bell(thread);
        }
    }
    return NULL;
}

/* ---- opening ----------------------------------------------------------- */

static enum auth_verdict on_accept(void *user, struct psd_link *link)
{
    struct server_thread *thread = user;

    link->crc = thread->server->settings.checksum;
    return shard_accept(&thread->shard, link);
}

static const struct listen_events accept_events = { .accept = on_accept };

static void on_wrong(void *user, uint32_t rank)
{
    log_error("server: link of worker %" PRIu32 ": %s", rank,
              psd_status_text(PSD_EPROTO));
    lock_and_end(user, EX_PROTOCOL);
}

/* Links to the workers of this host through the board. */
static psd_status open_shm(struct server_thread *thread)
{
    struct server *server = thread->server;
    const struct message_welcome *welcome = &server->member.welcome;

    for (uint32_t r = 0; r < welcome->workers; r++) {
        struct psd_region region = { (uint16_t)(r + 1), server->arenas[r],
                                     welcome->arena_size };
        struct psd_link *link;
        psd_status status;

        status = shm_link_open(thread->loop, &server->shm, r, thread->index,
                               true, &shard_link_events, &thread->shard,
                               &link);
        if (status != PSD_OK) {
            return status;
        }
        link->identity = (struct auth_identity){ r, 0, thread->index };
        status = link_map(link, &region);
        if (status != PSD_OK ||
            shard_accept(&thread->shard, link) != AUTH_WELCOME) {
            return PSD_EPROTO;
        }
    }
    snprintf(thread->url, sizeof(thread->url), "shm:%" PRIu32, thread->index);
    return PSD_OK;
}

static psd_status thread_open(struct server *server,
                              struct server_thread *thread, uint32_t index)
{
    const struct message_welcome *welcome = &server->member.welcome;
    uint32_t servers = welcome->shards / welcome->server_threads;
    psd_status status;

    thread->server = server;
    thread->index = index;
    status = loop_create(&thread->loop);
    if (status == PSD_OK) {
        status = model_init(&thread->model, servers * server->shape.threads,
                            server->shape.block_size);
    }
    if (status == PSD_OK) {
        status = model_add_builtin(&thread->model);
    }
    if (status == PSD_OK) {
        status = shard_init(&thread->shard, &thread->model, index,
                            welcome->workers);
    }
    if (status == PSD_OK) {
        thread->shard.wrong = on_wrong;
        thread->shard.user = server;
        status = shard_add(&thread->shard);
    }
    if (status == PSD_OK) {
        status = server->tcp
                     ? member_listen(&server->member, thread->loop,
                                     &accept_events, thread,
                                     &thread->listener, thread->url)
                     : open_shm(thread);
    }
    return status;
}

static psd_status map_shared(struct server *server)
{
    const struct message_welcome *welcome = &server->member.welcome;
    void *base = member_map(&server->member, 0, welcome->board_size);

    server->arenas =
        mem_zalloc_array(welcome->local_workers, sizeof(*server->arenas));
    if (base == NULL || server->arenas == NULL ||
        shm_board_init(&server->shm, base, welcome->board_size,
                       welcome->workers, welcome->shards) != PSD_OK) {
        return PSD_ESYSTEM;
    }
    for (uint32_t i = 0; i < welcome->local_workers; i++) {
        server->arenas[i] =
            member_map(&server->member, i + 1, welcome->arena_size);
        if (server->arenas[i] == NULL) {
            return PSD_ESYSTEM;
        }
    }
    return PSD_OK;
}

/* As many as the master has said. Under lock. */
static psd_status open_threads(struct server *server)
{
    const struct message_welcome *welcome = &server->member.welcome;
    uint32_t threads = server->shape.threads;
    uint32_t first = server->member.rank * threads;
    psd_status status = PSD_OK;

    server->tcp = strcmp(server->settings.transport, "tcp") == 0 ||
                  welcome->local_workers != welcome->workers;
    if (!server->tcp) {
        status = map_shared(server);
    }
    server->threads = mem_zalloc_array(threads, sizeof(*server->threads));
    if (server->threads == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < threads && status == PSD_OK; i++) {
        status = thread_open(server, &server->threads[i], first + i);
        server->count++;
    }
    for (uint32_t i = 0; i < server->count && status == PSD_OK; i++) {
        server->threads[i].started =
            pthread_create(&server->threads[i].thread, NULL, thread_main,
                           &server->threads[i]) == 0;
        status = server->threads[i].started ? PSD_OK : PSD_ESYSTEM;
    }
    return status;
}

static void close_threads(struct server *server)
{
    pthread_mutex_lock(&server->lock);
    atomic_store(&server->stopping, true);
    pthread_cond_broadcast(&server->changed);
    pthread_mutex_unlock(&server->lock);
    for (uint32_t i = 0; i < server->count; i++) {
        struct server_thread *thread = &server->threads[i];

        if (thread->started) {
            loop_wake(thread->loop);
            pthread_join(thread->thread, NULL);
        }
        listener_close(thread->listener);
        shard_fini(&thread->shard);
        model_fini(&thread->model);
        loop_destroy(thread->loop);
    }
    mem_free(server->threads);
    mem_free(server->arenas);
}

/* ---- control ----------------------------------------------------------- */

static void wake_threads(struct server *server)
{
    for (uint32_t i = 0; i < server->count; i++) {
        atomic_store(&server->threads[i].news, true);
        loop_wake(server->threads[i].loop);
        if (!server->tcp) {
            shm_bell_ring(shm_bell(&server->shm,
                                   server->member.welcome.workers +
                                       server->threads[i].index));
        }
    }
}

/* How many shards, and how they cut; what is more than the board has room for
 * is no shape. */
static void on_shape(struct server *server, const void *payload, size_t size)
{
    struct message_shape shape;

    if (server->shape.threads != 0 ||
        message_shape_unpack(&shape, payload, size) != PSD_OK ||
        shape.threads > server->member.welcome.server_threads) {
        log_error("server: the shape of the job cannot be taken");
        server_end(server, EX_PROTOCOL);
        return;
    }
    server->shape = shape;
    pthread_cond_broadcast(&server->changed);
}

/* A batch for every thread; each gets a copy of its own. */
static void on_table(struct server *server, const void *payload, size_t size)
{
    for (uint32_t i = 0; i < server->count; i++) {
        struct server_thread *thread = &server->threads[i];

        if (thread->table_count == SERVER_TABLES_MAX ||
            message_table_unpack(&thread->tables[thread->table_count],
                                 payload, size) != PSD_OK) {
            log_error("server: a batch of tensors cannot be taken");
            server_end(server, EX_PROTOCOL);
            return;
        }
        thread->table_count++;
    }
}

/* A server holds nobody up by itself; it only shows that it is alive. */
static void answer_who(struct server *server, uint32_t question)
{
    struct message_standing standing = { .part = STANDING_PAST,
                                         .waiting = 1 };
    struct pack pack;

    pack_init(&pack);
    message_standing_pack(&pack, &standing);
    (void)member_send(&server->member, FRAME_WHO, question, &pack);
    pack_fini(&pack);
}

static void on_frame(void *user, const struct frame_header *header,
                     const void *payload)
{
    struct server *server = user;
    struct message_members members;
    struct message_end end;

    if (header->type == FRAME_WHO) {
        answer_who(server, header->block);
        return;
    }
    pthread_mutex_lock(&server->lock);
    switch (header->type) {
    case FRAME_SHAPE:
        on_shape(server, payload, header->size);
        break;
    case FRAME_MEMBERS:
        if (message_members_unpack(&members, payload, header->size) ==
            PSD_OK) {
            for (uint32_t i = 0; i < server->count; i++) {
                server->threads[i].epoch = members.epoch;
            }
            message_members_fini(&members);
            pthread_cond_broadcast(&server->changed);
        }
        break;
    case FRAME_TABLE:
        on_table(server, payload, header->size);
        break;
    case FRAME_END:
        if (message_end_unpack(&end, payload, header->size) == PSD_OK &&
            end.status != PSD_OK) {
            log_info("server: the job has ended: %s", end.reason);
        }
        server_end(server, EX_OK);
        break;
    default:
        break;
    }
    wake_threads(server);
    pthread_mutex_unlock(&server->lock);
}

static void on_gone(void *user)
{
    lock_and_end(user, EX_OK);
}

static void on_tick(void *user)
{
    (void)user;
}

static psd_status enter(struct server *server)
{
    struct message_enter enter = { .pid = (uint32_t)getpid() };
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    message_enter_pack(&pack, &enter);
    status = member_send(&server->member, FRAME_ENTER, 0, &pack);
    pack_fini(&pack);
    return status;
}

static psd_status send_shards(struct server *server)
{
    struct message_shards shards = { .url_count = server->count };
    struct pack pack;
    psd_status status;

    shards.urls = mem_zalloc_array(server->count, sizeof(*shards.urls));
    if (shards.urls == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < server->count; i++) {
        memcpy(shards.urls[i], server->threads[i].url, MESSAGE_URL_MAX);
    }
    pack_init(&pack);
    message_shards_pack(&pack, &shards);
    status = member_send(&server->member, FRAME_SHARDS, 0, &pack);
    pack_fini(&pack);
    mem_free(shards.urls);
    return status;
}

/* Wait for the shape, open the shards, wait for the end. Under lock. */
static psd_status stay(struct server *server)
{
    psd_status status;

    while (server->shape.threads == 0 && !server->over) {
        pthread_cond_wait(&server->changed, &server->lock);
    }
    if (server->over) {
        return PSD_OK;
    }
    status = open_threads(server);
    if (status == PSD_OK) {
        status = send_shards(server);
    }
    if (status != PSD_OK) {
        return status;
    }
    log_info("server: I/O threads %" PRIu32 ", blocks of %" PRIu32 " bytes",
             server->count, server->shape.block_size);
    while (!server->over) {
        pthread_cond_wait(&server->changed, &server->lock);
    }
    return PSD_OK;
}

static int serve(struct server *server)
{
    struct member_events events = { server, on_frame, on_gone, on_tick };
    psd_status status = member_start(&server->member, &events);

    if (status == PSD_OK) {
        status = enter(server);
    }
    if (status == PSD_OK) {
        pthread_mutex_lock(&server->lock);
        status = stay(server);
        pthread_mutex_unlock(&server->lock);
    }
    if (status != PSD_OK) {
        log_error("server: cannot start: %s", psd_status_text(status));
        return EX_UNAVAILABLE;
    }
    return server->exit_code;
}

int server_main(int argc, char **argv)
{
    struct server server = { .lock = PTHREAD_MUTEX_INITIALIZER,
                             .changed = PTHREAD_COND_INITIALIZER };
    const char *agent = getenv("PSD_AGENT");
    const char *rank = getenv("PSD_RANK");
    char error[WIRE_TEXT_MAX] = "";
    int code;

    (void)argv;
    if (argc > 1 || agent == NULL || rank == NULL) {
        fprintf(stderr, "psd server: started by an agent, not by hand; use "
                        "psd_run -s N\n");
        return EX_USAGE;
    }
    psd_log_set(log_stderr, NULL, PSD_LOG_INFO);
    if (option_defaults(psd_settings_rows, &server.settings) != PSD_OK ||
        option_environment(psd_settings_rows, &server.settings, error,
                           sizeof(error)) != PSD_OK ||
        member_open(&server.member, agent, true,
                    (uint32_t)strtoul(rank, NULL, 10), 0, error,
                    sizeof(error)) != PSD_OK) {
        log_error("server: %s", error);
        return EX_UNAVAILABLE;
    }
    code = serve(&server);
    member_close(&server.member);
    close_threads(&server);
    return code;
}
