/* transport_rig.c: see transport_rig.h. */
#define _GNU_SOURCE
#include "transport_rig.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

/* ---- handlers ---------------------------------------------------------- */

static psd_status on_place(void *user, struct psd_link *link,
                           const struct frame_header *header, void **to_p)
{
    struct rig_end *end = user;

    assert_false(end->rig->calling);
    assert_ptr_equal(end->link, link);
    assert_true(header->size <= RIG_PLACE);
    *to_p = end->throw_away ? NULL : end->place;
    return end->place_says;
}

static void check_payload(const struct rig_end *end,
                          const struct frame_header *header,
                          const uint8_t *payload)
{
    for (size_t i = 0; i < header->length; i++) {
        if (payload[i] != rig_byte(header->block, i)) {
            fail_msg("%s: byte %zu of frame %u is wrong",
                     end->rig->row->name, i, header->block);
        }
    }
}

static psd_status on_deliver(void *user, struct psd_link *link,
                             const struct frame_header *header,
                             const void *payload)
{
    struct rig_end *end = user;

    assert_false(end->rig->calling);
    assert_ptr_equal(end->link, link);
    assert_int_equal(end->downs, 0);
    assert_int_equal(header->block, end->next_block);
    end->next_block++;
    end->delivered++;
    end->bytes += header->length;
    end->last = *header;
    if (end->check_bytes && payload != NULL) {
        check_payload(end, header, payload);
    }
    if (payload != NULL) {
        size_t size = header->length < sizeof(end->text) - 1
                          ? header->length
                          : sizeof(end->text) - 1;

        memcpy(end->text, payload, size);
        end->text[size] = '\0';
    }
    if (end->close_on_deliver) {
        link_close(link);
        link_close(link); /* twice is once */
        end->link = NULL;
    }
    return end->deliver_says;
}

static void on_ready(void *user, struct psd_link *link)
{
    struct rig_end *end = user;

    (void)link;
    assert_false(end->rig->calling);
    end->readies++;
}

static void on_up(void *user, struct psd_link *link)
{
    struct rig_end *end = user;

    (void)link;
    assert_false(end->rig->calling);
    end->ups++;
}

static void on_down(void *user, struct psd_link *link, psd_status why)
{
    struct rig_end *end = user;

    (void)link;
    assert_false(end->rig->calling);
    end->downs++;
    end->why = why;
}

const struct link_events rig_events = {
    .place = on_place,
    .deliver = on_deliver,
    .ready = on_ready,
    .up = on_up,
    .down = on_down,
};

const struct link_events rig_control_events = {
    .deliver = on_deliver,
    .ready = on_ready,
    .up = on_up,
    .down = on_down,
};

static enum auth_verdict on_accept(void *user, struct psd_link *link)
{
    struct rig *rig = user;

    assert_int_equal(link->identity.rank, 7);
    assert_int_equal(link->identity.incarnation, 2);
    if (link->identity.shard != 3) {
        return AUTH_REFUSED_SHARD;
    }
    link->events = &rig_events;
    link->user = &rig->server;
    rig->server.link = link;
    return AUTH_WELCOME;
}

const struct listen_events rig_accept = { .accept = on_accept };

/* ---- the rows ---------------------------------------------------------- */

static const struct auth_identity identity = { 7, 2, 3 };

static psd_status open_inproc(struct rig *rig)
{
    struct inproc_faults faults = { .mapped = !rig->row->inline_only };

    assert_int_equal(inproc_hub_create(rig->loop, &faults, &rig->hub),
                     PSD_OK);
    assert_int_equal(inproc_listen(rig->hub, "server", &rig_accept, rig),
                     PSD_OK);
    return link_open(rig->loop, "inproc:server", NULL, &identity, &rig_events,
                     &rig->client, &rig->client.link);
}

static psd_status open_tcp(struct rig *rig)
{
    char url[64];

    assert_int_equal(listener_open(rig->loop, rig->row->host, 0, &rig->job,
                                   &rig_accept, rig, &rig->port,
                                   &rig->listener),
                     PSD_OK);
    snprintf(url, sizeof(url),
             strchr(rig->row->host, ':') != NULL ? "tcp:[%s]:%u"
                                                 : "tcp:%s:%u",
             rig->row->host, rig->port);
    return link_open(rig->loop, url, &rig->job, &identity, &rig_events,
                     &rig->client, &rig->client.link);
}

static psd_status open_adopted(struct rig *rig)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds),
                     0);
    assert_int_equal(link_adopt(rig->loop, fds[0], fds[0], &rig_events,
                                &rig->client, &rig->client.link),
                     PSD_OK);
    assert_int_equal(link_adopt(rig->loop, fds[1], fds[1], &rig_events,
                                &rig->server, &rig->server.link),
                     PSD_OK);
    rig->client.ups = 1;
    rig->server.ups = 1;
    return PSD_OK;
}

