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

static void pack_task(struct pack *pack, const struct launch_task *task)
{
    pack_u8(pack, task->is_server);
    pack_u32(pack, task->rank);
    pack_u8(pack, task->shell);
    pack_words(pack, &task->command);
    pack_words(pack, &task->variables);
}

static psd_status unpack_task(struct unpack *unpack, struct launch_task *task)
{
    psd_status status;

    task->is_server = unpack_u8(unpack);
    task->rank = unpack_u32(unpack);
    task->shell = unpack_u8(unpack);
    status = unpack_words(unpack, &task->command);
    if (status == PSD_OK) {
        status = unpack_words(unpack, &task->variables);
    }
    if (status == PSD_OK &&
        (task->rank >= WIRE_RANKS_MAX ||
         (!task->is_server && task->command.count == 0) ||
         (task->shell && task->command.count != 1))) {
        unpack->failed = true;
        status = PSD_EPROTO;
    }
    return status;
}

static psd_status unpack_tasks(struct unpack *unpack,
                               struct launch_start *start)
{
    uint32_t count = unpack_u32(unpack);
    size_t left = (size_t)(unpack->end - unpack->at);

    if (unpack->failed || count == 0 || count > LAUNCH_TASKS_MAX ||
        count > left / LAUNCH_TASK_LEAST) {
        unpack->failed = true;
        return PSD_EPROTO;
    }
    start->tasks = mem_zalloc_array(count, sizeof(*start->tasks));
    if (start->tasks == NULL) {
        return PSD_ENOMEM;
    }
    start->task_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct launch_task *task = &start->tasks[i];
        psd_status status = unpack_task(unpack, task);

        if (status == PSD_OK && !task->is_server &&
            task->rank >= start->workers) {
            unpack->failed = true;
            status = PSD_EPROTO;
        }
        if (status != PSD_OK) {
            return status;
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
    pack_u32(pack, start->threads_max);
    pack_u32(pack, start->hosts);
    pack_u8(pack, start->tee);
    pack_u8(pack, start->here);
    pack_u32(pack, start->silence_ms);
    pack_text(pack, start->name);
    pack_text(pack, start->host);
    pack_text(pack, start->peer);
    pack_text(pack, start->interface);
    pack_text(pack, start->ports);
    pack_text(pack, start->folder);
    pack_text(pack, start->logs);
    pack_text(pack, start->virtualenv);
    pack_words(pack, &start->variables);
    pack_u32(pack, start->task_count);
    for (uint32_t i = 0; i < start->task_count; i++) {
        pack_task(pack, &start->tasks[i]);
    }
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
    start->threads_max = unpack_u32(unpack);
    start->hosts = unpack_u32(unpack);
    start->tee = unpack_u8(unpack);
    start->here = unpack_u8(unpack);
    start->silence_ms = unpack_u32(unpack);
    unpack_text(unpack, start->name, sizeof(start->name));
    unpack_text(unpack, start->host, sizeof(start->host));
    unpack_text(unpack, start->peer, sizeof(start->peer));
    unpack_text(unpack, start->interface, sizeof(start->interface));
    unpack_text(unpack, start->ports, sizeof(start->ports));
    unpack_text(unpack, start->folder, sizeof(start->folder));
    unpack_text(unpack, start->logs, sizeof(start->logs));
    unpack_text(unpack, start->virtualenv, sizeof(start->virtualenv));
    if (start->workers == 0 || start->workers > WIRE_RANKS_MAX ||
        start->servers > WIRE_SHARDS_MAX || start->threads == 0 ||
        start->threads > start->threads_max ||
        start->threads_max > WIRE_SHARDS_MAX ||
        start->servers * start->threads_max > WIRE_SHARDS_MAX ||
        start->tee > LAUNCH_TEE_NONE) {
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
    if (!unpack.failed) {
        status = unpack_words(&unpack, &start->variables);
    }
    if (status == PSD_OK) {
        status = unpack_tasks(&unpack, start);
    }
    if (status == PSD_OK || unpack.failed) {
        status = finish(&unpack, "start");
    }
    if (status != PSD_OK) {
        launch_start_fini(start);
    }
    return status;
}

void launch_start_fini(struct launch_start *start)
{
    for (uint32_t i = 0; i < start->task_count; i++) {
        launch_words_fini(&start->tasks[i].command);
        launch_words_fini(&start->tasks[i].variables);
    }
    mem_free(start->tasks);
    start->tasks = NULL;
    start->task_count = 0;
    launch_words_fini(&start->variables);
    explicit_bzero(&start->job, sizeof(start->job));
}

uint32_t launch_start_local(const struct launch_start *start)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < start->task_count; i++) {
        count += start->tasks[i].is_server == 0;
    }
    return count;
}

