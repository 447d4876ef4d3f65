/* step.c: slots, and the calls of a pass but its end; see step.h. */
#define _GNU_SOURCE
#include "step/step.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/crc.h"
#include "base/log.h"
#include "base/mem.h"
#include "model/model.h"
#include "session/session.h"

/* ---- errors ------------------------------------------------------------ */

psd_status step_refuse(struct psd_step *step, const char *format, ...)
{
    char text[SESSION_ERROR_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pthread_mutex_lock(&step->session->lock);
    session_refuse(step->session, "%s", text);
    pthread_mutex_unlock(&step->session->lock);
    return PSD_EINVAL;
}

psd_status step_fail(struct psd_step *step, psd_status status,
                     const char *format, ...)
{
    char text[SESSION_ERROR_MAX];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    pthread_mutex_lock(&step->session->lock);
    status = session_fail(step->session, status, "%s", text);
    pthread_mutex_unlock(&step->session->lock);
    atomic_store(&step->failed, (int)status);
    return status;
}

psd_status step_failed(const struct psd_step *step)
{
    int failed = atomic_load(&step->failed);

    return (psd_status)(failed != 0 ? failed
                                    : atomic_load(&step->session->failed));
}

psd_status step_check(struct psd_step *step, psd_status status)
{
    if (status >= 0) {
        return status;
    }
    return step_fail(step, status, "%s", psd_error(step->session));
}

/* ---- slots ------------------------------------------------------------- */

psd_status psd_step_open(struct psd_session *session, struct psd_step **step_p)
{
    struct psd_step *step = mem_zalloc(sizeof(*step));

    if (step == NULL) {
        return PSD_ENOMEM;
    }
    step->session = session;
    step->size = psd_size(session);
    step->rank = psd_rank(session);
    /* With --nan skip or stop even a job of one sums, to see what is not
     * finite. */
    step->alone =
        step->size == 1 && (session->settings.nan == NULL ||
                            strcmp(session->settings.nan, "allow") == 0);
    pthread_mutex_init(&step->lock, NULL);
    *step_p = step;
    return PSD_OK;
}

static void slot_destroy(struct step_slot *slot)
{
    if (slot != NULL) {
        sparse_destroy(slot->rows);
        mem_free(slot->scratch);
        mem_free(slot->name);
        mem_free(slot);
    }
}

/* Steps that ended with something in flight: their session may still write to
 * their memory, so it stays. */
static struct psd_step *_Atomic given_up;

void psd_step_close(struct psd_step *step)
{
    if (step == NULL) {
        return;
    }
    if (atomic_load(&step->failed) != 0 || step->stage != STEP_IDLE) {
        step->next = atomic_load(&given_up);
        while (!atomic_compare_exchange_weak(&given_up, &step->next, step)) {
        }
        return;
    }
    for (uint32_t i = 0; i < step->count; i++) {
        slot_destroy(step->slots[i]);
    }
    mem_free(step->slots);
    mem_free(step->used);
    mem_free(step->header);
    mem_free(step->counts);
    mem_free(step->weights);
    mem_free(step->weight_counts);
    mem_free(step->bits);
    pthread_mutex_destroy(&step->lock);
    mem_free(step);
}

static bool is_float(psd_dtype dtype)
{
    return dtype == PSD_FLOAT32 || dtype == PSD_FLOAT64 ||
           dtype == PSD_FLOAT16 || dtype == PSD_BFLOAT16;
}

static psd_status slot_check(struct psd_step *step, const struct psd_slot *slot)
{
    if (slot->name == NULL || slot->name[0] == '\0' ||
        strlen(slot->name) > STEP_NAME_MAX) {
        return step_refuse(step, "a slot's name has 1 to %d bytes",
                           STEP_NAME_MAX);
    }
    if (strncmp(slot->name, "step/", 5) == 0) {
        return step_refuse(step,
                           "slot %s: names that begin with step/ are "
                           "taken",
                           slot->name);
    }
    if (!is_float(slot->dtype)) {
        return step_refuse(step,
                           "slot %s: its type must be float32, float64, "
                           "float16 or bfloat16",
                           slot->name);
    }
    if (slot->count == 0 || slot->count > UINT64_C(1) << 48) {
        return step_refuse(step, "slot %s: its count must be in 1..2^48",
                           slot->name);
    }
    if (slot->kind != PSD_SLOT_GRADIENT && slot->kind != PSD_SLOT_BUFFER) {
        return step_refuse(step, "slot %s: its kind is none", slot->name);
    }
    return PSD_OK;
}

static bool name_taken(const struct psd_step *step, uint32_t count,
                       const char *name)
{
    uint32_t hash = crc32c(0, name, strlen(name));

    for (uint32_t i = 0; i < count; i++) {
        if (step->slots[i]->hash == hash &&
            strcmp(step->slots[i]->name, name) == 0) {
            return true;
        }
    }
    return false;
}

/* "name", or "name#n" with the first n that is free. */
static char *slot_name(const struct psd_step *step, uint32_t count,
                       const char *name)
{
    char text[STEP_NAME_MAX + 16];

    snprintf(text, sizeof(text), "%s", name);
    for (unsigned n = 2; name_taken(step, count, text); n++) {
        snprintf(text, sizeof(text), "%s#%u", name, n);
    }
    return mem_strdup(text);
}

static struct step_slot *slot_create(const struct psd_step *step, uint32_t id,
                                     const struct psd_slot *from)
{
    struct step_slot *slot = mem_zalloc(sizeof(*slot));

    if (slot == NULL) {
        return NULL;
    }
    *slot = (struct step_slot){
        .name = slot_name(step, id, from->name),
        .dtype = from->dtype,
        .kind = from->kind,
        .count = from->count,
        .size = from->count * dtype_size(from->dtype),
        .priority = from->priority != 0 ? from->priority : -(int32_t)id,
    };
    if (slot->name == NULL) {
        slot_destroy(slot);
        return NULL;
    }
    slot->hash = crc32c(0, slot->name, strlen(slot->name));
    return slot;
}

/* Under lock. */
static psd_status slots_reserve(struct psd_step *step, uint32_t count)
{
    uint32_t room = step->room < 64 ? 64 : step->room;
    void *slots = step->slots;
    void *used = step->used;
    psd_status status;

    while (room < count) {
        room *= 2;
    }
    if (room <= step->room) {
        return PSD_OK;
    }
    status = mem_grow(&slots, step->room, room, sizeof(*step->slots));
    if (status != PSD_OK) {
        return status;
    }
    step->slots = slots;
    status = mem_grow(&used, step->room, room, sizeof(*step->used));
    if (status != PSD_OK) {
        return status;
    }
    step->used = used;
    step->room = room;
    return PSD_OK;
}

psd_status psd_step_add(struct psd_step *step, const struct psd_slot *slots,
                        uint32_t count, uint32_t *first_p)
{
    psd_status status = step_failed(step);
    uint32_t made = 0;

    for (uint32_t i = 0; i < count && status == PSD_OK; i++) {
        status = slot_check(step, &slots[i]);
    }
    if (status == PSD_OK && count > INT32_MAX / 2 - step->count) {
        status = step_refuse(step, "too many slots");
    }
    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&step->lock);
    status = slots_reserve(step, step->count + count);
    while (made < count && status == PSD_OK) {
        uint32_t id = step->count + made;

        step->slots[id] = slot_create(step, id, &slots[made]);
        status = step->slots[id] == NULL ? PSD_ENOMEM : PSD_OK;
        made += status == PSD_OK;
    }
    if (status == PSD_OK) {
        *first_p = step->count;
        step->count += count;
    } else {
        while (made > 0) {
            slot_destroy(step->slots[step->count + --made]);
        }
    }
    pthread_mutex_unlock(&step->lock);
    return status == PSD_OK
               ? PSD_OK
               : (step_refuse(step, "no memory for %" PRIu32 " slots", count),
                  status);
}

