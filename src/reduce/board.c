/* board.c: see board.h. */
#include "reduce/board.h"

#include <inttypes.h>

#include "base/log.h"
#include "base/mem.h"

psd_status board_init(struct board *board, const struct shm_board *shm,
                      const struct model *model, uint32_t rank,
                      uint32_t ranks, char **arena, uint64_t arena_size)
{
    size_t front = shm_board_front(shm->head->workers, shm->head->shards);

    *board = (struct board){
        .shm = shm,
        .model = model,
        .cells = (char *)shm->head + front,
        .cell_size = sizeof(struct board_cell) +
                     (ranks + ranks % 2) * sizeof(struct board_entry),
        .rank = rank,
        .ranks = ranks,
        .arena = arena,
        .arena_size = arena_size,
    };
    board->cell_max = (uint32_t)((shm->size - front) / board->cell_size);
    return reduce_round_init(&board->round, ranks);
}

void board_fini(struct board *board)
{
    reduce_round_fini(&board->round);
}

psd_status board_add(struct board *board, uint32_t first,
                     void *(*alloc)(void *user, size_t size), void *user)
{
    if (board->model->block_count > board->cell_max) {
        log_error("board: %" PRIu32 " blocks, there is room for %" PRIu32,
                  board->model->block_count, board->cell_max);
        return PSD_ENOMEM;
    }
    for (uint32_t i = first; i < board->model->block_count; i++) {
        const struct model_block *block = &board->model->blocks[i];
        const struct model_tensor *tensor =
            &board->model->tensors[block->tensor];
        size_t size = reduce_store_size(tensor, block->size);
        char *value;

        if (size == 0 || block->shard != board->rank) {
            continue;
        }
        value = alloc(user, size);
        if (value == NULL) {
            return PSD_ENOMEM;
        }
        memset(value, 0, size);
        board_cell(board, i)->value =
            (uint64_t)(value - board->arena[board->rank]) + 1;
    }
    return PSD_OK;
}

void board_publish(struct board *board, uint32_t block, uint64_t step,
                   const struct frame_header *say, const void *at)
{
    struct board_entry *entry = &board_cell(board, block)->entry[board->rank];

    atomic_store_explicit(
        &entry->flags,
        (uint16_t)(say->flags | (at == NULL ? BOARD_KEPT : 0)),
        memory_order_relaxed);
    entry->op = say->op;
    entry->offset =
        at == NULL ? 0
                   : (uint64_t)((const char *)at - board->arena[board->rank]);
    entry->weight = say->weight;
    entry->length = say->length;
    atomic_store_explicit(&entry->turn, (uint32_t)step + 1,
                          memory_order_release);
}

static bool rank_joined(const struct board *board, uint32_t rank)
{
    uint32_t joined = atomic_load_explicit(
        &shm_bell(board->shm, rank)->joined, memory_order_acquire);

    return (int32_t)(joined - board->generation) > 0;
}

static bool complete(const struct board *board, const struct board_cell *cell,
                     uint32_t turn)
{
    for (uint32_t r = 0; r < board->ranks; r++) {
        if (atomic_load_explicit(&cell->entry[r].turn,
                                 memory_order_acquire) != turn &&
            !rank_joined(board, r)) {
            return false;
        }
    }
    return true;
}

/* Can only another rank sum it? Not one that has joined: what its entry says
 * is of an older turn. */
static bool kept_by_another(const struct board *board,
                            const struct board_cell *cell, uint32_t index,
                            uint32_t turn)
{
    uint32_t owner = board->model->blocks[index].shard;
    const struct board_entry *entry = &cell->entry[owner];

    return owner != board->rank &&
           atomic_load_explicit(&entry->turn, memory_order_relaxed) == turn &&
           (atomic_load_explicit(&entry->flags, memory_order_relaxed) &
            BOARD_KEPT) != 0;
}

/* Bytes that came from another process: where would they lead, and would the
 * op write what fits there? */
static bool entry_fits(const struct board *board,
                       const struct board_entry *entry,
                       const struct model_tensor *tensor, uint32_t size)
{
    uint64_t needed = size;

    if (tensor->kind == PSD_KIND_GATHER) {
        needed = reduce_gather_size(board->ranks, size) + size;
    }
    return needed <= board->arena_size &&
           entry->offset <= board->arena_size - needed &&
           entry->length <= size &&
           ((entry->flags & FRAME_FLAG_ABSENT) == 0
                ? reduce_op_fits(tensor, entry->op)
                : !(entry->weight > 0.0) ||
                      reduce_zeros_fit(tensor, entry->op));
}

/* Fill the round from the cell. */
static void gather_round(struct board *board, const struct board_cell *cell,
                         uint32_t turn, const struct board_kept *kept)
{
    struct reduce_round *round = &board->round;
    bool gather = round->tensor->kind == PSD_KIND_GATHER;

    round->outputs = 0;
    for (uint32_t r = 0; r < board->ranks; r++) {
        const struct board_entry *entry = &cell->entry[r];
        struct reduce_rank *rank = &round->rank[r];
        bool mine;
        char *at;

        *rank = (struct reduce_rank){ .data = NULL };
        if (atomic_load_explicit(&entry->turn, memory_order_relaxed) != turn) {
            continue; /* joined */
        }
        if (!entry_fits(board, entry, round->tensor, round->size)) {
            log_error("board: rank %" PRIu32 " points outside its arena", r);
            atomic_store(&board->shm->head->failed, 1);
            continue;
        }
        at = board->arena[r] + entry->offset;
        mine = r == board->rank && (entry->flags & BOARD_KEPT) != 0;
        round->output[round->outputs++] = mine ? kept->out : at;
        rank->weight = entry->weight;
        rank->op = entry->op;
        if ((entry->flags & FRAME_FLAG_ABSENT) != 0) {
            continue;
        }
        rank->data = gather ? at + reduce_gather_size(board->ranks,
                                                      round->size)
                            : at;
        if (mine) {
            rank->data = kept->data;
        }
        rank->length = entry->length;
    }
}