void launch_ready_pack(struct pack *pack, const struct launch_ready *ready)
{
    pack_u32(pack, (uint32_t)ready->code);
    pack_text(pack, ready->reason);
    pack_text(pack, ready->note);
    pack_text(pack, ready->address);
    pack_text(pack, ready->folder);
    pack_text(pack, ready->logs);
}

psd_status launch_ready_unpack(struct launch_ready *ready, const void *data,
                               size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    ready->code = (int32_t)unpack_u32(&unpack);
    unpack_text(&unpack, ready->reason, sizeof(ready->reason));
    unpack_text(&unpack, ready->note, sizeof(ready->note));
    unpack_text(&unpack, ready->address, sizeof(ready->address));
    unpack_text(&unpack, ready->folder, sizeof(ready->folder));
    unpack_text(&unpack, ready->logs, sizeof(ready->logs));
    return finish(&unpack, "ready");
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
    pack_u8(pack, exited->memory);
    pack_u64(pack, exited->memory_size);
    pack_u8(pack, exited->stream);
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
    exited->memory = unpack_u8(&unpack);
    exited->memory_size = unpack_u64(&unpack);
    exited->stream = unpack_u8(&unpack);
    if (exited->memory > LAUNCH_MEMORY_BELOW) {
        unpack.failed = true;
    }
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

static void pack_cell(struct pack *pack, const struct launch_cell *cell)
{
    pack_u8(pack, cell->state);
    pack_u16(pack, cell->slow);
    pack_u32(pack, cell->lag);
    pack_u64(pack, cell->step);
    pack_u64(pack, cell->compute_ns);
    pack_u64(pack, cell->wait_ns);
    pack_u64(pack, cell->sent_bytes);
    pack_u64(pack, cell->received_bytes);
}

static void unpack_cell(struct unpack *unpack, struct launch_cell *cell)
{
    cell->state = unpack_u8(unpack);
    cell->slow = unpack_u16(unpack);
    cell->lag = unpack_u32(unpack);
    cell->step = unpack_u64(unpack);
    cell->compute_ns = unpack_u64(unpack);
    cell->wait_ns = unpack_u64(unpack);
    cell->sent_bytes = unpack_u64(unpack);
    cell->received_bytes = unpack_u64(unpack);
    if (cell->state > LAUNCH_CELL_LOST) {
        unpack->failed = true;
    }
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
    pack_f64(pack, view->exchanged_rate);
    pack_f64(pack, view->sent_rate);
    pack_f64(pack, view->received_rate);
    pack_u64(pack, view->compute_ns);
    pack_u64(pack, view->wait_ns);
    pack_f64(pack, view->wait_share);
    pack_u64(pack, view->compared);
    pack_u64(pack, view->differences);
    pack_u32(pack, view->cell_count);
    for (uint32_t i = 0; i < view->cell_count; i++) {
        pack_cell(pack, &view->cells[i]);
    }
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
    view->exchanged_rate = unpack_f64(&unpack);
    view->sent_rate = unpack_f64(&unpack);
    view->received_rate = unpack_f64(&unpack);
    view->compute_ns = unpack_u64(&unpack);
    view->wait_ns = unpack_u64(&unpack);
    view->wait_share = unpack_f64(&unpack);
    view->compared = unpack_u64(&unpack);
    view->differences = unpack_u64(&unpack);
    view->cell_count = unpack_u32(&unpack);
    if (view->cell_count > WIRE_RANKS_MAX) {
        unpack.failed = true;
        view->cell_count = 0;
    }
    for (uint32_t i = 0; i < view->cell_count; i++) {
        unpack_cell(&unpack, &view->cells[i]);
    }
    return finish(&unpack, "view");
}
