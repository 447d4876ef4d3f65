#!/usr/bin/env python3
"""End-to-end tests of stalls, of report.json and of what an end means.

    stall_test.py BUILD_DIR [PATTERN]

Prints TAP; run.py, which this imports, says how a job is run and what must be
gone after each test.
"""
import json
import os
import re
import shutil
import signal
import sys
import time
import uuid

import run as e2e
from common import GONE
from run import PSD_RUN, WORKER, Failure, Skip, check, contains

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir))

e2e.TESTS.clear()
test = e2e.test
STALLER = os.path.join(e2e.build, 'tests', 'e2e', 'e2e_stall_worker')
WAYS = ([], ['-s', '1'], ['--transport', 'tcp'])
SOON = ['--stall-after', '1']


def run_log(job):
    try:
        with open(os.path.join(job.folder, 'poseidon_run.log'),
                  errors='replace') as file:
            return file.read()
    except FileNotFoundError:
        return ''


def await_log(job, text):
    """psd_run's own log has `text`; returns the log."""
    deadline = time.time() + e2e.LIMIT
    while time.time() < deadline:
        log = run_log(job)
        if re.search(text, log):
            return log
        if job.process.poll() is not None:
            if re.search(text, run_log(job)):
                return run_log(job)
            job.wait()
            raise Failure('psd_run ended without %r: %s' % (text, job.err))
        time.sleep(0.05)
    raise Failure('%r is not in:\n%s' % (text, run_log(job)))


def report(job):
    """report.json, and nothing half-written beside it."""
    names = [x for x in os.listdir(job.logs()) if x.startswith('report')]
    check(names == ['report.json'], repr(names))
    with open(os.path.join(job.logs(), 'report.json'),
              encoding='utf-8') as file:
        found = json.load(file)
    check(found['exit_code'] == job.code, repr(found['exit_code']))
    check(found['format'] == 1 and found['versions']['poseidon'], 'versions')
    check(len(found['processes']) == found['workers'] + found['servers'],
          'every process')
    check(found['started'] <= found['ended'] and found['seconds'] >= 0,
          'times')
    check(found['resume'].startswith(PSD_RUN), found['resume'])
    return found


def one_stall(job):
    found = report(job)['stalls']
    check(len(found) == 1, 'one stall, not %r' % found)
    return found[0]


# ---- stopped and hanging ---------------------------------------------------

@test
def a_stopped_worker_is_named_and_goes_on():
    for way in WAYS:
        job = e2e.start('-n', '3', *way, *SOON, '--', WORKER,
                        'long').ready()
        pid = job.started('worker 1')
        os.kill(pid, signal.SIGSTOP)
        await_log(job, 'is stalled')
        os.kill(pid, signal.SIGCONT)
        job.wait()
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        check(job.err.count('is stalled') == 1, job.err)
        contains(job.err, 'worker 1 (pid %d) is stalled: ' % pid,
                 'tensor "fc.weight" at step ', 'it is stopped (state T',
                 '`kill -CONT %d`' % pid,
                 'worker 1 (pid %d) moves again after ' % pid)
        stall = one_stall(job)
        check(stall['over'] and stall['tensor'] == 'fc.weight', repr(stall))
        check(stall['processes'][0]['state'] == 'T', repr(stall))
        job.clean()


@test
def a_worker_that_sleeps_is_named():
    for way, job in [(way, e2e.start('-n', '3', *way, *SOON, '--', STALLER,
                                     'push', '5')) for way in WAYS]:
        job.wait()
        check(job.code == 0, '%r: %d %s' % (way, job.code, job.err))
        contains(job.err, 'worker 1 (pid ', ') is stalled: 2 workers have '
                 'waited ', ' s for tensor "fc.weight" at step 10, which it '
                 'has not pushed', 'it sleeps (state S', 'moves again after ')
        check('worker 0 (pid' not in job.err, job.err)
        job.clean()


