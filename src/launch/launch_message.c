/* launch_message.c: see launch_message.h. Counts are checked against limits
 * and against the bytes that are there before anything is allocated. */
#define _GNU_SOURCE
#include "launch/launch_message.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"

static psd_status finish(const struct unpack *unpack, const char *what)
{
    if (!unpack_done(unpack)) {
        log_error("launch: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

/* ---- words -------------------------------------------------------------- */

psd_status launch_words_set(struct launch_words *words, uint32_t count,
                            char *const *from)
{
    struct launch_words copy = { .count = 0 };

    copy.words = mem_zalloc_array((size_t)count + 1, sizeof(*copy.words));
    if (copy.words == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        copy.words[i] = mem_strdup(from[i]);
        if (copy.words[i] == NULL) {
            launch_words_fini(&copy);
            return PSD_ENOMEM;
        }
        copy.count++;
    }
    *words = copy;
    return PSD_OK;
}

psd_status launch_words_add(struct launch_words *words, const char *name,
                            const char *value)
{
    size_t size = strlen(name) + strlen(value) + 2;
    char *word = mem_zalloc(size);
    void *array = words->words;

    if (word == NULL) {
        return PSD_ENOMEM;
    }
    if (mem_grow(&array, words->count, (size_t)words->count + 2,
                 sizeof(*words->words)) != PSD_OK) {
        mem_free(word);
        return PSD_ENOMEM;
    }
    snprintf(word, size, "%s=%s", name, value);
    words->words = array;
    words->words[words->count++] = word;
    return PSD_OK;
}

void launch_words_fini(struct launch_words *words)
{
    for (uint32_t i = 0; i < words->count; i++) {
        mem_free(words->words[i]);
    }
    mem_free(words->words);
    *words = (struct launch_words){ .count = 0 };
}

static void pack_words(struct pack *pack, const struct launch_words *words)
{
    pack_u32(pack, words->count);
    for (uint32_t i = 0; i < words->count; i++) {
        pack_text(pack, words->words[i]);
    }
}

/* One string of any length up to LAUNCH_WORD_MAX. */
static char *unpack_word(struct unpack *unpack)
{
    uint32_t size = unpack_u32(unpack);
    const void *bytes = unpack_bytes(unpack, size);
    char *word;

    if (bytes == NULL || size > LAUNCH_WORD_MAX ||
        memchr(bytes, 0, size) != NULL) {
        unpack->failed = true;
        return NULL;
    }
    word = mem_zalloc((size_t)size + 1);
    if (word != NULL) {
        memcpy(word, bytes, size);
    }
    return word;
}

static psd_status unpack_words(struct unpack *unpack,
                               struct launch_words *words)
{
    uint32_t count = unpack_u32(unpack);
    size_t left = (size_t)(unpack->end - unpack->at);

    if (unpack->failed || count > LAUNCH_WORDS_MAX || count > left / 4) {
        unpack->failed = true;
        return PSD_EPROTO;
    }
    words->words = mem_zalloc_array((size_t)count + 1, sizeof(*words->words));
    if (words->words == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        words->words[i] = unpack_word(unpack);
        if (words->words[i] == NULL) {
            return unpack->failed ? PSD_EPROTO : PSD_ENOMEM;
        }
        words->count++;
    }
    return PSD_OK;
}

/* ---- start -------------------------------------------------------------- */

static void pack_ranks(struct pack *pack, uint32_t count, const uint32_t *ranks)
{
    pack_u32(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_u32(pack, ranks[i]);
    }
}

static psd_status unpack_ranks(struct unpack *unpack, uint32_t limit,
                               uint32_t *count_p, uint32_t **ranks_p)
{
    uint32_t count = unpack_u32(unpack);
    size_t left = (size_t)(unpack->end - unpack->at);

    if (unpack->failed || count > limit || count > left / 4) {
        unpack->failed = true;
        return PSD_EPROTO;
    }
    *ranks_p = mem_zalloc_array(count, sizeof(**ranks_p));
    if (*ranks_p == NULL) {
        return PSD_ENOMEM;
    }
    *count_p = count;
    for (uint32_t i = 0; i < count; i++) {
        (*ranks_p)[i] = unpack_u32(unpack);
        if ((*ranks_p)[i] >= limit) {
            unpack->failed = true;
            return PSD_EPROTO;
        }
    }
    return PSD_OK;
}

void launch_start_pack(struct pack *pack, const struct launch_start *start)
{
    pack_bytes(pack, start->job.id, sizeof(start->job.id));
    pack_bytes(pack, start->job.secret, sizeof(start->job.secret));
    pack_u32(pack, start->workers);
    pack_u32(pack, start->servers);
    pack_u32(pack, start->threads);
    pack_u8(pack, start->shell);
    pack_u8(pack, start->tee_all);
    pack_text(pack, start->name);
    pack_text(pack, start->host);
    pack_text(pack, start->ports);
    pack_text(pack, start->folder);
    pack_text(pack, start->logs);
    pack_ranks(pack, start->local_workers, start->worker_ranks);
    pack_ranks(pack, start->local_servers, start->server_ranks);
    pack_words(pack, &start->command);
    pack_words(pack, &start->variables);
}

static void unpack_start_front(struct unpack *unpack,
                               struct launch_start *start)
{
    const void *id = unpack_bytes(unpack, sizeof(start->job.id));
    const void *secret = unpack_bytes(unpack, sizeof(start->job.secret));

    if (id != NULL && secret != NULL) {
        memcpy(start->job.id, id, sizeof(start->job.id));
        memcpy(start->job.secret, secret, sizeof(start->job.secret));
    }
    start->workers = unpack_u32(unpack);
    start->servers = unpack_u32(unpack);
    start->threads = unpack_u32(unpack);
    start->shell = unpack_u8(unpack);
    start->tee_all = unpack_u8(unpack);
    unpack_text(unpack, start->name, sizeof(start->name));
    unpack_text(unpack, start->host, sizeof(start->host));
    unpack_text(unpack, start->ports, sizeof(start->ports));
    unpack_text(unpack, start->folder, sizeof(start->folder));
    unpack_text(unpack, start->logs, sizeof(start->logs));
    if (start->workers == 0 || start->workers > WIRE_RANKS_MAX ||
        start->servers > WIRE_SHARDS_MAX || start->threads == 0 ||
        start->threads > WIRE_SHARDS_MAX ||
        start->servers * start->threads > WIRE_SHARDS_MAX) {
        unpack->failed = true;
    }
}

psd_status launch_start_unpack(struct launch_start *start, const void *data,
                               size_t size)
{
    struct unpack unpack;
    psd_status status = PSD_EPROTO;

    *start = (struct launch_start){ .workers = 0 };
    unpack_init(&unpack, data, size);
    unpack_start_front(&unpack, start);
    if (unpack.failed) {
        goto undo;
    }
    status = unpack_ranks(&unpack, start->workers, &start->local_workers,
                          &start->worker_ranks);
    if (status != PSD_OK) {
        goto undo;
    }
    status = unpack_ranks(&unpack, start->servers, &start->local_servers,
                          &start->server_ranks);
    if (status != PSD_OK) {
        goto undo;
    }
    status = unpack_words(&unpack, &start->command);
    if (status != PSD_OK) {
        goto undo;
    }
    status = unpack_words(&unpack, &start->variables);
    if (status != PSD_OK) {
        goto undo;
    }
    if (start->command.count == 0 ||
        (start->shell && start->command.count != 1)) {
        unpack.failed = true;
    }
    status = finish(&unpack, "start");
    if (status == PSD_OK) {
        return PSD_OK;
    }

undo:
    launch_start_fini(start);
    return status;
}

void launch_start_fini(struct launch_start *start)
{
    launch_words_fini(&start->command);
    launch_words_fini(&start->variables);
    mem_free(start->worker_ranks);
    mem_free(start->server_ranks);
    start->worker_ranks = NULL;
    start->server_ranks = NULL;
    explicit_bzero(&start->job, sizeof(start->job));
}

/* ---- the short ones ----------------------------------------------------- */

void launch_started_pack(struct pack *pack,
                         const struct launch_started *started)
{
    pack_u32(pack, (uint32_t)started->code);
    pack_u32(pack, started->pid);
    pack_text(pack, started->reason);
}

psd_status launch_started_unpack(struct launch_started *started,
                                 const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    started->code = (int32_t)unpack_u32(&unpack);
    started->pid = unpack_u32(&unpack);
    unpack_text(&unpack, started->reason, sizeof(started->reason));
    return finish(&unpack, "started");
}

void launch_exited_pack(struct pack *pack, const struct launch_exited *exited)
{
    pack_u32(pack, exited->pid);
    pack_u8(pack, exited->code);
    pack_u8(pack, exited->signal);
    pack_text(pack, exited->tail);
}

psd_status launch_exited_unpack(struct launch_exited *exited, const void *data,
                                size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    exited->pid = unpack_u32(&unpack);
    exited->code = unpack_u8(&unpack);
    exited->signal = unpack_u8(&unpack);
    unpack_text(&unpack, exited->tail, sizeof(exited->tail));
    return finish(&unpack, "exited");
}

void launch_stop_pack(struct pack *pack, const struct launch_stop *stop)
{
    pack_u32(pack, stop->grace_ms);
}

psd_status launch_stop_unpack(struct launch_stop *stop, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    stop->grace_ms = unpack_u32(&unpack);
    return finish(&unpack, "stop");
}

void launch_lost_pack(struct pack *pack, const struct launch_lost *lost)
{
    pack_u32(pack, lost->pid);
    pack_text(pack, lost->reason);
}

psd_status launch_lost_unpack(struct launch_lost *lost, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    lost->pid = unpack_u32(&unpack);
    unpack_text(&unpack, lost->reason, sizeof(lost->reason));
    return finish(&unpack, "lost");
}

void launch_verdict_pack(struct pack *pack,
                         const struct launch_verdict *verdict)
{
    pack_u32(pack, (uint32_t)verdict->status);
    pack_u32(pack, (uint32_t)verdict->code);
    pack_u8(pack, verdict->has_culprit);
    pack_u8(pack, verdict->is_server);
    pack_u32(pack, verdict->rank);
    pack_text(pack, verdict->reason);
}

psd_status launch_verdict_unpack(struct launch_verdict *verdict,
                                 const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    verdict->status = (int32_t)unpack_u32(&unpack);
    verdict->code = (int32_t)unpack_u32(&unpack);
    verdict->has_culprit = unpack_u8(&unpack);
    verdict->is_server = unpack_u8(&unpack);
    verdict->rank = unpack_u32(&unpack);
    unpack_text(&unpack, verdict->reason, sizeof(verdict->reason));
    return finish(&unpack, "verdict");
}

void launch_view_pack(struct pack *pack, const struct launch_view *view)
{
    pack_u8(pack, view->final);
    pack_u32(pack, view->workers_in);
    pack_u64(pack, view->step);
    pack_f64(pack, view->loss);
    pack_u64(pack, view->samples);
    pack_f64(pack, view->rate);
    pack_f64(pack, view->mean_rate);
    pack_u64(pack, view->exchanged_bytes);
    pack_u64(pack, view->wire_bytes);
    pack_f64(pack, view->wait_share);
    pack_u64(pack, view->compared);
    pack_u64(pack, view->differences);
}

psd_status launch_view_unpack(struct launch_view *view, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    view->final = unpack_u8(&unpack);
    view->workers_in = unpack_u32(&unpack);
    view->step = unpack_u64(&unpack);
    view->loss = unpack_f64(&unpack);
    view->samples = unpack_u64(&unpack);
    view->rate = unpack_f64(&unpack);
    view->mean_rate = unpack_f64(&unpack);
    view->exchanged_bytes = unpack_u64(&unpack);
    view->wire_bytes = unpack_u64(&unpack);
    view->wait_share = unpack_f64(&unpack);
    view->compared = unpack_u64(&unpack);
    view->differences = unpack_u64(&unpack);
    return finish(&unpack, "view");
}
