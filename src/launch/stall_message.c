/* stall_message.c: see stall_message.h. */
#include "launch/stall_message.h"

#include "base/log.h"

static psd_status finish(const struct unpack *unpack, const char *what)
{
    if (!unpack_done(unpack)) {
        log_error("launch: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

void launch_stall_pack(struct pack *pack, const struct launch_stall *stall)
{
    pack_u8(pack, stall->kind);
    pack_u64(pack, stall->waited_ms);
    pack_u32(pack, stall->waiters);
    pack_u64(pack, stall->step);
    pack_u32(pack, stall->tensors);
    pack_text(pack, stall->tensor);
    pack_u32(pack, stall->more);
    pack_u32(pack, stall->count);
    for (uint32_t i = 0; i < stall->count; i++) {
        pack_u8(pack, stall->stalled[i].is_server);
        pack_u32(pack, stall->stalled[i].rank);
        pack_u8(pack, stall->stalled[i].how);
    }
}

psd_status launch_stall_unpack(struct launch_stall *stall, const void *data,
                               size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    stall->kind = unpack_u8(&unpack);
    stall->waited_ms = unpack_u64(&unpack);
    stall->waiters = unpack_u32(&unpack);
    stall->step = unpack_u64(&unpack);
    stall->tensors = unpack_u32(&unpack);
    unpack_text(&unpack, stall->tensor, sizeof(stall->tensor));
    stall->more = unpack_u32(&unpack);
    stall->count = unpack_u32(&unpack);
    if (stall->kind > LAUNCH_STALL_SILENT || stall->count > LAUNCH_STALL_MAX) {
        unpack.failed = true;
        stall->count = 0;
    }
    for (uint32_t i = 0; i < stall->count; i++) {
        stall->stalled[i].is_server = unpack_u8(&unpack);
        stall->stalled[i].rank = unpack_u32(&unpack);
        stall->stalled[i].how = unpack_u8(&unpack);
        if (stall->stalled[i].how > LAUNCH_STALL_SUSPECT) {
            unpack.failed = true;
        }
    }
    return finish(&unpack, "stall");
}

void launch_look_pack(struct pack *pack, const struct launch_look *look)
{
    pack_u32(pack, look->pid);
    pack_u8(pack, look->state);
    pack_u8(pack, look->stack_is);
    pack_text(pack, look->name);
    pack_text(pack, look->where);
    pack_text(pack, look->stack);
}

psd_status launch_look_unpack(struct launch_look *look, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    look->pid = unpack_u32(&unpack);
    look->state = unpack_u8(&unpack);
    look->stack_is = unpack_u8(&unpack);
    unpack_text(&unpack, look->name, sizeof(look->name));
    unpack_text(&unpack, look->where, sizeof(look->where));
    unpack_text(&unpack, look->stack, sizeof(look->stack));
    if (look->stack_is > LAUNCH_STACK_SILENT) {
        unpack.failed = true;
    }
    return finish(&unpack, "look");
}