@test
def every_place_where_others_wait_is_named():
    for mode, text in (('open', 'in psd_open, where it has not arrived'),
                       ('register',
                        'in psd_register, where it has not arrived'),
                       ('barrier', 'in psd_barrier, where it has not '
                        'arrived'),
                       ('join', 'in psd_join, where it has not arrived')):
        for job in [e2e.start('-n', '3', *way, *SOON, '--', STALLER, mode,
                              '5') for way in WAYS]:
            job.wait()
            check(job.code == 0, '%s: %d %s' % (mode, job.code, job.err))
            contains(job.err, 'worker 1 (pid ', ') is stalled: 2 workers '
                     'have waited ', text, 'moves again after ')
            check(job.err.count('stalled') == 1, job.err)
            job.clean()


@test
def one_that_has_pushed_and_does_not_wait_is_named_if_it_matters():
    job = e2e.run('-n', '2', *SOON, '--', STALLER, 'idle', '5')
    check(job.code == 0, '%d %s' % (job.code, job.err))
    if 'stalled' in job.err:  # else the others could do its work
        contains(job.err, 'worker 1 (pid ', 'tensor "big" at step 0, which it '
                 'has pushed but does not wait for')


@test
def two_that_wait_for_each_other_are_found():
    job = e2e.start('-n', '2', *SOON, '--on-stall', 'stop', '--', STALLER,
                    'cross').wait()
    check(job.code == 75, '%d %s' % (job.code, job.err))
    contains(job.err, 'stalled', 'but it waits elsewhere')


@test
def computing_together_for_long_is_no_stall():
    job = e2e.run('-n', '2', *SOON, '--', STALLER, 'all', '3')
    check(job.code == 0, '%d %s' % (job.code, job.err))
    check('stalled' not in job.err, job.err)
    job = e2e.run('-n', '2', *SOON, 'sleep 4')
    check(job.code == 0 and 'stalled' not in job.err, job.err)


@test
def a_job_of_one_that_is_stopped_is_named_too():
    job = e2e.start('-n', '1', *SOON, '--', WORKER, 'loop').ready()
    pid = job.started('worker 0')
    os.kill(pid, signal.SIGSTOP)
    await_log(job, 'is stalled: nothing was heard of it')
    os.kill(pid, signal.SIGCONT)
    await_log(job, 'moves again')
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, job.err)


@test
def a_stopped_server_is_named():
    job = e2e.start('-n', '2', '-s', '2', *SOON, '--', WORKER, 'loop').ready()
    pid = job.started('server 1')
    os.kill(pid, signal.SIGSTOP)
    await_log(job, r'server 1 \(pid %d\) is stalled' % pid)
    os.kill(pid, signal.SIGCONT)
    await_log(job, 'moves again')
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, job.err)


@test
def psd_run_may_be_stopped_itself_without_blaming_anybody():
    job = e2e.start('-n', '2', *SOON, '--', WORKER, 'loop').ready()
    both = [job.process.pid, job.role('master')]
    for pids in (both, both[:1]):
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        time.sleep(5)
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
        time.sleep(3)
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, job.err)
    check('stalled' not in job.err, job.err)


@test
def on_stall_stop_ends_the_job_with_75_and_the_stalled_one_as_culprit():
    for way in WAYS:
        job = e2e.start('-n', '3', *way, *SOON, '--on-stall', 'stop', '--',
                        WORKER, 'loop').ready()
        pid = job.started('worker 1')
        os.kill(pid, signal.SIGSTOP)
        job.wait()
        check(job.code == 75, '%r: %d %s' % (way, job.code, job.err))
        contains(job.err, 'the job failed (exit code 75)',
                 'reason: worker 1 (pid %d) is stalled' % pid)
        contains(job.log('worker_0.err'), 'PSD_ELOST', 'is stalled')
        found = report(job)
        check(found['result'] == 'stalled', found['result'])
        check(found['culprit']['rank'] == 1 and found['culprit']['stalled'] and
              found['culprit']['pid'] == pid, repr(found['culprit']))
        job.clean()


# ---- stacks ----------------------------------------------------------------

