/*
 * probe_peer.c: the links between probes; see probe_state.h. A task is one
 * order to measure: it opens a link as a data link is opened, sends pings one
 * after the other, then bulk bytes for a given time, and asks what has come
 * of them. A guest is the other end.
 */
#include "check/probe_state.h"

#include <inttypes.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "member/settings.h"

#define BULK_SIZE    (64u << 10)
#define BULK_PENDING (256u << 10) /* kept ready for the kernel */
#define WARM_NS      (25 * CLOCK_NS_PER_MS) /* while TCP finds its speed */

enum task_state { TASK_OPENING, TASK_PINGING, TASK_SENDING, TASK_DRAINING };

struct task {
    struct list node;
    struct probe *probe;
    struct psd_link *link;
    struct probe_measure order;
    enum task_state state;
    struct loop_timer limit;
    struct loop_timer bulk_end;
    struct loop_poller filler;
    uint64_t pings; /* sent */
    uint64_t ping_ns;
    uint64_t end_ns; /* of the bulk */
    struct probe_measured result;
};

struct guest {
    struct list node;
    struct probe *probe;
    struct psd_link *link;
    uint64_t size; /* of the bulk after its first frame */
    uint64_t first_ns;
    uint64_t last_ns;
    uint64_t warm_size; /* when TCP had its time to begin */
    uint64_t warm_ns;
};

static uint8_t bulk[BULK_SIZE];  /* zeros to send */
static uint8_t waste[BULK_SIZE]; /* what has come */

/* ---- tasks -------------------------------------------------------------- */

/* What the transport has said about this peer, or else what `status` is. */
static void explain(const struct task *task, psd_status status, char *reason,
                    size_t size)
{
    const struct probe *probe = task->probe;
    const char *address = task->order.url + strlen("tcp:");

    snprintf(reason, size, "%s", psd_status_text(status));
    for (unsigned i = 1; i <= PROBE_NOTES; i++) {
        const char *note =
            probe->notes[(probe->note_next + PROBE_NOTES - i) % PROBE_NOTES];

        if (strstr(note, address) != NULL) {
            snprintf(reason, size, "%s", note + strlen("tcp: "));
            return;
        }
    }
}

static void finish(struct task *task, psd_status status, const char *reason)
{
    struct probe *probe = task->probe;
    struct pack pack;

    task->result.peer = task->order.peer;
    task->result.status = status;
    if (reason != NULL) {
        snprintf(task->result.reason, sizeof(task->result.reason), "%s",
                 reason);
    } else if (status != PSD_OK) {
        explain(task, status, task->result.reason,
                sizeof(task->result.reason));
    }
    pack_init(&pack);
    probe_measured_pack(&pack, &task->result);
    if (probe_send(probe->link, PROBE_MEASURED, 0, &pack) != PSD_OK) {
        probe->done = true;
    }
    pack_fini(&pack);
    loop_timer_stop(&task->limit);
    loop_timer_stop(&task->bulk_end);
    loop_poller_remove(&task->filler);
    link_close(task->link);
    list_remove(&task->node);
    probe->task_count--;
    mem_free(task);
}

/* Hand bulk to the kernel as fast as it takes it, then say that it was all.
 * More than a little is never queued here, so that a slow link is not busy
 * with it long after. */
static void fill(struct task *task)
{
    const struct frame_header header = { .type = FRAME_PUSH,
                                         .size = BULK_SIZE };

    while (task->state == TASK_SENDING) {
        if (clock_ns() >= task->end_ns) {
            if (probe_send(task->link, PROBE_ENOUGH, 0, NULL) == PSD_OK) {
                task->state = TASK_DRAINING;
            }
            return;
        }
        if (link_pending(task->link) >= BULK_PENDING ||
            link_send(task->link, &header, bulk) != PSD_OK) {
            return;
        }
        link_flush(task->link);
    }
}

static unsigned on_fill(struct loop_poller *poller)
{
    fill(list_entry(poller, struct task, filler));
    return 0;
}

static void on_bulk_end(struct loop_timer *timer)
{
    fill(list_entry(timer, struct task, bulk_end));
}

static void start_bulk(struct task *task)
{
    struct psd_loop *loop = task->probe->loop;
    uint64_t time_ns = task->order.bulk_ms * CLOCK_NS_PER_MS;

    if (time_ns == 0) {
        finish(task, PSD_OK, NULL);
        return;
    }
    task->state = TASK_SENDING;
    task->end_ns = clock_ns() + time_ns;
    loop_timer_start(loop, &task->bulk_end, time_ns, on_bulk_end);
    loop_poller_add(loop, &task->filler, on_fill);
    fill(task);
}

