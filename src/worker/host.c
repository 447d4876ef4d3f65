/* host.c: see host.h. */
#include "worker/host.h"

#include "base/log.h"
#include "base/mem.h"

psd_status host_init(struct host *host, const struct shm_board *shm,
                     const struct model *model, uint32_t rank, uint32_t ranks,
                     char **arenas, struct arena *arena)
{
    *host = (struct host){ .arena = arena };
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

/* Write on the board where this block lies. */
static void publish(struct host *host, uint32_t index)
{
    const struct model_block *block = block_of(host, index);
    const struct flight *flight = flight_of(host, index);
    struct frame_header say = {
        .flags = flight->data == NULL ? FRAME_FLAG_ABSENT : 0,
        .op = flight->op,
        .weight = flight->weight,
        .length = flight->length != 0 ? flight->length : block->size,
    };
    const char *at = host->blocks[index].stage;

    if (host->board.model->tensors[block->tensor].kind == PSD_KIND_GATHER) {
        say.length = flight->length;
        at = flight->staged;
    } else if (at == NULL) {
        at = flight->out + block->offset;
    }
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
    mine->posted = false;
    flight->flags |= cell->flags;
    flight->contributors = cell->contributors;
    if (--flight->blocks_left == 0) {
        host->done(host->user, block->tensor);
    }
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

/* Bring one block forward. */
enum move { MOVE_NONE, MOVE_POSTED, MOVE_DONE };

static enum move move_block(struct host *host, uint32_t index, bool urgent)
{
    enum move move = MOVE_NONE;

    if (!host->blocks[index].posted) {
        if (host->staged + block_of(host, index)->size > HOST_STAGE_AHEAD &&
            host->staged > 0 && !urgent) {
            return MOVE_NONE;
        }
        if (!stage(host, index)) {
            return MOVE_NONE;
        }
        publish(host, index);
        move = MOVE_POSTED;
    }
    if (board_try(&host->board, index, flight_of(host, index)->step) !=
        BOARD_DONE) {
        return move;
    }
    list_remove(&host->blocks[index].node);
    finish(host, index);
    return MOVE_DONE;
}

static unsigned progress(struct host *host, bool urgent, unsigned limit)
{
    struct list *node = host->pending.next;
    unsigned moved = 0;

    while (node != &host->pending && limit-- > 0) {
        struct host_block *mine = list_entry(node, struct host_block, node);

        node = node->next;
        if (move_block(host, (uint32_t)(mine - host->blocks), urgent) !=
            MOVE_NONE) {
            urgent = false; /* one step beyond the bound at a time */
            moved++;
        }
    }
    return moved;
}

unsigned host_progress(struct host *host, bool urgent)
{
    return progress(host, urgent, UINT32_MAX);
}

void host_post(struct host *host, uint32_t index)
{
    const struct model_tensor *tensor = &host->board.model->tensors[index];
    struct flight *flight = &host->flights[index];
    uint32_t end = tensor->block_first + tensor->block_count;
    bool direct = tensor->kind == PSD_KIND_GATHER ||
                  in_place(host, flight, tensor->size);

    mem_path_enter();
    progress(host, false, HOST_LOOK_BACK);
    flight->blocks_left = tensor->block_count;
    for (uint32_t i = tensor->block_first; i < end; i++) {
        list_append(&host->pending, &host->blocks[i].node);
        if (direct) {
            publish(host, i);
        }
    }
    call_helpers(host, tensor->size);
    for (uint32_t i = tensor->block_first; i < end; i++) {
        move_block(host, i, false);
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

uint32_t host_missing(const struct host *host, uint32_t block)
{
    const struct board_cell *cell = board_cell(&host->board, block);
    uint32_t turn = (uint32_t)flight_of(host, block)->step + 1;

    for (uint32_t r = 0; r < host->board.ranks; r++) {
        if (atomic_load(&cell->entry[r].turn) != turn) {
            return r;
        }
    }
    return UINT32_MAX;
}
