/*
 * pass.c: a step of a group, from its first push to its wait, and what becomes
 * of one that was left; the rule is in plugin.h. Every step carries a header
 * of four words, of which the largest of all workers is answered:
 *
 *   0  1: I have come to the wait        1  rank + 1: I have left the step
 *   2  1: my last step was applied       3  rank + 1: I do not know that
 *
 * Both of a pair: the workers have gone different ways.
 */
#include <inttypes.h>
#include <sysexits.h>

#include "base/log.h"
#include "base/mem.h"
#include "tf/plug.h"

#define WEIGHT_MAX 0x1p40 /* as in poseidon.h */

enum { CAME, LEFT, SOUND, SPOILED };

/* ---- header ------------------------------------------------------------ */

/* Under lock. */
static psd_status header_push(struct group *group, bool came,
                              struct fault *fault)
{
    struct psd_push_args args = {
        .data = group->words,
        .weight = 1,
        .op = PSD_OP_MAX,
    };
    int64_t me = (int64_t)plug.rank + 1;
    psd_status status;

    group->words[CAME] = came;
    group->words[LEFT] = came ? 0 : me;
    group->words[SOUND] = !group->spoiled;
    group->words[SPOILED] = group->spoiled ? me : 0;
    status =
        psd_push(plug.session, group->header, &args, &group->header_ticket);
    return status == PSD_OK ? PSD_OK
                            : fault_session(fault, status, group->name);
}

/* The workers have parted, or memory has run out in the middle: end the job,
 * with the reason. Other failures are the session's, which has told it. */
static psd_status group_break(struct group *group, struct fault *fault)
{
    mem_free(group->broken);
    group->broken = mem_strdup(fault->text);
    if (fault->status == PSD_EDIFFER || fault->status == PSD_ENOMEM) {
        psd_abort(plug.session, EX_DATAERR, fault->text);
    }
    return fault->status;
}

/* The header is answered. Under lock. */
static psd_status header_judge(struct group *group, struct fault *fault)
{
    const int64_t *words = group->words;

    if (words[CAME] != 0 && words[LEFT] != 0) {
        fault_set(fault, PSD_EDIFFER,
                  "%s: the run of worker %" PRId64 " ended in the middle of "
                  "step %" PRIu64 ", other workers have finished it: the "
                  "replicas are no longer equal. A step must fail on every "
                  "worker or on none; two runs must not train the same "
                  "optimizer at the same time",
                  group->name, words[LEFT] - 1, group->steps);
        return group_break(group, fault);
    }
    if (words[SOUND] != 0 && words[SPOILED] != 0) {
        fault_set(fault, PSD_EDIFFER,
                  "%s: the run of worker %" PRId64 " failed after step "
                  "%" PRIu64 " had been exchanged, other workers have applied "
                  "it: the replicas are no longer equal. A step must fail on "
                  "every worker or on none",
                  group->name, words[SPOILED] - 1, group->steps - 1);
        return group_break(group, fault);
    }
    group->spoiled = false;
    return PSD_OK;
}

/* ---- a step that was left ---------------------------------------------- */

static psd_status key_absent(struct key *key, struct fault *fault)
{
    psd_status status;

    if (key->kind == PSD_TF_SPARSE) {
        return sparse_start_empty(key, fault);
    }
    key->scratch = mem_map(key->size);
    if (key->scratch == NULL) {
        return fault_set(fault, PSD_ENOMEM, "key %s: no memory", key->name);
    }
    status =
        psd_push_absent(plug.session, key->tensor, key->scratch, &key->ticket);
    return status == PSD_OK ? PSD_OK : fault_session(fault, status, key->name);
}

static bool key_travels(const struct key *key)
{
    return key->kind != PSD_TF_VALUE && key->size > 0;
}