static void next_ping(struct task *task)
{
    if (task->pings >= task->order.pings) {
        start_bulk(task);
        return;
    }
    task->state = TASK_PINGING;
    task->pings++;
    task->ping_ns = clock_ns();
    (void)probe_send(task->link, PROBE_PING, task->pings, NULL);
    link_flush(task->link);
}

static void task_up(void *user, struct psd_link *link)
{
    (void)link;
    next_ping(user);
}

static void task_ready(void *user, struct psd_link *link)
{
    (void)link;
    fill(user);
}

static psd_status take_pong(struct task *task, uint64_t step)
{
    uint64_t trip_ns = clock_ns() - task->ping_ns;

    if (task->state != TASK_PINGING || step != task->pings) {
        return PSD_EPROTO;
    }
    if (task->result.trip_ns == 0 || trip_ns < task->result.trip_ns) {
        task->result.trip_ns = trip_ns;
    }
    next_ping(task);
    return PSD_OK;
}

static psd_status take_total(struct task *task, const void *payload,
                             size_t size)
{
    struct probe_total total;
    psd_status status = probe_total_unpack(&total, payload, size);

    if (status != PSD_OK || task->state != TASK_DRAINING) {
        return PSD_EPROTO;
    }
    task->result.size = total.size;
    task->result.time_ns = total.time_ns;
    finish(task, PSD_OK, NULL);
    return PSD_OK;
}

static psd_status task_deliver(void *user, struct psd_link *link,
                               const struct frame_header *header,
                               const void *payload)
{
    (void)link;
    if (header->type == FRAME_PROBE && header->block == PROBE_PONG) {
        return take_pong(user, header->step);
    }
    if (header->type == FRAME_PROBE && header->block == PROBE_TOTAL) {
        return take_total(user, payload, header->size);
    }
    return PSD_EPROTO;
}

static void task_down(void *user, struct psd_link *link, psd_status why)
{
    (void)link;
    finish(user, why, NULL);
}

static void on_limit(struct loop_timer *timer)
{
    struct task *task = list_entry(timer, struct task, limit);
    char reason[PROBE_REASON_MAX];

    snprintf(reason, sizeof(reason),
             task->state == TASK_OPENING
                 ? "no answer in %.1f s"
                 : "connected, then nothing more came in %.1f s",
             (task->order.limit_ms + task->order.bulk_ms) / 1000.0);
    finish(task, PSD_ETIME, reason);
}

static const struct link_events task_events = { .deliver = task_deliver,
                                                .ready = task_ready,
                                                .up = task_up,
                                                .down = task_down };

psd_status probe_measure_start(struct probe *probe,
                               const struct probe_measure *order)
{
    struct auth_identity identity = { .rank = probe->begin.index,
                                      .shard = order->peer };
    struct task *task;
    psd_status status;

    if (probe->task_count >= PROBE_TASKS_MAX) {
        log_error("probe: more than %d measurements at once",
                  PROBE_TASKS_MAX);
        return PSD_EPROTO;
    }
    task = mem_zalloc(sizeof(*task));
    if (task == NULL) {
        return PSD_ENOMEM;
    }
    task->probe = probe;
    task->order = *order;
    list_append(&probe->tasks, &task->node);
    probe->task_count++;
    loop_timer_start(probe->loop, &task->limit,
                     (order->limit_ms + order->bulk_ms) * CLOCK_NS_PER_MS,
                     on_limit);
    status = link_open(probe->loop, order->url, &probe->begin.job, &identity,
                       &task_events, task, &task->link);
    if (status != PSD_OK) {
        finish(task, status, NULL);
    }
    return PSD_OK;
}

/* ---- guests ------------------------------------------------------------- */

static void guest_drop(struct guest *guest)
{
    link_close(guest->link);
    list_remove(&guest->node);
    guest->probe->guest_count--;
    mem_free(guest);
}

static psd_status guest_place(void *user, struct psd_link *link,
                              const struct frame_header *header, void **to_p)
{
    (void)user;
    (void)link;
    if (header->type != FRAME_PUSH || header->size > sizeof(waste)) {
        return PSD_EPROTO;
    }
    *to_p = waste;
    return PSD_OK;
}

