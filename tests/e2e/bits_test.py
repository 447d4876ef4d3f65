#!/usr/bin/env python3
"""End-to-end tests of what is exchanged: the same bits on every way, the
threads and blocks that workers ask for, traces.

    bits_test.py BUILD_DIR [PATTERN]

Prints TAP; common.py says how a job is run and what must be gone after each
test.
"""
import json
import os
import subprocess
import sys
import time

from common import (EXCHANGE, LIMIT, PASSES, Skip, WORKER, check, contains,
                    main, run, start, test)

WAYS = ([], ['--transport', 'tcp'], ['-s', '1'],
        ['-s', '2', '--threads', '2', '--transport', 'tcp'],
        ['--block-size', '4K'],
        ['--transport', 'tcp', '--checksum', '--digest', 'step'])


@test
def every_call_gives_the_right_bits_on_every_way():
    for workers in ('2', '3'):
        for way in WAYS:
            job = run('-n', workers, *way, '--', EXCHANGE)
            check(job.code == 0, '%s %r: %d %s' % (workers, way, job.code,
                                                   job.err))
            check(job.out == 'exchange: all answers right\n', job.out)
            job.clean()


# Every worker asks for other figures; the last one for the most.
ASK = ('PSD_THREADS=$((PSD_RANK + 1)) PSD_BLOCK_SIZE=$((4096 * PSD_RANK + '
       '8192)) exec ')
ASKED = 'I/O threads %d, blocks of 16384 bytes'


@test
def servers_have_the_threads_that_the_workers_ask_for():
    for transport, way, threads in (
            ('tcp', [], 3), ('tcp', ['--threads', '4'], 4),
            ('shm', [], 3), ('shm', ['--threads', '2'], 2)):
        job = run('-n', '3', '-s', '2', '--transport', transport, *way,
                  ASK + EXCHANGE)
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        check(job.out == 'exchange: all answers right\n', job.out)
        for server in range(2):
            contains(job.log('server_%d.log' % server), ASKED % threads)
        job.clean()


@test
def threads_stay_within_the_ports_and_the_shards_of_a_job():
    tcp = ['--transport', 'tcp', '--ports', '7000-7004']
    for args, least, most in (
            (['-s', '2'], 1, 64), (['-s', '2', '--ports', '7000'], 1, 64),
            (['-s', '2', *tcp], 1, 2), (['-s', '6', *tcp], 1, 1),
            (['-s', '100'], 1, 10), (['-s', '1024'], 1, 1),
            (['-s', '2', '--threads', '3', *tcp], 3, 3)):
        job = run('--dry-run', *args, 'true')
        contains(job.out, '--threads %d --threads-max %d ' % (least, most))


@test
def the_workers_agree_on_a_block_size_without_servers_too():
    for way in ([], ['--transport', 'tcp']):
        job = run('-n', '3', *way, '--digest', 'step', ASK + EXCHANGE)
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        check(job.out == 'exchange: all answers right\n', job.out)


@test
def threads_of_servers_are_threads_of_the_system():
    for way in ([], ['--transport', 'tcp']):
        count = []
        for ask in ('', ASK):
            job = start('-n', '2', '-s', '1', *way,
                        ask + WORKER + ' loop').ready(2)
            server = job.started('server 0')
            count.append(len(os.listdir('/proc/%d/task' % server)))
            job.process.terminate()
            job.wait().clean()
        check(count[0] >= 3 and count[1] == count[0] + 1, repr(count))


def nested(spans):
    """Spans of one row lie inside or beside each other."""
    open_ = []
    for begin, end in sorted(spans, key=lambda span: (span[0], -span[1])):
        while open_ and open_[-1] <= begin + 1:
            open_.pop()
        if open_ and end > open_[-1] + 1:  # microseconds; doubles round
            return False
        open_.append(end)
    return True


@test
def a_trace_shows_exchanges_waits_and_marks():
    for way in ([], ['--transport', 'tcp'], ['-s', '1']):
        job = run('-n', '2', '--trace', *way, '--', EXCHANGE)
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        marks = []
        for rank in range(2):
            path = os.path.join(job.logs(), 'trace.w%d.json' % rank)
            subprocess.run([sys.executable, '-m', 'json.tool', path],
                           stdout=subprocess.DEVNULL, check=True)
            with open(path) as file:
                events = json.load(file)['traceEvents']
            spans = [e for e in events if e['ph'] == 'X']
            check({e['pid'] for e in events} == {rank}, 'pids')
            rows = {}
            for span in spans:
                rows.setdefault(span['tid'], []).append(
                    (span['ts'], span['ts'] + span['dur']))
            check(all(nested(row) for row in rows.values()),
                  '%r: worker %d: spans overlap' % (way, rank))
            count = {}
            for span in spans:
                key = (span['cat'], span['name'])
                count[key] = count.get(key, 0) + 1
            for name in ('layer0', 'mayer5'):
                check(count[('exchange', name)] == 12, repr(count))
                check(count[('push', 'push ' + name)] == 12, repr(count))
                check(count[('wait', 'wait ' + name)] == 12, repr(count))
            check(count[('mark', 'backward')] == 24, repr(count))
            marks.append([s['ts'] for s in spans if s['name'] == 'step'])
            check(abs(marks[rank][0] / 1e6 - time.time()) < LIMIT, 'the clock')
        job.clean()
    job = run('-n', '1', '--', 'sh', '-c', 'test "$PSD_TRACE" != 1 && '
              'test -e "$PSD_LOG_DIR/worker_0.out"')
    check(job.code == 0, job.err)


@test
def every_pass_gives_the_right_bits_on_every_way():
    check(subprocess.run([PASSES], stdout=subprocess.DEVNULL, timeout=LIMIT,
                         check=False).returncode == 0, 'alone')
    for workers, way in (('1', []), ('1', ['--nan', 'skip']),
                         ('2', []), ('4', []),
                         ('2', ['--transport', 'tcp']),
                         ('4', ['--transport', 'tcp', '--digest', 'step']),
                         ('2', ['-s', '1']), ('3', ['--block-size', '4K'])):
        job = run('-n', workers, *way, '--', PASSES)
        check(job.code == 0, '%s %r: %d %s' % (workers, way, job.code,
                                               job.err))
        check(job.out == 'passes: all answers right\n', job.out)
        job.clean()


@test
def passes_of_different_models_are_told_and_65():
    for case, text in (
            ('differ', 'worker 2 has "extra" float32 x 4'),
            ('differ-late', 'worker 2 has "extra" float32 x 4'),
            ('differ-start', 'layer1'),
            ('mixed', 'the gradient of table is sparse on some workers')):
        for way in ([], ['--transport', 'tcp']):
            job = run('-n', '3', *way, '--', PASSES, case)
            check(job.code == 65, '%s %r: %d %s' % (case, way, job.code,
                                                    job.err))
            contains(job.err, text)
            job.clean()


@test
def a_worker_takes_no_more_memory_than_its_gradients_again():
    for way in ([], ['--transport', 'tcp'], ['-s', '1']):
        job = run('-n', '2', *way, '--', EXCHANGE, 'memory')
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        if 'shadowed' in job.out:
            raise Skip('the shadow memory of a sanitizer would count too')
        job.clean()


if __name__ == '__main__':
    sys.exit(main())