PYTHON = '''
import faulthandler, os, time
%s

def load_the_data():
    time.sleep(6)

load_the_data()
os.execv(%r, [%r, 'train'])
'''
REGISTER = 'faulthandler.register(int(os.environ["PSD_STACK_SIGNAL"]))'


def python_job(first, *args):
    """Rank 1 is a Python program that does not come to psd_open."""
    folder = e2e.tempfile.mkdtemp(prefix='psd-e2e-')
    path = os.path.join(folder, 'slow_start.py')
    with open(path, 'w') as file:
        file.write(PYTHON % (first, WORKER, WORKER))
    job = e2e.run('-n', '2', *SOON, *args,
                  'if [ $PSD_RANK = 1 ]; then %s %s; exit $?; else '
                  'exec %s train; fi' % (sys.executable, path, WORKER))
    shutil.rmtree(folder)
    return job


@test
def the_stack_of_a_python_worker_is_shown():
    job = python_job(REGISTER)
    check(job.code == 0, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1 (pid ', 'in psd_open', 'its stack:',
             'slow_start.py", line 6 in load_the_data', '<module>')
    stall = one_stall(job)
    one = stall['processes'][0]
    check(any('load_the_data' in line for line in one['stack']), repr(one))
    check(one['looked_at'] != one['pid'], 'below the shell: %r' % one)
    contains(job.log('worker_1.err'), 'load_the_data')


@test
def a_program_without_a_handler_is_left_alone():
    job = python_job('')
    check(job.code == 0, '%d %s' % (job.code, job.err))
    contains(job.err, 'it sleeps (state S', 'faulthandler.register')
    check('its stack:' not in job.err, job.err)
    check(one_stall(job)['processes'][0]['stack'] is None, 'a stack')


# ---- reports ---------------------------------------------------------------

@test
def a_good_job_has_a_report():
    job = e2e.run('-n', '2', '-s', '1', '--name', 'my job', '--', WORKER,
                  'train')
    check(job.code == 0, job.err)
    found = report(job)
    check(found['result'] == 'done' and found['name'] == 'my job', 'name')
    check(found['culprit'] is None and found['reason'] is None, 'no culprit')
    check([(x['role'], x['rank'], x['end'], x['code'], x['joined'])
           for x in found['processes']] ==
          [('worker', 0, 'done', 0, True), ('worker', 1, 'done', 0, True),
           ('server', 0, 'stopped', None, True)], repr(found['processes']))
    check(all(x['pid'] > 0 and x['host'] for x in found['processes']), 'pids')
    check(found['figures']['step'] == 49, repr(found['figures']))
    check(found['command'] == [WORKER, 'train'], repr(found['command']))
    check(found['hosts'][0]['local'] is True, repr(found['hosts']))
    contains(found['resume'], "--name 'my job'")
    check(not [x for x in os.listdir(job.folder) if 'report' in x], 'files')


@test
def a_failed_job_has_a_report_with_what_it_means():
    job = e2e.run('-n', '2', '--', WORKER, 'crash')
    check(job.code == 139, '%d %s' % (job.code, job.err))
    contains(job.err, '(SIGSEGV): invalid memory access', '| about to crash',
             'to resume: %s -n 2 -- %s crash' % (PSD_RUN, WORKER))
    found = report(job)
    culprit = found['culprit']
    check((culprit['role'], culprit['rank'], culprit['signal'],
           culprit['signal_name'], culprit['meaning']) ==
          ('worker', 1, 11, 'SIGSEGV', 'invalid memory access'),
          repr(culprit))
    check(culprit['tail'] == ['about to crash'], repr(culprit))
    check(culprit['tail_of'] == 'stderr', repr(culprit))
    check(found['processes'][0]['victim'], repr(found['processes'][0]))
    check(found['result'] == 'failed' and 'SIGSEGV' in found['reason'],
          repr(found['reason']))


@test
def bytes_that_are_no_text_do_not_spoil_the_report():
    job = e2e.run('-n', '1', "printf 'caf\\303\\251 \\377\\376 \\0x\\n\\033[1m"
                  "'; exit 4")
    check(job.code == 4, '%d %s' % (job.code, job.err))
    contains(job.err, 'its last lines (stdout):')
    culprit = report(job)['culprit']
    check(culprit['tail_of'] == 'stdout', repr(culprit))
    check(culprit['tail'][0] == 'caf\u00e9 \ufffd\ufffd ?x', repr(culprit))


@test
def a_python_exception_is_the_meaning():
    job = e2e.run('-n', '1', '--', sys.executable, '-c',
                  'def f():\n  raise RuntimeError("no such data")\nf()')
    check(job.code == 1, '%d %s' % (job.code, job.err))
    contains(job.err, 'ended with exit code 1: Python exception RuntimeError: '
             'no such data')


@test
def an_interrupted_job_has_a_report():
    job = e2e.start('-n', '2', '--', WORKER, 'loop').ready()
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, job.err)
    found = report(job)
    check(found['result'] == 'interrupted' and found['interrupted_by'] == 2,
          repr(found))
    check(found['culprit'] is None, repr(found['culprit']))


