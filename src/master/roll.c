/* roll.c: who is in: entering, what the workers want, the map of shards,
 * leaving. See master.h. */
#include <inttypes.h>

#include "base/clock.h"
#include "base/mem.h"
#include "master/master_state.h"

struct master_member master_member(const struct master *master, uint32_t index)
{
    bool is_server = index >= master->workers;

    return (struct master_member){
        .seat = &master->seats[index],
        .is_server = is_server,
        .rank = is_server ? index - master->workers : index,
        .role = is_server ? "server" : "worker",
    };
}

uint32_t master_member_count(const struct master *master)
{
    return master->workers + master->servers;
}

bool master_all_entered(const struct master *master)
{
    return master->entered == master_member_count(master);
}

/* ---- entering ----------------------------------------------------------- */

/* Shards are played by the servers, else by the workers that said so. */
static uint32_t shard_count(const struct master *master)
{
    uint32_t count = 0;

    if (master->servers > 0) {
        return master->servers * master->threads;
    }
    for (uint32_t i = 0; i < master->workers; i++) {
        count += master->seats[i].url_count;
    }
    return count;
}

static void send_members(struct master *master)
{
    struct message_members members = { .epoch = master->epoch,
                                       .workers = master->workers,
                                       .block_size = master->block_size,
                                       .shard_count = shard_count(master) };
    uint32_t first = master->servers > 0 ? master->workers : 0;
    uint32_t used = 0;
    struct pack pack;

    members.urls = mem_zalloc_array(members.shard_count, sizeof(*members.urls));
    if (members.urls == NULL) {
        master_end(master, PSD_ENOMEM, MASTER_EXIT_UNAVAILABLE, NULL,
                   "the master is out of memory");
        return;
    }
    for (uint32_t i = first; i < master_member_count(master); i++) {
        const struct master_seat *seat = &master->seats[i];

        for (uint32_t j = 0; j < seat->url_count; j++) {
            memcpy(members.urls[used++], seat->urls[j], MESSAGE_URL_MAX);
        }
    }
    pack_init(&pack);
    message_members_pack(&pack, &members);
    for (uint32_t i = 0; i < master_member_count(master); i++) {
        struct master_member member = master_member(master, i);

        master_send_pack(master, &member, FRAME_MEMBERS, 0, &pack);
    }
    pack_fini(&pack);
    mem_free(members.urls);
}

/* Everybody is there, with every shard. */
static void begin(struct master *master)
{
    master->epoch = MASTER_FIRST_EPOCH;
    view_open(&master->view, clock_ns());
    send_members(master);
}

/* Everybody has said what it wants. */
static void send_shape(struct master *master)
{
    struct message_shape shape = { .threads = master->threads,
                                   .block_size = master->block_size };
    struct pack pack;

    pack_init(&pack);
    message_shape_pack(&pack, &shape);
    for (uint32_t i = 0; i < master->servers; i++) {
        struct master_member member =
            master_member(master, master->workers + i);

        master_send_pack(master, &member, FRAME_SHAPE, 0, &pack);
    }
    pack_fini(&pack);
}

/* The largest wish counts, as far as it can be met. */
static void take_wishes(struct master *master,
                        const struct message_enter *enter)
{
    uint32_t threads = enter->threads < master->threads_max
                           ? enter->threads
                           : master->threads_max;

    if (threads > master->threads) {
        master->threads = threads;
    }
    if (enter->block_size > master->block_size) {
        master->block_size = enter->block_size;
    }
}

void roll_enter(struct master *master, const struct master_member *from,
                const struct frame_header *header, const void *payload)
{
    struct master_seat *seat = from->seat;
    struct message_enter enter;

    if (seat->entered) {
        struct message_end end = { .status = PSD_EINVAL };

        snprintf(end.reason, sizeof(end.reason),
                 "%s %" PRIu32 " has entered already, as pid %" PRIu32,
                 from->role, from->rank, seat->pid);
        master_send_end(master, from, &end);
        return;
    }
    if (message_enter_unpack(&enter, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "an enter that cannot be read");
        return;
    }
    if (enter.url_count >
        (from->is_server ? 0 : WIRE_SHARDS_MAX / master->workers)) {
        message_enter_fini(&enter);
        master_end_protocol(master, from, "a wrong number of addresses");
        return;
    }
    seat->entered = true;
    seat->pid = enter.pid;
    seat->url_count = enter.url_count;
    seat->urls = enter.urls; /* taken */
    if (!from->is_server) {
        take_wishes(master, &enter);
    }
    master->entered++;
    if (!master_all_entered(master)) {
        return;
    }
    if (master->block_size == 0) {
        master->block_size = MASTER_BLOCK_SIZE;
    }
    if (master->servers > 0) {
        send_shape(master);
    } else {
        begin(master);
    }
}

void roll_shards(struct master *master, const struct master_member *from,
                 const struct frame_header *header, const void *payload)
{
    struct master_seat *seat = from->seat;
    struct message_shards shards;

    if (!from->is_server || !master_all_entered(master) ||
        seat->url_count > 0) {
        master_end_protocol(master, from, "shards out of turn");
        return;
    }
    if (message_shards_unpack(&shards, payload, header->size) != PSD_OK) {
        master_end_protocol(master, from, "shards that cannot be read");
        return;
    }
    if (shards.url_count != master->threads) {
        message_shards_fini(&shards);
        master_end_protocol(master, from, "a wrong number of addresses");
        return;
    }
    mem_free(seat->urls);
    seat->url_count = shards.url_count;
    seat->urls = shards.urls; /* taken */
    if (++master->open == master->servers) {
        begin(master);
    }
}

/* ---- leaving ---------------------------------------------------------- */

void roll_bye(struct master *master, const struct master_member *from,
              const struct frame_header *header, const void *payload)
{
    (void)header;
    (void)payload;
    if (from->seat->left) {
        return;
    }
    from->seat->left = true;
    if (from->is_server || master->over) {
        return;
    }
    for (uint32_t i = 0; i < master->workers; i++) {
        struct master_member member = master_member(master, i);

        if (member.seat->entered && !member.seat->left && !member.seat->lost) {
            master_send(master, &member, FRAME_LEFT, from->rank, NULL, 0);
        }
    }
    if (master->epoch == 0) {
        char reason[128];

        snprintf(reason, sizeof(reason),
                 "worker %" PRIu32 " left before everybody had entered",
                 from->rank);
        master_end(master, PSD_ELOST, MASTER_EXIT_UNAVAILABLE, from, reason);
    }
    master_check_leavers(master);
}
