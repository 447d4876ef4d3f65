/* proof.c: see proof.h. Buckets of a few ways; an entry is free again once
 * every worker has handed in its own. */
#include "master/proof.h"

#include "base/mem.h"

#define PROOF_BUCKETS 16384u /* power of two */
#define PROOF_WAYS    8u

struct entry {
    uint64_t step;
    uint32_t tensor;
    uint32_t crc;
    uint32_t age;
    uint16_t first_rank;
    uint16_t holders; /* 0: free */
    uint8_t kind;
};

struct proof_table {
    uint32_t workers;
    uint32_t clock; /* insertions so far */
    struct entry entries[PROOF_BUCKETS][PROOF_WAYS];
};

psd_status proof_table_create(uint32_t workers, struct proof_table **table_p)
{
    struct proof_table *table = mem_map(sizeof(*table));

    if (table == NULL) {
        return PSD_ENOMEM;
    }
    table->workers = workers;
    *table_p = table;
    return PSD_OK;
}

void proof_table_destroy(struct proof_table *table)
{
    mem_unmap(table, sizeof(*table));
}

static uint32_t bucket_of(const struct message_proof *proof)
{
    uint64_t hash = proof->tensor * UINT64_C(0x9e3779b97f4a7c15) + proof->step;

    hash ^= hash >> 29;
    hash = (hash + proof->kind) * UINT64_C(0xbf58476d1ce4e5b9);
    return (uint32_t)(hash >> 40) & (PROOF_BUCKETS - 1);
}

enum proof_outcome proof_note(struct proof_table *table,
                              const struct message_proof *proof, uint32_t rank,
                              struct proof_known *known_p)
{
    struct entry *bucket = table->entries[bucket_of(proof)];
    struct entry *oldest = &bucket[0];

    for (uint32_t i = 0; i < PROOF_WAYS; i++) {
        struct entry *entry = &bucket[i];

        if (entry->holders > 0 && entry->step == proof->step &&
            entry->tensor == proof->tensor && entry->kind == proof->kind) {
            *known_p = (struct proof_known){ .first_rank = entry->first_rank,
                                             .holders = entry->holders,
                                             .crc = entry->crc };
            if (entry->crc != proof->crc) {
                return PROOF_DIFFER;
            }
            entry->holders++;
            if (entry->holders >= table->workers) {
                entry->holders = 0;
            }
            return PROOF_EQUAL;
        }
        if (oldest->holders > 0 &&
            (entry->holders == 0 || entry->age < oldest->age)) {
            oldest = entry;
        }
    }
    *oldest = (struct entry){ .step = proof->step,
                              .tensor = proof->tensor,
                              .crc = proof->crc,
                              .age = table->clock++,
                              .first_rank = (uint16_t)rank,
                              .holders = 1,
                              .kind = (uint8_t)proof->kind };
    return PROOF_FIRST;
}
