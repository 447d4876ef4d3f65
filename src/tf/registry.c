/*
 * registry.c: the calls that Python makes, and the tables that they fill; see
 * plugin.h and plug.h. A kernel may be made before its key is registered, so
 * keys and groups are entered by whoever names them first and live as long as
 * the process.
 */
#include <inttypes.h>
#include <stdarg.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "poseidon_step.h"
#include "tf/plug.h"

struct plug plug = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .weight = 1,
    .op = PSD_OP_MEAN,
};

static _Thread_local struct fault last;

/* ---- failures ---------------------------------------------------------- */

psd_status fault_set(struct fault *fault, psd_status status, const char *format,
                     ...)
{
    va_list args;

    fault->status = status;
    va_start(args, format);
    vsnprintf(fault->text, sizeof(fault->text), format, args);
    va_end(args);
    return status;
}

psd_status fault_session(struct fault *fault, psd_status status,
                         const char *what)
{
    return fault_set(fault, status, "%s: %s", what, psd_error(plug.session));
}

const char *psd_tf_error(void)
{
    return last.text;
}

/* ---- tables ------------------------------------------------------------ */

static char *name_copy(const char *name, size_t length)
{
    char *copy = mem_zalloc(length + 1);

    if (copy != NULL) {
        memcpy(copy, name, length);
    }
    return copy;
}

static bool name_is(const char *name, const char *wanted, size_t length)
{
    return strncmp(name, wanted, length) == 0 && name[length] == '\0';
}

static struct key *key_enter(const char *name, size_t length)
{
    struct key *key = plug.keys;

    while (key != NULL && !name_is(key->name, name, length)) {
        key = key->next;
    }
    if (key == NULL) {
        key = mem_zalloc(sizeof(*key));
        if (key != NULL && (key->name = name_copy(name, length)) == NULL) {
            mem_free(key);
            key = NULL;
        }
        if (key != NULL) {
            key->next = plug.keys;
            plug.keys = key;
        }
    }
    return key;
}

static struct group *group_enter(const char *name, size_t length)
{
    struct group **group_p = &plug.groups;

    while (*group_p != NULL && !name_is((*group_p)->name, name, length)) {
        group_p = &(*group_p)->next;
    }
    if (*group_p == NULL) {
        struct group *group = mem_zalloc(sizeof(*group));

        if (group != NULL && (group->name = name_copy(name, length)) == NULL) {
            mem_free(group);
            group = NULL;
        }
        *group_p = group;
    }
    return *group_p;
}

struct key *key_find(const char *name, size_t length)
{
    struct key *key;

    pthread_mutex_lock(&plug.lock);
    key = key_enter(name, length);
    pthread_mutex_unlock(&plug.lock);
    return key;
}

struct group *group_find(const char *name, size_t length)
{
    struct group *group;

    pthread_mutex_lock(&plug.lock);
    group = group_enter(name, length);
    pthread_mutex_unlock(&plug.lock);
    return group;
}

static void tensor_drop(TF_Tensor **tensor_p)
{
    if (*tensor_p != NULL) {
        tf.DeleteTensor(*tensor_p);
        *tensor_p = NULL;
    }
}

void key_release(struct key *key)
{
    tensor_drop(&key->in);
    tensor_drop(&key->out);
    if (key->sparse != NULL) {
        tensor_drop(&key->sparse->indices);
        tensor_drop(&key->sparse->all_values);
        tensor_drop(&key->sparse->all_indices);
    }
    mem_unmap(key->scratch, key->size);
    key->scratch = NULL;
    key->state = KEY_IDLE;
}

psd_status key_check(const struct key *key, int32_t type, struct fault *fault)
{
    if (plug.session == NULL) {
        return fault_set(fault, PSD_EENV,
                         "key %s: this process has no session of Poseidon; "
                         "run the script under psd_run",
                         key->name);
    }
    if (key->group == NULL) {
        return fault_set(fault, PSD_EENV,
                         "key %s is not registered (psd_tf_register) on this "
                         "worker",
                         key->name);
    }
    if (key->type != type) {
        return fault_set(fault, PSD_EINVAL,
                         "key %s is registered with type %" PRId32
                         " and comes with type %" PRId32,
                         key->name, key->type, type);
    }
    return PSD_OK;
}

void plug_event(enum psd_tf_what what, const char *name, uint64_t step)
{
    plug.events[plug.event_count++ % PLUG_EVENTS] = (struct psd_tf_event){
        .ns = clock_ns(),
        .name = name,
        .what = (uint32_t)what,
        .step = (uint32_t)step,
    };
}