@test
def a_failure_before_ctrl_c_keeps_its_code():
    job = e2e.start('-n', '2', '--grace', '1000', 'test $PSD_RANK = 1 && exit 7;'
                    ' trap "" TERM; sleep 1000')
    await_log(job, 'error: run: worker 1 .* ended with exit code 7')
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    job.process.send_signal(signal.SIGINT)
    job.wait()
    check(job.code == 7, '%d %s' % (job.code, job.err))
    check(report(job)['result'] == 'failed', 'result')


@test
def a_failure_counts_though_ctrl_c_comes_before_the_verdict():
    job = e2e.start('-n', '2', '--grace', '1000',
                    'while [ ! -e go ]; do sleep 0.05; done;'
                    ' test $PSD_RANK = 1 && exit 7; trap "" TERM; sleep 1000')
    await_log(job, 'worker 1 is pid')
    master = job.role('master')
    os.kill(master, signal.SIGSTOP)
    open(os.path.join(job.folder, 'go'), 'w').close()
    await_log(job, 'worker 1 .* ended with exit code 7')
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    os.kill(master, signal.SIGCONT)
    await_log(job, 'error: run: worker 1 .* ended with exit code 7')
    job.process.send_signal(signal.SIGINT)
    job.wait()
    check(job.code == 7, '%d %s' % (job.code, job.err))
    check(report(job)['result'] == 'failed', 'result')


@test
def a_command_that_is_not_there_has_a_report_too():
    job = e2e.run('-n', '2', '--', 'no-such-program')
    check(job.code == 127, '%d %s' % (job.code, job.err))
    check('to resume' not in job.err, job.err)
    found = report(job)
    check([x['end'] for x in found['processes']] == ['not started'] * 2,
          repr(found['processes']))


# ---- memory ----------------------------------------------------------------

EATER = 'x = []\nwhile True:\n  x.append(bytearray(b"x" * (1 << 20)))'


class MemoryGroup:
    """A group of ours, below that of this process, with a limit."""

    def __init__(self, limit):
        self.path = None
        with open('/proc/self/cgroup') as file:
            text = file.read()
        for pattern, mount, name in (
                (r'^\d+:memory:(/.*)$', '/sys/fs/cgroup/memory',
                 'memory.limit_in_bytes'),
                (r'^0::(/.*)$', '/sys/fs/cgroup', 'memory.max')):
            found = re.search(pattern, text, re.M)
            if not found or self.path is not None:
                continue
            path = os.path.join(mount + found.group(1),
                                'psd-test-%d' % os.getpid())
            try:
                os.mkdir(path)
                self.path = path
                with open(os.path.join(path, name), 'w') as file:
                    file.write(str(limit))
            except OSError:
                self.remove()

    def remove(self):
        for _ in range(100):
            try:
                if self.path is not None:
                    os.rmdir(self.path)
                break
            except OSError:
                time.sleep(0.1)
        self.path = None

    def enter(self):
        with open(os.path.join(self.path, 'cgroup.procs'), 'w') as file:
            file.write('0')


