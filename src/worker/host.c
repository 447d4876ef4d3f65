/* host.c: see host.h. */
#include "worker/host.h"

#include "base/log.h"
#include "base/mem.h"

psd_status host_init(struct host *host, const struct shm_board *shm,
                     const struct model *model, uint32_t rank, uint32_t ranks,
                     char **arenas, struct arena *arena)
{
    *host = (struct host){ .arena = arena, .burst = HOST_STAGE_MORE };
    list_init(&host->pending);
    return board_init(&host->board, shm, model, rank, ranks, arenas,
                      arena->size);
}

void host_fini(struct host *host)
{
    board_fini(&host->board);
    mem_free(host->blocks);
    *host = (struct host){ .arena = NULL };
}

static void *value_alloc(void *user, size_t size)
{
    return arena_alloc(user, size);
}

psd_status host_add(struct host *host, struct flight *flights)
{
    uint32_t count = host->board.model->block_count;
    uint32_t before = host->block_count;
    void *blocks = host->blocks;
    psd_status status;

    PSD_ASSERT(list_empty(&host->pending)); /* the nodes are going to move */
    status = mem_grow(&blocks, before, count, sizeof(*host->blocks));
    if (status != PSD_OK) {
        return status;
    }
    host->blocks = blocks;
    for (uint32_t i = 0; i < count; i++) {
        list_init(&host->blocks[i].node);
    }
    host->block_count = count;
    host->flights = flights;
    return board_add(&host->board, before, value_alloc, host->arena);
}

/* ---- one block --------------------------------------------------------- */

static const struct model_block *block_of(const struct host *host,
                                          uint32_t index)
{
    return &host->board.model->blocks[index];
}

static struct flight *flight_of(const struct host *host, uint32_t index)
{
    return &host->flights[block_of(host, index)->tensor];
}

/* Write on the board where this block lies; NULL: we keep it. */
static void publish(struct host *host, uint32_t index, const char *at)
{
    const struct model_block *block = block_of(host, index);
    const struct flight *flight = flight_of(host, index);
    struct frame_header say = {
        .flags = flight->data == NULL ? FRAME_FLAG_ABSENT : 0,
        .op = flight->op,
        .weight = flight->weight,
        .length = flight->op == WIRE_OP_GATHER ? flight->length
                                               : block->size,
    };

    board_publish(&host->board, index, flight->step, &say, at);
    host->blocks[index].posted = true;
}

/* Give a private block memory that the others can see. False: the arena is
 * full. */
static bool stage(struct host *host, uint32_t index)
{
    const struct model_block *block = block_of(host, index);
    const struct flight *flight = flight_of(host, index);
    char *memory = arena_alloc(host->arena, block->size);

    if (memory == NULL) {
        return false;
    }
    if (flight->data != NULL) {
        memcpy(memory, flight->data + block->offset, block->size);
    }
    host->blocks[index].stage = memory;
    host->staged += block->size;
    return true;
}

/* The block is answered: out of the list, and so perhaps its tensor. */
static void conclude(struct host *host, uint32_t index)
{
    struct host_block *mine = &host->blocks[index];
    struct flight *flight = flight_of(host, index);

    list_remove(&mine->node);
    mine->posted = false;
    host->burst = HOST_STAGE_MORE;
    if (--flight->blocks_left == 0) {
        host->done(host->user, block_of(host, index)->tensor);
    }
}

static void finish(struct host *host, uint32_t index)
{
    const struct model_block *block = block_of(host, index);
    const struct board_cell *cell = board_cell(&host->board, index);
    struct host_block *mine = &host->blocks[index];
    struct flight *flight = flight_of(host, index);

    if (mine->stage != NULL) {
        if (cell->length > 0) {
            memcpy(flight->out + block->offset, mine->stage, block->size);
        }
        arena_free(host->arena, mine->stage);
        host->staged -= block->size;
        mine->stage = NULL;
    }
    flight->flags |= cell->flags;
    flight->contributors = cell->contributors;
    flight->bad = reduce_first_bad(flight->bad, cell->bad);
    conclude(host, index);
}