static void count(struct guest *guest, uint32_t size)
{
    uint64_t now = clock_ns();

    if (guest->first_ns == 0) {
        guest->first_ns = now; /* the clock starts when it is all there */
        guest->warm_ns = now;
    } else {
        guest->size += size;
    }
    if (now - guest->first_ns < WARM_NS) {
        guest->warm_size = guest->size;
        guest->warm_ns = now;
    }
    guest->last_ns = now;
}

static psd_status tell_total(struct guest *guest)
{
    bool warm = guest->size > guest->warm_size;
    const struct probe_total total = {
        .size = warm ? guest->size - guest->warm_size : guest->size,
        .time_ns = guest->last_ns -
                   (warm ? guest->warm_ns : guest->first_ns),
    };
    struct pack pack;
    psd_status status;

    pack_init(&pack);
    probe_total_pack(&pack, &total);
    status = probe_send(guest->link, PROBE_TOTAL, 0, &pack);
    pack_fini(&pack);
    return status;
}

static psd_status guest_deliver(void *user, struct psd_link *link,
                                const struct frame_header *header,
                                const void *payload)
{
    struct guest *guest = user;

    (void)payload;
    if (header->type == FRAME_PUSH) {
        count(guest, header->size);
        return PSD_OK;
    }
    if (header->type != FRAME_PROBE) {
        return PSD_EPROTO;
    }
    switch (header->block) {
    case PROBE_PING:
        return probe_send(link, PROBE_PONG, header->step, NULL);
    case PROBE_ENOUGH:
        return tell_total(guest);
    default:
        return PSD_EPROTO;
    }
}

static void guest_down(void *user, struct psd_link *link, psd_status why)
{
    (void)link;
    (void)why;
    guest_drop(user);
}

static const struct link_events guest_events = { .place = guest_place,
                                                 .deliver = guest_deliver,
                                                 .down = guest_down };

static enum auth_verdict accept_guest(void *user, struct psd_link *link)
{
    struct probe *probe = user;
    struct guest *guest;

    if (link->identity.shard != probe->begin.index ||
        probe->guest_count >= PROBE_GUESTS_MAX) {
        return AUTH_REFUSED_SHARD;
    }
    guest = mem_zalloc(sizeof(*guest));
    if (guest == NULL) {
        return AUTH_REFUSED_SHARD;
    }
    guest->probe = probe;
    guest->link = link;
    list_append(&probe->guests, &guest->node);
    probe->guest_count++;
    link->events = &guest_events;
    link->user = guest;
    return AUTH_WELCOME;
}

static const struct listen_events door = { .accept = accept_guest };

void probe_listen(struct probe *probe)
{
    struct probe_facts *facts = &probe->facts;
    const char *address = facts->address;
    bool v6 = strchr(address, ':') != NULL;
    psd_status status = PSD_ESYSTEM;
    uint16_t first = 0;
    uint16_t last = 0;
    uint16_t port = 0;

    (void)settings_ports(probe->begin.ports, &first, &last);
    for (unsigned try = first; try <= last && status == PSD_ESYSTEM; try++) {
        if (try == 0 || fact_port_is_free(address, try)) {
            status = listener_open(probe->loop, address, (uint16_t)try,
                                   &probe->begin.job, &door, probe, &port,
                                   &probe->listener);
        }
    }
    if (status == PSD_OK) {
        snprintf(facts->url, sizeof(facts->url),
                 v6 ? "tcp:[%s]:%u" : "tcp:%s:%u", address, port);
    } else if (first == 0) {
        snprintf(facts->address_reason, sizeof(facts->address_reason),
                 "no port can be bound at %.200s; `ip -brief addr` shows "
                 "whether it is an address of this host",
                 address);
    } else {
        snprintf(facts->address_reason, sizeof(facts->address_reason),
                 "none of the ports %s is free at %.200s; `ss -ltnp` shows "
                 "who has them, \"ports\" gives another range",
                 probe->begin.ports, address);
    }
}

void probe_peers_close(struct probe *probe)
{
    struct list *node;

    while ((node = list_first(&probe->tasks)) != NULL) {
        finish(list_entry(node, struct task, node), PSD_EABORT, "over");
    }
    while ((node = list_first(&probe->guests)) != NULL) {
        guest_drop(list_entry(node, struct guest, node));
    }
    listener_close(probe->listener);
    probe->listener = NULL;
}
