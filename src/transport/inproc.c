/*
 * inproc.c: see inproc.h. A pair of links is one piece of memory with a ring
 * of frames for each end; it lives until both ends are closed. Everything is
 * delivered by the hub's task. A turn is one run of it: what is sent in a turn
 * arrives in a later one.
 */
#define _GNU_SOURCE
#include "transport/inproc.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/lane.h"
#include "transport/link.h"

#define NAME_MAX_SIZE 64
#define ECHO_LATER_MAX 4 /* frames that may overtake a duplicate */
#define CHANCE_ONE 65536

struct inproc_end {
    struct psd_link *link; /* NULL: closed, or not accepted yet */
    bool tell_up;
    bool tell_down;
    bool dead; /* no more frames; told or about to be */
    bool starved;
    psd_status why;
    uint64_t delay_ns;
    struct lane lane; /* what is on its way to this end */
};

enum { END_CLIENT, END_SERVER };

struct inproc_pair {
    struct list node; /* in the hub */
    struct inproc_hub *hub;
    unsigned holds; /* open ends, and the run that looks at it */
    bool asking;    /* not accepted yet */
    uint64_t seen;  /* the last turn in which it was looked at */
    char name[NAME_MAX_SIZE];
    struct inproc_end ends[2];
};

struct inproc_link {
    struct inproc_pair *pair;
    unsigned side;
};

struct inproc_listener {
    struct list node;
    char name[NAME_MAX_SIZE];
    const struct listen_events *events;
    void *user;
};

struct inproc_hub {
    struct psd_loop *loop;
    struct inproc_faults faults;
    uint64_t random;
    uint64_t turn;
    struct list listeners;
    struct list pairs;
    struct loop_task task;
    struct loop_timer timer;
};