/* Tell the others, and owe them nothing. Returns at once. Under lock. */
static psd_status group_leave(struct group *group, struct fault *fault)
{
    psd_status status = header_push(group, false, fault);

    for (uint32_t i = 0; i < group->count && status == PSD_OK; i++) {
        struct key *key = group->keys[i];

        if (key_travels(key) && key->state != KEY_FLYING) {
            key_release(key);
            status = key_absent(key, fault);
            key->state = status == PSD_OK ? KEY_FLYING : KEY_IDLE;
        }
    }
    return status;
}

void pass_bad(struct key *key, uint32_t bad)
{
    if (bad > 0 && key->group->bad == NULL) {
        key->group->bad = key;
        key->group->bad_rank = bad - 1;
    }
}

static psd_status key_wait(struct key *key, bool keep, struct fault *fault)
{
    struct psd_result result = { 0 };
    psd_status status;

    if (!key_travels(key)) {
        return PSD_OK;
    }
    if (key->kind == PSD_TF_SPARSE) {
        return sparse_finish(key, keep, fault);
    }
    status = psd_wait(plug.session, key->ticket, &result);
    if (status != PSD_OK) {
        return fault_session(fault, status, key->name);
    }
    pass_bad(key, result.bad);
    return PSD_OK;
}

/* Wait until the left step is over everywhere. Under lock: nothing of this
 * worker could go on. */
static psd_status group_conclude(struct group *group, struct fault *fault)
{
    psd_status status = psd_wait(plug.session, group->header_ticket, NULL);

    if (status != PSD_OK) {
        return fault_session(fault, status, group->name);
    }
    status = header_judge(group, fault);
    for (uint32_t i = 0; i < group->count && status == PSD_OK; i++) {
        struct key *key = group->keys[i];

        if (key->state == KEY_FLYING) {
            status = key_wait(key, false, fault);
            if (status == PSD_OK) {
                key_release(key);
            }
        }
    }
    if (status == PSD_OK) {
        group->open = false;
    }
    return status;
}

/* All that were left together are left together: had two workers begun with
 * different groups, each would wait for the other. Under lock. */
static psd_status settle_marked(struct fault *fault)
{
    psd_status status = PSD_OK;
    struct group *group;

    for (group = plug.groups; group != NULL && status == PSD_OK;
         group = group->next) {
        if (group->settling) {
            status = group_leave(group, fault);
        }
    }
    for (group = plug.groups; group != NULL && status == PSD_OK;
         group = group->next) {
        if (group->settling) {
            status = group_conclude(group, fault);
        }
    }
    for (group = plug.groups; group != NULL; group = group->next) {
        group->settling = false;
    }
    return status;
}

psd_status pass_settle(struct fault *fault)
{
    psd_status status = PSD_OK;

    pthread_mutex_lock(&plug.lock);
    for (struct group *group = plug.groups; group != NULL;
         group = group->next) {
        group->settling = group->open && !group->waiting;
        if (group->settling && group->broken != NULL) {
            status = fault_set(fault, PSD_EDIFFER, "%s", group->broken);
        }
    }
    if (status == PSD_OK) {
        status = settle_marked(fault);
    }
    pthread_mutex_unlock(&plug.lock);
    return status;
}

/* ---- push -------------------------------------------------------------- */

/* Does this push belong to the open step, or was that one left? Under
 * lock. */
static psd_status group_enter_step(struct group *group, const struct key *key,
                                   const struct pass_push *push,
                                   struct fault *fault)
{
    bool again = key->state == KEY_FLYING;
    bool left;
    psd_status status = PSD_OK;

    if (group->broken != NULL) {
        return fault_set(fault, PSD_EDIFFER, "%s", group->broken);
    }
    left = group->open && (push->eager ? again && group->first == key
                                       : group->run != push->run);
    if (group->open && (group->waiting || (again && !left))) {
        return fault_set(fault, PSD_EINVAL,
                         "key %s is pushed again before the wait of %s has "
                         "ended: it is pushed twice in one step, or two runs "
                         "train the same optimizer at the same time",
                         key->name, group->name);
    }
    if (left) {
        for (struct group *other = plug.groups; other != NULL;
             other = other->next) {
            other->settling =
                other == group || (!push->eager && other->open &&
                                   !other->waiting && other->run == group->run);
        }
        status = settle_marked(fault);
    }
    if (status == PSD_OK && !group->open) {
        group->open = true;
        group->run = push->run;
        group->first = key;
    }
    return status;
}