/* ---- all that is in flight --------------------------------------------- */

/* Wake sleepers when there is enough for more than one to do. */
static void call_helpers(struct host *host, uint64_t size)
{
    unsigned called = 0;

    for (uint32_t r = 0; r < host->board.ranks && size >= HOST_HELP_MIN &&
                         called < host->helpers;
         r++) {
        struct shm_bell *bell = shm_bell(host->board.shm, r);

        if (r != host->board.rank &&
            atomic_load_explicit(&bell->sleeping, memory_order_relaxed) !=
                0) {
            shm_bell_ring(bell);
            called++;
        }
    }
}

/* Can the others read and write the caller's memory itself? */
static bool in_place(const struct host *host, const struct flight *flight,
                     uint64_t size)
{
    return (flight->data == NULL || flight->data == flight->out) &&
           arena_contains(host->arena, flight->out, size);
}

/* Publish a block of private memory, if it may be now: the owner keeps it and
 * reads it where it is, the others stage it. */
static bool post_private(struct host *host, uint32_t index)
{
    const struct model_block *block = block_of(host, index);

    if (block->shard == host->board.rank &&
        host->board.model->tensors[block->tensor].size >= host->keep_min) {
        publish(host, index, NULL);
        return true;
    }
    if (host->staged + block->size > HOST_STAGE_AHEAD && host->staged > 0) {
        if (host->spare == 0) {
            return false;
        }
        host->spare -= host->spare < block->size ? host->spare : block->size;
    }
    if (!stage(host, index)) {
        return false;
    }
    publish(host, index, host->blocks[index].stage);
    board_call_owner(&host->board, index, flight_of(host, index)->step);
    return true;
}

/* Where a block lies that we keep. */
static struct board_kept kept_memory(void *user, uint32_t index)
{
    const struct host *host = user;
    const struct flight *flight = flight_of(host, index);
    uint64_t offset = block_of(host, index)->offset;

    return (struct board_kept){
        .data = flight->data == NULL ? NULL : flight->data + offset,
        .out = flight->out + offset,
    };
}

/* May this block be left to its owner? Not when that is us, when it sleeps, or
 * when somebody sleeps until the block is done. */
static bool leave_to_owner(const struct host *host, uint32_t index)
{
    uint32_t owner = block_of(host, index)->shard;

    for (uint32_t r = 0; r < host->board.ranks; r++) {
        uint32_t what = atomic_load_explicit(
            &shm_bell(host->board.shm, r)->sleeping, memory_order_relaxed);

        if (what == index + 1 || (what != 0 && r == owner)) {
            return false;
        }
    }
    return owner != host->board.rank;
}

/* Bring one block forward, and sum it if that is for us to do now. */
enum move { MOVE_NONE, MOVE_POSTED, MOVE_DONE };
enum share { SHARE_OWN, SHARE_ALL };

/* A SHARED block waits for nobody but who is at it this moment. */
static enum move move_shared(struct host *host, uint32_t index)
{
    struct flight *flight = flight_of(host, index);
    struct board_kept memory = kept_memory(host, index);
    struct board_call call = {
        .data = memory.data,
        .out = memory.out,
        .base = flight->base == NULL
                    ? NULL
                    : flight->base + block_of(host, index)->offset,
        .weight = flight->weight,
        .op = flight->op,
    };

    host->blocks[index].posted = true;
    if (board_add_to(&host->board, index, &call) != BOARD_DONE) {
        return MOVE_NONE;
    }
    flight->contributors = host->board.round.contributors;
    flight->bad = reduce_first_bad(flight->bad, host->board.round.bad);
    conclude(host, index);
    return MOVE_DONE;
}

static bool is_shared(const struct host *host, uint32_t index)
{
    return host->board.model->tensors[block_of(host, index)->tensor].kind ==
           PSD_KIND_SHARED;
}

