/*
 * standing.h: the payloads by which the master finds out who holds the others
 * up. A worker whose wait lasts says so (FRAME_STUCK); the master then asks
 * everybody (FRAME_WHO, header.block numbers the question) and everybody
 * answers for itself alone (FRAME_WHO again, same number). Whether a rank has
 * pushed a step never changes back, so an answer that is late is still true.
 */
#ifndef PSD_WIRE_STANDING_H
#define PSD_WIRE_STANDING_H

#include "wire/pack.h"
#include "wire/wire.h"

#define STANDING_NO_SHARD UINT32_MAX

/* What a worker waits for. */
enum standing_wait {
    STANDING_NONE,   /* for nothing, or no longer */
    STANDING_TENSOR, /* the answer for a tensor */
    STANDING_JOIN,   /* psd_join: everybody else */
};

/* FRAME_STUCK, worker -> master: nothing has moved for `waited_ns`. Repeated
 * about once a second as long as it lasts, and once with STANDING_NONE when it
 * is over. */
struct message_stuck {
    uint8_t what;     /* enum standing_wait */
    uint32_t tensor;  /* TENSOR: the one that was pushed first */
    uint64_t step;    /* of it; JOIN: how many joins there were */
    uint32_t tensors; /* in flight in all */
    uint32_t shard;   /* that has not answered; STANDING_NO_SHARD: none */
    uint64_t waited_ns;
};

/* FRAME_WHO, master -> member. NONE: only answer. */
struct message_who {
    uint8_t what; /* enum standing_wait */
    uint32_t tensor;
    uint64_t step;
};

/* Of a tensor's step: not pushed; pushed, no answer yet; answered. Of a join:
 * not there; there; behind it. Only ever goes up. */
enum standing_part { STANDING_MISSING, STANDING_GIVEN, STANDING_PAST };

/* FRAME_WHO, member -> master. */
struct message_standing {
    uint8_t part;    /* enum standing_part: my part of what was asked for */
    uint8_t waiting; /* 1: a thread of mine waits for others */
};

void message_stuck_pack(struct pack *pack, const struct message_stuck *stuck);
psd_status message_stuck_unpack(struct message_stuck *stuck, const void *data,
                                size_t size);
void message_who_pack(struct pack *pack, const struct message_who *who);
psd_status message_who_unpack(struct message_who *who, const void *data,
                              size_t size);
void message_standing_pack(struct pack *pack,
                           const struct message_standing *standing);
psd_status message_standing_unpack(struct message_standing *standing,
                                   const void *data, size_t size);

#endif
