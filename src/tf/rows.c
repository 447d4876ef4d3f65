/*
 * rows.c: rows of an IndexedSlices, exchanged as they are. A worker has as
 * many rows as its batch happens to touch, while a gather has a fixed room: so
 * they go in rounds of at most rows_max each. The first round tells how many
 * there are, hence everybody knows how many rounds follow; mostly none.
 *
 * A worker's part of a round, in words of 8 bytes:
 *
 *   first round only: HEADER words (rows, weight, op, row size and type)
 *   the indices, one word each; the values, padded to a word
 */
#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "base/mem.h"
#include "reduce/half.h"
#include "tf/plug.h"

#define ROUND_SIZE  ((uint64_t)4 << 20)
#define GATHER_SIZE ((uint64_t)512 << 20) /* of all workers together */

enum { ROWS, WEIGHT, OP, SHAPE, HEADER };

/* ---- room -------------------------------------------------------------- */

static uint64_t value_words(const struct key *key, uint64_t rows)
{
    return (rows * key->size + 7) / 8;
}

psd_status sparse_create(struct key *key, uint64_t rows, struct fault *fault)
{
    uint64_t room = GATHER_SIZE / plug.size;
    struct sparse *sparse;

    sparse_destroy(key);
    if (key->size == 0 || key->size > UINT32_MAX / 2) {
        return fault_set(fault, PSD_EINVAL,
                         "key %s: a row of %zu bytes cannot be exchanged as "
                         "a sparse gradient",
                         key->name, key->size);
    }
    room = room < ROUND_SIZE ? room : ROUND_SIZE;
    if (rows == 0) {
        rows = room / (8 + key->size);
        rows = rows == 0 ? 1 : rows;
    }
    sparse = mem_zalloc(sizeof(*sparse));
    if (sparse == NULL) {
        return fault_set(fault, PSD_ENOMEM, "key %s: no memory", key->name);
    }
    key->sparse = sparse;
    sparse->rows_max = rows;
    sparse->words = HEADER + rows + value_words(key, rows);
    sparse->packed = mem_map(sparse->words * 8);
    sparse->answer = mem_map(sparse->words * 8 * plug.size);
    sparse->counts = mem_zalloc_array(plug.size, sizeof(uint64_t));
    sparse->rows = mem_zalloc_array(plug.size, sizeof(uint64_t));
    sparse->share = mem_zalloc_array(plug.size, sizeof(double));
    if (sparse->packed == NULL || sparse->answer == NULL ||
        sparse->counts == NULL || sparse->rows == NULL ||
        sparse->share == NULL) {
        sparse_destroy(key);
        return fault_set(fault, PSD_ENOMEM, "key %s: no memory", key->name);
    }
    return PSD_OK;
}

void sparse_destroy(struct key *key)
{
    struct sparse *sparse = key->sparse;

    if (sparse == NULL) {
        return;
    }
    mem_unmap(sparse->packed, sparse->words * 8);
    mem_unmap(sparse->answer, sparse->words * 8 * plug.size);
    mem_free(sparse->counts);
    mem_free(sparse->rows);
    mem_free(sparse->share);
    mem_free(sparse);
    key->sparse = NULL;
}

psd_status sparse_check(const struct key *key, const TF_Tensor *values,
                        const TF_Tensor *indices, struct fault *fault)
{
    size_t size = tf.TensorByteSize(values);
    int64_t rows = tf.NumDims(values) > 0 ? tf.Dim(values, 0) : -1;

    if (key->kind != PSD_TF_SPARSE || rows < 0 ||
        size != (uint64_t)rows * key->size || tf.NumDims(indices) != 1 ||
        tf.Dim(indices, 0) != rows) {
        return fault_set(fault, PSD_EINVAL,
                         "key %s: %zu bytes of values in %" PRId64 " rows with "
                         "%zu bytes of indices do not fit what is registered: "
                         "sparse, rows of %zu bytes, one index each",
                         key->name, size, rows, tf.TensorByteSize(indices),
                         key->size);
    }
    return PSD_OK;
}

/* ---- packing ----------------------------------------------------------- */

static uint64_t round_rows(uint64_t rows, uint64_t round, uint64_t rows_max)
{
    uint64_t from = round * rows_max;

    return rows <= from ? 0 : rows - from < rows_max ? rows - from : rows_max;
}

