/* turns.c: see turns.h. */
#include "transport/turns.h"

static void on_runner(struct loop_task *task)
{
    turns_run(list_entry(task, struct turns, runner));
}

void turns_init(struct turns *turns, struct psd_loop *loop)
{
    *turns = (struct turns){ .loop = loop };
    list_init(&turns->order);
    loop_task_init(&turns->runner, on_runner);
}

void turn_init(struct turn *turn,
               enum turn_end (*call)(struct turn *turn, size_t size,
                                     size_t *written_p))
{
    *turn = (struct turn){ .call = call };
    list_init(&turn->node);
}

static void give(struct turns *turns, struct turn *turn)
{
    turns->now = turn;
    turns->left = turn == NULL ? 0 : turn->size;
    turns->since_ns = 0;
}

static struct turn *next_of(struct turns *turns, struct turn *turn)
{
    struct list *node = turn->node.next;

    node = node == &turns->order ? node->next : node;
    return list_entry(node, struct turn, node);
}

void turns_join(struct turns *turns, struct turn *turn)
{
    struct list *at = &turns->order;

    if (turn_waits(turn)) {
        return;
    }
    while (at->prev != &turns->order &&
           list_entry(at->prev, struct turn, node)->place > turn->place) {
        at = at->prev;
    }
    list_append(at, &turn->node); /* before `at` */
    if (turns->now == NULL) {
        give(turns, turn);
    }
}

static void leave(struct turns *turns, struct turn *turn)
{
    if (turns->now == turn) {
        struct turn *next = next_of(turns, turn);

        give(turns, next == turn ? NULL : next);
    }
    list_remove(&turn->node);
}

void turns_leave(struct turns *turns, struct turn *turn)
{
    bool waited_for = turns->now == turn;

    leave(turns, turn);
    if (waited_for && turns->now != NULL) {
        loop_task_post(turns->loop, &turns->runner);
    }
}

static void on_patience(struct loop_timer *timer)
{
    struct turns *turns = list_entry(timer, struct turns, patience);
    uint64_t waited = clock_ns() - turns->since_ns;

    if (turns->now == NULL || turns->since_ns == 0) {
        return;
    }
    if (waited < TURNS_PATIENCE_NS) {
        loop_timer_start(turns->loop, timer, TURNS_PATIENCE_NS - waited,
                         on_patience);
        return;
    }
    turns->now->late = true;
    leave(turns, turns->now);
    turns_run(turns);
}

static void wait_for_it(struct turns *turns, size_t written)
{
    if (written > 0 || turns->since_ns == 0) {
        turns->since_ns = clock_ns();
    }
    if (turns->patience.due_ns == 0) {
        loop_timer_start(turns->loop, &turns->patience, TURNS_PATIENCE_NS,
                         on_patience);
    }
}

void turns_run(struct turns *turns)
{
    while (turns->now != NULL) {
        struct turn *turn = turns->now;
        size_t written = 0;
        enum turn_end end = turn->call(turn, turns->left, &written);

        if (end == TURN_FULL) {
            turns->left -= written;
            wait_for_it(turns, written);
            return;
        }
        if (end == TURN_DONE) {
            leave(turns, turn);
        } else {
            give(turns, next_of(turns, turn));
        }
    }
}