/* ---- a pass ------------------------------------------------------------ */

psd_status psd_step_begin(struct psd_step *step, double weight, psd_op op)
{
    psd_status status = step_failed(step);

    if (status != PSD_OK) {
        return status;
    }
    if (step->stage != STEP_IDLE) {
        return step_refuse(step, "a pass is open: psd_step_finish ends it");
    }
    if (!reduce_weight_fits(weight) ||
        (op != PSD_OP_MEAN && op != PSD_OP_SUM)) {
        return step_refuse(step, "a pass needs a weight of 0 to 2^40, and "
                                 "mean or sum");
    }
    pthread_mutex_lock(&step->lock);
    for (uint32_t i = 0; i < step->count; i++) {
        struct step_slot *slot = step->slots[i];

        slot->part = SLOT_NONE;
        slot->used = false;
        slot->sparse = false;
        slot->data = NULL;
        slot->outcome = PSD_STEP_NOBODY;
        slot->bad = 0;
    }
    step->stage = STEP_OPEN;
    step->pass++;
    step->weight = weight;
    step->op = op;
    step->flag = 0;
    pthread_mutex_unlock(&step->lock);
    return PSD_OK;
}

psd_status step_send(struct psd_step *step, struct step_slot *slot, bool have,
                     double weight, psd_op op)
{
    struct psd_push_args args = {
        .data = slot->data, .out = slot->data, .weight = weight, .op = op};

    if (slot->kind == PSD_SLOT_BUFFER) {
        args.op = PSD_OP_MEAN;
        have = have && weight > 0;
    }
    if (!have && (slot->kind == PSD_SLOT_BUFFER || weight == 0)) {
        return psd_push_absent(step->session, slot->tensor, slot->data,
                               &slot->ticket);
    }
    if (!have) {
        args.data = NULL; /* zeros */
    }
    return psd_push(step->session, slot->tensor, &args, &slot->ticket);
}