uint32_t psd_tf_events(struct psd_tf_event *events, uint32_t max)
{
    uint64_t first;
    uint32_t count;

    pthread_mutex_lock(&plug.lock);
    count = plug.event_count < PLUG_EVENTS ? (uint32_t)plug.event_count
                                           : PLUG_EVENTS;
    count = count < max ? count : max;
    first = plug.event_count - count;
    for (uint32_t i = 0; i < count; i++) {
        events[i] = plug.events[(first + i) % PLUG_EVENTS];
    }
    pthread_mutex_unlock(&plug.lock);
    return count;
}

/* ---- registering ------------------------------------------------------- */

/* What a type of TensorFlow is to the library; 0: bytes only. */
static const struct {
    int32_t type;
    psd_dtype dtype;
    size_t unit;
} types[] = {
    { TF_FLOAT, PSD_FLOAT32, 4 },
    { TF_DOUBLE, PSD_FLOAT64, 8 },
    { TF_HALF, PSD_FLOAT16, 2 },
    { TF_BFLOAT16, PSD_BFLOAT16, 2 },
    { TF_INT32, PSD_INT32, 4 },
    { TF_INT64, PSD_INT64, 8 },
    { 4, 0, 1 }, /* uint8 */
    { 5, 0, 2 }, /* int16 */
    { 6, 0, 1 }, /* int8 */
    { 8, 0, 8 }, /* complex64 */
    { TF_BOOL, 0, 1 },
    { 17, 0, 2 },  /* uint16 */
    { 18, 0, 16 }, /* complex128 */
    { 22, 0, 4 },  /* uint32 */
    { 23, 0, 8 },  /* uint64 */
};

static bool kind_takes(int32_t kind, int32_t type, psd_dtype dtype)
{
    switch (kind) {
    case PSD_TF_VALUE:
        return true;
    case PSD_TF_SHARED:
        return dtype != 0;
    default:
        return type == TF_FLOAT || type == TF_DOUBLE || type == TF_HALF ||
               type == TF_BFLOAT16;
    }
}

static psd_status spec_type(const struct psd_tf_spec *from, psd_dtype *dtype_p,
                            size_t *unit_p, struct fault *fault)
{
    size_t i = 0;

    while (i < sizeof(types) / sizeof(types[0]) &&
           types[i].type != from->dtype) {
        i++;
    }
    if (i == sizeof(types) / sizeof(types[0]) ||
        !kind_takes(from->kind, types[i].type, types[i].dtype)) {
        return fault_set(fault, PSD_ENOSUP,
                         "key %s: type %" PRId32 " of TensorFlow cannot be %s",
                         from->key, from->dtype,
                         from->kind == PSD_TF_VALUE    ? "broadcast"
                         : from->kind == PSD_TF_SHARED ? "added"
                                                       : "averaged");
    }
    *dtype_p = types[i].dtype;
    *unit_p = types[i].unit;
    return PSD_OK;
}

/* Enter one key; nothing is sent yet. `spec` is what the library is told. */
static psd_status key_set(struct group *group, const struct psd_tf_spec *from,
                          struct psd_spec *spec, struct key **key_p,
                          struct fault *fault)
{
    psd_dtype dtype = 0;
    size_t unit = 0;
    psd_status status = spec_type(from, &dtype, &unit, fault);
    struct key *key;
    uint64_t size;

    if (status != PSD_OK) {
        return status;
    }
    key = key_enter(from->key, strlen(from->key));
    if (key == NULL) {
        return fault_set(fault, PSD_ENOMEM, "no memory for key %s", from->key);
    }
    if (key->group != NULL &&
        (key->group != group || key->type != from->dtype ||
         key->kind != from->kind || key->count != from->count)) {
        return fault_set(fault, PSD_EINVAL,
                         "key %s is registered already, in group %s with "
                         "another type, kind or size, or in another group",
                         from->key, key->group->name);
    }
    if (__builtin_mul_overflow(from->count, unit, &size)) {
        return fault_set(fault, PSD_EINVAL, "key %s is too large", from->key);
    }
    *key_p = key;
    if (key->group == NULL) {
        key->type = from->dtype;
        key->kind = from->kind;
        key->count = from->count;
        key->unit = unit;
        key->padded = dtype == 0;
        key->size = key->padded ? (size + 3) / 4 * 4 : size;
        if (key->kind == PSD_TF_SPARSE) {
            status = sparse_create(key, from->rows, fault);
        } else if (key->kind == PSD_TF_SHARED && size > 0) {
            key->base = mem_map(key->size);
            status = key->base != NULL
                         ? PSD_OK
                         : fault_set(fault, PSD_ENOMEM, "no memory for key %s",
                                     from->key);
        }
    }
    *spec = (struct psd_spec){
        .name = key->name,
        .dtype = key->padded ? PSD_INT32 : dtype,
        .count = key->padded ? key->size / 4 : key->count,
        .priority = from->priority,
    };
    if (key->kind == PSD_TF_SPARSE && status == PSD_OK) {
        spec->dtype = PSD_INT64;
        spec->kind = PSD_KIND_GATHER;
        spec->count = key->sparse->words;
    }
    if (key->kind == PSD_TF_SHARED) {
        spec->kind = PSD_KIND_SHARED;
    }
    return status;
}