/* What a round of this block is about. */
static void begin_round(struct board *board, const struct board_cell *cell,
                        uint32_t index, uint64_t step)
{
    const struct model_block *block = &board->model->blocks[index];
    struct reduce_round *round = &board->round;

    round->tensor = &board->model->tensors[block->tensor];
    round->size = block->size;
    round->step = step;
    round->value = NULL;
    if (cell->value != 0) {
        round->value =
            (void *)(board->arena[block->shard] + cell->value - 1);
    }
}

static void run_cell(struct board *board, struct board_cell *cell,
                     uint32_t index, uint64_t step,
                     const struct board_kept *kept)
{
    struct reduce_round *round = &board->round;

    begin_round(board, cell, index, step);
    gather_round(board, cell, (uint32_t)step + 1, kept);
    reduce_run(round);
    cell->flags = round->flags;
    cell->contributors = round->contributors;
    cell->length = round->length;
    cell->bad = round->bad;
}

/* Wake the ranks that sleep until this block is done. The store of `done`
 * must not pass the look at `sleeping`. */
static void wake(const struct board *board, uint32_t index)
{
    atomic_thread_fence(memory_order_seq_cst);
    for (uint32_t r = 0; r < board->ranks; r++) {
        struct shm_bell *bell = shm_bell(board->shm, r);
        uint32_t what = atomic_load_explicit(&bell->sleeping,
                                             memory_order_relaxed);

        if (r != board->rank &&
            (what == index + 1 || what == BOARD_ANY_BLOCK)) {
            shm_bell_ring(bell);
        }
    }
}

enum board_state board_try(struct board *board, uint32_t index, uint64_t step,
                           board_kept_call *kept, void *user)
{
    struct board_cell *cell = board_cell(board, index);
    uint32_t turn = (uint32_t)step;
    struct board_kept mine = { NULL, NULL };

    if (board_done(board, index, step)) {
        return BOARD_DONE;
    }
    if (atomic_load_explicit(&cell->claimed, memory_order_relaxed) != turn) {
        return BOARD_BUSY;
    }
    if (!complete(board, cell, turn + 1)) {
        return BOARD_WAITING;
    }
    if (kept_by_another(board, cell, index, turn + 1)) {
        return BOARD_BUSY;
    }
    if (!atomic_compare_exchange_strong(&cell->claimed, &turn, turn + 1)) {
        return BOARD_BUSY;
    }
    if ((cell->entry[board->rank].flags & BOARD_KEPT) != 0) {
        mine = kept(user, index);
    }
    run_cell(board, cell, index, step, &mine);
    atomic_store_explicit(&cell->done, (uint32_t)step + 1,
                          memory_order_release);
    wake(board, index);
    return BOARD_DONE;
}

enum board_state board_add_to(struct board *board, uint32_t index,
                              const struct board_call *call)
{
    struct board_cell *cell = board_cell(board, index);
    struct reduce_round *round = &board->round;
    uint32_t unlocked = 0;

    if (!atomic_compare_exchange_strong(&cell->claimed, &unlocked, 1)) {
        return BOARD_BUSY;
    }
    begin_round(board, cell, index, 0);
    for (uint32_t r = 0; r < board->ranks; r++) {
        round->rank[r] = (struct reduce_rank){ .data = NULL };
    }
    round->rank[board->rank] = (struct reduce_rank){
        .data = call->data,
        .base = call->base,
        .weight = call->weight,
        .length = round->size,
        .op = call->op,
    };
    round->output[0] = call->out;
    round->outputs = 1;
    reduce_run(round);
    atomic_fetch_add_explicit(&cell->done, 1, memory_order_relaxed);
    atomic_store_explicit(&cell->claimed, 0, memory_order_release);
    wake(board, index);
    return BOARD_DONE;
}

void board_call_owner(struct board *board, uint32_t index, uint64_t step)
{
    struct shm_bell *bell =
        shm_bell(board->shm, board->model->blocks[index].shard);
    const struct board_cell *cell = board_cell(board, index);

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&bell->sleeping, memory_order_relaxed) != 0 &&
        complete(board, cell, (uint32_t)step + 1) &&
        kept_by_another(board, cell, index, (uint32_t)step + 1)) {
        shm_bell_ring(bell);
    }
}

void board_join(struct board *board)
{
    atomic_store(&shm_bell(board->shm, board->rank)->joined,
                 board->generation + 1);
    for (uint32_t r = 0; r < board->ranks; r++) {
        shm_bell_ring(shm_bell(board->shm, r));
    }
}

bool board_joined(struct board *board)
{
    for (uint32_t r = 0; r < board->ranks; r++) {
        if (!rank_joined(board, r)) {
            return false;
        }
    }
    return true;
}
