/* message.c: see message.h. Counts are checked against the limits of wire.h
 * and against the bytes that are there before anything is allocated. */
#include "wire/message.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"

#define SPEC_SIZE_MIN 38 /* an empty name and optim */
#define PROOF_SIZE 20

static psd_status finish(const struct unpack *unpack, const char *what)
{
    if (!unpack_done(unpack)) {
        log_error("message: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

static psd_status check_count(const struct unpack *unpack, uint32_t count,
                              size_t limit, size_t size_min, const char *what)
{
    size_t left = (size_t)(unpack->end - unpack->at);

    if (unpack->failed || count > limit || count > left / size_min) {
        log_error("message: %" PRIu32 " entries do not fit a %s", count, what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

void message_hello_pack(struct pack *pack, const struct message_hello *hello)
{
    pack_u8(pack, hello->is_server);
    pack_u32(pack, hello->rank);
    pack_u32(pack, hello->incarnation);
    pack_u32(pack, hello->pid);
    pack_text(pack, hello->build);
}

psd_status message_hello_unpack(struct message_hello *hello, const void *data,
                                size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    hello->is_server = unpack_u8(&unpack);
    hello->rank = unpack_u32(&unpack);
    hello->incarnation = unpack_u32(&unpack);
    hello->pid = unpack_u32(&unpack);
    unpack_text(&unpack, hello->build, sizeof(hello->build));
    return finish(&unpack, "hello");
}

void message_welcome_pack(struct pack *pack,
                          const struct message_welcome *welcome)
{
    pack_bytes(pack, welcome->job.id, sizeof(welcome->job.id));
    pack_bytes(pack, welcome->job.secret, sizeof(welcome->job.secret));
    pack_u32(pack, welcome->workers);
    pack_u32(pack, welcome->shards);
    pack_u32(pack, welcome->local_workers);
    pack_u32(pack, welcome->local_rank);
    pack_u32(pack, welcome->server_threads);
    pack_u64(pack, welcome->board_size);
    pack_u64(pack, welcome->arena_size);
    pack_text(pack, welcome->host);
    pack_text(pack, welcome->ports);
}

psd_status message_welcome_unpack(struct message_welcome *welcome,
                                  const void *data, size_t size)
{
    struct unpack unpack;
    const void *bytes;

    unpack_init(&unpack, data, size);
    bytes = unpack_bytes(&unpack, sizeof(welcome->job.id));
    if (bytes != NULL) {
        memcpy(welcome->job.id, bytes, sizeof(welcome->job.id));
    }
    bytes = unpack_bytes(&unpack, sizeof(welcome->job.secret));
    if (bytes != NULL) {
        memcpy(welcome->job.secret, bytes, sizeof(welcome->job.secret));
    }
    welcome->workers = unpack_u32(&unpack);
    welcome->shards = unpack_u32(&unpack);
    welcome->local_workers = unpack_u32(&unpack);
    welcome->local_rank = unpack_u32(&unpack);
    welcome->server_threads = unpack_u32(&unpack);
    welcome->board_size = unpack_u64(&unpack);
    welcome->arena_size = unpack_u64(&unpack);
    unpack_text(&unpack, welcome->host, sizeof(welcome->host));
    unpack_text(&unpack, welcome->ports, sizeof(welcome->ports));
    if (welcome->workers == 0 || welcome->workers > WIRE_RANKS_MAX ||
        welcome->shards > WIRE_SHARDS_MAX ||
        (welcome->shards > 0 &&
         (welcome->server_threads == 0 ||
          welcome->shards % welcome->server_threads != 0)) ||
        welcome->local_workers > welcome->workers) {
        unpack.failed = true;
    }
    return finish(&unpack, "welcome");
}

static bool is_block_size(uint32_t size)
{
    return size >= WIRE_BLOCK_SIZE_MIN && size <= WIRE_BLOCK_SIZE_MAX;
}

static void pack_urls(struct pack *pack, uint32_t count,
                      char (*urls)[MESSAGE_URL_MAX])
{
    pack_u32(pack, count);
    for (uint32_t i = 0; i < count; i++) {
        pack_text(pack, urls[i]);
    }
}

static psd_status unpack_urls(struct unpack *unpack, uint32_t *count_p,
                              char (**urls_p)[MESSAGE_URL_MAX],
                              const char *what)
{
    uint32_t count = unpack_u32(unpack);
    char (*urls)[MESSAGE_URL_MAX];
    psd_status status;

    status = check_count(unpack, count, WIRE_SHARDS_MAX, 4, what);
    if (status != PSD_OK) {
        return status;
    }
    urls = mem_zalloc_array(count, sizeof(*urls));
    if (urls == NULL) {
        return PSD_ENOMEM;
    }
    for (uint32_t i = 0; i < count; i++) {
        unpack_text(unpack, urls[i], sizeof(urls[i]));
    }
    status = finish(unpack, what);
    if (status != PSD_OK) {
        mem_free(urls);
        return status;
    }
    *count_p = count;
    *urls_p = urls;
    return PSD_OK;
}

void message_enter_pack(struct pack *pack, const struct message_enter *enter)
{
    pack_u32(pack, enter->pid);
    pack_u32(pack, enter->threads);
    pack_u32(pack, enter->block_size);
    pack_urls(pack, enter->url_count, enter->urls);
}

psd_status message_enter_unpack(struct message_enter *enter, const void *data,
                                size_t size)
{
    struct unpack unpack;

    *enter = (struct message_enter){ .pid = 0 };
    unpack_init(&unpack, data, size);
    enter->pid = unpack_u32(&unpack);
    enter->threads = unpack_u32(&unpack);
    enter->block_size = unpack_u32(&unpack);
    if (enter->threads > WIRE_SHARDS_MAX ||
        (enter->block_size != 0 && !is_block_size(enter->block_size))) {
        unpack.failed = true;
    }
    return unpack_urls(&unpack, &enter->url_count, &enter->urls, "enter");
}

void message_enter_fini(struct message_enter *enter)
{
    mem_free(enter->urls);
    enter->urls = NULL;
}

void message_shape_pack(struct pack *pack, const struct message_shape *shape)
{
    pack_u32(pack, shape->threads);
    pack_u32(pack, shape->block_size);
}

psd_status message_shape_unpack(struct message_shape *shape, const void *data,
                                size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    shape->threads = unpack_u32(&unpack);
    shape->block_size = unpack_u32(&unpack);
    if (shape->threads == 0 || shape->threads > WIRE_SHARDS_MAX ||
        !is_block_size(shape->block_size)) {
        unpack.failed = true;
    }
    return finish(&unpack, "shape");
}

void message_shards_pack(struct pack *pack,
                         const struct message_shards *shards)
{
    pack_urls(pack, shards->url_count, shards->urls);
}

psd_status message_shards_unpack(struct message_shards *shards,
                                 const void *data, size_t size)
{
    struct unpack unpack;

    *shards = (struct message_shards){ .url_count = 0 };
    unpack_init(&unpack, data, size);
    return unpack_urls(&unpack, &shards->url_count, &shards->urls, "shards");
}

void message_shards_fini(struct message_shards *shards)
{
    mem_free(shards->urls);
    shards->urls = NULL;
}

void message_members_pack(struct pack *pack,
                          const struct message_members *members)
{
    pack_u32(pack, members->epoch);
    pack_u32(pack, members->workers);
    pack_u32(pack, members->block_size);
    pack_urls(pack, members->shard_count, members->urls);
}

psd_status message_members_unpack(struct message_members *members,
                                  const void *data, size_t size)
{
    struct unpack unpack;

    *members = (struct message_members){ .epoch = 0 };
    unpack_init(&unpack, data, size);
    members->epoch = unpack_u32(&unpack);
    members->workers = unpack_u32(&unpack);
    members->block_size = unpack_u32(&unpack);
    if (!is_block_size(members->block_size)) {
        unpack.failed = true;
    }
    return unpack_urls(&unpack, &members->shard_count, &members->urls,
                       "members");
}

void message_members_fini(struct message_members *members)
{
    mem_free(members->urls);
    members->urls = NULL;
}

void message_table_pack(struct pack *pack, const struct message_table *table)
{
    pack_u32(pack, table->count);
    for (uint32_t i = 0; i < table->count; i++) {
        const struct message_spec *spec = &table->specs[i];

        pack_text(pack, spec->name);
        pack_u8(pack, spec->dtype);
        pack_u8(pack, spec->kind);
        pack_u64(pack, spec->count);
        pack_u32(pack, (uint32_t)spec->priority);
        pack_text(pack, spec->optim);
        pack_f64(pack, spec->rate);
        pack_f64(pack, spec->momentum);
    }
}

static void unpack_spec(struct unpack *unpack, struct message_spec *spec)
{
    unpack_text(unpack, spec->name, sizeof(spec->name));
    spec->dtype = unpack_u8(unpack);
    spec->kind = unpack_u8(unpack);
    spec->count = unpack_u64(unpack);
    spec->priority = (int32_t)unpack_u32(unpack);
    unpack_text(unpack, spec->optim, sizeof(spec->optim));
    spec->rate = unpack_f64(unpack);
    spec->momentum = unpack_f64(unpack);
    if (spec->dtype < PSD_FLOAT32 || spec->dtype > PSD_INT64 ||
        spec->kind > PSD_KIND_SHARED) {
        unpack->failed = true;
    }
}

psd_status message_table_unpack(struct message_table *table, const void *data,
                                size_t size)
{
    struct unpack unpack;
    uint32_t count;
    psd_status status;

    *table = (struct message_table){ .count = 0 };
    unpack_init(&unpack, data, size);
    count = unpack_u32(&unpack);
    status = check_count(&unpack, count, WIRE_TENSORS_MAX, SPEC_SIZE_MIN,
                         "table");
    if (status != PSD_OK) {
        return status;
    }
    table->specs = mem_zalloc_array(count, sizeof(*table->specs));
    if (table->specs == NULL) {
        return PSD_ENOMEM;
    }
    table->count = count;
    for (uint32_t i = 0; i < count; i++) {
        unpack_spec(&unpack, &table->specs[i]);
    }
    status = finish(&unpack, "table");
    if (status != PSD_OK) {
        message_table_fini(table);
    }
    return status;
}

void message_table_fini(struct message_table *table)
{
    mem_free(table->specs);
    *table = (struct message_table){ .count = 0 };
}

void message_digest_pack(struct pack *pack,
                         const struct message_digest *digest)
{
    pack_u32(pack, digest->count);
    for (uint32_t i = 0; i < digest->count; i++) {
        pack_u32(pack, digest->proofs[i].tensor);
        pack_u32(pack, digest->proofs[i].kind);
        pack_u64(pack, digest->proofs[i].step);
        pack_u32(pack, digest->proofs[i].crc);
    }
}

psd_status message_digest_unpack(struct message_digest *digest,
                                 const void *data, size_t size)
{
    struct unpack unpack;
    uint32_t count;
    psd_status status;

    *digest = (struct message_digest){ .count = 0 };
    unpack_init(&unpack, data, size);
    count = unpack_u32(&unpack);
    status = check_count(&unpack, count, UINT32_MAX, PROOF_SIZE, "digest");
    if (status != PSD_OK) {
        return status;
    }
    digest->proofs = mem_zalloc_array(count, sizeof(*digest->proofs));
    if (digest->proofs == NULL) {
        return PSD_ENOMEM;
    }
    digest->count = count;
    for (uint32_t i = 0; i < count; i++) {
        digest->proofs[i].tensor = unpack_u32(&unpack);
        digest->proofs[i].kind = unpack_u32(&unpack);
        digest->proofs[i].step = unpack_u64(&unpack);
        digest->proofs[i].crc = unpack_u32(&unpack);
    }
    status = finish(&unpack, "digest");
    if (status != PSD_OK) {
        message_digest_fini(digest);
    }
    return status;
}

void message_digest_fini(struct message_digest *digest)
{
    mem_free(digest->proofs);
    *digest = (struct message_digest){ .count = 0 };
}

void message_metrics_pack(struct pack *pack,
                          const struct message_metrics *metrics)
{
    pack_u64(pack, metrics->step);
    pack_f64(pack, metrics->loss);
    pack_u64(pack, metrics->samples);
    pack_u64(pack, metrics->exchanged_bytes);
    pack_u64(pack, metrics->sent_bytes);
    pack_u64(pack, metrics->received_bytes);
    pack_u64(pack, metrics->elapsed_ns);
    pack_u64(pack, metrics->wait_ns);
    pack_u64(pack, metrics->proofs);
}

psd_status message_metrics_unpack(struct message_metrics *metrics,
                                  const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    metrics->step = unpack_u64(&unpack);
    metrics->loss = unpack_f64(&unpack);
    metrics->samples = unpack_u64(&unpack);
    metrics->exchanged_bytes = unpack_u64(&unpack);
    metrics->sent_bytes = unpack_u64(&unpack);
    metrics->received_bytes = unpack_u64(&unpack);
    metrics->elapsed_ns = unpack_u64(&unpack);
    metrics->wait_ns = unpack_u64(&unpack);
    metrics->proofs = unpack_u64(&unpack);
    if (metrics->wait_ns > metrics->elapsed_ns) {
        unpack.failed = true;
    }
    return finish(&unpack, "metrics");
}

void message_end_pack(struct pack *pack, const struct message_end *end)
{
    pack_u32(pack, (uint32_t)end->status);
    pack_text(pack, end->reason);
}

psd_status message_end_unpack(struct message_end *end, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    end->status = (int32_t)unpack_u32(&unpack);
    unpack_text(&unpack, end->reason, sizeof(end->reason));
    return finish(&unpack, "end");
}
