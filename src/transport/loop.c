/*
 * loop.c: see loop.h. An event carries its watch's slot and the slot's
 * generation, so that one which loop_wait found before the watch went is
 * recognised and dropped. `next_ns` is all that loop_wait reads of the rest:
 * when the next timer is due, 0 when a task waits.
 */
#define _GNU_SOURCE
#include "transport/loop.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "transport/turns.h"

#define SLOT_WAKE 0 /* never a watch's: a zeroed watch has it */
#define SLOTS_FIRST 16

struct loop_slot {
    struct loop_watch *watch; /* NULL: free */
    uint32_t generation;
    uint32_t next_free;
};

struct psd_loop {
    int epoll_fd;
    int wake_fd;
    struct loop_slot *slots;
    uint32_t slot_count;
    uint32_t free_slot; /* SLOT_WAKE: none */
    unsigned writers;   /* watches with EPOLLOUT */
    struct list timers; /* by due time */
    struct list tasks;
    struct list late;
    struct list pollers;
    struct list endings;
    void *hub;
    struct turns turns;
    _Atomic uint64_t next_ns;
    _Atomic uint32_t waiting; /* threads in epoll_wait */
    _Atomic bool woken;       /* a wake-up is on its way */
};

psd_status loop_create(struct psd_loop **loop_p)
{
    struct epoll_event event = { .events = EPOLLIN | EPOLLET };
    struct psd_loop *loop = mem_zalloc(sizeof(*loop));

    if (loop == NULL) {
        return PSD_ENOMEM;
    }
    list_init(&loop->timers);
    list_init(&loop->tasks);
    list_init(&loop->late);
    list_init(&loop->pollers);
    list_init(&loop->endings);
    turns_init(&loop->turns, loop);
    atomic_init(&loop->next_ns, UINT64_MAX);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    /* Edge-triggered, so that nobody has to read the counter. */
    if (loop->epoll_fd < 0 || loop->wake_fd < 0 ||
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, loop->wake_fd, &event) != 0) {
        log_error("loop: no epoll: %m");
        loop_destroy(loop);
        return PSD_ESYSTEM;
    }
    *loop_p = loop;
    return PSD_OK;
}

void loop_destroy(struct psd_loop *loop)
{
    struct list *node;

    if (loop == NULL) {
        return;
    }
    while ((node = list_first(&loop->endings)) != NULL) {
        struct loop_ending *ending;

        ending = list_entry(node, struct loop_ending, node);
        ending->call(ending);
    }
    if (loop->epoll_fd >= 0) {
        close(loop->epoll_fd);
    }
    if (loop->wake_fd >= 0) {
        close(loop->wake_fd);
    }
    mem_free(loop->slots);
    mem_free(loop);
}

struct turns *loop_turns(struct psd_loop *loop)
{
    return &loop->turns;
}

void loop_turns_off(struct psd_loop *loop)
{
    loop->turns.off = true;
}

void loop_hub_set(struct psd_loop *loop, void *hub)
{
    loop->hub = hub;
}

void *loop_hub(const struct psd_loop *loop)
{
    return loop->hub;
}

/* ---- watches ----------------------------------------------------------- */

static psd_status slots_grow(struct psd_loop *loop)
{
    uint32_t count = loop->slot_count == 0 ? SLOTS_FIRST
                                           : loop->slot_count * 2;
    void *slots = loop->slots;
    psd_status status;

    status = mem_grow(&slots, loop->slot_count, count, sizeof(*loop->slots));
    if (status != PSD_OK) {
        return status;
    }
    loop->slots = slots;
    for (uint32_t i = count - 1; i >= loop->slot_count && i > SLOT_WAKE; i--) {
        loop->slots[i].next_free = loop->free_slot;
        loop->free_slot = i;
    }
    loop->slot_count = count;
    return PSD_OK;
}

static uint64_t slot_data(const struct psd_loop *loop, uint32_t slot)
{
    return ((uint64_t)loop->slots[slot].generation << 32) | slot;
}

static unsigned writes(uint32_t mask)
{
    return (mask & EPOLLOUT) != 0;
}

unsigned loop_writers(const struct psd_loop *loop)
{
    return loop->writers;
}

psd_status loop_watch(struct psd_loop *loop, struct loop_watch *watch, int fd,
                      uint32_t mask,
                      void (*call)(struct loop_watch *watch, uint32_t mask))
{
    struct epoll_event event = { .events = mask };
    struct loop_slot *slot;
    uint32_t index;

    if (loop->free_slot == SLOT_WAKE) {
        psd_status status = slots_grow(loop);

        if (status != PSD_OK) {
            return status;
        }
    }
    index = loop->free_slot;
    event.data.u64 = slot_data(loop, index);
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0) {
        log_error("loop: cannot watch descriptor %d: %m", fd);
        return PSD_ESYSTEM;
    }
    slot = &loop->slots[index];
    loop->free_slot = slot->next_free;
    slot->watch = watch;
    *watch = (struct loop_watch){
        .fd = fd, .mask = mask, .slot = index, .call = call
    };
    loop->writers += writes(mask);
    return PSD_OK;
}

