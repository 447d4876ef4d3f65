/*
 * fuzz_message.c: any bytes, as the payload of a member frame; the first byte
 * chooses which. What is accepted encodes to the same bytes again.
 */
#include "base/log.h"
#include "fuzz.h"
#include "wire/message.h"
#include "wire/standing.h"

static void same(const struct pack *pack, const uint8_t *data, size_t size)
{
    PSD_ASSERT(!pack->failed);
    PSD_ASSERT(pack->size == size);
    PSD_ASSERT(size == 0 || memcmp(pack->data, data, size) == 0);
}

#define NO_FINI(value) (void)(value)
#define TRY(message, fini)                                          \
    do {                                                            \
        struct message_##message value;                             \
                                                                    \
        if (message_##message##_unpack(&value, data, size) ==       \
            PSD_OK) {                                               \
            message_##message##_pack(&pack, &value);                \
            same(&pack, data, size);                                \
            fini(&value);                                           \
        }                                                           \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct pack pack;
    uint8_t which;

    if (size < 1) {
        return 0;
    }
    which = data[0] % 13;
    data++;
    size--;
    pack_init(&pack);
    switch (which) {
    case 0:
        TRY(hello, NO_FINI);
        break;
    case 1:
        TRY(welcome, NO_FINI);
        break;
    case 2:
        TRY(enter, message_enter_fini);
        break;
    case 3:
        TRY(members, message_members_fini);
        break;
    case 4:
        TRY(table, message_table_fini);
        break;
    case 5:
        TRY(digest, message_digest_fini);
        break;
    case 6:
        TRY(metrics, NO_FINI);
        break;
    case 8:
        TRY(stuck, NO_FINI);
        break;
    case 9:
        TRY(who, NO_FINI);
        break;
    case 10:
        TRY(standing, NO_FINI);
        break;
    case 11:
        TRY(shape, NO_FINI);
        break;
    case 12:
        TRY(shards, message_shards_fini);
        break;
    default:
        TRY(end, NO_FINI);
        break;
    }
    pack_fini(&pack);
    return 0;
}
