/*
 * shm.c: see shm.h. What lies in a ring was written by another process: the
 * header is copied out before it is checked, indices and spans are checked
 * against what this process knows.
 */
#define _GNU_SOURCE
#include "transport/shm.h"

#include <assert.h>
#include <limits.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/link.h"

#if defined(__SANITIZE_THREAD__)
#define SHM_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SHM_TSAN 1
#endif
#endif
#ifdef SHM_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#define SHM_LINE 64
#define SHM_PAGE 4096

static_assert(sizeof(struct shm_head) == SHM_LINE, "one cache line");
static_assert(sizeof(struct shm_bell) == SHM_LINE, "one cache line");
static_assert(sizeof(struct shm_ring) % SHM_LINE == 0, "whole cache lines");
static_assert((SHM_RING_SLOTS & (SHM_RING_SLOTS - 1)) == 0, "power of two");

struct shm_link {
    struct psd_link *link;
    struct loop_poller poller;
    struct shm_ring *out;
    struct shm_ring *in;
    struct shm_bell *peer;
    bool starved;
    bool open;
    uint32_t regions;      /* the largest id mapped */
    uint32_t last_region;  /* where the last payload was found */
    struct psd_region region[LINK_REGIONS_MAX]; /* by id */
};

/* ---- the board --------------------------------------------------------- */

static size_t rings_offset(uint32_t workers, uint32_t shards)
{
    return sizeof(struct shm_head) +
           ((size_t)workers + shards) * sizeof(struct shm_bell);
}

size_t shm_board_front(uint32_t workers, uint32_t shards)
{
    size_t size = rings_offset(workers, shards) +
                  (size_t)workers * shards * 2 * sizeof(struct shm_ring);

    return (size + SHM_PAGE - 1) / SHM_PAGE * SHM_PAGE;
}

void shm_board_format(void *base, uint32_t workers, uint32_t shards)
{
    struct shm_head *head = base;

    head->version = WIRE_VERSION;
    head->workers = workers;
    head->shards = shards;
    head->magic = SHM_MAGIC;
}

psd_status shm_board_init(struct shm_board *board, void *base, size_t size,
                          uint32_t workers, uint32_t shards)
{
    struct shm_head *head = base;

    if (size < sizeof(*head) || size < shm_board_front(workers, shards) ||
        head->magic != SHM_MAGIC || head->version != WIRE_VERSION ||
        head->workers != workers || head->shards != shards) {
        log_error("shm: the board is not one of %u workers and %u shards",
                  workers, shards);
        return PSD_EPROTO;
    }
    board->head = head;
    board->size = size;
    return PSD_OK;
}

struct shm_bell *shm_bell(const struct shm_board *board, uint32_t member)
{
    PSD_ASSERT(member < board->head->workers + board->head->shards);
    return (struct shm_bell *)(void *)(board->head + 1) + member;
}

static struct shm_ring *pair_rings(const struct shm_board *board,
                                   uint32_t worker, uint32_t shard)
{
    uint32_t workers = board->head->workers;
    uint32_t shards = board->head->shards;
    char *rings = (char *)board->head + rings_offset(workers, shards);
    size_t pair = (size_t)worker * shards + shard;

    return (struct shm_ring *)(void *)rings + pair * 2;
}

/* ---- bells ------------------------------------------------------------- */

/* Between "published" and "does anybody sleep". The sleeper does the same the
 * other way round, so that one of the two sees the other. */
static void full_fence(struct shm_bell *bell)
{
#ifdef SHM_TSAN
    (void)atomic_fetch_add(&bell->sleeping, 0); /* fences are unknown to it */
#else
    (void)bell;
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

static void ring_if_asleep(struct shm_bell *bell)
{
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0) {
        atomic_fetch_add(&bell->rings, 1);
        futex_wake(&bell->rings, INT_MAX);
    }
}

void shm_bell_ring(struct shm_bell *bell)
{
    full_fence(bell);
    ring_if_asleep(bell);
}

/* ---- order ------------------------------------------------------------- */

/* A worker gives a span to one shard, takes the answer, and may give the same
 * memory to another shard. Where two shards are threads of one process, that
 * order runs through the worker's process, which ThreadSanitizer does not see:
 * it is told that what is taken comes after all that this process has sent.
 * Memory that is touched after it was handed over is still reported. */
#ifdef SHM_TSAN
static char order;
#endif

static void hand_over(void)
{
#ifdef SHM_TSAN
    __tsan_release(&order);
#endif
}