/* splitmix64. */
static uint64_t hub_random(struct inproc_hub *hub)
{
    uint64_t z = (hub->random += UINT64_C(0x9e3779b97f4a7c15));

    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static bool hub_chance(struct inproc_hub *hub, uint32_t chance)
{
    return chance != 0 && hub_random(hub) % CHANCE_ONE < chance;
}

static void hub_run(struct loop_task *task);
static void hub_timer(struct loop_timer *timer);

static void hub_post(struct inproc_hub *hub)
{
    loop_task_post(hub->loop, &hub->task);
}

static void hub_post_at(struct inproc_hub *hub, uint64_t due_ns)
{
    uint64_t now_ns = clock_ns();

    if (due_ns <= now_ns) {
        hub_post(hub);
    } else if (hub->timer.due_ns == 0 || hub->timer.due_ns > due_ns) {
        loop_timer_start(hub->loop, &hub->timer, due_ns - now_ns, hub_timer);
    }
}

static void hub_timer(struct loop_timer *timer)
{
    hub_post(list_entry(timer, struct inproc_hub, timer));
}

/* ---- pairs ------------------------------------------------------------- */

static void pair_release(struct inproc_pair *pair)
{
    pair->holds--;
    if (pair->holds == 0) {
        lane_clear(&pair->ends[END_CLIENT].lane);
        lane_clear(&pair->ends[END_SERVER].lane);
        list_remove(&pair->node);
        mem_free(pair);
    }
}

/* `down` follows at this end, after the frames that it still has. */
static void end_lose(struct inproc_pair *pair, unsigned side, psd_status why)
{
    struct inproc_end *end = &pair->ends[side];

    if (end->link != NULL && !end->dead && !end->tell_down) {
        end->tell_down = true;
        end->why = why;
        hub_post(pair->hub);
    }
}

/* Both ends go down; what is under way is lost. */
static void pair_lose(struct inproc_pair *pair)
{
    for (unsigned side = 0; side < 2; side++) {
        lane_clear(&pair->ends[side].lane);
        end_lose(pair, side, PSD_ELOST);
    }
}

static psd_status inproc_send(struct psd_link *link,
                              const struct frame_header *header,
                              const void *payload)
{
    struct inproc_link *state = link->state;
    struct inproc_pair *pair = state->pair;
    struct inproc_hub *hub = pair->hub;
    struct inproc_end *mine = &pair->ends[state->side];
    struct inproc_end *end = &pair->ends[1 - state->side];
    uint64_t due_ns = 0;
    psd_status status;

    if (mine->dead || mine->tell_down) {
        return mine->why;
    }
    if (pair->asking || end->lane.count == LINK_FRAMES_MAX) {
        mine->starved = true;
        return PSD_AGAIN;
    }
    if (hub_chance(hub, hub->faults.lose_link)) {
        pair_lose(pair);
        return PSD_OK; /* the sender learns it later, as in life */
    }
    if (end->delay_ns > 0) {
        due_ns = clock_ns() + end->delay_ns;
    }
    status = lane_push(&end->lane, header, payload,
                       !hub->faults.mapped || frame_is_control(header),
                       due_ns, hub->turn);
    if (status != PSD_OK) {
        return status;
    }
    if (hub_chance(hub, hub->faults.duplicate)) {
        lane_echo(&end->lane, (uint32_t)(hub_random(hub) % ECHO_LATER_MAX));
    }
    link->sent_bytes += hub->faults.mapped ? 0 : header->size;
    hub_post_at(hub, due_ns);
    return PSD_OK;
}

/* ---- delivering -------------------------------------------------------- */

static psd_status deliver_inline(struct psd_link *link,
                                 const struct lane_frame *frame)
{
    const struct frame_header *header = &frame->header;
    const void *payload = frame->payload;

    if (header->size > 0 && link->events->place != NULL) {
        void *to = NULL;
        psd_status status = link->events->place(link->user, link, header, &to);

        if (status != PSD_OK || link->closed) {
            return status;
        }
        if (to != NULL) {
            memcpy(to, payload, header->size);
        }
        payload = to;
    }
    link->received_bytes += header->size;
    return link_deliver(link, header, payload);
}

/* Takes `frame`, which has left its lane. */
static psd_status deliver_frame(struct inproc_hub *hub, struct psd_link *link,
                                struct lane_frame *frame)
{
    psd_status status;

    if (hub->faults.mapped && !frame_is_control(&frame->header)) {
        frame->header.size = 0;
        status = link_deliver(link, &frame->header, frame->payload);
    } else {
        status = deliver_inline(link, frame);
    }
    lane_frame_free(frame);
    return status;
}

static psd_status end_deliver(struct inproc_pair *pair, unsigned side,
                              uint64_t now_ns)
{
    struct inproc_hub *hub = pair->hub;
    struct inproc_end *end = &pair->ends[side];
    struct psd_link *link = end->link;
    struct lane_frame frame;
    psd_status status = PSD_OK;
    bool idle = true;

    while (status == PSD_OK && !link->closed &&
           lane_take(&end->lane, hub->turn, now_ns, idle, &frame)) {
        idle = false;
        status = deliver_frame(hub, link, &frame);
    }
    return status;
}

/* Everything that is due at one end of a pair: up, frames, ready, down. */
static void end_run(struct inproc_pair *pair, unsigned side, uint64_t now_ns)
{
    struct inproc_end *end = &pair->ends[side];
    struct inproc_end *peer = &pair->ends[1 - side];
    struct psd_link *link = end->link;
    psd_status status = PSD_OK;

    if (link == NULL || end->dead || link->busy > 0) {
        return;
    }
    link_enter(link);
    if (end->tell_up) {
        end->tell_up = false;
        link_up(link);
    }
    if (!link->closed) {
        status = end_deliver(pair, side, now_ns);
    }
    if (status != PSD_OK && !link->closed) {
        lane_clear(&end->lane);
        end->tell_down = true;
        end->why = status;
        end_lose(pair, 1 - side, PSD_ELOST);
    }
    if (end->tell_down && end->lane.count == 0 && !link->closed) {
        lane_clear(&end->lane);
        end->dead = true;
        link_down(link, end->why);
    } else if (end->starved && !pair->asking && !link->closed &&
               !end->tell_down && peer->lane.count <= LINK_FRAMES_MAX / 2) {
        end->starved = false;
        link_ready(link);
    }
    link_leave(link);
}

static struct inproc_listener *hub_find(struct inproc_hub *hub,
                                        const char *name)
{
    for (struct list *node = hub->listeners.next; node != &hub->listeners;
         node = node->next) {
        struct inproc_listener *listener =
            list_entry(node, struct inproc_listener, node);

        if (strcmp(listener->name, name) == 0) {
            return listener;
        }
    }
    return NULL;
}

static void end_join(struct inproc_pair *pair, unsigned side,
                     struct psd_link *link)
{
    struct inproc_link *state = link->state;
    uint64_t delay_max_ns = pair->hub->faults.delay_max_ns;

    state->pair = pair;
    state->side = side;
    link->mapped = pair->hub->faults.mapped;
    pair->ends[side].link = link;
    pair->holds++;
    if (delay_max_ns > 0) {
        pair->ends[side].delay_ns =
            1 + hub_random(pair->hub) % delay_max_ns;
    }
}

/* Ask the listener for its end. */
static psd_status pair_ask(struct inproc_pair *pair)
{
    struct inproc_listener *listener = hub_find(pair->hub, pair->name);
    struct psd_link *client = pair->ends[END_CLIENT].link;
    enum auth_verdict verdict;
    struct psd_link *link;
    psd_status status;

    if (listener == NULL) {
        log_debug("inproc: nobody listens as %s", pair->name);
        return PSD_ELOST;
    }
    status = link_create(&psd_transport_inproc, pair->hub->loop, NULL, NULL,
                         &link);
    if (status != PSD_OK) {
        return status;
    }
    link->identity = client->identity;
    end_join(pair, END_SERVER, link);
    link_enter(link);
    verdict = listener->events->accept(listener->user, link);
    if (verdict != AUTH_WELCOME || link->events == NULL || link->closed) {
        link->closed = true;
        status = verdict == AUTH_REFUSED_PROOF ? PSD_EAUTH : PSD_ELOST;
    }
    link_leave(link);
    return status;
}

static void pair_run(struct inproc_pair *pair, uint64_t now_ns)
{
    pair->holds++;
    if (pair->asking && pair->ends[END_CLIENT].link != NULL) {
        psd_status status = pair_ask(pair);

        pair->asking = false;
        if (status != PSD_OK) {
            end_lose(pair, END_CLIENT, status);
        } else {
            pair->ends[END_CLIENT].tell_up = true;
            pair->ends[END_SERVER].tell_up = true;
        }
    }
    end_run(pair, END_CLIENT, now_ns);
    end_run(pair, END_SERVER, now_ns);
    pair_release(pair);
}

static uint64_t end_next_ns(const struct inproc_pair *pair, unsigned side)
{
    const struct inproc_end *end = &pair->ends[side];
    const struct inproc_end *peer = &pair->ends[1 - side];

    if (end->link == NULL || end->dead) {
        return UINT64_MAX;
    }
    if (end->tell_up || (end->tell_down && end->lane.count == 0) ||
        (end->starved && !end->tell_down && !pair->asking &&
         peer->lane.count <= LINK_FRAMES_MAX / 2)) {
        return 0;
    }
    return lane_next_ns(&end->lane);
}

uint64_t inproc_next_ns(const struct inproc_hub *hub)
{
    uint64_t next_ns = UINT64_MAX;

    for (struct list *node = hub->pairs.next; node != &hub->pairs;
         node = node->next) {
        const struct inproc_pair *pair =
            list_entry(node, struct inproc_pair, node);

        for (unsigned side = 0; side < 2; side++) {
            uint64_t due_ns = pair->asking ? 0 : end_next_ns(pair, side);

            next_ns = due_ns < next_ns ? due_ns : next_ns;
        }
    }
    return next_ns;
}

static void hub_run(struct loop_task *task)
{
    struct inproc_hub *hub = list_entry(task, struct inproc_hub, task);
    uint64_t now_ns = clock_ns();
    uint64_t next_ns;
    struct list *node;

    hub->turn++;
    /* Seen pairs move to the end; one that is opened now has been seen. */
    while ((node = list_first(&hub->pairs)) != NULL) {
        struct inproc_pair *pair = list_entry(node, struct inproc_pair, node);

        if (pair->seen == hub->turn) {
            break;
        }
        pair->seen = hub->turn;
        list_remove(node);
        list_append(&hub->pairs, node);
        pair_run(pair, now_ns);
    }
    next_ns = inproc_next_ns(hub);
    if (next_ns != UINT64_MAX) {
        hub_post_at(hub, next_ns);
    }
}

/* ---- the hub ----------------------------------------------------------- */

psd_status inproc_hub_create(struct psd_loop *loop,
                             const struct inproc_faults *faults,
                             struct inproc_hub **hub_p)
{
    struct inproc_hub *hub = mem_zalloc(sizeof(*hub));

    if (hub == NULL) {
        return PSD_ENOMEM;
    }
    hub->loop = loop;
    hub->faults.mapped = true;
    if (faults != NULL) {
        hub->faults = *faults;
        hub->random = faults->seed;
    }
    list_init(&hub->listeners);
    list_init(&hub->pairs);
    loop_task_init(&hub->task, hub_run);
    loop_hub_set(loop, hub);
    *hub_p = hub;
    return PSD_OK;
}

void inproc_hub_destroy(struct inproc_hub *hub)
{
    struct list *node;

    if (hub == NULL) {
        return;
    }
    PSD_ASSERT(list_empty(&hub->pairs)); /* links are closed first */
    while ((node = list_first(&hub->listeners)) != NULL) {
        list_remove(node);
        mem_free(list_entry(node, struct inproc_listener, node));
    }
    loop_task_cancel(&hub->task);
    loop_timer_stop(&hub->timer);
    loop_hub_set(hub->loop, NULL);
    mem_free(hub);
}

psd_status inproc_listen(struct inproc_hub *hub, const char *name,
                         const struct listen_events *events, void *user)
{
    struct inproc_listener *listener;

    if (strlen(name) >= NAME_MAX_SIZE || hub_find(hub, name) != NULL) {
        log_error("inproc: cannot listen as %s", name);
        return PSD_EINVAL;
    }
    listener = mem_zalloc(sizeof(*listener));
    if (listener == NULL) {
        return PSD_ENOMEM;
    }
    snprintf(listener->name, sizeof(listener->name), "%s", name);
    listener->events = events;
    listener->user = user;
    list_append(&hub->listeners, &listener->node);
    return PSD_OK;
}

void inproc_vanish(struct inproc_hub *hub, const char *name)
{
    struct inproc_listener *listener = hub_find(hub, name);

    if (listener != NULL) {
        list_remove(&listener->node);
        mem_free(listener);
    }
    for (struct list *node = hub->pairs.next; node != &hub->pairs;
         node = node->next) {
        struct inproc_pair *pair = list_entry(node, struct inproc_pair, node);

        if (strcmp(pair->name, name) == 0 && !pair->asking) {
            pair->ends[END_SERVER].dead = true; /* the dead hear nothing */
            pair->ends[END_SERVER].why = PSD_ELOST;
            lane_clear(&pair->ends[END_SERVER].lane);
            lane_clear(&pair->ends[END_CLIENT].lane);
            end_lose(pair, END_CLIENT, PSD_ELOST);
        }
    }
}

/* ---- the row ----------------------------------------------------------- */

static psd_status inproc_open(struct psd_link *link, const char *url)
{
    struct inproc_hub *hub = loop_hub(link->loop);
    const char *name = strchr(url, ':') + 1;
    struct inproc_pair *pair;

    if (hub == NULL || strlen(name) >= NAME_MAX_SIZE) {
        log_error("inproc: no hub for %s", url);
        return PSD_EINVAL;
    }
    pair = mem_zalloc(sizeof(*pair));
    if (pair == NULL) {
        return PSD_ENOMEM;
    }
    snprintf(pair->name, sizeof(pair->name), "%s", name);
    pair->hub = hub;
    pair->asking = true;
    pair->seen = hub->turn;
    list_append(&hub->pairs, &pair->node);
    end_join(pair, END_CLIENT, link);
    hub_post(hub);
    return PSD_OK;
}

static void inproc_flush(struct psd_link *link)
{
    (void)link; /* a frame is handed over when it is queued */
}

static size_t inproc_pending(const struct psd_link *link)
{
    (void)link;
    return 0;
}

static void inproc_close(struct psd_link *link)
{
    struct inproc_link *state = link->state;
    struct inproc_pair *pair = state->pair;

    if (pair == NULL) {
        return;
    }
    state->pair = NULL;
    pair->ends[state->side].link = NULL;
    lane_clear(&pair->ends[state->side].lane);
    lane_forget_spans(&pair->ends[1 - state->side].lane);
    if (!pair->asking) {
        end_lose(pair, 1 - state->side, PSD_ELOST);
    }
    pair_release(pair);
}

const struct psd_transport psd_transport_inproc = {
    .name = "inproc",
    .summary = "members of one process, and the simulator",
    .link_size = sizeof(struct inproc_link),
    .open = inproc_open,
    .send = inproc_send,
    .flush = inproc_flush,
    .pending = inproc_pending,
    .close = inproc_close,
};
