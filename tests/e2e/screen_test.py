#!/usr/bin/env python3
"""What a person sees: psd_run in a real terminal, by tmux.

    screen_test.py BUILD_DIR [PATTERN]

Prints TAP, as run.py does. Each test has a tmux server of its own (socket in
a private folder) with one window, looks at it as capture-pane gives it, and
ends it. Skips where there is no tmux or no pseudo-terminal.
"""
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 40.0  # for anything to appear

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build')
pattern = sys.argv[2] if len(sys.argv) > 2 else ''
PSD_RUN = os.path.join(build, 'bin', 'psd_run')
WORKER = os.path.join(build, 'tests', 'e2e', 'e2e_worker')
TESTS = []
OPEN = []

# Worker programs. A bar as tqdm draws it; nested bars; a bar at the edge.
BAR = r'''
i=0
while [ $i -lt %(turns)d ]; do
    i=$((i + 1))
    printf '\r bar %%d/%(turns)d of %%s' $i $PSD_RANK >&2
    [ $((i %% 10)) = 0 ] && %(between)s echo "line $i of $PSD_RANK"
    sleep 0.1
done
printf '\n' >&2
echo last of $PSD_RANK
'''
NESTED = r'''
for o in 1 2 3; do
    printf '\r outer %d/3' $o >&2
    for i in 1 2 3 4 5 6 7 8; do
        printf '\n' >&2; printf '\r  inner %d/8' $i >&2; printf '\033[A' >&2
        sleep 0.1
    done
done
printf '\n\n' >&2
'''


class Failure(Exception):
    pass


class Skip(Exception):
    pass


def test(function):
    TESTS.append(function)
    return function


def check(condition, text):
    if not condition:
        raise Failure(text)