struct batch_room {
    struct psd_spec *specs;
    psd_tensor *tensors;
    struct key **keys;
};

static void batch_free(struct batch_room *room)
{
    mem_free(room->specs);
    mem_free(room->tensors);
    mem_free(room->keys);
}

static psd_status batch_alloc(struct batch_room *room, uint32_t count,
                              struct fault *fault)
{
    /* One more: the group's header. */
    room->specs = mem_zalloc_array(count + 1, sizeof(*room->specs));
    room->tensors = mem_zalloc_array(count + 1, sizeof(*room->tensors));
    room->keys = mem_zalloc_array(count + 1, sizeof(struct key *));
    if (room->specs == NULL || room->tensors == NULL || room->keys == NULL) {
        batch_free(room);
        return fault_set(fault, PSD_ENOMEM, "no memory for %" PRIu32 " keys",
                         count);
    }
    return PSD_OK;
}

/* The library knows them: now they are the group's. */
static psd_status group_add(struct group *group, struct batch_room *room,
                            uint32_t count, struct fault *fault)
{
    void *keys = group->keys;

    if (mem_grow(&keys, group->count, group->count + count,
                 sizeof(struct key *)) != PSD_OK) {
        return fault_set(fault, PSD_ENOMEM, "no memory for %" PRIu32 " keys",
                         count);
    }
    group->keys = keys;
    for (uint32_t i = 0; i < count; i++) {
        if (room->keys[i]->group == NULL) {
            room->keys[i]->group = group;
            group->keys[group->count++] = room->keys[i];
        }
    }
    return PSD_OK;
}

/* Under lock. `header` has room for the name. */
static psd_status register_batch(struct group *group,
                                 const struct psd_tf_spec *specs,
                                 uint32_t count, struct batch_room *room,
                                 char *header, struct fault *fault)
{
    psd_status status = PSD_OK;
    uint32_t sent = 0;

    /* Empty tensors have nothing to exchange; the library knows none. */
    for (uint32_t i = 0; i < count && status == PSD_OK; i++) {
        status = key_set(group, &specs[i], &room->specs[sent], &room->keys[i],
                         fault);
        sent += status == PSD_OK && specs[i].count > 0;
    }
    if (status != PSD_OK) {
        return status;
    }
    room->specs[sent] = (struct psd_spec){
        .name = header,
        .dtype = PSD_INT64,
        .count = PLUG_HEADER,
    };
    status = psd_register(plug.session, room->specs, sent + 1, room->tensors);
    if (status != PSD_OK) {
        return fault_session(fault, status, group->name);
    }
    group->header = room->tensors[sent];
    group->steps_header = true;
    sent = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (specs[i].count > 0) {
            room->keys[i]->tensor = room->tensors[sent++];
        }
    }
    return group_add(group, room, count, fault);
}

psd_status psd_tf_register(const char *name, const struct psd_tf_spec *specs,
                           uint32_t count)
{
    static const char suffix[] = "/step";
    struct batch_room room = { 0 };
    char header[256];
    psd_status status;

    if (snprintf(header, sizeof(header), "%s%s", name, suffix) >=
        (int)sizeof(header)) {
        return fault_set(&last, PSD_EINVAL, "the name of group %s is too long",
                         name);
    }
    status = batch_alloc(&room, count, &last);
    if (status != PSD_OK) {
        return status;
    }
    pthread_mutex_lock(&plug.lock);
    if (plug.session == NULL) {
        status = fault_set(&last, PSD_EENV,
                           "group %s: psd_tf_attach comes first", name);
    } else {
        struct group *group = group_enter(name, strlen(name));

        status =
            group == NULL
                ? fault_set(&last, PSD_ENOMEM, "no memory for group %s", name)
                : register_batch(group, specs, count, &room, header, &last);
    }
    pthread_mutex_unlock(&plug.lock);
    batch_free(&room);
    return status;
}