psd_status step_wait(struct psd_step *step, struct step_slot *slot)
{
    struct psd_result result = {0};
    psd_status status = psd_wait(step->session, slot->ticket, &result);

    if (status == PSD_OK) {
        slot->part = SLOT_DONE;
        slot->bad = result.bad != 0 ? result.bad : slot->bad;
        slot->outcome = result.nobody != 0 ? PSD_STEP_NOBODY : PSD_STEP_DENSE;
    }
    return status;
}

/* Alone the answer is the input; without samples it is zeros, and a buffer
 * stays as it is. */
static void answer_alone(struct step_slot *slot, double weight)
{
    if (weight == 0 && slot->kind == PSD_SLOT_GRADIENT) {
        memset(slot->data, 0, slot->size);
    }
    slot->part = SLOT_DONE;
    slot->outcome = weight == 0 && slot->kind == PSD_SLOT_BUFFER
                        ? PSD_STEP_NOBODY
                        : PSD_STEP_DENSE;
}

psd_status step_take(struct psd_step *step, uint32_t id, const void *data,
                     const char **why_p)
{
    psd_status status = step_failed(step);

    if (status != PSD_OK) {
        return status;
    }
    if (id >= step->count || data == NULL) {
        *why_p = "a push needs a slot that was added, and data";
    } else if (step->slots[id]->part != SLOT_NONE || step->slots[id]->sparse) {
        *why_p = "this slot was given already in this pass";
    }
    return *why_p == NULL ? PSD_OK : PSD_EINVAL;
}

psd_status step_refuse_slot(struct psd_step *step, uint32_t id,
                            psd_status status, const char *why)
{
    if (why != NULL) {
        step_refuse(step, "slot %" PRIu32 " (%s): %s", id,
                    id < step->count ? step->slots[id]->name : "none", why);
    }
    return status;
}

psd_status psd_step_push(struct psd_step *step, uint32_t id, void *data)
{
    const char *why = NULL;
    struct step_slot *slot = NULL;
    psd_status status;

    pthread_mutex_lock(&step->lock);
    status = step_take(step, id, data, &why);
    if (status == PSD_OK && step->stage != STEP_OPEN) {
        why = "there is no pass: psd_step_begin comes first";
        status = PSD_EINVAL;
    }
    if (status == PSD_OK) {
        slot = step->slots[id];
        slot->data = data;
        slot->used = true;
        slot->part = !step->alone && id < step->registered &&
                             agree_has(step->used[id], step->pass)
                         ? SLOT_SENT
                         : SLOT_KEPT;
    }
    pthread_mutex_unlock(&step->lock);
    if (status != PSD_OK) {
        return step_refuse_slot(step, id, status, why);
    }
    if (step->alone) {
        answer_alone(slot, step->weight);
        return PSD_OK;
    }
    return slot->part == SLOT_SENT
               ? step_check(step,
                            step_send(step, slot, true, step->weight, step->op))
               : PSD_OK;
}

