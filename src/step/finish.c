/*
 * finish.c: the end of a pass. Header out and back; what is new is registered;
 * what was used outside the agreed set follows; then every answer is waited
 * for. Every worker takes the same branches, for they depend on the header's
 * answer alone. See step.h.
 */
#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "step/step.h"

static bool owes_any(struct psd_step *step)
{
    bool any = false;

    pthread_mutex_lock(&step->lock);
    for (uint32_t i = 0; i < step->registered && !any; i++) {
        any = step_owes(step, i);
    }
    pthread_mutex_unlock(&step->lock);
    return any;
}

psd_status step_wait_sent(struct psd_step *step)
{
    for (uint32_t i = 0; i < step->registered; i++) {
        struct step_slot *slot = step->slots[i];
        psd_status status;

        if (slot->part != SLOT_SENT) {
            continue;
        }
        status = step_wait(step, slot);
        if (status != PSD_OK) {
            return step_check(step, status);
        }
        mem_free(slot->scratch);
        slot->scratch = NULL;
    }
    return PSD_OK;
}

/* What is sparse here may be expected to be dense: then this worker has
 * nothing to say about that, and nobody else has either. */
static psd_status send_nothing(struct psd_step *step)
{
    for (uint32_t i = 0; i < step->registered; i++) {
        struct step_slot *slot = step->slots[i];
        psd_status status;

        if (!slot->sparse || slot->part != SLOT_NONE ||
            !agree_has(step->used[i], step->pass)) {
            continue;
        }
        slot->scratch = mem_zalloc(slot->size);
        if (slot->scratch == NULL) {
            return step_fail(step, PSD_ENOMEM, "no memory for %s", slot->name);
        }
        slot->part = SLOT_SENT;
        status = psd_push_absent(step->session, slot->tensor, slot->scratch,
                                 &slot->ticket);
        if (status != PSD_OK) {
            return step_check(step, status);
        }
    }
    return PSD_OK;
}

/* What all workers did in this pass, as far as it is registered. */
static psd_status header_exchange(struct psd_step *step)
{
    uint64_t *header = step->header;

    memset(header, 0, agree_words(step->capacity) * sizeof(*header));
    header[0] = step->flag;
    header[1] = step->count > step->registered ? AGREE_NOTICE_NEW : 0;
    for (uint32_t i = 0; i < step->registered; i++) {
        const struct step_slot *slot = step->slots[i];

        if (slot->used || slot->sparse) {
            agree_mark(header, step->capacity,
                       slot->sparse ? AGREE_SPARSE : AGREE_DENSE, i);
        }
    }
    return step_check(step, psd_push_pull(step->session, step->header_tensor,
                                          header, 1, PSD_OP_OR, NULL));
}

/* Until every slot that anybody has is registered. */
static psd_status agree(struct psd_step *step)
{
    psd_status status = step->capacity == 0 ? step_register(step) : PSD_OK;

    while (status == PSD_OK) {
        status = header_exchange(step);
        if (status != PSD_OK ||
            (agree_notice(step->header) & AGREE_NOTICE_NEW) == 0) {
            break;
        }
        status = step_wait_sent(step);
        if (status == PSD_OK) {
            status = step_register(step);
        }
    }
    return status;
}

/* What was used outside the agreed set leaves now. */
static psd_status send_kept(struct psd_step *step)
{
    uint32_t both = agree_conflict(step->header, step->capacity);

    if (both != UINT32_MAX) {
        const struct step_slot *slot = step->slots[both];

        return step_fail(step, PSD_EDIFFER,
                         "the gradient of %s is sparse on some workers and "
                         "dense on others (rank %" PRIu32 ": %s)",
                         slot->name, step->rank,
                         slot->sparse ? "sparse"
                         : slot->used ? "dense"
                                      : "none");
    }
    for (uint32_t i = 0; i < step->registered; i++) {
        struct step_slot *slot = step->slots[i];
        psd_status status;

        if (slot->part != SLOT_KEPT) {
            continue;
        }
        slot->part = SLOT_SENT;
        status = step_send(step, slot, true, step->weight, step->op);
        if (status != PSD_OK) {
            return step_check(step, status);
        }
    }
    return PSD_OK;
}

static psd_status finish(struct psd_step *step)
{
    psd_status status = PSD_OK;

    if (owes_any(step)) {
        return PSD_AGAIN;
    }
    if (step->stage == STEP_OPEN) {
        status = send_nothing(step);
        if (status == PSD_OK) {
            status = agree(step);
        }
        if (status == PSD_OK) {
            status = send_kept(step);
        }
        if (status != PSD_OK) {
            return status;
        }
        pthread_mutex_lock(&step->lock);
        step->stage = STEP_LATE;
        pthread_mutex_unlock(&step->lock);
        if (owes_any(step)) {
            return PSD_AGAIN;
        }
    }
    status = sparse_exchange(step);
    return status == PSD_OK ? step_wait_sent(step) : status;
}

psd_status psd_step_finish(struct psd_step *step, uint64_t flag,
                           uint64_t *flags_p)
{
    psd_status status = step_failed(step);

    if (status != PSD_OK) {
        return status;
    }
    if (step->stage == STEP_IDLE) {
        return step_refuse(step, "there is no pass: psd_step_begin comes "
                                 "first");
    }
    if (step->stage == STEP_OPEN) {
        step->flag |= flag;
    }
    if (step->alone) {
        status = step->count > step->registered ? step_register(step) : PSD_OK;
    } else {
        status = finish(step);
    }
    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&step->lock);
    if (!step->alone) {
        step->flag = agree_flags(step->header);
        agree_learn(step->header, step->capacity, step->pass, step->used,
                    step->registered);
        for (uint32_t i = 0; i < step->registered; i++) {
            if (agree_marked(step->header, step->capacity, AGREE_SPARSE, i)) {
                step->slots[i]->outcome = PSD_STEP_SPARSE;
            }
        }
    }
    step->stage = STEP_IDLE;
    pthread_mutex_unlock(&step->lock);
    if (flags_p != NULL) {
        *flags_p = step->flag;
    }
    return PSD_OK;
}
