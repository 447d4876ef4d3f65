/*
 * wire.h: what bytes mean. A frame is a header of 64 bytes and a payload; the
 * header is the same for data and control, and is one slot of a shared-memory
 * ring. PROTOCOL.md is the normative text; this header is its C.
 *
 * No I/O here: encode, decode, validate. Any thread.
 */
#ifndef PSD_WIRE_WIRE_H
#define PSD_WIRE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "poseidon.h"

#define WIRE_VERSION 1
#define FRAME_HEADER_SIZE 64

/* Every limit of the protocol, by name. */
#define WIRE_RANKS_MAX 1024                  /* workers of a job */
#define WIRE_SHARDS_MAX 1024                 /* server threads of a job */
#define WIRE_TENSORS_MAX (1u << 20)
#define WIRE_BLOCK_SIZE_MIN 4096u            /* what tensors are cut into */
#define WIRE_BLOCK_SIZE_MAX (64u << 20)
#define WIRE_BLOCKS_MAX (1u << 22)
#define WIRE_NAME_MAX 255                    /* bytes of a tensor's name */
#define WIRE_DATA_MAX (1u << 30)             /* payload of a data frame */
#define WIRE_CONTROL_MAX (256u << 20)        /* payload of a control frame */
#define WIRE_TEXT_MAX 4096                   /* a reason, a sentence */
#define WIRE_RANK_NONE 0xffffu               /* nobody, or everybody */

/* Types of frames. Data frames carry gradients between workers and shards;
 * member frames run between a member, its agent and the master; launch frames
 * between psd_run, its agents and its master. Never reused. */
#define FRAME_TYPE_MAP(X)                                                     \
    X(FRAME_PUSH, 1, "push")             /* worker -> shard: one block */     \
    X(FRAME_ANSWER, 2, "answer")         /* shard -> worker: its result */    \
    X(FRAME_CREDIT, 3, "credit")         /* either: bytes consumed */         \
    X(FRAME_JOIN, 4, "join")             /* worker -> shard: out of data */   \
    X(FRAME_JOINED, 5, "joined")         /* shard -> worker: all are */       \
    X(FRAME_HELLO, 16, "hello")          /* member -> agent */                \
    X(FRAME_WELCOME, 17, "welcome")      /* agent -> member: secret, fds */   \
    X(FRAME_ENTER, 18, "enter")          /* member -> master: I am here */    \
    X(FRAME_MEMBERS, 19, "members")      /* master -> members: epoch, map */  \
    X(FRAME_REGISTER, 20, "register")    /* worker -> master: a batch */      \
    X(FRAME_TABLE, 21, "table")          /* master -> server: the batch */    \
    X(FRAME_TABLE_OK, 22, "table-ok")    /* server -> master: placed */       \
    X(FRAME_REGISTERED, 23, "registered") /* master -> worker: go */          \
    X(FRAME_DIGEST, 24, "digest")        /* worker -> master: proofs */       \
    X(FRAME_METRICS, 25, "metrics")      /* worker -> master */               \
    X(FRAME_ABORT, 26, "abort")          /* worker -> master: end the job */  \
    X(FRAME_END, 27, "end")              /* master -> members: it is over */  \
    X(FRAME_BYE, 28, "bye")              /* member -> master: leaves well */  \
    X(FRAME_LEFT, 29, "left")            /* master -> workers: who left */    \
    X(FRAME_STUCK, 30, "stuck")          /* worker -> master: waits long */   \
    X(FRAME_WHO, 31, "who")              /* master <-> members: have you? */  \
    X(FRAME_START, 32, "start")          /* psd_run -> agent */               \
    X(FRAME_STARTED, 33, "started")      /* agent -> psd_run */               \
    X(FRAME_OUTPUT, 34, "output")        /* agent -> psd_run: bytes */        \
    X(FRAME_EXITED, 35, "exited")        /* agent -> psd_run: a process */    \
    X(FRAME_STOP, 36, "stop")            /* psd_run -> agent */               \
    X(FRAME_LOST, 37, "lost")            /* psd_run -> master: a member */    \
    X(FRAME_VERDICT, 38, "verdict")      /* master -> psd_run: why it ends */ \
    X(FRAME_VIEW, 39, "view")            /* master -> psd_run: live figures */ \
    X(FRAME_READY, 40, "ready")          /* agent -> psd_run: prepared */     \
    X(FRAME_GO, 41, "go")                /* psd_run -> agent: start now */    \
    X(FRAME_BEAT, 42, "beat")            /* either: still here */             \
    X(FRAME_SHAPE, 43, "shape")          /* master -> server: open shards */  \
    X(FRAME_SHARDS, 44, "shards")        /* server -> master: they are open */ \
    X(FRAME_STALL, 46, "stall")          /* master -> psd_run: who holds up */ \
    X(FRAME_LOOK, 47, "look")            /* psd_run <-> agent: at a process */ \
    X(FRAME_ASK, 48, "ask")              /* psd -> psd_run: see desk.h */     \
    X(FRAME_STATUS, 49, "status")        /* psd_run -> psd: the job */        \
    X(FRAME_SAY, 50, "say")              /* psd_run -> psd: a line */         \
    X(FRAME_DONE, 51, "done")            /* psd_run -> psd: nothing follows */ \
    X(FRAME_TAIL, 52, "tail")            /* psd_run -> agent: show a log;     \
                                          * agent -> psd_run: its bytes */    \
    X(FRAME_PROBE, 64, "probe")          /* psd check and its probes */