bool step_owes(const struct psd_step *step, uint32_t id)
{
    const struct step_slot *slot = step->slots[id];

    if (slot->part != SLOT_NONE || step->alone || id >= step->registered) {
        return false;
    }
    switch (step->stage) {
    case STEP_OPEN:
        return !slot->sparse && agree_has(step->used[id], step->pass);
    case STEP_LATE:
        return agree_marked(step->header, step->capacity, AGREE_DENSE, id);
    default:
        return false;
    }
}

uint32_t psd_step_missing(struct psd_step *step, uint32_t *slots)
{
    uint32_t count = 0;

    pthread_mutex_lock(&step->lock);
    for (uint32_t i = 0; i < step->registered; i++) {
        if (step_owes(step, i)) {
            slots[count++] = i;
        }
    }
    pthread_mutex_unlock(&step->lock);
    return count;
}

psd_status psd_step_room(struct psd_step *step, uint32_t id, void *out)
{
    const char *why = NULL;
    psd_status status;

    pthread_mutex_lock(&step->lock);
    status = step_take(step, id, out, &why);
    if (status == PSD_OK && !step_owes(step, id)) {
        why = "no room is needed: psd_step_missing says which slots";
        status = PSD_EINVAL;
    }
    if (status == PSD_OK) {
        step->slots[id]->data = out;
        step->slots[id]->part = SLOT_SENT;
    }
    pthread_mutex_unlock(&step->lock);
    if (status != PSD_OK) {
        return step_refuse_slot(step, id, status, why);
    }
    return step_check(
        step, step_send(step, step->slots[id], false, step->weight, step->op));
}

int psd_step_outcome(const struct psd_step *step, uint32_t id)
{
    return id < step->count ? step->slots[id]->outcome : PSD_STEP_NOBODY;
}

int psd_step_bad(const struct psd_step *step, uint32_t *slot_p,
                 uint32_t *rank_p)
{
    for (uint32_t i = 0; i < step->count; i++) {
        if (step->slots[i]->bad != 0 &&
            step->slots[i]->kind == PSD_SLOT_GRADIENT) {
            *slot_p = i;
            *rank_p = step->slots[i]->bad - 1;
            return 1;
        }
    }
    return 0;
}

/* ---- outside a pass ---------------------------------------------------- */

static psd_status now_check(struct psd_step *step, uint32_t id,
                            const void *data, double weight, psd_op op,
                            const char **why_p)
{
    psd_status status = step_failed(step);

    if (status != PSD_OK) {
        return status;
    }
    if (!reduce_weight_fits(weight) ||
        (op != PSD_OP_MEAN && op != PSD_OP_SUM)) {
        *why_p = "it needs a weight of 0 to 2^40, and mean or sum";
    } else if (id >= step->registered || data == NULL) {
        *why_p = "it needs data, and psd_step_start or psd_step_finish "
                 "first, which register the slot";
    } else if (step->stage == STEP_OPEN) {
        return step_take(step, id, data, why_p);
    } else if (step->stage == STEP_LATE) {
        *why_p = "psd_step_finish is not done";
    }
    return *why_p == NULL ? PSD_OK : PSD_EINVAL;
}

psd_status psd_step_now(struct psd_step *step, uint32_t id, void *data,
                        double weight, psd_op op)
{
    const char *why = NULL;
    struct step_slot *slot;
    psd_status status;

    pthread_mutex_lock(&step->lock);
    status = now_check(step, id, data, weight, op, &why);
    if (status == PSD_OK) {
        slot = step->slots[id];
        slot->data = data;
        slot->used = true;
        slot->part = SLOT_SENT;
    }
    pthread_mutex_unlock(&step->lock);
    if (status != PSD_OK) {
        return step_refuse_slot(step, id, status, why);
    }
    if (step->alone) {
        answer_alone(slot, weight);
        return PSD_OK;
    }
    status = step_send(step, slot, true, weight, op);
    if (status == PSD_OK) {
        status = step_wait(step, slot);
    }
    return step_check(step, status);
}

psd_status psd_step_audit(struct psd_step *step, const void *const *data,
                          const uint64_t *size, uint32_t count)
{
    psd_status status = step_failed(step);

    for (uint32_t i = 0; i < count && i < step->registered && status == PSD_OK;
         i++) {
        if (data[i] != NULL) {
            status = psd_audit(step->session, step->slots[i]->tensor, data[i],
                               size[i]);
        }
    }
    return status;
}
