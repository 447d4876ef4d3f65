/*
 * frame.c: completing and checking a frame's header; see wire.h. Everything
 * here may be fed by a peer: what is wrong is a status, never an assert.
 */
#include "wire/wire.h"

#include <assert.h>
#include <inttypes.h>

#include "base/crc.h"
#include "base/le.h"
#include "base/log.h"

static_assert(sizeof(struct frame_header) == FRAME_HEADER_SIZE,
              "the header in memory is the header on the wire");
static_assert(offsetof(struct frame_header, step) == 24, "wire layout");
static_assert(offsetof(struct frame_header, rank) == 40, "wire layout");
static_assert(offsetof(struct frame_header, offset) == 48, "wire layout");
static_assert(offsetof(struct frame_header, credit) == 60, "wire layout");

static const char *const type_names[] = {
#define FRAME_TYPE_TEXT(name, value, text) [value] = text,
    FRAME_TYPE_MAP(FRAME_TYPE_TEXT)
#undef FRAME_TYPE_TEXT
};

static const char *type_find(unsigned type)
{
    size_t count = sizeof(type_names) / sizeof(type_names[0]);

    return type < count ? type_names[type] : NULL;
}

const char *frame_type_name(unsigned type)
{
    const char *name = type_find(type);

    return name == NULL ? "unknown" : name;
}

/* Does the crc cover the payload? Without a payload the answer only decides
 * when the crc is checked. */
static bool frame_is_covered(const struct frame_header *header)
{
    return frame_is_control(header) || (header->flags & FRAME_FLAG_CRC) != 0;
}

static uint32_t frame_crc(const struct frame_header *header,
                          const void *payload)
{
    struct frame_header copy = *header;
    uint32_t crc;

    copy.crc = 0;
    crc = crc32c(0, &copy, sizeof(copy));
    if (frame_is_covered(header) && header->size > 0) {
        crc = crc32c(crc, payload, header->size);
    }
    return crc;
}

void frame_seal(struct frame_header *header, const void *payload)
{
    header->version = WIRE_VERSION;
    header->crc = frame_crc(header, payload);
}

static psd_status check_crc(const struct frame_header *header,
                            const void *payload)
{
    if (frame_crc(header, payload) != header->crc) {
        log_error("frame: checksum of a %s of %" PRIu32 " bytes is wrong",
                  frame_type_name(header->type), header->size);
        return PSD_EPROTO;
    }
    return PSD_OK;
}

psd_status frame_check_header(const struct frame_header *header)
{
    uint32_t limit;

    if (header->version != WIRE_VERSION) {
        log_error("frame: version %u, this build speaks %u", header->version,
                  WIRE_VERSION);
        return PSD_EPROTO;
    }
    if (type_find(header->type) == NULL) {
        log_error("frame: unknown type %u", header->type);
        return PSD_EPROTO;
    }
    if ((header->flags & ~FRAME_FLAGS_ALL) != 0) {
        log_error("frame: unknown flags 0x%x in a %s", header->flags,
                  frame_type_name(header->type));
        return PSD_EPROTO;
    }
    limit = frame_is_control(header) ? WIRE_CONTROL_MAX : WIRE_DATA_MAX;
    if (header->type == FRAME_CREDIT) {
        limit = 0;
    }
    if (header->size > limit || header->length > limit ||
        (header->size != 0 && header->region != 0)) {
        log_error("frame: a %s cannot have %" PRIu32 " bytes",
                  frame_type_name(header->type), header->size);
        return PSD_EPROTO;
    }
    return frame_is_covered(header) ? PSD_OK : check_crc(header, NULL);
}

psd_status frame_check_payload(const struct frame_header *header,
                               const void *payload)
{
    return frame_is_covered(header) ? check_crc(header, payload) : PSD_OK;
}