/* Rows of this worker for one round behind `to`; returns the words. */
static uint64_t rows_pack(const struct key *key, uint64_t round, uint64_t rows,
                          uint64_t *to)
{
    const struct sparse *sparse = key->sparse;
    uint64_t from = round * sparse->rows_max;
    uint64_t count = round_rows(rows, round, sparse->rows_max);
    const char *values = tf.TensorData(key->in);
    const void *indices = tf.TensorData(sparse->indices);

    if (count == 0) {
        return 0;
    }
    if (tf.TensorType(sparse->indices) == TF_INT64) {
        memcpy(to, (const int64_t *)indices + from, count * 8);
    } else {
        for (uint64_t i = 0; i < count; i++) {
            to[i] = (uint64_t)(int64_t)((const int32_t *)indices)[from + i];
        }
    }
    to[count + value_words(key, count) - 1] = 0; /* the padding */
    memcpy(to + count, values + from * key->size, count * key->size);
    return count + value_words(key, count);
}

static uint64_t key_shape(const struct key *key)
{
    return (uint64_t)key->size << 32 | (uint32_t)key->type;
}

static psd_status round_send(struct key *key, uint64_t words,
                             struct fault *fault)
{
    struct sparse *sparse = key->sparse;
    psd_status status =
        psd_gather(plug.session, key->tensor, sparse->packed, words,
                   sparse->answer, sparse->counts, &key->ticket);

    return status == PSD_OK ? PSD_OK : fault_session(fault, status, key->name);
}

psd_status sparse_start(struct key *key, double weight, psd_op op,
                        struct fault *fault)
{
    uint64_t *packed = key->sparse->packed;
    /* Weight 0: there is nothing behind these rows. */
    uint64_t rows = weight > 0 ? (uint64_t)tf.Dim(key->in, 0) : 0;

    packed[ROWS] = rows;
    memcpy(&packed[WEIGHT], &weight, sizeof(weight));
    packed[OP] = (uint64_t)op;
    packed[SHAPE] = key_shape(key);
    return round_send(key, HEADER + rows_pack(key, 0, rows, packed + HEADER),
                      fault);
}

psd_status sparse_start_empty(struct key *key, struct fault *fault)
{
    return round_send(key, 0, fault);
}

/* ---- unpacking --------------------------------------------------------- */

static void scale_halves(int32_t type, uint16_t *values, uint64_t count,
                         float share)
{
    for (uint64_t i = 0; i < count; i++) {
        values[i] = type == TF_HALF ? store_f16(load_f16(values[i]) * share)
                                    : store_bf16(load_bf16(values[i]) * share);
    }
}

static void rows_scale(const struct key *key, void *values, uint64_t rows,
                       double share)
{
    uint64_t count = rows * key->count;

    if (share == 1.0) {
        return;
    }
    switch (key->type) {
    case TF_FLOAT:
        for (uint64_t i = 0; i < count; i++) {
            ((float *)values)[i] *= (float)share;
        }
        break;
    case TF_DOUBLE:
        for (uint64_t i = 0; i < count; i++) {
            ((double *)values)[i] *= share;
        }
        break;
    default:
        scale_halves(key->type, values, count, (float)share);
        break;
    }
}

/* Is one of them no number, or infinite? */
static bool rows_wild(const struct key *key, const void *values, uint64_t rows)
{
    uint64_t count = rows * key->count;
    bool wild = false;

    for (uint64_t i = 0; i < count; i++) {
        switch (key->type) {
        case TF_FLOAT:
            wild |= !isfinite(((const float *)values)[i]);
            break;
        case TF_DOUBLE:
            wild |= !isfinite(((const double *)values)[i]);
            break;
        case TF_HALF:
            wild |= !isfinite(load_f16(((const uint16_t *)values)[i]));
            break;
        default:
            wild |= !isfinite(load_bf16(((const uint16_t *)values)[i]));
            break;
        }
    }
    return wild;
}

/* The first round has come: who has how many rows, and which share? */
static psd_status headers_read(struct key *key, uint64_t *total_p,
                               uint64_t *rounds_p, struct fault *fault)
{
    struct sparse *sparse = key->sparse;
    const uint64_t *part = sparse->answer;
    uint64_t op = 0, most = 0;
    double sum = 0;

    *total_p = 0;
    for (uint32_t r = 0; r < plug.size; r++) {
        sparse->rows[r] = 0;
        sparse->share[r] = 0;
        if (sparse->counts[r] >= HEADER) {
            if (part[SHAPE] != key_shape(key) || (op != 0 && op != part[OP])) {
                return fault_set(fault, PSD_EDIFFER,
                                 "key %s: worker %" PRIu32 " pushes it with "
                                 "another op, row size or type",
                                 key->name, r);
            }
            op = part[OP];
            sparse->rows[r] = part[ROWS];
            memcpy(&sparse->share[r], &part[WEIGHT], sizeof(double));
            sum += sparse->share[r];
        }
        *total_p += sparse->rows[r];
        most = sparse->rows[r] > most ? sparse->rows[r] : most;
        part += sparse->counts[r];
    }
    for (uint32_t r = 0; r < plug.size; r++) {
        sparse->share[r] = op == PSD_OP_SUM ? 1.0
                           : sum > 0        ? sparse->share[r] / sum
                                            : 0.0;
    }
    *rounds_p =
        most == 0 ? 1 : (most + sparse->rows_max - 1) / sparse->rows_max;
    return PSD_OK;
}

