/* desk_message.c: see desk_message.h. */
#include "launch/desk_message.h"

#include "base/log.h"
#include "base/mem.h"

#define PROCESS_LEAST 16 /* bytes of the shortest */

static psd_status finish(const struct unpack *unpack, const char *what)
{
    if (!unpack_done(unpack)) {
        log_error("desk: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

/* ---- ask ---------------------------------------------------------------- */

void desk_ask_pack(struct pack *pack, const struct desk_ask *ask)
{
    pack_u8(pack, ask->verb);
    pack_u8(pack, ask->now);
    pack_u8(pack, ask->follow);
    pack_u8(pack, ask->is_server);
    pack_u32(pack, ask->rank);
    pack_u64(pack, ask->lines);
    pack_text(pack, ask->build);
}

psd_status desk_ask_unpack(struct desk_ask *ask, const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    ask->verb = unpack_u8(&unpack);
    ask->now = unpack_u8(&unpack);
    ask->follow = unpack_u8(&unpack);
    ask->is_server = unpack_u8(&unpack);
    ask->rank = unpack_u32(&unpack);
    ask->lines = unpack_u64(&unpack);
    unpack_text(&unpack, ask->build, sizeof(ask->build));
    if (ask->verb < DESK_STATUS || ask->verb > DESK_ATTACH || ask->now > 1 ||
        ask->follow > 1 || ask->is_server > 1 ||
        (ask->lines > DESK_LINES_MAX && ask->lines != DESK_LINES_ALL)) {
        unpack.failed = true;
    }
    return finish(&unpack, "ask");
}

/* ---- status ------------------------------------------------------------- */

void desk_status_pack(struct pack *pack, const struct desk_status *status)
{
    pack_text(pack, status->name);
    pack_text(pack, status->command);
    pack_text(pack, status->logs);
    pack_u32(pack, status->pid);
    pack_u64(pack, status->started);
    pack_u8(pack, status->state);
    pack_u8(pack, status->tee);
    pack_u32(pack, status->hosts);
    pack_u32(pack, status->workers);
    pack_u32(pack, status->servers);
    pack_u8(pack, status->has_view);
    pack_u64(pack, status->step);
    pack_f64(pack, status->loss);
    pack_f64(pack, status->rate);
    pack_u32(pack, status->process_count);
    for (uint32_t i = 0; i < status->process_count; i++) {
        const struct desk_process *process = &status->processes[i];

        pack_u8(pack, process->is_server);
        pack_u8(pack, process->state);
        pack_u8(pack, process->code);
        pack_u8(pack, process->signal);
        pack_u32(pack, process->rank);
        pack_u32(pack, process->pid);
        pack_text(pack, process->host);
    }
}

static void unpack_process(struct unpack *unpack, struct desk_process *process)
{
    process->is_server = unpack_u8(unpack);
    process->state = unpack_u8(unpack);
    process->code = unpack_u8(unpack);
    process->signal = unpack_u8(unpack);
    process->rank = unpack_u32(unpack);
    process->pid = unpack_u32(unpack);
    unpack_text(unpack, process->host, sizeof(process->host));
    if (process->is_server > 1 || process->state >= DESK_PROCESS_STATES) {
        unpack->failed = true;
    }
}

static psd_status unpack_processes(struct unpack *unpack,
                                   struct desk_status *status)
{
    uint32_t count = unpack_u32(unpack);
    size_t left = (size_t)(unpack->end - unpack->at);

    if (unpack->failed || count > LAUNCH_TASKS_MAX ||
        count > left / PROCESS_LEAST) {
        unpack->failed = true;
        return PSD_EPROTO;
    }
    status->processes =
        mem_zalloc_array((size_t)count + 1, sizeof(*status->processes));
    if (status->processes == NULL) {
        return PSD_ENOMEM;
    }
    status->process_count = count;
    for (uint32_t i = 0; i < count; i++) {
        unpack_process(unpack, &status->processes[i]);
    }
    return PSD_OK;
}

psd_status desk_status_unpack(struct desk_status *status, const void *data,
                              size_t size)
{
    struct unpack unpack;
    psd_status result;

    *status = (struct desk_status){ .pid = 0 };
    unpack_init(&unpack, data, size);
    unpack_text(&unpack, status->name, sizeof(status->name));
    unpack_text(&unpack, status->command, sizeof(status->command));
    unpack_text(&unpack, status->logs, sizeof(status->logs));
    status->pid = unpack_u32(&unpack);
    status->started = unpack_u64(&unpack);
    status->state = unpack_u8(&unpack);
    status->tee = unpack_u8(&unpack);
    status->hosts = unpack_u32(&unpack);
    status->workers = unpack_u32(&unpack);
    status->servers = unpack_u32(&unpack);
    status->has_view = unpack_u8(&unpack);
    status->step = unpack_u64(&unpack);
    status->loss = unpack_f64(&unpack);
    status->rate = unpack_f64(&unpack);
    if (status->state >= DESK_STATES || status->tee > LAUNCH_TEE_NONE ||
        status->workers == 0 || status->workers > WIRE_RANKS_MAX ||
        status->started > INT64_MAX) {
        unpack.failed = true;
    }
    result = unpack_processes(&unpack, status);
    if (result != PSD_ENOMEM) {
        result = finish(&unpack, "status");
    }
    if (result != PSD_OK) {
        desk_status_fini(status);
    }
    return result;
}

void desk_status_fini(struct desk_status *status)
{
    mem_free(status->processes);
    status->processes = NULL;
    status->process_count = 0;
}

/* ---- done and tail ------------------------------------------------------ */

void desk_done_pack(struct pack *pack, const struct desk_done *done)
{
    pack_u32(pack, (uint32_t)done->code);
    pack_text(pack, done->reason);
}

psd_status desk_done_unpack(struct desk_done *done, const void *data,
                            size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    done->code = (int32_t)unpack_u32(&unpack);
    unpack_text(&unpack, done->reason, sizeof(done->reason));
    return finish(&unpack, "done");
}

void desk_tail_pack(struct pack *pack, const struct desk_tail *tail)
{
    pack_u8(pack, tail->action);
    pack_u32(pack, tail->id);
    pack_u8(pack, tail->is_server);
    pack_u32(pack, tail->rank);
    pack_u8(pack, tail->follow);
    pack_u64(pack, tail->lines);
    pack_u64(pack, tail->credit);
}

psd_status desk_tail_unpack(struct desk_tail *tail, const void *data,
                            size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    tail->action = unpack_u8(&unpack);
    tail->id = unpack_u32(&unpack);
    tail->is_server = unpack_u8(&unpack);
    tail->rank = unpack_u32(&unpack);
    tail->follow = unpack_u8(&unpack);
    tail->lines = unpack_u64(&unpack);
    tail->credit = unpack_u64(&unpack);
    if (tail->action < DESK_TAIL_OPEN || tail->action > DESK_TAIL_CLOSE ||
        tail->is_server > 1 || tail->follow > 1 ||
        tail->credit > DESK_ANSWER_MAX) {
        unpack.failed = true;
    }
    return finish(&unpack, "tail");
}

/* ---- names -------------------------------------------------------------- */

const char *desk_state_name(unsigned state)
{
    static const char *const names[DESK_STATES] = { "starting", "running",
                                                    "ending" };

    return state < DESK_STATES ? names[state] : "?";
}

const char *desk_process_state_name(unsigned state)
{
    static const char *const names[DESK_PROCESS_STATES] = {
        "waiting", "running", "training", "left", "exited", "lost"
    };

    return state < DESK_PROCESS_STATES ? names[state] : "?";
}
