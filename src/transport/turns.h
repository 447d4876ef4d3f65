/*
 * turns.h: the links of a loop that have much to write to other hosts do so
 * in turns, in an order that begins behind the own host. All hosts keep such
 * an order, so that at every moment each of them is sent to by one other;
 * left to chance, several would send to one and a line would stand idle
 * elsewhere. Whose turn it is makes the others wait, but not for long.
 * Private to this room; the loop's thread.
 */
#ifndef PSD_TRANSPORT_TURNS_H
#define PSD_TRANSPORT_TURNS_H

#include "base/clock.h"
#include "transport/loop.h"

/* Longer than a packet waits behind all that the links of a host have under
 * way, at 100 Mbit/s or more. */
#define TURNS_PATIENCE_NS (100 * CLOCK_NS_PER_MS)

/* How a turn went. */
enum turn_end {
    TURN_OVER,  /* all that was allowed is written */
    TURN_DONE,  /* it needs no turn any more */
    TURN_FULL,  /* it cannot go on now; turns_run follows when it can */
};

/* One that takes turns; memory of the caller. */
struct turn {
    struct list node;
    uint32_t place; /* in the order */
    size_t size;    /* bytes of a turn */
    bool late;      /* it made the others wait too long and left */
    /* Write up to `size` bytes and count them in `*written_p`. */
    enum turn_end (*call)(struct turn *turn, size_t size, size_t *written_p);
};

struct turns {
    struct psd_loop *loop;
    bool off;           /* nobody joins any more */
    struct list order;  /* those that have something to write, by place */
    struct turn *now;   /* whose turn it is; NULL: of none */
    size_t left;        /* bytes of that turn */
    uint64_t since_ns;  /* nothing was written in it since */
    struct loop_timer patience;
    struct loop_task runner;
};

void turns_init(struct turns *turns, struct psd_loop *loop);

void turn_init(struct turn *turn,
               enum turn_end (*call)(struct turn *turn, size_t size,
                                     size_t *written_p));
static inline bool turn_waits(const struct turn *turn)
{
    return turn->node.next != &turn->node;
}

/* `turn` has something to write. Idempotent. */
void turns_join(struct turns *turns, struct turn *turn);
/* Idempotent. If it was its turn the next one has it, in the next dispatch. */
void turns_leave(struct turns *turns, struct turn *turn);
/* Let them write, until one cannot go on or all are empty. */
void turns_run(struct turns *turns);

#endif
