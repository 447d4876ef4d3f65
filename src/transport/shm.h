/*
 * shm.h: two processes of one host. Frames are slots of a ring in a region
 * that the agent made (a memfd); payloads are spans of the workers' arenas
 * and never move. Each member sleeps on its own bell (a futex) and is rung
 * only when it sleeps.
 *
 * The board region holds, in this order: struct shm_head, one shm_bell per
 * member (workers, then shards), one ring pair per (worker, shard), and after
 * that the cells of reduce/board.h. Every process computes the same offsets
 * from (workers, shards).
 */
#ifndef PSD_TRANSPORT_SHM_H
#define PSD_TRANSPORT_SHM_H

#include <stdatomic.h>

#include "transport/transport.h"

#define SHM_MAGIC 0x44535031u
#define SHM_RING_SLOTS 128

struct shm_head {
    uint32_t magic;
    uint32_t version;
    uint32_t workers;
    uint32_t shards;
    _Atomic uint32_t failed; /* 1: the job is over, nobody waits any more */
    uint32_t pad[11];
};

struct shm_bell {
    _Atomic uint32_t rings;    /* the futex */
    _Atomic uint32_t sleeping; /* 0: awake; else what is waited for, + 1 */
    _Atomic uint32_t joined;   /* board: this rank is out of data */
    uint32_t pad[13];
};

/* One writer, one reader. `starved`: the sender found the ring full and wants
 * its bell rung when there is room; the receiver takes it back. */
struct shm_ring {
    _Atomic uint32_t head; /* written by the receiver */
    uint32_t pad1[15];
    _Atomic uint32_t tail; /* written by the sender */
    _Atomic uint32_t starved;
    _Atomic uint32_t closed; /* the sender has closed its end */
    uint32_t pad2[13];
    struct frame_header slots[SHM_RING_SLOTS];
};

/* One process's view of the board region. */
struct shm_board {
    struct shm_head *head;
    size_t size;
};

/* Bytes before the cells, a multiple of 4096. */
size_t shm_board_front(uint32_t workers, uint32_t shards);
/* Agent: write the head of a fresh, zeroed region. */
void shm_board_format(void *base, uint32_t workers, uint32_t shards);
/* Member: check the head of a mapped region against what is expected. */
psd_status shm_board_init(struct shm_board *board, void *base, size_t size,
                          uint32_t workers, uint32_t shards);
struct shm_bell *shm_bell(const struct shm_board *board, uint32_t member);

/* Ring `bell` if its owner sleeps. */
void shm_bell_ring(struct shm_bell *bell);

/* The ends of the pair (worker, shard) on `loop`. Both ends call it for
 * themselves; the link is up at once and `up` is not called. Rings are looked
 * at in loop_dispatch and shm_poll; nobody needs a descriptor. Keeps the
 * region of `board`. A payload has to lie in a region given by link_map (at
 * both ends, under the same id), otherwise link_send is PSD_EINVAL. An end
 * that closes takes the other down (PSD_ELOST) after its last frame. */
psd_status shm_link_open(struct psd_loop *loop, const struct shm_board *board,
                         uint32_t worker, uint32_t shard, bool is_shard,
                         const struct link_events *events, void *user,
                         struct psd_link **link_p);

/* Deliver what lies in the rings of this loop's shm links. Returns frames
 * delivered. */
unsigned shm_poll(struct psd_loop *loop);

#endif