static void take_over(void)
{
#ifdef SHM_TSAN
    __tsan_acquire(&order);
#endif
}

/* ---- sending ----------------------------------------------------------- */

static bool region_holds(const struct psd_region *region, const void *payload,
                         size_t size)
{
    uintptr_t base = (uintptr_t)region->base;
    uintptr_t at = (uintptr_t)payload;

    return region->base != NULL && at >= base && size <= region->size &&
           at - base <= region->size - size;
}

static psd_status find_span(struct shm_link *shm, struct frame_header *header,
                            const void *payload)
{
    uint32_t found = shm->last_region;

    if (!region_holds(&shm->region[found], payload, header->length)) {
        for (found = 1; found <= shm->regions; found++) {
            if (region_holds(&shm->region[found], payload, header->length)) {
                break;
            }
        }
        if (found > shm->regions) {
            log_error("shm: a payload of %u bytes lies in no region",
                      header->length);
            return PSD_EINVAL;
        }
        shm->last_region = found;
    }
    header->region = (uint16_t)found;
    header->offset = (uint64_t)((uintptr_t)payload -
                                (uintptr_t)shm->region[found].base);
    return PSD_OK;
}

static bool ring_is_full(struct shm_ring *ring)
{
    uint32_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);

    return tail - atomic_load(&ring->head) >= SHM_RING_SLOTS;
}

/* Room must not appear unseen between looking and saying that we wait. */
static bool out_is_full(struct shm_link *shm)
{
    if (!ring_is_full(shm->out)) {
        return false;
    }
    atomic_store(&shm->out->starved, 1);
    return ring_is_full(shm->out);
}

static psd_status shm_send(struct psd_link *link,
                           const struct frame_header *header,
                           const void *payload)
{
    struct shm_link *shm = link->state;
    struct frame_header copy = *header;
    uint32_t tail;

    if (!shm->open) {
        return PSD_ELOST;
    }
    if (out_is_full(shm)) {
        shm->starved = true;
        return PSD_AGAIN;
    }
    copy.flags &= (uint16_t)~FRAME_FLAG_CRC;
    copy.size = 0;
    if (payload != NULL) {
        psd_status status = find_span(shm, &copy, payload);

        if (status != PSD_OK) {
            return status;
        }
    }
    frame_seal(&copy, NULL);
    tail = atomic_load_explicit(&shm->out->tail, memory_order_relaxed);
    shm->out->slots[tail % SHM_RING_SLOTS] = copy;
    hand_over();
    atomic_store_explicit(&shm->out->tail, tail + 1, memory_order_release);
    shm_bell_ring(shm->peer);
    return PSD_OK;
}

static void shm_flush(struct psd_link *link)
{
    (void)link; /* a slot is handed over when it is written */
}

static size_t shm_pending(const struct psd_link *link)
{
    (void)link;
    return 0;
}

/* ---- receiving --------------------------------------------------------- */

static psd_status resolve_span(const struct shm_link *shm,
                               const struct frame_header *header,
                               const void **payload_p)
{
    const struct psd_region *region;

    *payload_p = NULL;
    if (header->region == 0 && header->length == 0) {
        return PSD_OK;
    }
    if (header->region == 0 || header->region > shm->regions ||
        shm->region[header->region].base == NULL) {
        log_error("shm: a span in the unknown region %u", header->region);
        return PSD_EPROTO;
    }
    region = &shm->region[header->region];
    if (header->length > region->size ||
        header->offset > region->size - header->length) {
        log_error("shm: a span of %u bytes leaves region %u", header->length,
                  header->region);
        return PSD_EPROTO;
    }
    *payload_p = (const char *)region->base + header->offset;
    return PSD_OK;
}

static psd_status take_slot(struct shm_link *shm, uint32_t head)
{
    struct frame_header header = shm->in->slots[head % SHM_RING_SLOTS];
    const void *payload;
    psd_status status;

    atomic_store(&shm->in->head, head + 1);
    if (header.size != 0) {
        log_error("shm: a slot with an inline payload");
        return PSD_EPROTO;
    }
    status = frame_check_header(&header);
    if (status == PSD_OK) {
        status = resolve_span(shm, &header, &payload);
    }
    if (status != PSD_OK) {
        return status;
    }
    return link_deliver(shm->link, &header, payload);
}