psd_status loop_rewatch(struct psd_loop *loop, struct loop_watch *watch,
                        uint32_t mask)
{
    struct epoll_event event = { .events = mask };

    if (watch->mask == mask) {
        return PSD_OK;
    }
    event.data.u64 = slot_data(loop, watch->slot);
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, watch->fd, &event) != 0) {
        log_error("loop: cannot change watch of descriptor %d: %m",
                  watch->fd);
        return PSD_ESYSTEM;
    }
    loop->writers += writes(mask) - writes(watch->mask);
    watch->mask = mask;
    return PSD_OK;
}

void loop_unwatch(struct psd_loop *loop, struct loop_watch *watch)
{
    struct loop_slot *slot;

    if (watch->slot == SLOT_WAKE) {
        return;
    }
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL);
    loop->writers -= writes(watch->mask);
    slot = &loop->slots[watch->slot];
    slot->watch = NULL;
    slot->generation++;
    slot->next_free = loop->free_slot;
    loop->free_slot = watch->slot;
    watch->slot = SLOT_WAKE;
}

/* ---- timers, tasks, pollers -------------------------------------------- */

/* Something is due at `due_ns`. A waiter that has read the old value is
 * woken: it announces itself before it reads, we write before we look. */
static void due_at(struct psd_loop *loop, uint64_t due_ns, bool wake)
{
    if (due_ns < atomic_load_explicit(&loop->next_ns, memory_order_relaxed)) {
        atomic_store(&loop->next_ns, due_ns);
        if (wake && atomic_load(&loop->waiting) > 0) {
            loop_wake(loop);
        }
    }
}

void loop_timer_start(struct psd_loop *loop, struct loop_timer *timer,
                      uint64_t after_ns,
                      void (*call)(struct loop_timer *timer))
{
    struct list *at = &loop->timers;

    loop_timer_stop(timer);
    if (__builtin_add_overflow(clock_ns(), after_ns, &timer->due_ns)) {
        timer->due_ns = UINT64_MAX;
    }
    timer->due_ns = timer->due_ns == 0 ? 1 : timer->due_ns;
    timer->call = call;
    while (at->prev != &loop->timers &&
           list_entry(at->prev, struct loop_timer, node)->due_ns >
               timer->due_ns) {
        at = at->prev;
    }
    list_append(at, &timer->node); /* before `at` */
    due_at(loop, timer->due_ns, true);
}

void loop_timer_stop(struct loop_timer *timer)
{
    if (timer->due_ns != 0) {
        list_remove(&timer->node);
        timer->due_ns = 0;
    }
}

void loop_task_init(struct loop_task *task,
                    void (*call)(struct loop_task *task))
{
    list_init(&task->node);
    task->call = call;
}

void loop_task_post(struct psd_loop *loop, struct loop_task *task)
{
    if (list_empty(&task->node)) {
        list_append(&loop->tasks, &task->node);
        due_at(loop, 0, true);
    }
}

void loop_task_post_late(struct psd_loop *loop, struct loop_task *task)
{
    if (list_empty(&task->node)) {
        list_append(&loop->late, &task->node);
        due_at(loop, 0, false);
    }
}

void loop_task_cancel(struct loop_task *task)
{
    if (task->node.next != NULL) {
        list_remove(&task->node);
    }
}

static uint64_t next_due(struct psd_loop *loop)
{
    if (!list_empty(&loop->tasks) || !list_empty(&loop->late)) {
        return 0;
    }
    if (list_empty(&loop->timers)) {
        return UINT64_MAX;
    }
    return list_entry(loop->timers.next, struct loop_timer, node)->due_ns;
}

void loop_task_done(struct psd_loop *loop, struct loop_task *task)
{
    if (!list_empty(&task->node)) {
        list_remove(&task->node);
        atomic_store_explicit(&loop->next_ns, next_due(loop),
                              memory_order_relaxed);
    }
}

void loop_poller_add(struct psd_loop *loop, struct loop_poller *poller,
                     unsigned (*call)(struct loop_poller *poller))
{
    poller->call = call;
    list_append(&loop->pollers, &poller->node);
}

void loop_poller_remove(struct loop_poller *poller)
{
    if (poller->node.next != NULL) {
        list_remove(&poller->node);
    }
}

void loop_ending_add(struct psd_loop *loop, struct loop_ending *ending,
                     void (*call)(struct loop_ending *ending))
{
    ending->call = call;
    list_append(&loop->endings, &ending->node);
}