static psd_status result_alloc(struct key *key, uint64_t total,
                               struct fault *fault)
{
    struct sparse *sparse = key->sparse;
    int64_t dims[256] = { 0 };
    int ndims = tf.NumDims(key->in);
    int type = tf.TensorType(sparse->indices);

    for (int i = 1; i < ndims && i < 256; i++) {
        dims[i] = tf.Dim(key->in, i);
    }
    dims[0] = (int64_t)total;
    sparse->all_values =
        tf.AllocateTensor(key->type, dims, ndims, total * key->size);
    sparse->all_indices =
        tf.AllocateTensor(type, dims, 1, total * (type == TF_INT64 ? 8 : 4));
    if (sparse->all_values == NULL || sparse->all_indices == NULL) {
        return fault_set(fault, PSD_ENOMEM,
                         "key %s: no memory for %" PRIu64 " rows", key->name,
                         total);
    }
    return PSD_OK;
}

/* One worker's rows of one round, to their place. */
static void rows_place(struct key *key, const uint64_t *from, uint64_t count,
                       uint64_t at, double share)
{
    struct sparse *sparse = key->sparse;
    char *values = (char *)tf.TensorData(sparse->all_values) + at * key->size;
    void *indices = tf.TensorData(sparse->all_indices);

    if (tf.TensorType(sparse->all_indices) == TF_INT64) {
        memcpy((int64_t *)indices + at, from, count * 8);
    } else {
        for (uint64_t i = 0; i < count; i++) {
            ((int32_t *)indices)[at + i] = (int32_t)from[i];
        }
    }
    memcpy(values, from + count, count * key->size);
    rows_scale(key, values, count, share);
}

static psd_status round_unpack(struct key *key, uint64_t round,
                               struct fault *fault)
{
    struct sparse *sparse = key->sparse;
    const uint64_t *part = sparse->answer;
    uint64_t first = 0;

    for (uint32_t r = 0; r < plug.size; r++) {
        uint64_t count = round_rows(sparse->rows[r], round, sparse->rows_max);
        uint64_t head = round == 0 && sparse->counts[r] > 0 ? HEADER : 0;

        if (sparse->counts[r] != head + count + value_words(key, count)) {
            return fault_set(fault, PSD_EDIFFER,
                             "key %s: worker %" PRIu32 " sent %" PRIu64
                             " words for %" PRIu64 " rows",
                             key->name, r, sparse->counts[r], count);
        }
        if (count > 0) {
            pass_bad(key,
                     rows_wild(key, part + head + count, count) ? r + 1 : 0);
            rows_place(key, part + head, count,
                       first + round * sparse->rows_max, sparse->share[r]);
        }
        part += sparse->counts[r];
        first += sparse->rows[r];
    }
    return PSD_OK;
}

psd_status sparse_finish(struct key *key, bool keep, struct fault *fault)
{
    struct sparse *sparse = key->sparse;
    uint64_t total = 0, rounds = 1, mine = 0;
    psd_status status = PSD_OK;

    for (uint64_t round = 0; round < rounds && status == PSD_OK; round++) {
        if (round > 0) {
            status = round_send(
                key, keep ? rows_pack(key, round, mine, sparse->packed) : 0,
                fault);
        }
        if (status == PSD_OK) {
            status = psd_wait(plug.session, key->ticket, NULL);
            if (status != PSD_OK) {
                return fault_session(fault, status, key->name);
            }
        }
        if (status == PSD_OK && round == 0) {
            status = headers_read(key, &total, &rounds, fault);
            mine = sparse->rows[plug.rank];
            if (status == PSD_OK && keep) {
                status = result_alloc(key, total, fault);
            }
        }
        if (status == PSD_OK && keep) {
            status = round_unpack(key, round, fault);
        }
    }
    return status;
}