@test
def a_kill_for_want_of_memory_is_recognised():
    group = MemoryGroup(256 << 20)
    if group.path is None:
        raise Skip('no control group of memory can be made here')
    try:
        job = e2e.run('-n', '2', '--grace', '0.1',
                      'test $PSD_RANK = 1 || exec sleep 100; exec %s -c \'%s\''
                      % (sys.executable, EATER), preexec=group.enter)
        check(job.code == 137, '%d %s' % (job.code, job.err))
        contains(job.err, 'worker 1 (pid ', ') was killed by the kernel: out '
                 'of memory (it had ')
        culprit = report(job)['culprit']
        check(culprit['out_of_memory'] and culprit['memory_bytes'] > 100 << 20,
              repr(culprit))
        job.clean()
    finally:
        group.remove()


# ---- a cluster -------------------------------------------------------------

def on_cluster(cluster, *args, env=None):
    """A job on two hosts, psd_run on the first."""
    folder = e2e.tempfile.mkdtemp(prefix='psd-e2e-')
    extra = dict(env or {})
    with open(os.path.join(folder, 'cluster.json'), 'w') as file:
        json.dump({'worker_nodes': cluster.nodes,
                   'server_nodes': cluster.nodes}, file)
    where = ['-c', os.path.join(folder, 'cluster.json')]
    words = cluster.words(cluster.nodes[0], [PSD_RUN, *where, *args],
                          folder)
    job = Command(words, env=cluster.environment(cluster.nodes[0], extra),
                  folder=folder)
    e2e.JOBS.append(job)
    return job


class Command(e2e.Job):
    """A job whose psd_run is started by another command."""

    def __init__(self, words, env, folder):
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self.tmp = os.path.join(folder, 't')
        os.mkdir(self.tmp)
        self.shm = set(os.listdir('/dev/shm'))
        self.process = e2e.subprocess.Popen(
            words, env={**env, 'PSD_E2E_MARK': self.mark},
            stdin=e2e.subprocess.DEVNULL, stdout=e2e.subprocess.PIPE,
            stderr=e2e.subprocess.PIPE, start_new_session=True)


@test
def on_a_cluster_the_host_is_named_and_looked_at():
    from cluster import Cluster
    why = Cluster.missing()
    if why is not None:
        raise Skip(why)
    with Cluster(2) as cluster:
        before = len(cluster.ps())
        job = on_cluster(cluster, *SOON, '--', WORKER, 'long')
        await_log(job, 'worker 1 is pid')
        job.ready()
        pid = job.started('worker 1')
        os.kill(pid, signal.SIGSTOP)
        await_log(job, 'is stalled')
        os.kill(pid, signal.SIGCONT)
        job.wait()
        check(job.code == 0, '%d %s' % (job.code, job.err))
        contains(job.err, 'worker 1 (pid %d on node1) is stalled' % pid,
                 'tensor "fc.weight"', '`kill -CONT %d` on node1' % pid,
                 'moves again')
        found = report(job)
        check([x['host'] for x in found['processes'][:2]] ==
              ['node0', 'node1'], repr(found['processes']))
        check([x['name'] for x in found['hosts']] == ['node0', 'node1'],
              repr(found['hosts']))
        job = on_cluster(cluster, *SOON, '--on-stall', 'stop', '--', STALLER,
                         'push').wait()
        check(job.code == 75, '%d %s' % (job.code, job.err))
        contains(job.err, ' on node1) is stalled', 'it sleeps')
        job = on_cluster(cluster, '--', WORKER, 'exit-five').wait()
        check(job.code == 5, '%d %s' % (job.code, job.err))
        contains(job.err, ' on node1) ended with exit code 5',
                 '| no more memory')
        check(report(job)['culprit']['host'] == 'node1', 'host')
        deadline = time.time() + GONE
        while len(cluster.ps()) > before and time.time() < deadline:
            time.sleep(0.1)
        check(len(cluster.ps()) == before, repr(cluster.ps()))


if __name__ == '__main__':
    sys.exit(e2e.main())
