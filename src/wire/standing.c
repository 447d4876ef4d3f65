/* standing.c: see standing.h. */
#include "wire/standing.h"

#include "base/log.h"

static psd_status finish(const struct unpack *unpack, const char *what)
{
    if (!unpack_done(unpack)) {
        log_error("standing: malformed %s", what);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

static uint8_t unpack_wait(struct unpack *unpack)
{
    uint8_t what = unpack_u8(unpack);

    if (what > STANDING_JOIN) {
        unpack->failed = true;
    }
    return what;
}

void message_stuck_pack(struct pack *pack, const struct message_stuck *stuck)
{
    pack_u8(pack, stuck->what);
    pack_u32(pack, stuck->tensor);
    pack_u64(pack, stuck->step);
    pack_u32(pack, stuck->tensors);
    pack_u32(pack, stuck->shard);
    pack_u64(pack, stuck->waited_ns);
}

psd_status message_stuck_unpack(struct message_stuck *stuck, const void *data,
                                size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    stuck->what = unpack_wait(&unpack);
    stuck->tensor = unpack_u32(&unpack);
    stuck->step = unpack_u64(&unpack);
    stuck->tensors = unpack_u32(&unpack);
    stuck->shard = unpack_u32(&unpack);
    stuck->waited_ns = unpack_u64(&unpack);
    return finish(&unpack, "stuck");
}

void message_who_pack(struct pack *pack, const struct message_who *who)
{
    pack_u8(pack, who->what);
    pack_u32(pack, who->tensor);
    pack_u64(pack, who->step);
}

psd_status message_who_unpack(struct message_who *who, const void *data,
                              size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    who->what = unpack_wait(&unpack);
    who->tensor = unpack_u32(&unpack);
    who->step = unpack_u64(&unpack);
    return finish(&unpack, "who");
}

void message_standing_pack(struct pack *pack,
                           const struct message_standing *standing)
{
    pack_u8(pack, standing->part);
    pack_u8(pack, standing->waiting);
}

psd_status message_standing_unpack(struct message_standing *standing,
                                   const void *data, size_t size)
{
    struct unpack unpack;

    unpack_init(&unpack, data, size);
    standing->part = unpack_u8(&unpack);
    standing->waiting = unpack_u8(&unpack);
    if (standing->part > STANDING_PAST || standing->waiting > 1) {
        unpack.failed = true;
    }
    return finish(&unpack, "standing");
}