void loop_ending_remove(struct loop_ending *ending)
{
    list_remove(&ending->node);
}

/* Move all of `from` to `to`, which is not initialised. */
static void list_take(struct list *from, struct list *to)
{
    list_append(from, to);
    list_remove(from);
}

unsigned loop_poll(struct psd_loop *loop)
{
    struct list todo;
    struct list *node;
    unsigned calls = 0;

    if (list_empty(&loop->pollers)) {
        return 0;
    }
    list_take(&loop->pollers, &todo);
    while ((node = list_first(&todo)) != NULL) {
        struct loop_poller *poller;

        list_remove(node);
        list_append(&loop->pollers, node);
        poller = list_entry(node, struct loop_poller, node);
        calls += poller->call(poller);
    }
    return calls;
}

/* ---- waiting and dispatching ------------------------------------------- */

static int wait_limit(struct psd_loop *loop, int timeout_ms)
{
    uint64_t due_ns = atomic_load(&loop->next_ns);
    uint64_t now_ns;
    uint64_t left_ms;

    if (timeout_ms == 0 || due_ns == UINT64_MAX) {
        return timeout_ms;
    }
    now_ns = clock_ns();
    if (due_ns <= now_ns) {
        return 0;
    }
    left_ms = (due_ns - now_ns - 1) / CLOCK_NS_PER_MS + 1;
    if (timeout_ms > 0 && left_ms > (uint64_t)timeout_ms) {
        return timeout_ms;
    }
    return left_ms > INT_MAX ? INT_MAX : (int)left_ms;
}

void loop_wait(struct psd_loop *loop, struct loop_events *events,
               int timeout_ms)
{
    int count;

    atomic_fetch_add(&loop->waiting, 1);
    count = epoll_wait(loop->epoll_fd, events->events, LOOP_EVENTS_MAX,
                       wait_limit(loop, timeout_ms));
    atomic_fetch_sub(&loop->waiting, 1);
    events->count = count < 0 ? 0 : count; /* a signal: nothing found */
    for (int i = 0; i < events->count; i++) {
        if ((uint32_t)events->events[i].data.u64 == SLOT_WAKE) {
            atomic_store(&loop->woken, false);
        }
    }
}

static unsigned dispatch_events(struct psd_loop *loop,
                                const struct loop_events *events)
{
    unsigned calls = 0;

    for (int i = 0; i < events->count; i++) {
        uint64_t data = events->events[i].data.u64;
        uint32_t index = (uint32_t)data;
        struct loop_watch *watch;

        if (index == SLOT_WAKE || index >= loop->slot_count ||
            slot_data(loop, index) != data) {
            continue;
        }
        watch = loop->slots[index].watch;
        if (watch != NULL) {
            watch->call(watch, events->events[i].events);
            calls++;
        }
    }
    return calls;
}

static unsigned dispatch_timers(struct psd_loop *loop)
{
    struct list due;
    struct list *node;
    uint64_t now_ns;
    unsigned calls = 0;

    if (list_empty(&loop->timers)) {
        return 0;
    }
    now_ns = clock_ns();
    list_init(&due); /* first, so that one started again waits its turn */
    while ((node = list_first(&loop->timers)) != NULL &&
           list_entry(node, struct loop_timer, node)->due_ns <= now_ns) {
        list_remove(node);
        list_append(&due, node);
    }
    while ((node = list_first(&due)) != NULL) {
        struct loop_timer *timer = list_entry(node, struct loop_timer, node);

        loop_timer_stop(timer);
        timer->call(timer);
        calls++;
    }
    return calls;
}

static unsigned dispatch_tasks(struct list *tasks)
{
    struct list todo;
    struct list *node;
    unsigned calls = 0;

    if (list_empty(tasks)) {
        return 0;
    }
    list_take(tasks, &todo);
    while ((node = list_first(&todo)) != NULL) {
        struct loop_task *task = list_entry(node, struct loop_task, node);

        list_remove(node);
        task->call(task);
        calls++;
    }
    return calls;
}

unsigned loop_dispatch(struct psd_loop *loop,
                       const struct loop_events *events)
{
    unsigned calls = events == NULL ? 0 : dispatch_events(loop, events);

    calls += dispatch_timers(loop);
    calls += loop_poll(loop);
    calls += dispatch_tasks(&loop->tasks);
    calls += dispatch_tasks(&loop->late);
    atomic_store(&loop->next_ns, next_due(loop));
    return calls;
}

void loop_wake(struct psd_loop *loop)
{
    uint64_t one = 1;

    if (!atomic_exchange(&loop->woken, true) &&
        write(loop->wake_fd, &one, sizeof(one)) < 0) {
        log_error("loop: cannot wake: %m");
    }
}