enum frame_type {
#define FRAME_TYPE_ENUM(name, value, text) name = value,
    FRAME_TYPE_MAP(FRAME_TYPE_ENUM)
#undef FRAME_TYPE_ENUM
};

#define FRAME_CONTROL_FIRST 16 /* types from here on are control */

/* Flags. */
#define FRAME_FLAG_CRC 0x0001u     /* crc covers the payload too */
#define FRAME_FLAG_ABSENT 0x0002u  /* push: no data from me */
#define FRAME_FLAG_INPLACE 0x0004u /* push: put the answer over the span;
                                    * answer: it is there already */
#define FRAME_FLAG_NOBODY 0x0008u  /* answer: every push was absent */
#define FRAME_FLAG_NOWEIGHT 0x0010u /* answer: all weights were zero */
#define FRAME_FLAG_SERVER 0x0020u  /* control: `rank` is a server's index */
#define FRAME_FLAG_FOLLOW 0x0040u  /* answer to a joined worker: no payload,
                                    * only moves its step forward */
#define FRAME_FLAG_DISAGREE 0x0080u /* answer: the ranks' ops differ */
#define FRAME_FLAGS_ALL 0x00ffu

/* An op beyond the public ones: the bits of the one rank that has data. */
#define WIRE_OP_COPY 5
/* and the concatenation in rank order. */
#define WIRE_OP_GATHER 6

/* The header in memory has the layout of the header on the wire. */
struct frame_header {
    uint32_t size;        /* payload bytes that follow */
    uint8_t version;      /* WIRE_VERSION */
    uint8_t type;         /* enum frame_type */
    uint16_t flags;
    uint32_t crc;         /* crc32c of the header with crc 0, and of the
                           * payload when FRAME_FLAG_CRC */
    uint32_t epoch;       /* of membership: the fence */
    uint32_t block;       /* data: block id; control: batch, sequence */
    uint32_t incarnation; /* of the sender */
    uint64_t step;        /* of the block, from 0 */
    double weight;        /* samples behind a push; answer: contributors */
    uint16_t rank;        /* first rank in a push; whom a control frame is
                           * from or for */
    uint16_t ranks;       /* ranks folded into a push: 1 for a lone worker;
                           * answer: who was not finite, as psd_result's bad */
    uint8_t op;           /* psd_op, WIRE_OP_* */
    uint8_t codec;        /* 0: raw */
    uint16_t region;      /* 0: payload inline; else id of a mapped region */
    uint64_t offset;      /* of the span in that region */
    uint32_t length;      /* bytes of the span, or of the inline payload */
    uint32_t credit;      /* payload bytes consumed since the last credit */
};

/* "push"; "unknown" for a type that is none. */
const char *frame_type_name(unsigned type);

static inline bool frame_is_control(const struct frame_header *header)
{
    return header->type >= FRAME_CONTROL_FIRST;
}

/* Complete a header for sending: version, crc (control frames always cover
 * their payload; data frames when FRAME_FLAG_CRC is set). */
void frame_seal(struct frame_header *header, const void *payload);

/* Check what can be checked before the payload is there: version, type,
 * flags, length against the limits. PSD_EPROTO with a log line otherwise. */
psd_status frame_check_header(const struct frame_header *header);

/* Check the crc once the payload is there (payload may be NULL when size is
 * 0). Data frames without FRAME_FLAG_CRC pass. */
psd_status frame_check_payload(const struct frame_header *header,
                               const void *payload);

#endif
