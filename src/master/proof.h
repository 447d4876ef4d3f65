/*
 * proof.h: digests of replicas, compared as they come in. A proof is known by
 * (kind, tensor, step); the first worker's is kept, every other worker's must
 * match it. The table is bounded: where it is full the oldest proof of a
 * bucket gives way and is then simply not compared. One thread.
 */
#ifndef PSD_MASTER_PROOF_H
#define PSD_MASTER_PROOF_H

#include "wire/message.h"

enum proof_outcome {
    PROOF_FIRST, /* nothing to compare with yet */
    PROOF_EQUAL,
    PROOF_DIFFER,
};

/* What the earlier workers had. */
struct proof_known {
    uint32_t first_rank;
    uint32_t holders; /* workers with this crc */
    uint32_t crc;
};

struct proof_table;

psd_status proof_table_create(uint32_t workers, struct proof_table **table_p);
void proof_table_destroy(struct proof_table *table); /* NULL allowed */

/* Compare one proof of `rank`. `*known_p` is written unless FIRST. */
enum proof_outcome proof_note(struct proof_table *table,
                              const struct message_proof *proof, uint32_t rank,
                              struct proof_known *known_p);

#endif
