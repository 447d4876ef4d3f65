/*
 * Links that write in turns: the order, what a turn may write, that one which
 * cannot go on is waited for, but not for ever, and that nobody is forgotten.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "transport/turns.h"

#define SIZE 10u

/* One with `todo` bytes to write, of which `room` find room now. */
struct writer {
    struct turn turn;
    struct rig *rig;
    size_t todo;
    size_t room;
    bool left; /* it leaves within its turn, as a link does that is lost */
};

struct rig {
    struct psd_loop *loop;
    struct turns *turns;
    struct writer writers[4];
    char log[200]; /* who wrote how much */
};

static enum turn_end on_turn(struct turn *turn, size_t size,
                             size_t *written_p)
{
    struct writer *writer = list_entry(turn, struct writer, turn);
    struct rig *rig = writer->rig;
    size_t used = strlen(rig->log);

    if (writer->left) {
        turns_leave(rig->turns, turn);
        return TURN_DONE;
    }
    size = size < writer->todo ? size : writer->todo;
    *written_p = size < writer->room ? size : writer->room;
    writer->todo -= *written_p;
    writer->room -= *written_p;
    snprintf(rig->log + used, sizeof(rig->log) - used, "%u:%zu ", turn->place,
             *written_p);
    if (*written_p < size) {
        return TURN_FULL;
    }
    return writer->todo == 0 ? TURN_DONE : TURN_OVER;
}

static int open_rig(void **state)
{
    static struct rig rig;

    rig = (struct rig){ .loop = NULL };
    assert_int_equal(loop_create(&rig.loop), PSD_OK);
    rig.turns = loop_turns(rig.loop);
    for (uint32_t i = 0; i < 4; i++) {
        rig.writers[i] = (struct writer){ .rig = &rig, .room = SIZE_MAX };
        turn_init(&rig.writers[i].turn, on_turn);
        rig.writers[i].turn.place = i + 1;
        rig.writers[i].turn.size = SIZE;
    }
    *state = &rig;
    return 0;
}

static int close_rig(void **state)
{
    struct rig *rig = *state;

    loop_destroy(rig->loop);
    return 0;
}

static void join(struct rig *rig, unsigned index, size_t todo)
{
    rig->writers[index].todo = todo;
    turns_join(rig->turns, &rig->writers[index].turn);
}

static void wrote(struct rig *rig, const char *what)
{
    assert_string_equal(rig->log, what);
    rig->log[0] = '\0';
}

static void all_write_in_the_order_of_their_places(void **state)
{
    struct rig *rig = *state;

    join(rig, 2, 15);
    join(rig, 0, 25);
    join(rig, 3, 5);
    join(rig, 0, 25); /* once is enough */
    turns_run(rig->turns);
    wrote(rig, "3:10 4:5 1:10 3:5 1:10 1:5 ");
    assert_null(rig->turns->now);
    assert_false(turn_waits(&rig->writers[0].turn));
}

static void one_that_cannot_go_on_is_waited_for(void **state)
{
    struct rig *rig = *state;

    rig->writers[1].room = 4;
    join(rig, 0, 20);
    join(rig, 1, 20);
    turns_run(rig->turns);
    wrote(rig, "1:10 2:4 ");
    turns_run(rig->turns); /* still no room */
    wrote(rig, "2:0 ");
    rig->writers[1].room = SIZE_MAX;
    turns_run(rig->turns);
    wrote(rig, "2:6 1:10 2:10 "); /* the rest of its turn, not a whole one */
}

static void who_leaves_leaves_its_turn_to_the_next(void **state)
{
    struct rig *rig = *state;

    rig->writers[0].room = 0;
    join(rig, 0, 20);
    join(rig, 1, 10);
    join(rig, 2, 10);
    turns_run(rig->turns);
    wrote(rig, "1:0 ");
    turns_leave(rig->turns, &rig->writers[1].turn); /* it was not its turn */
    loop_dispatch(rig->loop, NULL);
    wrote(rig, "");
    turns_leave(rig->turns, &rig->writers[0].turn);
    turns_leave(rig->turns, &rig->writers[0].turn);
    loop_dispatch(rig->loop, NULL);
    wrote(rig, "3:10 ");
}

static void one_that_is_lost_within_its_turn_holds_nobody_up(void **state)
{
    struct rig *rig = *state;

    rig->writers[0].left = true;
    join(rig, 0, 20);
    join(rig, 1, 10);
    turns_run(rig->turns);
    wrote(rig, "2:10 ");
    assert_null(rig->turns->now);
}

static void nobody_waits_for_ever(void **state)
{
    struct rig *rig = *state;

    rig->writers[0].room = 0;
    join(rig, 0, 20);
    join(rig, 1, 10);
    turns_run(rig->turns);
    wrote(rig, "1:0 ");
    while (turn_waits(&rig->writers[1].turn)) {
        struct loop_events events;

        loop_wait(rig->loop, &events, -1);
        loop_dispatch(rig->loop, &events);
    }
    wrote(rig, "2:10 ");
    assert_true(rig->writers[0].turn.late);
    assert_false(rig->writers[1].turn.late);
    assert_false(turn_waits(&rig->writers[0].turn));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(all_write_in_the_order_of_their_places,
                                        open_rig, close_rig),
        cmocka_unit_test_setup_teardown(one_that_cannot_go_on_is_waited_for,
                                        open_rig, close_rig),
        cmocka_unit_test_setup_teardown(who_leaves_leaves_its_turn_to_the_next,
                                        open_rig, close_rig),
        cmocka_unit_test_setup_teardown(
            one_that_is_lost_within_its_turn_holds_nobody_up, open_rig,
            close_rig),
        cmocka_unit_test_setup_teardown(nobody_waits_for_ever, open_rig,
                                        close_rig),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
