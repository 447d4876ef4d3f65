/* block_test.c: the block says what there is to say, at any size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>

#include "base/banned.h"
#include "base/clock.h"
#include "screen/block.h"
#include "screen/phrase.h"
#include "screen/token.h"

#define MS CLOCK_NS_PER_MS

static struct launch_cell cells[WIRE_RANKS_MAX];
static struct launch_view view;
static struct block block;

static struct block_input input_of(uint32_t workers, unsigned columns,
                                   unsigned rows)
{
    memset(cells, 0, sizeof(cells));
    for (uint32_t i = 0; i < workers; i++) {
        cells[i].state = LAUNCH_CELL_IN;
    }
    view = (struct launch_view){.step = 1200,
                                .loss = 0.43125,
                                .samples = 9000,
                                .rate = 812.4,
                                .exchanged_bytes = 5,
                                .wire_bytes = 9,
                                .sent_rate = 1.25e9,
                                .received_rate = 99e6,
                                .compute_ns = 90 * MS,
                                .wait_ns = 30 * MS};
    return (struct block_input){.view = &view,
                                .has_view = true,
                                .cells = cells,
                                .workers = workers,
                                .goal = 7200,
                                .columns = columns,
                                .rows = rows,
                                .room = rows - 1};
}

static void compose_is(const struct block_input *input, const char *text)
{
    block_compose(input, &block);
    block.text[block.used] = '\0';
    assert_string_equal(block.text, text);
}

/* Every line fits, and there are not too many. */
static void check_shape(const struct block_input *input)
{
    const char *at;
    unsigned lines = 0;

    block_compose(input, &block);
    at = block.text;
    while (at < block.text + block.used) {
        const char *end =
            memchr(at, '\n', (size_t)(block.text + block.used - at));

        assert_non_null(end);
        assert_true(token_width(at, (size_t)(end - at)) < input->columns ||
                    input->columns == 1);
        at = end + 1;
        lines++;
    }
    assert_int_equal(lines, block.lines);
    assert_true(lines <= input->room);
    assert_true(lines >= 1);
}

static void eighty_columns(void **state)
{
    struct block_input input = input_of(4, 80, 24);

    (void)state;
    cells[1].slow = 180;
    cells[2].lag = 3;
    cells[3].state = LAUNCH_CELL_DONE;
    compose_is(&input,
               "step 1200 of 7200   loss 0.4313   812 samples/s   ETA 12 min\n"
               "step 120 ms = compute 90 ms + exposed comm. 30 ms   "
               "in 99.0 MB/s out 1.2 GB/s\n"
               "w0 ok   w1 SLOW 1.8x   w2 -3   w3 done\n");
}

static void forty_columns(void **state)
{
    struct block_input input = input_of(2, 40, 24);

    (void)state;
    cells[1].state = LAUNCH_CELL_LOST;
    compose_is(&input, "step 1200/7200   loss 0.4313\n"
                       "812 samples/s   ETA 12 min\n"
                       "step time 120 ms   compute 90 ms\n"
                       "exposed comm. 30 ms\n"
                       "in 99.0 MB/s out 1.2 GB/s\n"
                       "w0 ok   w1 LOST\n");
}

static void two_hundred_columns(void **state)
{
    struct block_input input = input_of(1, 200, 24);

    (void)state;
    view.loss = (double)NAN;
    view.wire_bytes = 0;
    view.exchanged_rate = 2.5e9;
    input.goal = 0;
    compose_is(&input, "step 1200   812 samples/s\n"
                       "step time 120 ms: compute 90 ms, exposed "
                       "communication 30 ms (25 %)   through shared memory "
                       "2.5 GB/s\n"
                       "w0 ok\n");
}