/* ---- the session ------------------------------------------------------- */

/* Large tensors lie in the arena from now on, so that those of other workers
 * are read and written where they are. Where it cannot be, they are staged. */
static void redirect(struct psd_session *session)
{
    if (psd_redirect_install(session, TF_FRAMEWORK) == PSD_OK) {
        psd_redirect_on(session);
    } else {
        log_debug("tf: tensors are staged: %s", psd_error(session));
    }
}

psd_status psd_tf_attach(struct psd_session *session, const void *witness)
{
    psd_status status = PSD_OK;
    psd_status (*mine)(struct psd_session **) = psd_open;

    if (psd_tf_ready() != NULL) {
        return fault_set(&last, PSD_ENOSUP, "%s", psd_tf_ready());
    }
    if (memcmp(&mine, &witness, sizeof(mine)) != 0) {
        return fault_set(&last, PSD_EINVAL,
                         "two copies of libposeidon.so.0 are in this process: "
                         "the ops use one (%s), the session came from another",
                         psd_version());
    }
    pthread_mutex_lock(&plug.lock);
    if (plug.session != NULL && plug.session != session) {
        status = fault_set(&last, PSD_EINVAL,
                           "the ops have a session already; psd_tf_detach "
                           "comes first");
    } else if (plug.session == NULL) {
        redirect(session);
        plug.session = session;
        plug.rank = psd_rank(session);
        plug.size = psd_size(session);
    }
    pthread_mutex_unlock(&plug.lock);
    return status;
}

void psd_tf_detach(void)
{
    pthread_mutex_lock(&plug.lock);
    for (struct key *key = plug.keys; key != NULL; key = key->next) {
        key_release(key);
        sparse_destroy(key);
        mem_unmap(key->base, key->size);
        key->base = NULL;
        key->begun = false;
        key->group = NULL;
    }
    for (struct group *group = plug.groups; group != NULL;
         group = group->next) {
        mem_free(group->keys);
        mem_free(group->broken);
        group->keys = NULL;
        group->broken = NULL;
        group->count = 0;
        group->steps = 0;
        group->bad = NULL;
        group->open = group->waiting = group->spoiled = false;
        group->steps_header = false;
    }
    plug.session = NULL;
    pthread_mutex_unlock(&plug.lock);
}

psd_status psd_tf_step(double weight, psd_op op)
{
    if (!(weight >= 0) || (op != PSD_OP_MEAN && op != PSD_OP_SUM)) {
        return fault_set(&last, PSD_EINVAL,
                         "a step has a weight of 0 or more and op MEAN or "
                         "SUM, not %g and %d",
                         weight, (int)op);
    }
    pthread_mutex_lock(&plug.lock);
    plug.weight = weight;
    plug.op = op;
    pthread_mutex_unlock(&plug.lock);
    return PSD_OK;
}

void psd_tf_stop_at_nan(int on)
{
    pthread_mutex_lock(&plug.lock);
    plug.stop_at_nan = on != 0;
    pthread_mutex_unlock(&plug.lock);
}

int psd_tf_bad(const char *name, const char **key_p, uint32_t *rank_p)
{
    struct group *group = group_find(name, strlen(name));
    int bad = 0;

    pthread_mutex_lock(&plug.lock);
    if (group != NULL && group->bad != NULL) {
        *key_p = group->bad->name;
        *rank_p = group->bad_rank;
        bad = 1;
    }
    pthread_mutex_unlock(&plug.lock);
    return bad;
}

uint64_t psd_tf_steps(const char *name)
{
    struct group *group = group_find(name, strlen(name));
    uint64_t steps = 0;

    pthread_mutex_lock(&plug.lock);
    if (group != NULL) {
        steps = group->steps;
    }
    pthread_mutex_unlock(&plug.lock);
    return steps;
}

void psd_tf_spoil(const char *name, uint64_t steps)
{
    struct group *group = group_find(name, strlen(name));

    pthread_mutex_lock(&plug.lock);
    if (group != NULL && group->steps > steps) {
        group->spoiled = true;
    }
    pthread_mutex_unlock(&plug.lock);
}

psd_status psd_tf_settle(void)
{
    return pass_settle(&last);
}