/* The tensors are the key's. Under lock. */
static psd_status key_push(struct key *key, double weight, psd_op op,
                           struct fault *fault)
{
    struct psd_push_args args = { .weight = weight, .op = op };
    psd_status status;

    if (!key_travels(key)) {
        return PSD_OK;
    }
    if (key->kind == PSD_TF_SPARSE) {
        return sparse_start(key, weight, op, fault);
    }
    args.out = tf.TensorData(key->out);
    args.data = key->in != NULL ? tf.TensorData(key->in) : args.out;
    status = psd_push(plug.session, key->tensor, &args, &key->ticket);
    return status == PSD_OK ? PSD_OK : fault_session(fault, status, key->name);
}

static void push_drop(const struct pass_push *push)
{
    TF_Tensor *const held[] = { push->in, push->out, push->indices };

    for (size_t i = 0; i < sizeof(held) / sizeof(held[0]); i++) {
        if (held[i] != NULL) {
            tf.DeleteTensor(held[i]);
        }
    }
}

psd_status pass_push(struct key *key, const struct pass_push *push,
                     struct fault *fault)
{
    double weight;
    psd_op op;
    psd_status status;

    pthread_mutex_lock(&plug.lock);
    weight = push->weight < 0 ? plug.weight : push->weight;
    op = push->op == 0 ? plug.op : (psd_op)push->op;
    status = key->group == NULL
                 ? fault_set(fault, PSD_EENV,
                             "key %s is not registered any more", key->name)
             : weight >= 0 && weight <= WEIGHT_MAX
                 ? group_enter_step(key->group, key, push, fault)
                 : fault_set(fault, PSD_EINVAL,
                             "key %s: a weight of %g; samples are 0 to 2^40",
                             key->name, weight);
    if (status != PSD_OK) {
        push_drop(push);
    } else {
        key_release(key);
        key->in = push->in;
        key->out = push->out;
        if (key->sparse != NULL) {
            key->sparse->indices = push->indices;
        }
        status = key_push(key, weight, op, fault);
        if (status == PSD_EINVAL) {
            key_release(key); /* refused: nothing of it is on its way */
        } else {
            key->state = KEY_FLYING;
            plug_event(PSD_TF_PUSHED, key->name, key->group->steps);
        }
    }
    pthread_mutex_unlock(&plug.lock);
    return status;
}

/* ---- wait -------------------------------------------------------------- */

/* Under lock. */
static psd_status wait_check(struct group *group, struct key *const *keys,
                             uint32_t count, struct fault *fault)
{
    if (group->broken != NULL) {
        return fault_set(fault, PSD_EDIFFER, "%s", group->broken);
    }
    if (plug.session == NULL || !group->steps_header) {
        return fault_set(fault, PSD_EENV,
                         "group %s is not registered (psd_tf_register) on "
                         "this worker",
                         group->name);
    }
    if (group->waiting) {
        return fault_set(fault, PSD_EINVAL, "two waits for %s at the same time",
                         group->name);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (keys[i]->group != group || keys[i]->state != KEY_FLYING) {
            return fault_set(fault, PSD_EINVAL,
                             "key %s is not pushed in this step of %s",
                             keys[i]->name, group->name);
        }
    }
    return PSD_OK;
}

/* Everything that was pushed, in the order of registration: rounds of sparse
 * keys must be made by all workers in one order. */
static psd_status wait_keys(struct group *group, struct fault *fault)
{
    psd_status status = PSD_OK;

    for (uint32_t i = 0; i < group->count && status == PSD_OK; i++) {
        if (group->keys[i]->state == KEY_FLYING) {
            status = key_wait(group->keys[i], true, fault);
        }
    }
    return status;
}

