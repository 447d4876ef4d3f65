/* loop_test.c: claims about loop.c. */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/log.h"
#include "transport/loop.h"

static unsigned calls;
static struct psd_loop *loop;
static struct loop_watch watches[2];
static struct loop_timer timers[3];
static struct loop_task tasks[2];
static unsigned order[8];

static int set_up(void **state)
{
    (void)state;
    calls = 0;
    memset(watches, 0, sizeof(watches));
    memset(timers, 0, sizeof(timers));
    assert_int_equal(loop_create(&loop), PSD_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    clock_replace(NULL);
    loop_destroy(loop);
    return 0;
}

static unsigned turn(int timeout_ms)
{
    struct loop_events events;

    loop_wait(loop, &events, timeout_ms);
    return loop_dispatch(loop, &events);
}

/* ---- watches ----------------------------------------------------------- */

static void on_read(struct loop_watch *watch, uint32_t mask)
{
    char byte;

    assert_true((mask & EPOLLIN) != 0);
    assert_int_equal(read(watch->fd, &byte, 1), 1);
    calls++;
}

/* The first of the two to be called takes the other away. */
static void on_rival(struct loop_watch *watch, uint32_t mask)
{
    (void)mask;
    calls++;
    loop_unwatch(loop, watch == &watches[0] ? &watches[1] : &watches[0]);
}

static void a_readable_descriptor_is_reported(void **state)
{
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(loop_watch(loop, &watches[0], fds[0], EPOLLIN, on_read),
                     PSD_OK);
    assert_int_equal(turn(0), 0);
    assert_int_equal(write(fds[1], "ab", 2), 2);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(loop_rewatch(loop, &watches[0], 0), PSD_OK);
    assert_int_equal(turn(0), 0);
    assert_int_equal(loop_rewatch(loop, &watches[0], EPOLLIN), PSD_OK);
    assert_int_equal(turn(-1), 1);
    loop_unwatch(loop, &watches[0]);
    loop_unwatch(loop, &watches[0]);
    assert_int_equal(calls, 2);
    close(fds[0]);
    close(fds[1]);
}

static void who_waits_to_write_is_counted(void **state)
{
    int one[2];
    int two[2];

    (void)state;
    assert_int_equal(pipe(one), 0);
    assert_int_equal(pipe(two), 0);
    assert_int_equal(loop_watch(loop, &watches[0], one[1], EPOLLOUT, on_read),
                     PSD_OK);
    assert_int_equal(loop_watch(loop, &watches[1], two[1], 0, on_read),
                     PSD_OK);
    assert_int_equal(loop_writers(loop), 1);
    assert_int_equal(loop_rewatch(loop, &watches[1], EPOLLOUT), PSD_OK);
    assert_int_equal(loop_writers(loop), 2);
    assert_int_equal(loop_rewatch(loop, &watches[0], 0), PSD_OK);
    assert_int_equal(loop_writers(loop), 1);
    loop_unwatch(loop, &watches[0]);
    assert_int_equal(loop_writers(loop), 1);
    loop_unwatch(loop, &watches[1]);
    loop_unwatch(loop, &watches[1]);
    assert_int_equal(loop_writers(loop), 0);
    for (unsigned i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
}

static void an_event_whose_watch_has_gone_is_dropped(void **state)
{
    int one[2];
    int two[2];

    (void)state;
    assert_int_equal(pipe(one), 0);
    assert_int_equal(pipe(two), 0);
    assert_int_equal(loop_watch(loop, &watches[0], one[0], EPOLLIN, on_rival),
                     PSD_OK);
    assert_int_equal(loop_watch(loop, &watches[1], two[0], EPOLLIN, on_rival),
                     PSD_OK);
    assert_int_equal(write(one[1], "a", 1), 1);
    assert_int_equal(write(two[1], "a", 1), 1);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(calls, 1);
    loop_unwatch(loop, &watches[0]);
    loop_unwatch(loop, &watches[1]);
    for (unsigned i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
}

static void an_event_of_a_reused_slot_is_dropped(void **state)
{
    struct loop_events events;
    int one[2];
    int two[2];

    (void)state;
    assert_int_equal(pipe(one), 0);
    assert_int_equal(pipe(two), 0);
    assert_int_equal(loop_watch(loop, &watches[0], one[0], EPOLLIN, on_read),
                     PSD_OK);
    assert_int_equal(write(one[1], "a", 1), 1);
    loop_wait(loop, &events, -1);
    loop_unwatch(loop, &watches[0]);
    assert_int_equal(loop_watch(loop, &watches[1], two[0], EPOLLIN, on_read),
                     PSD_OK);
    assert_int_equal(loop_dispatch(loop, &events), 0);
    loop_unwatch(loop, &watches[1]);
    for (unsigned i = 0; i < 2; i++) {
        close(one[i]);
        close(two[i]);
    }
}

static void many_descriptors_have_room(void **state)
{
    struct loop_watch many[100];
    int fds[2];

    (void)state;
    assert_int_equal(pipe(fds), 0);
    for (unsigned i = 0; i < 100; i++) {
        int copy = dup(fds[0]);

        assert_int_equal(loop_watch(loop, &many[i], copy, EPOLLIN, on_read),
                         PSD_OK);
    }
    for (unsigned i = 0; i < 100; i++) {
        loop_unwatch(loop, &many[i]);
        close(many[i].fd);
    }
    assert_int_equal(loop_watch(loop, &watches[0], -1, EPOLLIN, on_read),
                     PSD_ESYSTEM);
    close(fds[0]);
    close(fds[1]);
}

/* ---- timers ------------------------------------------------------------ */

static void on_timer(struct loop_timer *timer)
{
    order[calls++] = (unsigned)(timer - timers);
}

static void on_timer_again(struct loop_timer *timer)
{
    calls++;
    loop_timer_start(loop, timer, 0, on_timer_again);
}

static void on_timer_stop_next(struct loop_timer *timer)
{
    calls++;
    loop_timer_stop(timer + 1);
}

static void timers_run_in_the_order_of_their_times(void **state)
{
    uint64_t now = 0;

    (void)state;
    clock_replace(&now);
    loop_timer_start(loop, &timers[0], 30, on_timer);
    loop_timer_start(loop, &timers[1], 10, on_timer);
    loop_timer_start(loop, &timers[2], 20, on_timer);
    now = 9;
    assert_int_equal(turn(0), 0);
    now = 25;
    assert_int_equal(turn(0), 2);
    assert_int_equal(order[0], 1);
    assert_int_equal(order[1], 2);
    assert_int_equal(timers[1].due_ns, 0);
    loop_timer_stop(&timers[0]);
    loop_timer_stop(&timers[0]);
    now = 100;
    assert_int_equal(turn(0), 0);
}

static void a_timer_started_again_waits_for_the_next_dispatch(void **state)
{
    (void)state;
    loop_timer_start(loop, &timers[0], 0, on_timer_again);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(turn(-1), 1);
    loop_timer_stop(&timers[0]);
}

static void a_due_timer_may_be_stopped_by_another(void **state)
{
    (void)state;
    loop_timer_start(loop, &timers[0], 0, on_timer_stop_next);
    loop_timer_start(loop, &timers[1], 0, on_timer);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(turn(0), 0);
}

static void waiting_ends_when_a_timer_is_due(void **state)
{
    uint64_t start = clock_ns();

    (void)state;
    loop_timer_start(loop, &timers[0], 5 * CLOCK_NS_PER_MS, on_timer);
    while (calls == 0) {
        (void)turn(-1);
    }
    assert_true(clock_ns() - start >= 5 * CLOCK_NS_PER_MS);
    assert_true(clock_ns() - start < CLOCK_NS_PER_S);
}

/* ---- tasks, pollers, wake-ups ------------------------------------------ */

static void on_task(struct loop_task *task)
{
    order[calls++] = (unsigned)(task - tasks);
}

static void on_task_again(struct loop_task *task)
{
    calls++;
    loop_task_post(loop, task);
}

static void on_task_late(struct loop_task *task)
{
    order[calls++] = (unsigned)(task - tasks);
    loop_task_post_late(loop, &tasks[1]);
}

static unsigned on_poll(struct loop_poller *poller)
{
    calls++;
    loop_poller_remove(poller); /* while the loop walks over it */
    return 5;
}

static void a_posted_task_runs_once(void **state)
{
    (void)state;
    loop_task_init(&tasks[0], on_task);
    loop_task_post(loop, &tasks[0]);
    loop_task_post(loop, &tasks[0]);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(turn(0), 0);
    loop_task_post(loop, &tasks[0]);
    loop_task_cancel(&tasks[0]);
    assert_int_equal(turn(0), 0);
    assert_int_equal(calls, 1);
}

static void a_task_posted_by_a_task_runs_in_the_next_dispatch(void **state)
{
    (void)state;
    loop_task_init(&tasks[0], on_task_again);
    loop_task_post(loop, &tasks[0]);
    assert_int_equal(turn(-1), 1);
    assert_int_equal(turn(-1), 1);
    loop_task_cancel(&tasks[0]);
}

static void a_late_task_runs_at_the_end_of_the_same_dispatch(void **state)
{
    (void)state;
    loop_task_init(&tasks[0], on_task_late);
    loop_task_init(&tasks[1], on_task);
    loop_task_post(loop, &tasks[0]);
    assert_int_equal(turn(-1), 2);
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 1);
}

static void pollers_are_called_in_every_dispatch(void **state)
{
    struct loop_poller pollers[2] = { { .call = NULL } };

    (void)state;
    loop_poller_remove(&pollers[0]);
    loop_poller_add(loop, &pollers[0], on_poll);
    loop_poller_add(loop, &pollers[1], on_poll);
    assert_int_equal(loop_dispatch(loop, NULL), 10);
    assert_int_equal(loop_poll(loop), 0);
    assert_int_equal(calls, 2);
}

static void *wake_main(void *argument)
{
    (void)argument;
    loop_wake(loop);
    return NULL;
}

static void another_thread_ends_a_wait(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, wake_main, NULL), 0);
        assert_int_equal(turn(-1), 0); /* would hang */
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *post_main(void *argument)
{
    struct timespec pause = { .tv_nsec = 1000000 };

    (void)argument;
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&lock);
    loop_task_post(loop, &tasks[0]);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void a_task_of_another_thread_ends_a_wait(void **state)
{
    (void)state;
    loop_task_init(&tasks[0], on_task);
    for (unsigned i = 0; i < 5; i++) {
        pthread_t thread;
        struct loop_events events;

        calls = 0;
        assert_int_equal(pthread_create(&thread, NULL, post_main, NULL), 0);
        while (calls == 0) {
            loop_wait(loop, &events, -1);
            pthread_mutex_lock(&lock);
            (void)loop_dispatch(loop, &events);
            pthread_mutex_unlock(&lock);
        }
        assert_int_equal(pthread_join(thread, NULL), 0);
    }
}

#define CLAIM(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    static const struct CMUnitTest tests[] = {
        CLAIM(a_readable_descriptor_is_reported),
        CLAIM(who_waits_to_write_is_counted),
        CLAIM(an_event_whose_watch_has_gone_is_dropped),
        CLAIM(an_event_of_a_reused_slot_is_dropped),
        CLAIM(many_descriptors_have_room),
        CLAIM(timers_run_in_the_order_of_their_times),
        CLAIM(a_timer_started_again_waits_for_the_next_dispatch),
        CLAIM(a_due_timer_may_be_stopped_by_another),
        CLAIM(waiting_ends_when_a_timer_is_due),
        CLAIM(a_posted_task_runs_once),
        CLAIM(a_task_posted_by_a_task_runs_in_the_next_dispatch),
        CLAIM(a_late_task_runs_at_the_end_of_the_same_dispatch),
        CLAIM(pollers_are_called_in_every_dispatch),
        CLAIM(another_thread_ends_a_wait),
        CLAIM(a_task_of_another_thread_ends_a_wait),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