static psd_status take_slots(struct shm_link *shm, unsigned *taken_p)
{
    struct shm_ring *ring = shm->in;
    uint32_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint32_t count = atomic_load(&ring->tail) - head;
    psd_status status = PSD_OK;

    if (count > SHM_RING_SLOTS) {
        log_error("shm: a ring of %u frames", count);
        return PSD_EPROTO;
    }
    if (count > 0) {
        take_over();
    }
    while (*taken_p < count && status == PSD_OK && !shm->link->closed) {
        status = take_slot(shm, head + *taken_p);
        *taken_p += 1;
    }
    /* The store of head and this load are both sequentially consistent, as
     * are the sender's two in out_is_full. */
    if (*taken_p > 0 && !shm->link->closed &&
        atomic_load(&ring->starved) != 0) {
        atomic_store(&ring->starved, 0);
        shm_bell_ring(shm->peer);
    }
    return status;
}

static void shm_fail(struct shm_link *shm, psd_status why)
{
    shm->open = false;
    atomic_store(&shm->out->closed, 1);
    shm_bell_ring(shm->peer);
    link_down(shm->link, why);
}

static unsigned on_poll(struct loop_poller *poller)
{
    struct shm_link *shm = list_entry(poller, struct shm_link, poller);
    struct psd_link *link = shm->link;
    psd_status status;
    unsigned taken = 0;
    bool closed;

    if (!shm->open || link->busy > 0) {
        return 0;
    }
    link_enter(link);
    closed = atomic_load(&shm->in->closed) != 0; /* before the last look */
    status = take_slots(shm, &taken);
    if (status == PSD_OK && closed && taken == 0) {
        status = PSD_ELOST;
    }
    if (status != PSD_OK && !link->closed) {
        shm_fail(shm, status);
    }
    if (shm->open && shm->starved && !link->closed &&
        !ring_is_full(shm->out)) {
        shm->starved = false;
        link_ready(link);
    }
    link_leave(link);
    return taken;
}

unsigned shm_poll(struct psd_loop *loop)
{
    return loop_poll(loop);
}

/* ---- the row ----------------------------------------------------------- */

static psd_status shm_open(struct psd_link *link, const char *url)
{
    (void)link;
    log_error("shm: %s: a link through a board comes from shm_link_open",
              url);
    return PSD_EINVAL;
}

static psd_status shm_map(struct psd_link *link,
                          const struct psd_region *region)
{
    struct shm_link *shm = link->state;

    if (region->id == 0 || region->id >= LINK_REGIONS_MAX ||
        region->base == NULL) {
        log_error("shm: cannot map region %u", region->id);
        return PSD_EINVAL;
    }
    shm->region[region->id] = *region;
    if (region->id > shm->regions) {
        shm->regions = region->id;
    }
    return PSD_OK;
}

static void shm_close(struct psd_link *link)
{
    struct shm_link *shm = link->state;

    loop_poller_remove(&shm->poller);
    if (shm->open) {
        shm->open = false;
        atomic_store(&shm->out->closed, 1);
        shm_bell_ring(shm->peer);
    }
}

const struct psd_transport psd_transport_shm = {
    .name = "shm",
    .summary = "rings and spans in memory that processes of a host share",
    .link_size = sizeof(struct shm_link),
    .open = shm_open,
    .send = shm_send,
    .flush = shm_flush,
    .map = shm_map,
    .pending = shm_pending,
    .close = shm_close,
};

psd_status shm_link_open(struct psd_loop *loop, const struct shm_board *board,
                         uint32_t worker, uint32_t shard, bool is_shard,
                         const struct link_events *events, void *user,
                         struct psd_link **link_p)
{
    struct shm_ring *rings;
    struct psd_link *link;
    struct shm_link *shm;
    psd_status status;

    if (worker >= board->head->workers || shard >= board->head->shards) {
        log_error("shm: no rings for worker %u, shard %u", worker, shard);
        return PSD_EINVAL;
    }
    status = link_create(&psd_transport_shm, loop, events, user, &link);
    if (status != PSD_OK) {
        return status;
    }
    rings = pair_rings(board, worker, shard);
    shm = link->state;
    shm->link = link;
    shm->out = &rings[is_shard ? 1 : 0];
    shm->in = &rings[is_shard ? 0 : 1];
    shm->peer = shm_bell(board, is_shard ? worker
                                         : board->head->workers + shard);
    shm->open = true;
    link->mapped = true;
    link->identity.rank = worker;
    link->identity.shard = shard;
    atomic_store(&shm->out->closed, 0);
    loop_poller_add(loop, &shm->poller, on_poll);
    *link_p = link;
    return PSD_OK;
}