/* The step has ended: hand the answers out. Under lock. */
static void wait_end(struct group *group, struct key *const *keys,
                     uint32_t count, TF_Tensor **outs)
{
    for (uint32_t i = 0; i < count; i++) {
        outs[i] = keys[i]->kind == PSD_TF_SPARSE ? NULL : keys[i]->out;
        if (outs[i] != NULL) {
            keys[i]->out = NULL;
        }
    }
    for (uint32_t i = 0; i < group->count; i++) {
        struct key *key = group->keys[i];

        if (key->state != KEY_FLYING) {
            continue;
        }
        if (key->kind == PSD_TF_SPARSE) {
            TF_Tensor *values = key->sparse->all_values;
            TF_Tensor *indices = key->sparse->all_indices;

            key->sparse->all_values = key->sparse->all_indices = NULL;
            key_release(key);
            key->sparse->all_values = values;
            key->sparse->all_indices = indices;
            key->state = KEY_GATHERED;
        } else {
            key_release(key);
        }
    }
    group->open = false;
    group->steps++;
}

/* The step is over, on every worker alike; shall it be applied? */
static psd_status wait_finite(const struct group *group, bool *finite_p,
                              struct fault *fault)
{
    *finite_p = group->bad == NULL;
    if (*finite_p || !plug.stop_at_nan) {
        return PSD_OK;
    }
    if (group->bad_rank == plug.size) {
        return fault_set(fault, PSD_EPROTO,
                         "step %" PRIu64 " of %s: the gradient %s of all "
                         "workers together is too large for its type",
                         group->steps - 1, group->name, group->bad->name);
    }
    return fault_set(fault, PSD_EPROTO,
                     "step %" PRIu64 " of %s: the gradient %s of worker "
                     "%" PRIu32 " has a NaN or an infinity",
                     group->steps - 1, group->name, group->bad->name,
                     group->bad_rank);
}

psd_status pass_wait(struct group *group, struct key *const *keys,
                     uint32_t count, TF_Tensor **outs, bool *finite_p,
                     struct fault *fault)
{
    psd_status status;

    pthread_mutex_lock(&plug.lock);
    status = wait_check(group, keys, count, fault);
    if (status == PSD_OK) {
        plug_event(PSD_TF_WAITS, group->name, group->steps);
        group->bad = NULL;
        status = header_push(group, true, fault);
    }
    group->waiting = status == PSD_OK || group->waiting;
    pthread_mutex_unlock(&plug.lock);
    if (status != PSD_OK) {
        return status;
    }
    status = psd_wait(plug.session, group->header_ticket, NULL);
    if (status != PSD_OK) {
        fault_session(fault, status, group->name);
    } else {
        pthread_mutex_lock(&plug.lock);
        status = header_judge(group, fault);
        pthread_mutex_unlock(&plug.lock);
    }
    if (status == PSD_OK) {
        status = wait_keys(group, fault);
    }
    pthread_mutex_lock(&plug.lock);
    group->waiting = false;
    if (status != PSD_OK && group->broken == NULL) {
        /* Half waited for: there is no way on from here. */
        group_break(group, fault);
    }
    if (status == PSD_OK) {
        plug_event(PSD_TF_WAITED, group->name, group->steps);
        wait_end(group, keys, count, outs);
        status = wait_finite(group, finite_p, fault);
    }
    pthread_mutex_unlock(&plug.lock);
    return status;
}

psd_status pass_take(struct key *key, TF_Tensor **values_p,
                     TF_Tensor **indices_p, struct fault *fault)
{
    psd_status status = PSD_OK;

    pthread_mutex_lock(&plug.lock);
    if (key->sparse == NULL || key->state != KEY_GATHERED) {
        status = fault_set(fault, PSD_EINVAL,
                           "key %s has no sparse answer: PsdTakeSparse comes "
                           "behind the PsdWait of its step, once",
                           key->name);
    } else {
        *values_p = key->sparse->all_values;
        *indices_p = key->sparse->all_indices;
        key->sparse->all_values = NULL;
        key->sparse->all_indices = NULL;
        key->state = KEY_IDLE;
    }
    pthread_mutex_unlock(&plug.lock);
    return status;
}
