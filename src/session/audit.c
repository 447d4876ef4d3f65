/*
 * audit.c: digests, by which the master proves that the replicas are equal.
 * `step`: every block of every answer. `rotate`: 1/32 of the blocks in turn,
 * and all in the first three steps. See session.h.
 */
#include "base/crc.h"
#include "base/log.h"
#include "session/session.h"

#define AUDIT_ALL_BEFORE 3
#define AUDIT_TURNS 32

static bool block_due(const struct psd_session *session, uint32_t block,
                      uint64_t step)
{
    switch (session->settings.digest[0]) {
    case 's':
        return true;
    case 'r':
        return step < AUDIT_ALL_BEFORE || (block + step) % AUDIT_TURNS == 0;
    default:
        return false;
    }
}

/* The control thread takes them once a second; what does not fit meanwhile is
 * not looked at. */
static void proof_add(struct psd_session *session, uint32_t tensor,
                      uint32_t kind, uint64_t step, uint32_t crc)
{
    if (session->proof_count < SESSION_PROOFS_MAX) {
        session->proofs[session->proof_count++] =
            (struct message_proof){ tensor, kind, step, crc };
        session->proof_total++;
    }
}

/* The due blocks of `size` bytes at `data`, which are the tensor's or of
 * another size. */
static void prove(struct psd_session *session, uint32_t index, uint32_t kind,
                  uint64_t step, const char *data, uint64_t size)
{
    const struct model_tensor *tensor = &session->model.tensors[index];
    uint32_t crc = 0;
    bool any = false;

    if (session->way == SESSION_SOLO || session->settings.digest[0] == 'o') {
        return;
    }
    for (uint32_t i = 0; i < tensor->block_count; i++) {
        uint32_t block = tensor->block_first + i;
        uint64_t from = size * i / tensor->block_count;
        uint64_t to = size * (i + 1) / tensor->block_count;

        if (block_due(session, block, step)) {
            crc = crc32c(crc, data + from, to - from);
            any = true;
        }
    }
    if (any) {
        proof_add(session, index, kind, step, crc);
    }
}

void audit_answer(struct psd_session *session, uint32_t index)
{
    const struct model_tensor *tensor = &session->model.tensors[index];
    const struct flight *flight = &session->flights[index];

    if (index != MODEL_BARRIER && tensor->kind != PSD_KIND_GATHER &&
        tensor->kind != PSD_KIND_SHARED &&
        (flight->flags & FRAME_FLAG_NOBODY) == 0) {
        prove(session, index, 0, flight->step, flight->out, tensor->size);
    }
}

psd_status psd_audit(struct psd_session *session, psd_tensor tensor,
                     const void *data, size_t size)
{
    psd_status status = (psd_status)atomic_load(&session->failed);

    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&session->lock);
    if (tensor.id == MODEL_BARRIER ||
        tensor.id >= session->model.tensor_count || data == NULL) {
        status = session_refuse(session, "psd_audit: no such tensor");
    } else {
        prove(session, tensor.id, 1, session->audits[tensor.id]++, data,
              size);
    }
    pthread_mutex_unlock(&session->lock);
    return status;
}
