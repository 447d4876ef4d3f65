/*
 * board.h: the server's role played by the workers of one host, in shared
 * memory. Each block has a cell: every rank writes there where its
 * contribution lies (an offset in its arena); whoever sees a cell complete
 * claims it by compare-and-swap, sums straight out of all arenas in rank
 * order and writes the answer into all of them. So any rank does the work of
 * one that is late or asleep, each element has one writer, and nothing is
 * copied. Private memory is copied into the arena first; the owner of a block
 * may keep its own part where it is, and then sums that block itself.
 *
 * A step of a block: publish (each rank) -> claim (one) -> reduce_run ->
 * done. A rank publishes step n + 1 only after it has seen step n done, so a
 * cell is never overwritten while somebody reads it. A SHARED block has no
 * steps in common: `claimed` is the lock of its value, whoever has it adds its
 * own push and takes the value, straight from and to its private memory.
 * Redo slots, with which a survivor finishes what a killed claimer began, will
 * go into the cell.
 *
 * One thread per process at a time; the cells are shared between processes.
 */
#ifndef PSD_REDUCE_BOARD_H
#define PSD_REDUCE_BOARD_H

#include <stdatomic.h>

#include "reduce/reduce.h"
#include "transport/shm.h"

/* Flag of an entry, beside FRAME_FLAG_ABSENT: the contribution is in private
 * memory of the block's owner, who alone can sum it. */
#define BOARD_KEPT 0x8000u

/* What a bell says (`sleeping`) whose owner sleeps until any block is done;
 * block + 1: until that one is. */
#define BOARD_ANY_BLOCK (UINT32_MAX - 1)

/* What a rank says about one block. */
struct board_entry {
    _Atomic uint32_t turn; /* step + 1 of what follows */
    _Atomic uint16_t flags; /* FRAME_FLAG_ABSENT; atomic because it is looked
                             * at before the cell is claimed */
    uint8_t op;
    uint8_t pad;
    uint64_t offset;       /* in its arena: contribution and answer. GATHER:
                            * the answer's; the contribution is behind it */
    double weight;
    uint32_t length;
    uint32_t pad2;
};

struct board_cell {
    _Atomic uint32_t claimed; /* steps claimed; SHARED: 1 while locked */
    _Atomic uint32_t done;    /* steps done */
    uint16_t flags;           /* of the last one, as in reduce_round */
    uint16_t pad;
    uint32_t contributors;
    uint32_t length;
    uint32_t bad;
    uint64_t value;           /* STORE, SHARED: offset in the owner's arena,
                               * + 1 */
    uint64_t pad3[4];
    struct board_entry entry[];
};

struct board {
    const struct shm_board *shm;
    const struct model *model;
    char *cells;
    size_t cell_size;
    uint32_t cell_max;
    uint32_t rank;
    uint32_t ranks;
    uint32_t generation;      /* of join: a rank is out of data while its
                               * bell says more than this */
    char **arena;             /* base of each rank's arena, as mapped here */
    uint64_t arena_size;
    struct reduce_round round;
};

enum board_state {
    BOARD_WAITING, /* somebody has not published */
    BOARD_BUSY,    /* another rank is summing it */
    BOARD_DONE,
};

psd_status board_init(struct board *board, const struct shm_board *shm,
                      const struct model *model, uint32_t rank,
                      uint32_t ranks, char **arena, uint64_t arena_size);
void board_fini(struct board *board);

/* Cells for the blocks [first, model->block_count): checks that they fit, and
 * gives the kept blocks that this rank owns their value, taken with `alloc`.
 * Before any rank publishes them. */
psd_status board_add(struct board *board, uint32_t first,
                     void *(*alloc)(void *user, size_t size), void *user);

static inline struct board_cell *board_cell(const struct board *board,
                                            uint32_t block)
{
    return (void *)(board->cells + (size_t)block * board->cell_size);
}

static inline bool board_done(const struct board *board, uint32_t block,
                              uint64_t step)
{
    return atomic_load_explicit(&board_cell(board, block)->done,
                                memory_order_acquire) == (uint32_t)step + 1;
}

/* Publish this rank's part of `step` of a block; `at` lies in its arena. NULL:
 * it is kept (BOARD_KEPT; this rank is the block's owner). */
void board_publish(struct board *board, uint32_t block, uint64_t step,
                   const struct frame_header *say, const void *at);

/* This rank's memory for a block that it keeps. */
struct board_kept {
    const void *data;
    void *out;
};

typedef struct board_kept board_kept_call(void *user, uint32_t block);

/* Bring `step` of a block forward if it can be: sum it when it is complete
 * and nobody else does. `kept` is asked when this rank keeps the block. */
enum board_state board_try(struct board *board, uint32_t block, uint64_t step,
                           board_kept_call *kept, void *user);

/* What this rank says of a SHARED block. */
struct board_call {
    const void *data; /* NULL: nothing, it only asks */
    void *out;
    void *base;       /* as in reduce_rank */
    double weight;
    uint8_t op;
};

/* Add to a SHARED block and take its value; the outcome is in board->round.
 * BOARD_BUSY: another rank is at it. */
enum board_state board_add_to(struct board *board, uint32_t block,
                              const struct board_call *call);

/* This rank has published: wake the owner of the block if the block now waits
 * for it alone. */
void board_call_owner(struct board *board, uint32_t block, uint64_t step);

/* Out of data, from now on. True when every rank is: a new generation. */
void board_join(struct board *board);
bool board_joined(struct board *board);

#endif