static psd_status open_shm(struct rig *rig)
{
    struct psd_region region = { 2, rig->arena, RIG_ARENA };

    rig->board_size = shm_board_front(8, 4);
    rig->board_memory = mem_map(rig->board_size);
    shm_board_format(rig->board_memory, 8, 4);
    assert_int_equal(shm_board_init(&rig->board, rig->board_memory,
                                    rig->board_size, 8, 4),
                     PSD_OK);
    assert_int_equal(shm_link_open(rig->loop, &rig->board, 7, 3, false,
                                   &rig_events, &rig->client,
                                   &rig->client.link),
                     PSD_OK);
    assert_int_equal(shm_link_open(rig->loop, &rig->board, 7, 3, true,
                                   &rig_events, &rig->server,
                                   &rig->server.link),
                     PSD_OK);
    assert_int_equal(link_map(rig->client.link, &region), PSD_OK);
    assert_int_equal(link_map(rig->server.link, &region), PSD_OK);
    rig->client.ups = 1;
    rig->server.ups = 1;
    return PSD_OK;
}

static bool has_v6(void)
{
    struct sockaddr_in6 to = {
        .sin6_family = AF_INET6,
        .sin6_addr = IN6ADDR_LOOPBACK_INIT,
    };
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 &&
                 bind(fd, (struct sockaddr *)&to, sizeof(to)) == 0;

    if (fd >= 0) {
        close(fd);
    }
    return there;
}

const struct rig_row rig_rows[] = {
    { .name = "inproc mapped", .open = open_inproc },
    { .name = "inproc inline", .open = open_inproc, .inline_only = true,
      .stream = true },
    { .name = "shm", .open = open_shm },
    { .name = "tcp v4", .open = open_tcp, .host = "127.0.0.1",
      .stream = true },
    { .name = "tcp v6", .open = open_tcp, .host = "::1", .there = has_v6,
      .stream = true },
    { .name = "adopted", .open = open_adopted, .stream = true },
    { .name = NULL },
};

/* ---- life -------------------------------------------------------------- */

struct rig *rig_create(const struct rig_row *row)
{
    struct rig *rig = mem_zalloc(sizeof(*rig));

    assert_non_null(rig);
    rig->row = row;
    rig->arena = mem_map(RIG_ARENA);
    rig->client.place = mem_map(RIG_PLACE);
    rig->server.place = mem_map(RIG_PLACE);
    rig->client.rig = rig;
    rig->server.rig = rig;
    memset(&rig->job, 0x5a, sizeof(rig->job));
    assert_int_equal(loop_create(&rig->loop), PSD_OK);
    rig->calling = true;
    assert_int_equal(row->open(rig), PSD_OK);
    rig->calling = false;
    rig_until(rig, &rig->client.ups, 1);
    rig_until(rig, &rig->server.ups, 1);
    return rig;
}

void rig_destroy(struct rig *rig)
{
    link_close(rig->client.link);
    link_close(rig->server.link);
    listener_close(rig->listener);
    inproc_hub_destroy(rig->hub);
    loop_destroy(rig->loop);
    mem_unmap(rig->arena, RIG_ARENA);
    mem_unmap(rig->client.place, RIG_PLACE);
    mem_unmap(rig->server.place, RIG_PLACE);
    if (rig->board_memory != NULL) {
        mem_unmap(rig->board_memory, rig->board_size);
    }
    mem_free(rig);
}

void rig_turn(struct rig *rig)
{
    struct loop_events events;

    loop_wait(rig->loop, &events, 0);
    (void)loop_dispatch(rig->loop, &events);
}

void rig_until(struct rig *rig, const unsigned *count, unsigned least)
{
    for (unsigned i = 0; *count < least; i++) {
        if (i == RIG_ROUNDS) {
            fail_msg("%s: stuck at %u of %u", rig->row->name, *count, least);
        }
        rig_turn(rig);
    }
}

/* A payload is kept until it is sent: with the window of 8 MiB, a place is
 * used again long after. */
static uint8_t *arena_place(struct rig *rig, uint32_t block, uint32_t size)
{
    size_t room = RIG_ARENA / 4;

    return size > room / 64 ? rig->arena + (block % 3) * room
                            : rig->arena + 3 * room +
                                  (block % 64) * (room / 64);
}

psd_status rig_send(struct rig_end *from, uint32_t block, uint32_t size)
{
    struct frame_header header = {
        .type = FRAME_PUSH, .block = block, .size = size
    };
    uint8_t *payload = arena_place(from->rig, block, size);
    psd_status status;

    if (from->check_bytes) {
        for (size_t i = 0; i < size; i++) {
            payload[i] = rig_byte(block, i);
        }
    }
    from->rig->calling = true;
    status = link_send(from->link, &header, size == 0 ? NULL : payload);
    from->rig->calling = false;
    return status;
}