static void who_has_not_joined_is_waited_for(void **state)
{
    struct block_input input = input_of(3, 80, 24);

    (void)state;
    cells[2].state = LAUNCH_CELL_WAITING;
    input.age_ns = 12 * CLOCK_NS_PER_S;
    compose_is(&input, "waiting for the workers: 2 of 3 have joined, 12 s\n"
                       "w0 ok   w1 ok   w2 .\n");
    memset(cells, 0, sizeof(cells));
    input.has_view = false;
    input.columns = 40;
    compose_is(&input, "0 of 3 workers in, 12 s\nw0 .   w1 .   w2 .\n");
}

static void many_cells_lose_their_words_and_then_their_place(void **state)
{
    struct block_input input = input_of(32, 80, 24);

    (void)state;
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    assert_non_null(strstr(block.text, "w31 ok\n"));
    input = input_of(80, 80, 24);
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    assert_null(strstr(block.text, "ok"));
    assert_non_null(strstr(block.text, "w78   w79\n"));
    input = input_of(1024, 80, 24);
    cells[1000].slow = 1510;
    cells[1000].lag = 7;
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    assert_int_equal(block.lines, 10);
    assert_non_null(strstr(block.text, "\nw1000 SLOW 15.1x -7   w0   w1"));
    assert_non_null(strstr(block.text, " more, all well\n"));
}

static void what_is_left_out_is_told(void **state)
{
    struct block_input input = input_of(64, 80, 6);

    (void)state;
    for (uint32_t i = 0; i < 64; i++) {
        cells[i].slow = i < 10 ? 200 : 0;
    }
    compose_is(&input,
               "step 1200 of 7200   loss 0.4313   812 samples/s   ETA 12 min\n"
               "step 120 ms = compute 90 ms + exposed comm. 30 ms   "
               "in 99.0 MB/s out 1.2 GB/s\n"
               "w0 SLOW 2.0x   w1 SLOW 2.0x   w2 SLOW 2.0x   w3 SLOW 2.0x   "
               "w4 SLOW 2.0x\n"
               "w5 SLOW 2.0x   w6 SLOW 2.0x   w7 SLOW 2.0x   "
               "... and 56 more, 2 not well\n");
    memset(cells, 0, sizeof(cells));
    input.room = 1;
    compose_is(&input, "waiting for the workers: 0 of 64 have joined, 0 s\n");
}

static void colours_are_around_words_only_when_wanted(void **state)
{
    struct block_input input = input_of(1, 80, 24);

    (void)state;
    cells[0].slow = 150;
    block_compose(&input, &block);
    assert_null(memchr(block.text, '\033', block.used));
    input.color = true;
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    assert_non_null(strstr(block.text, "\033[1;33mw0 SLOW 1.5x\033[0m\n"));
}

static void bars_stand_above_and_give_way(void **state)
{
    static const struct block_bar bars[] = {
        {0, " 50%\tx", 6},
        {1, "\033[32mgreen\303", 11},
        {2, "a line that is longer than forty columns are", 44},
    };
    struct block_input input = input_of(1, 40, 24);
    char *end;

    (void)state;
    input.bars = bars;
    input.bar_count = 3;
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    end = strstr(block.text, "step");
    assert_non_null(end);
    *end = '\0';
    assert_string_equal(block.text, "[w0]  50% x\n[w1] \033[32mgreen\033[0m\n"
                                    "[w2] a line that is longer than forty c"
                                    "\n");
    input.rows = 6;
    input.room = 8;
    block_compose(&input, &block);
    block.text[block.used] = '\0';
    assert_non_null(strstr(block.text, "... and 2 more lines\nstep"));
    input.room = 2;
    compose_is(&input, "step 1200/7200   loss 0.4313\n"
                       "812 samples/s   ETA 12 min\n");
}