class Terminal:
    """One window of one tmux server, with one shell command in it."""

    def __init__(self, command, columns=80, rows=24, term='screen', **variables):
        if shutil.which('tmux') is None:
            raise Skip('tmux is not installed')
        self.folder = tempfile.mkdtemp(prefix='psd-screen-')
        self.tmux = ['tmux', '-S', os.path.join(self.folder, 'socket'),
                     '-f', '/dev/null']
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith('PSD_') and
                       not name.endswith('_NUM_THREADS') and
                       name not in ('NO_COLOR', 'TMUX')}
        environment.update(XDG_RUNTIME_DIR=self.folder, TMPDIR=self.folder,
                           LC_ALL='C.UTF-8')
        inside = ' '.join('%s=%s' % pair for pair in
                          dict(variables, TERM=term).items())
        script = 'trap : INT; cd %s; export %s; %s; echo "ended $?"; exec sleep 600' % (
            self.folder, inside, command)
        done = subprocess.run(
            self.tmux + ['new-session', '-d', '-x', str(columns), '-y',
                         str(rows), 'exec sh -c ' + shlex.quote(script)],
            env=environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            shutil.rmtree(self.folder)
            raise Skip('tmux does not start: ' + done.stdout.strip())
        OPEN.append(self)

    def call(self, *words):
        return subprocess.run(self.tmux + list(words), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True).stdout

    def rows(self, *words):
        """What is on the screen now, without empty rows at its end."""
        text = self.call('capture-pane', '-p', *words).split('\n')
        while text and not text[-1].strip():
            text.pop()
        return [row.rstrip() for row in text]

    def history(self):
        return self.rows('-S', '-', '-J')

    def wait(self, expression, limit=LIMIT):
        """Until a row matches; returns all of them."""
        deadline = time.time() + limit
        while True:
            rows = self.rows()
            if any(re.search(expression, row) for row in rows):
                return rows
            if time.time() > deadline:
                raise Failure('%r is not in:\n%s' %
                              (expression, '\n'.join(rows)))
            time.sleep(0.05)

    def resize(self, columns, rows):
        self.call('resize-window', '-x', str(columns), '-y', str(rows))
        time.sleep(0.3)

    def keys(self, *words):
        self.call('send-keys', *words)

    def end(self):
        self.call('kill-server')
        shutil.rmtree(self.folder, ignore_errors=True)


def run(*words):
    return ' '.join(shlex.quote(word) for word in (PSD_RUN,) + words)


def script(text):
    return ['--', 'sh', '-c', text]


def block_of(rows):
    """The rows of the block: from the step, or from the waiting, on."""
    for number, row in enumerate(rows):
        if re.match(r'step \d+(/| of |$|   )|waiting for|\d+ of \d+ work', row):
            return rows[number:]
    raise Failure('no block in:\n' + '\n'.join(rows))


def once(rows, text):
    """How many rows of the screen have it."""
    return sum(text in row for row in rows)


def settle(screen, function):
    """The screen is in order soon, and stays so."""
    deadline = time.time() + LIMIT / 4
    while True:
        rows = screen.rows()
        try:
            function(rows)
            break
        except Failure:
            if time.time() > deadline:
                raise
            time.sleep(0.2)
    time.sleep(0.25)
    function(screen.rows())


def check_block(rows, workers=3):
    """One block, with all its parts, and nothing of another one."""
    block = block_of(rows)
    text = '\n'.join(block)
    for part in ('samples/s', 'compute', 'exposed comm', 'w0', 'loss'):
        check(once(rows, part) == 1, '%r once, not:\n%s' % (part, text))
    check(once(rows, 'w%d' % (workers - 1)) == 1, text)
    return block


def watch(columns, expected):
    """A training at this width, and what its block has."""
    screen = Terminal(run('-n', '3', '--steps', '1000000', '--', WORKER,
                          'loop'), columns=columns)
    screen.wait(r'ETA')
    time.sleep(1.0)
    rows = screen.rows()
    block = check_block(rows)
    text = '\n'.join(block)
    for part in expected:
        check(re.search(part, text, re.M), '%r in:\n%s' % (part, text))
    check(all(len(row) < columns for row in block), text)
    screen.keys('C-c')
    rows = screen.wait(r'^ended 130')
    check(once(rows, 'samples/s') == 0, 'the block has gone, not:\n' +
          '\n'.join(rows))
    check(once(rows, 'w0 ok') == 0, '\n'.join(rows))
    screen.wait(r'^psd_run: SIGINT')


@test
def the_block_at_80_columns():
    watch(80, [r'^step \d+ of 1000000   loss \S+   \d+ samples/s   ETA',
               r'^step \S+ .s = compute \S+ .s \+ exposed comm\. \S+ .s   mem',
               r'^w0 ok   w1 ok   w2 ok$'])


@test
def the_block_at_40_columns():
    watch(40, [r'^step \d+/1000000', r'^step time \S+ .s   compute',
               r'exposed comm\. \S+ .s', r'^w0 ok   w1 ok   w2 ok$'])


@test
def the_block_at_200_columns():
    watch(200, [r'^step \d+ of 1000000   loss \S+   \d+ samples/s   ETA',
                r'^step time .* exposed communication \S+ .s \(\d+ %\)   '
                r'through shared memory',
                r'^w0 ok   w1 ok   w2 ok$'])


@test
def a_resize_leaves_nothing_behind():
    screen = Terminal(run('-n', '3', '--steps', '1000000', '--', WORKER,
                          'loop'), columns=200)
    screen.wait(r'ETA')
    for columns, rows in ((40, 24), (80, 24), (200, 30), (60, 12), (40, 10),
                          (100, 24)):
        screen.resize(columns, rows)
        settle(screen, check_block)
    for columns, rows in ((80, 3), (40, 2), (20, 2)):  # too small for it
        screen.resize(columns, rows)
        settle(screen, lambda seen: check(once(seen, 'step') >= 1,
                                          '\n'.join(seen)))
    screen.resize(80, 24)
    settle(screen, check_block)


@test
def network_rates_are_shown():
    screen = Terminal(run('-n', '2', '--transport', 'tcp', '--', WORKER,
                          'loop'))
    screen.wait(r'in [1-9][\d.]* .B/s out [1-9][\d.]* .B/s')


@test
def a_worker_that_has_not_joined_is_a_dot():
    screen = Terminal(run('-n', '3', *script(
        'test $PSD_RANK = 2 && sleep 5; exec %s loop' % WORKER)))
    rows = screen.wait(r'2 of 3 have joined')
    check(rows[-1] == 'w0 ok   w1 ok   w2 .', '\n'.join(rows))
    screen.wait(r'^w0 ok   w1 ok   w2 ok')


@test
def a_slow_worker_is_marked():
    screen = Terminal(run('-n', '3', '--', WORKER, 'slow'))
    screen.wait(r'^w0 ok   w1 SLOW [23]\.\dx   w2 ok$')
    text = screen.call('capture-pane', '-p', '-e')
    check(re.search(r'\033\[[^m]*33m\S*w1 SLOW|\033\[33mw1 SLOW', text),
          repr(text))


@test
def no_color_has_no_colours():
    screen = Terminal(run('-n', '2', '--', WORKER, 'loop'), NO_COLOR='0')
    screen.wait(r'samples/s')
    text = screen.call('capture-pane', '-p', '-e')
    check('\033' not in text, repr(text))


@test
def a_dumb_terminal_has_plain_lines_and_no_block():
    screen = Terminal(run('-n', '2', '--', WORKER, 'loop'), term='dumb',
                      columns=200)
    screen.call('pipe-pane', 'cat >%s/seen' % screen.folder)
    rows = screen.wait(r'^psd_run: step \d+, loss .* samples/s, .* a step')
    check(once(rows, 'w0 ok') == 0, '\n'.join(rows))
    with open(os.path.join(screen.folder, 'seen'), 'rb') as file:
        text = file.read()
    check(b'psd_run: step' in text and b'\033' not in text, repr(text))


@test
def a_pipe_has_plain_lines_and_no_block():
    screen = Terminal(run('-n', '2', '--', WORKER, 'loop') + ' 2>&1 | cat -v',
                      columns=200)
    rows = screen.wait(r'^psd_run: step \d+, loss .* samples/s, .* a step')
    check(once(rows, 'w0 ok') + once(rows, '^[') == 0, '\n'.join(rows))


@test
def quiet_says_only_the_end():
    screen = Terminal(run('-q', '-n', '2', '--', WORKER, 'long'))
    deadline = time.time() + LIMIT
    while not any(row.startswith('ended') for row in screen.rows()):
        rows = screen.rows()
        check(time.time() < deadline, 'it does not end')
        check(once(rows, 'samples/s') == once(rows, 'done'), '\n'.join(rows))
        time.sleep(0.1)
    rows = screen.history()
    check(once(rows, 'psd_run:') == 1, '\n'.join(rows))
    check(once(rows, 'trained') == 1, '\n'.join(rows))
    check(re.match(r'psd_run: 2 workers done', rows[2]), '\n'.join(rows))


@test
def verbose_says_who_runs_where():
    screen = Terminal(run('-v', '-n', '2', '--', WORKER, 'train'))
    screen.wait(r'^ended 0')
    rows = screen.history()
    for text in ('worker 0 is pid', 'worker 1 is pid',
                 'ended with exit code 0'):
        check(once(rows, text) >= 1, '%r in:\n%s' % (text, '\n'.join(rows)))


@test
def tee_none_shows_nobody():
    screen = Terminal(run('--tee', 'none', '-n', '2',
                          *script('echo out; echo err >&2')))
    screen.wait(r'^ended 0')
    rows = screen.history()
    check(once(rows, 'out') + once(rows, 'err') == 0, '\n'.join(rows))


@test
def a_bar_of_worker_0_stays_one_line_above_the_block():
    # It ends its bar before it prints, as without psd_run it has to.
    screen = Terminal(run('-n', '2', *script(
        BAR % {'turns': 40, 'between': "printf '\\n' >&2 &&"})))
    screen.wait(r'^waiting for the workers')
    for columns in (80, 40, 80):
        screen.resize(columns, 24)
        rows = screen.wait(r'bar \d*[1-9]/40 of 0')
        number = next(i for i, row in enumerate(rows)
                      if re.match(r'waiting for|0 of 2 workers', row))
        check(re.match(r' bar \d+/40 of 0$|line \d+ of 0$', rows[number - 1]),
              '\n'.join(rows))
        check(sum(bool(re.search(r'bar \d*[1-9]/40', row)) for row in rows)
              == 1, '\n'.join(rows))
    screen.wait(r'^ended 0')
    rows = screen.history()
    for turn in (10, 20, 30, 40):
        check(once(rows, 'line %d of 0' % turn) == 1, '\n'.join(rows))
    check(once(rows, ' bar ') == 4, '\n'.join(rows))
    check(once(rows, 'last of 0') == 1, '\n'.join(rows))
    check(once(rows, 'waiting for') == 0, '\n'.join(rows))


@test
def nested_bars_of_worker_0_keep_their_rows():
    screen = Terminal(run('-n', '2', *script(NESTED)))
    rows = screen.wait(r'inner \d/8')
    check(once(rows, 'outer') == 1, '\n'.join(rows))
    check(once(rows, 'inner') == 1, '\n'.join(rows))
    screen.wait(r'^ended 0')
    rows = screen.history()
    check(once(rows, 'outer 3/3') == 1, '\n'.join(rows))
    check(once(rows, 'outer') == 1, '\n'.join(rows))
    check(once(rows, 'inner 8/8') == 1, '\n'.join(rows))
    check(once(rows, 'inner') == 1, '\n'.join(rows))


@test
def bars_of_all_workers_do_not_stack_up():
    screen = Terminal(run('--tee', 'all', '-n', '3',
                          *script(BAR % {'turns': 25, 'between': ''})))
    rows = screen.wait(r'^\[w2\]  bar \d+/25 of 2')
    for rank in range(3):
        check(once(rows, ' of %d' % rank) <= 3, '\n'.join(rows))
        check(once(rows, '[w%d]  bar ' % rank) <= 1, '\n'.join(rows))
    screen.wait(r'^ended 0')
    rows = screen.history()
    for rank in range(3):
        check(once(rows, '[w%d] line 10 of %d' % (rank, rank)) == 1 and
              once(rows, '[w%d] line 20 of %d' % (rank, rank)) == 1 and
              once(rows, '[w%d]  bar 25/25 of %d' % (rank, rank)) == 1 and
              once(rows, ' bar ') == 3 and
              once(rows, '[w%d] last of %d' % (rank, rank)) == 1,
              '\n'.join(rows))


@test
def nested_bars_of_all_workers_do_not_stack_up():
    screen = Terminal(run('--tee', 'all', '-n', '2', *script(NESTED)))
    rows = screen.wait(r'^\[w1\]   inner \d/8')
    check(once(rows, 'inner') <= 2, '\n'.join(rows))
    screen.wait(r'^ended 0')
    rows = screen.history()
    # A machine that stands still for long may print a bar once more.
    check(2 <= once(rows, 'outer') <= 4, '\n'.join(rows))
    check(2 <= once(rows, 'inner 8/8') <= 4, '\n'.join(rows))


@test
def much_output_is_whole_and_in_order():
    screen = Terminal(run('-n', '2', *script(
        'i=0; while [ $i -lt 3000 ]; do i=$((i+1)); echo "row $i end"; '
        '[ $((i % 100)) = 0 ] && sleep 0.05; done')))
    screen.call('set-option', '-g', 'history-limit', '5000')
    screen.wait(r'^ended 0')
    rows = [row for row in screen.history() if row.startswith('row ')]
    last = 3000 - len(rows)
    check(len(rows) > 1000, 'only %d rows' % len(rows))
    for number, row in enumerate(rows):
        check(row == 'row %d end' % (last + number + 1), row)


@test
def many_workers_take_a_third_of_the_screen():
    screen = Terminal(run('-n', '24', *script('sleep 4')), columns=40,
                      rows=12)
    rows = screen.wait(r'0 of 24 workers in')
    block = block_of(rows)
    check(len(block) <= 1 + 4, '\n'.join(rows))
    check(re.search(r'\+\d+, \d+ not in yet$', block[-1]), '\n'.join(rows))


@test
def a_full_line_goes_on_where_it_ended():
    """Dots over the edge of the screen, with the block drawn in between."""
    screen = Terminal(run('-n', '1', *script(
        'sleep 1.5; i=0; while [ $i -lt 70 ]; do i=$((i+1)); printf .; '
        'sleep 0.04; done; printf "|"; sleep 0.5; printf "\\n"')), columns=40)
    screen.wait(r'^ended 0')
    rows = screen.history()
    check('.' * 70 + '|' in rows, '\n'.join(rows))


@test
def the_shell_has_the_terminal_back():
    screen = Terminal(run('-n', '2', '--', WORKER, 'loop'))
    screen.wait(r'samples/s')
    shell = screen.call('list-panes', '-F', '#{pane_pid}').strip()
    with open('/proc/%s/task/%s/children' % (shell, shell)) as file:
        found = file.read().split()
    check(len(found) == 1, 'one psd_run, not %r' % found)
    os.kill(int(found[0]), signal.SIGTERM)
    rows = screen.wait(r'^ended 143')
    check(once(rows, 'w0 ok') == 0, '\n'.join(rows))
    check(rows[-1] == 'ended 143', '\n'.join(rows))


def main():
    chosen = [function for function in TESTS if pattern in function.__name__]
    failed = 0
    print('1..%d' % len(chosen), flush=True)
    for number, function in enumerate(chosen, 1):
        name = function.__name__.replace('_', ' ')
        began = time.time()
        try:
            function()
            print('ok %d - %s # %.1f s' % (number, name, time.time() - began),
                  flush=True)
        except Skip as reason:
            print('ok %d - %s # SKIP %s' % (number, name, reason), flush=True)
        except Exception as error:  # any failure is one of this test
            failed += 1
            print('not ok %d - %s' % (number, name), flush=True)
            for line in ('%s: %s' % (type(error).__name__, error)).split('\n'):
                print('# ' + line, flush=True)
        for screen in OPEN:
            screen.end()
        OPEN.clear()
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