static enum move move_block(struct host *host, uint32_t index,
                            enum share share)
{
    struct host_block *mine = &host->blocks[index];
    enum move move = MOVE_NONE;

    if (is_shared(host, index)) {
        return move_shared(host, index);
    }
    if (!mine->posted) {
        if (!post_private(host, index)) {
            return MOVE_NONE;
        }
        move = MOVE_POSTED;
    }
    if (share == SHARE_OWN && leave_to_owner(host, index)
            ? !board_done(&host->board, index, mine->step)
            : board_try(&host->board, index, mine->step, kept_memory, host) !=
                  BOARD_DONE) {
        return move;
    }
    finish(host, index);
    return MOVE_DONE;
}

unsigned host_progress(struct host *host, bool urgent)
{
    struct list *node = host->pending.next;
    unsigned moved = 0;

    host->spare = urgent ? host->burst : 0;
    while (node != &host->pending) {
        struct host_block *mine = list_entry(node, struct host_block, node);

        node = node->next;
        if (node != &host->pending) {
            struct host_block *next =
                list_entry(node, struct host_block, node);

            __builtin_prefetch(board_cell(
                &host->board, (uint32_t)(next - host->blocks)));
        }
        moved += move_block(host, (uint32_t)(mine - host->blocks),
                            SHARE_ALL) != MOVE_NONE;
    }
    if (host->spare < host->burst && urgent) {
        host->burst *= 2; /* twice as much, if even that moves nothing */
    }
    host->spare = 0;
    return moved;
}

/* The oldest ones, as long as they are done. */
static void finish_oldest(struct host *host)
{
    for (unsigned i = 0; i < HOST_LOOK_BACK; i++) {
        struct list *node = list_first(&host->pending);
        struct host_block *mine;

        if (node == NULL) {
            return;
        }
        mine = list_entry(node, struct host_block, node);
        if (move_block(host, (uint32_t)(mine - host->blocks), SHARE_OWN) !=
            MOVE_DONE) {
            return;
        }
    }
}

/* In a push we sum what is ours to sum and leave the rest to its owners, so
 * that the ranks share the work. */
void host_post(struct host *host, uint32_t index)
{
    const struct model_tensor *tensor = &host->board.model->tensors[index];
    struct flight *flight = &host->flights[index];
    uint32_t end = tensor->block_first + tensor->block_count;
    bool shared = tensor->kind == PSD_KIND_SHARED;
    bool direct = tensor->kind == PSD_KIND_GATHER ||
                  (!shared && in_place(host, flight, tensor->size));

    mem_path_enter();
    finish_oldest(host);
    flight->blocks_left = tensor->block_count;
    for (uint32_t i = tensor->block_first; i < end; i++) {
        list_append(&host->pending, &host->blocks[i].node);
        host->blocks[i].step = flight->step;
        if (direct) {
            publish(host, i,
                    flight->staged != NULL
                        ? flight->staged
                        : flight->out + block_of(host, i)->offset);
        }
    }
    /* Either we see that somebody sleeps, or he sees what we published. */
    atomic_thread_fence(memory_order_seq_cst);
    call_helpers(host, shared ? 0 : tensor->size);
    for (uint32_t i = tensor->block_first; i < end; i++) {
        if (direct) { /* its owner may keep a private part */
            board_call_owner(&host->board, i, flight->step);
        }
        move_block(host, i, SHARE_OWN);
    }
    mem_path_leave();
}

uint32_t host_pending(const struct host *host, uint32_t tensor)
{
    for (struct list *node = host->pending.next; node != &host->pending;
         node = node->next) {
        struct host_block *mine = list_entry(node, struct host_block, node);
        uint32_t index = (uint32_t)(mine - host->blocks);

        if (mine->posted && (tensor == UINT32_MAX ||
                             block_of(host, index)->tensor == tensor)) {
            return index;
        }
    }
    return UINT32_MAX;
}