static void any_size_keeps_its_shape(void **state)
{
    static const uint32_t workers[] = {1, 2, 7, 64, 1024};
    static const struct block_bar bars[] = {{0, "bar", 3}, {1, "b", 1}};

    (void)state;
    for (size_t w = 0; w < sizeof(workers) / sizeof(workers[0]); w++) {
        for (unsigned columns = 1; columns < 260; columns += 3) {
            for (unsigned rows = 2; rows < 70; rows += 9) {
                struct block_input input = input_of(workers[w], columns, rows);

                for (uint32_t i = 0; i < workers[w]; i++) {
                    cells[i].state = (uint8_t)(i * 7 % 4);
                    cells[i].slow = i % 11 == 0 ? 65535 : 0;
                    cells[i].lag = i % 5 == 0 ? UINT32_MAX : 0;
                }
                input.color = true;
                input.bars = bars;
                input.bar_count = 2;
                check_shape(&input);
                cells[0].state = LAUNCH_CELL_IN;
                view.rate = 1e300;
                view.sent_rate = (double)NAN;
                view.compute_ns = UINT64_MAX / 2;
                check_shape(&input);
            }
        }
    }
}

static void a_plain_line_says_the_same(void **state)
{
    struct block_input input = input_of(3, 0, 0);
    char text[1024];

    (void)state;
    cells[1].slow = 180;
    block_plain(&input, text, sizeof(text));
    assert_string_equal(
        text, "step 1200 of 7200, loss 0.4313, 812 samples/s, 120 ms a step "
              "(compute 90 ms, exposed communication 30 ms), network in "
              "99.0 MB/s, out 1.2 GB/s, ETA 12 min; SLOW: w1 1.8x");
    block_plain(&input, text, 20); /* cut, not overrun */
    assert_string_equal(text, "step 1200 of 7200, ");
    cells[2].state = LAUNCH_CELL_WAITING;
    block_plain(&input, text, sizeof(text));
    assert_string_equal(text, "2 of 3 workers have joined; missing: w2");
    memset(cells, 0, sizeof(cells));
    block_plain(&input, text, sizeof(text));
    assert_string_equal(text, "");
}

static void numbers_read_well(void **state)
{
    static const struct {
        void (*call)(double value, char *text, size_t size);
        double value;
        const char *text;
    } rows[] = {
        {phrase_bytes, 0, "0 B"},        {phrase_bytes, 999, "999 B"},
        {phrase_bytes, 999.7, "1.0 kB"}, {phrase_bytes, 1.5e9, "1.5 GB"},
        {phrase_bytes, 120e6, "120 MB"}, {phrase_rate, 8.53, "8.5"},
        {phrase_rate, 12345.6, "12346"}, {phrase_rate, 1.2e6, "1.20 M"},
        {phrase_eta, 0.4, "0 s"},        {phrase_eta, 99, "99 s"},
        {phrase_eta, 720, "12 min"},     {phrase_eta, 19200, "5 h 20 min"},
        {phrase_eta, 273600, "3 d 4 h"}, {phrase_eta, 1e300, "11574 d 1 h"},
    };
    char text[64];

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        rows[i].call(rows[i].value, text, sizeof(text));
        assert_string_equal(text, rows[i].text);
    }
    phrase_time(350000, text, sizeof(text));
    assert_string_equal(text, "350 us");
    phrase_time(3500000, text, sizeof(text));
    assert_string_equal(text, "3.5 ms");
    phrase_time(1250 * MS, text, sizeof(text));
    assert_string_equal(text, "1.25 s");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eighty_columns),
        cmocka_unit_test(forty_columns),
        cmocka_unit_test(two_hundred_columns),
        cmocka_unit_test(who_has_not_joined_is_waited_for),
        cmocka_unit_test(many_cells_lose_their_words_and_then_their_place),
        cmocka_unit_test(what_is_left_out_is_told),
        cmocka_unit_test(colours_are_around_words_only_when_wanted),
        cmocka_unit_test(bars_stand_above_and_give_way),
        cmocka_unit_test(any_size_keeps_its_shape),
        cmocka_unit_test(a_plain_line_says_the_same),
        cmocka_unit_test(numbers_read_well),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
