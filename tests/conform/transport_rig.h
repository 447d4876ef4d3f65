/*
 * transport_rig.h: two ends of a link on one loop, over any row of the table,
 * and a record of what their handlers were told.
 */
#ifndef PSD_TESTS_CONFORM_TRANSPORT_RIG_H
#define PSD_TESTS_CONFORM_TRANSPORT_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "transport/inproc.h"
#include "transport/shm.h"
#include "transport/transport.h"

#define RIG_ARENA (64u << 20)
#define RIG_PLACE (16u << 20)
#define RIG_ROUNDS 100000 /* a stuck test ends by this, not by a clock */

/* One end, and what it saw. */
struct rig_end {
    struct rig *rig;
    struct psd_link *link;
    unsigned ups, downs, readies, delivered;
    psd_status why;
    uint64_t bytes;      /* of payloads delivered */
    uint32_t next_block; /* frames carry 0, 1, 2, ... in `block` */
    bool check_bytes;    /* payloads follow rig_byte */
    bool throw_away;     /* place says NULL */
    psd_status place_says;
    psd_status deliver_says;
    bool close_on_deliver;
    uint8_t *place; /* RIG_PLACE */
    struct frame_header last;
    char text[64]; /* the last payload's first bytes */
};

struct rig {
    const struct rig_row *row;
    struct psd_loop *loop;
    struct inproc_hub *hub;
    struct psd_listener *listener;
    uint16_t port;
    struct shm_board board;
    void *board_memory;
    size_t board_size;
    uint8_t *arena; /* RIG_ARENA; payloads come from here */
    struct auth_job job;
    bool calling; /* inside link_send and the like: no handler may run */
    struct rig_end client;
    struct rig_end server;
};

struct rig_row {
    const char *name;
    psd_status (*open)(struct rig *rig);
    bool (*there)(void); /* NULL: always */
    const char *host;    /* tcp */
    bool inline_only;    /* inproc */
    bool stream;         /* payloads pass through place */
};

extern const struct rig_row rig_rows[]; /* ends with a NULL name */
extern const struct link_events rig_events;
extern const struct link_events rig_control_events; /* without place */
extern const struct listen_events rig_accept;       /* user: the rig */

/* Everything up; fails the test otherwise. */
struct rig *rig_create(const struct rig_row *row);
void rig_destroy(struct rig *rig);
/* Look and dispatch once. */
void rig_turn(struct rig *rig);
/* Turn until `*count` is at least `least`; fails the test after RIG_ROUNDS. */
void rig_until(struct rig *rig, const unsigned *count, unsigned least);

/* The byte at `index` of the payload of frame `block`. */
static inline uint8_t rig_byte(uint32_t block, size_t index)
{
    return (uint8_t)(block * 31 + index * 7 + (index >> 8));
}

/* Send frame `block` of `size` bytes from the arena, at a place of its own
 * among the last few. The status of link_send. */
psd_status rig_send(struct rig_end *from, uint32_t block, uint32_t size);

#endif
