#!/usr/bin/env python3
"""End-to-end tests of psd status, stop, logs, attach and psd_run --detach.

    desk_test.py BUILD_DIR [PATTERN]

Prints TAP; what it stands on is run.py's. Every job has a folder of its own
for sockets, so that jobs of others on this machine do not matter.
"""
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import struct
import subprocess
import sys
import tempfile
import threading
import time

import run as e2e
from run import (LIMIT, PSD, PSD_RUN, WORKER, Failure, Skip, check, contains,
                 frame, start, test)

e2e.TESTS.clear()  # those of run.py are run by run.py
ASK, STATUS, DONE = 48, 49, 51


def psd(job, *words, limit=LIMIT, **more):
    """One psd in the surroundings of a job."""
    done = subprocess.run([PSD, *words], env=job.environment,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=limit, check=False,
                          **more)
    done.out = done.stdout.decode(errors='replace')
    done.err = done.stderr.decode(errors='replace')
    return done


def popen(job, *words):
    return subprocess.Popen([PSD, *words], env=job.environment,
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE)


def status(job, name):
    """That job in `psd status --json`, None if it is not there."""
    done = psd(job, 'status', '--json')
    check(done.returncode == 0, done.err)
    found = [x for x in json.loads(done.out)['jobs'] if x['name'] == name]
    check(len(found) < 2, done.out)
    return found[0] if found else None


def until(call, what):
    deadline = time.time() + LIMIT
    while time.time() < deadline:
        value = call()
        if value:
            return value
        time.sleep(0.05)
    raise Failure('waited in vain for ' + what)


def begin(name, *words, **more):
    """A named job that trains."""
    return start('--name', name, *(words or ('-n', '2', '--', WORKER, 'loop')),
                 **more).ready()


def memory(pid):
    with open('/proc/%d/status' % pid) as file:
        return int(re.search(r'VmRSS:\s+(\d+)', file.read()).group(1)) << 10


def is_shadowed():
    with open(PSD, 'rb') as file:
        return b'__asan_init' in file.read()


# ---- status ---------------------------------------------------------------

@test
def status_shows_the_job_and_its_workers():
    job = begin('demo', '-n', '2', '-s', '1', '--', WORKER, 'loop')
    until(lambda: status(job, 'demo')['step'], 'a step')
    one = status(job, 'demo')
    check(one['pid'] == job.process.pid, one)
    check(one['state'] == 'running', one)
    check(one['command'] == WORKER + ' loop', one)
    check(one['logs'] == os.path.realpath(job.logs()), one)
    check((one['hosts'], one['workers'], one['servers']) == (1, 2, 1), one)
    check(one['samples_per_second'] is not None, one)
    check(re.fullmatch(r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ', one['started']),
          one)
    parts = [(x['role'], x['rank'], x['pid'], x['state'])
             for x in one['processes']]
    check(parts == [('worker', 0, job.started('worker 0'), 'training'),
                    ('worker', 1, job.started('worker 1'), 'training'),
                    ('server', 0, job.started('server 0'), 'training')], parts)
    text = psd(job, 'status').out
    contains(text, 'job demo: running, pid %d' % job.process.pid,
             '1 host, 2 workers, 1 server', 'step ', 'samples/s', 'worker    1',
             'command ' + WORKER + ' loop')
    check(psd(job, 'stop', 'demo').returncode == 0, 'stop')
    job.wait()


@test
def no_job_is_said_and_no_error():
    job = start('-n', '1', 'true').wait()
    done = psd(job, 'status')
    check(done.returncode == 0, done.err)
    if 'job ' in done.out.replace('no job', ''):
        raise Skip('another job of this user runs on this machine')
    contains(done.out, 'no job of yours is running')
    check(json.loads(psd(job, 'status', '--json').out) == {'jobs': []}, 'json')
    for words in (['stop'], ['attach'], ['logs', 'w0'], ['stop', 'x']):
        done = psd(job, *words)
        check(done.returncode == 69, '%r: %d' % (words, done.returncode))
        contains(done.err, 'no job of yours is running')


@test
def a_name_may_be_anything():
    name = 'a "b"..\\cé%2F$(x)'
    job = begin(name)
    one = status(job, name)
    check(one is not None, psd(job, 'status', '--json').out)
    check('\x07' not in psd(job, 'status').out, 'control characters')
    check(psd(job, 'stop', name).returncode == 0, 'stop')
    check(job.wait().code == 130, job.err)


@test
def a_launcher_that_is_stopped_is_named():
    job = begin('asleep')
    job.process.send_signal(signal.SIGSTOP)
    try:
        done = psd(job, 'status')
        check(done.returncode == 0, done.err)
        contains(done.out, 'job asleep: does not answer, pid %d' %
                 job.process.pid)
        check(status(job, 'asleep')['state'] == 'silent', 'json')
    finally:
        job.process.send_signal(signal.SIGCONT)
    check(psd(job, 'stop', 'asleep').returncode == 0, 'stop')
    job.wait()


@test
def help_and_wrong_usage():
    job = start('-n', '1', 'true').wait()
    for name in ('status', 'stop', 'logs', 'attach'):
        done = psd(job, name, '--help')
        check(done.returncode == 0, done.err)
        contains(done.out, 'usage: psd ' + name, '--help')
    for words, text in ((['logs'], 'missing'), (['logs', 'x'], 'no process'),
                        (['logs', 'w'], 'no process'),
                        (['logs', 'w1x'], 'no process'),
                        (['logs', '-n', 'x', 'w0'], '-n must be'),
                        (['logs', '-n', '-1', 'w0'], '-n must be'),
                        (['logs', 'w0', 'a', 'b'], 'what is b'),
                        (['status', 'x'], 'what is x'),
                        (['status', '--jsn'], 'did you mean --json'),
                        (['stop', 'a', 'b'], 'what is b')):
        done = psd(job, *words)
        check(done.returncode == 64, '%r: %d' % (words, done.returncode))
        contains(done.err, text)


# ---- stop -----------------------------------------------------------------

@test
def stop_is_ctrl_c_and_waits():
    job = begin('one')
    done = psd(job, 'stop', 'one')
    check(done.returncode == 0, done.err)
    check(job.process.poll() is not None, 'psd_run still runs')
    check(not job.pids(), 'processes are left')
    contains(done.err, 'job one has ended')
    check(job.wait().code == 130, '%d %s' % (job.code, job.err))
    contains(job.err, 'psd stop (pid ')


@test
def stop_gives_grace_and_now_does_not():
    job = begin('kind', '-n', '2', '--grace', '1', '--', WORKER, 'stubborn')
    began = time.time()
    check(psd(job, 'stop', 'kind').returncode == 0, 'stop')
    check(time.time() - began > 0.9, 'it had no grace')
    check(job.wait().code == 130, str(job.code))
    job = begin('hard', '-n', '2', '--grace', '1000', '--', WORKER, 'stubborn')
    first = popen(job, 'stop', 'hard')
    until(lambda: status(job, 'hard')['state'] == 'ending', 'its end')
    second = popen(job, 'stop', 'hard')  # no second Ctrl-C
    time.sleep(0.3)
    check(job.process.poll() is None, 'it ended before its grace was over')
    check(psd(job, 'stop', '--now', 'hard').returncode == 0, 'stop --now')
    for other in (first, second):
        other.communicate(timeout=LIMIT)
        check(other.returncode == 0, 'who waited too')
    check(job.wait().code == 130, str(job.code))


@test
def two_jobs_need_a_name():
    first = begin('red')
    shared = {'XDG_RUNTIME_DIR': first.tmp}
    second = begin('blue', env=shared)
    check(status(first, 'red') and status(first, 'blue'), 'both are seen')
    for words in (['stop'], ['attach'], ['logs', 'w0']):
        done = psd(first, *words)
        check(done.returncode == 64, '%r: %d' % (words, done.returncode))
        contains(done.err, 'which job?', 'red (pid %d)' % first.process.pid,
                 'blue (pid %d)' % second.process.pid)
    done = psd(first, 'stop', 'green')
    check(done.returncode == 69, str(done.returncode))
    contains(done.err, 'no job green', 'red', 'blue')
    third = e2e.run('--name', 'red', '-n', '1', 'true', env=shared)
    check(third.code == 69, '%d %s' % (third.code, third.err))
    contains(third.err, 'a job with the name red is running (pid %d)' %
             first.process.pid)
    check(not glob.glob(os.path.join(third.folder, 'poseidon*')), 'files')
    check(psd(first, 'stop', str(second.process.pid)).returncode == 0, 'stop')
    check(second.wait().code == 130, str(second.code))
    check(status(first, 'red')['state'] == 'running', 'the other goes on')
    check(psd(first, 'stop', 'red').returncode == 0, 'stop')
    first.wait()


@test
def jobs_of_the_same_second_have_names_of_their_own():
    folder = tempfile.mkdtemp(prefix='psd-e2e-')
    jobs = [start('-n', '1', '--', WORKER, 'loop',
                  env={'XDG_RUNTIME_DIR': folder}) for _ in range(4)]
    try:
        for job in jobs:
            job.ready()
        done = json.loads(psd(jobs[0], 'status', '--json').out)['jobs']
        mine = [x for x in done if x['pid'] in
                [job.process.pid for job in jobs]]
        check(len({x['name'] for x in mine}) == 4, repr(done))
        for one in mine:
            check(psd(jobs[0], 'stop', one['name']).returncode == 0, 'stop')
        for job in jobs:
            check(job.wait().code == 130, str(job.code))
        check(not os.listdir(folder), 'sockets are left')
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# ---- logs -----------------------------------------------------------------

TALK = ('for i in 1 2 3; do echo out$PSD_RANK.$i; echo err$PSD_RANK.$i >&2; '
        'done; echo ready; exec sleep 1000')


@test
def logs_show_both_streams_of_any_worker():
    job = begin('talk', '-n', '3', TALK)
    for rank in range(3):
        done = psd(job, 'logs', 'w%d' % rank, str(job.process.pid))
        check(done.returncode == 0, done.err)
        check(done.out == ''.join('out%d.%d\n' % (rank, i) for i in (1, 2, 3))
              + 'ready\n', done.out)
        check(done.err == ''.join('err%d.%d\n' % (rank, i)
                                  for i in (1, 2, 3)), done.err)
    done = psd(job, 'logs', 'w1', '-n', '2', 'talk')
    check((done.out, done.err) == ('out1.3\nready\n', 'err1.2\nerr1.3\n'),
          repr((done.out, done.err)))
    done = psd(job, 'logs', '-n', '0', '2', str(job.process.pid))
    check((done.out, done.err) == ('', ''), repr((done.out, done.err)))
    for word in ('w3', 's0'):
        done = psd(job, 'logs', word, str(job.process.pid))
        check(done.returncode == 64, str(done.returncode))
        contains(done.err, '3 workers and 0 server processes')
    psd(job, 'stop', 'talk')
    job.wait()


@test
def logs_of_a_server_are_there():
    job = begin('served', '-n', '1', '-s', '1', '--', WORKER, 'loop')
    done = psd(job, 'logs', 's0', str(job.process.pid))
    check(done.returncode == 0, done.err)
    check(done.out == job.log('server_0.log'), done.out)
    psd(job, 'stop', 'served')
    job.wait()


@test
def a_big_log_passes_a_slow_reader_in_little_memory():
    job = begin('big', '-n', '2',
                'test $PSD_RANK = 0 || seq 1 3000000; echo ready; '
                'exec sleep 1000')
    before = [memory(x) for x in (job.process.pid, job.role('agent'))]
    reader = popen(job, 'logs', 'w1', str(job.process.pid))
    time.sleep(1.0)
    after = [memory(x) for x in (job.process.pid, job.role('agent'))]
    out, _ = reader.communicate(timeout=LIMIT)
    check(reader.returncode == 0, 'exit code')
    with open(os.path.join(job.logs(), 'worker_1.out'), 'rb') as file:
        check(out == file.read(), 'lost or changed')
    check(len(out) > 20 << 20, 'it was not big')
    if not is_shadowed():
        grown = max(b - a for a, b in zip(before, after))
        check(grown < 8 << 20, '%d bytes more' % grown)
    psd(job, 'stop', 'big')
    job.wait()


@test
def logs_follow_until_the_last_line():
    job = start('--name', 'follow', '-n', '2', '--tee', 'none',
                'echo ready; test $PSD_RANK = 1 || exec sleep 2; '
                'for i in 1 2 3 4 5; do echo line $i; echo e$i >&2; '
                'sleep 0.2; done; seq 1 200000; echo last; echo last >&2')
    job.ready()
    reader = popen(job, 'logs', '-f', 'w1', 'follow')
    out, err = reader.communicate(timeout=LIMIT)
    check(reader.returncode == 0, err.decode())
    job.wait()
    check(job.code == 0, job.err)
    check(out.decode() == job.log('worker_1.out'), 'stdout is not all')
    check(err.decode() == job.log('worker_1.err'), 'stderr is not all')
    check(out.endswith(b'200000\nlast\n'), repr(out[-40:]))


@test
def the_last_words_of_a_failure_are_followed():
    job = start('--name', 'fails', '-n', '3', '--tee', 'none', '--grace', '1',
                'echo ready; test $PSD_RANK = 2 || exec sleep 1000; sleep 1; '
                'seq 1 100000 >&2; echo the end >&2; exit 3')
    job.ready()
    reader = popen(job, 'logs', '-f', 'w2', str(job.process.pid))
    _, err = reader.communicate(timeout=LIMIT)
    check(reader.returncode == 0, err[-200:].decode())
    check(job.wait().code == 3, job.err)
    check(err.decode() == job.log('worker_2.err'), 'stderr is not all')


@test
def a_reader_that_sleeps_does_not_hold_up_the_end():
    job = begin('held', '-n', '1', '--tee', 'none',
                'echo ready; sleep 0.5; seq 1 2000000; sleep 0.2')
    reader = popen(job, 'logs', '-f', 'w0', str(job.process.pid))
    began = time.time()
    try:
        check(job.wait().code == 0, job.err)
        check(time.time() - began < 15, 'it took %.1f s' %
              (time.time() - began))
    finally:
        reader.kill()
        reader.communicate()


@test
def a_reader_that_disappears_disturbs_nobody():
    job = begin('left', '-n', '1', '--tee', 'none',
                'seq 1 2000000; echo ready; exec sleep 1000')
    for _ in range(10):
        reader = popen(job, 'logs', '-f', 'w0', str(job.process.pid))
        reader.stdout.read(100)
        reader.kill()
        reader.communicate()
    check(status(job, 'left')['state'] == 'running', 'state')
    files = os.listdir('/proc/%d/fd' % job.role('agent'))
    until(lambda: len(os.listdir('/proc/%d/fd' % job.role('agent'))) <=
          len(files), 'its files to be closed')
    check(psd(job, 'stop', 'left').returncode == 0, 'stop')
    check(job.wait().code == 130, job.err)


# ---- attach ---------------------------------------------------------------

@test
def attach_shows_what_psd_run_shows_and_returns_its_code():
    job = begin('seen', '-n', '2',
                'echo ready; sleep 1; echo out$PSD_RANK; '
                'echo err$PSD_RANK >&2; sleep 0.5; exit 5')
    viewer = popen(job, 'attach', str(job.process.pid))
    out, err = viewer.communicate(timeout=LIMIT)
    job.wait()
    check(viewer.returncode == 5, '%d %s' % (viewer.returncode, err))
    check(out == b'out0\n', repr(out))
    contains(err.decode(), 'psd attach: job seen (pid %d), running' %
             job.process.pid, 'err0\n', 'ended with exit code 5',
             'psd_run: ', 'logs: ')
    check('\nerr1' not in err.decode(), err)
    contains(job.out, 'out0\n')
    contains(job.err, 'err0\n')


@test
def attach_has_the_prefixes_of_tee_all():
    job = begin('many', '-n', '2', '--tee', 'all',
                'echo ready; sleep 1; echo out$PSD_RANK')
    viewer = popen(job, 'attach', 'many')
    out, err = viewer.communicate(timeout=LIMIT)
    job.wait()
    check(viewer.returncode == 0, err.decode())
    check(sorted(out.split(b'\n')) == [b'', b'[w0] out0', b'[w1] out1'],
          repr(out))


@test
def ctrl_c_detaches_and_the_job_goes_on():
    job = begin('stays')
    viewer = popen(job, 'attach', str(job.process.pid))
    check(b'Ctrl-C' in viewer.stderr.readline(), 'greeting')
    time.sleep(0.3)
    viewer.send_signal(signal.SIGINT)
    _, err = viewer.communicate(timeout=LIMIT)
    check(viewer.returncode == 0, str(viewer.returncode))
    contains(err.decode(), 'the job goes on', 'psd stop stays')
    check(status(job, 'stays')['state'] == 'running', 'state')
    psd(job, 'stop', str(job.process.pid))
    job.wait()


@test
def an_attached_one_that_sleeps_is_not_waited_for():
    job = start('--name', 'wide', '-n', '1',
                'echo ready; sleep 1; seq 1 2000000; sleep 0.5; echo bye')
    drain = threading.Thread(target=job.wait)
    drain.start()
    until(lambda: status(job, 'wide'), 'the job')
    viewer = popen(job, 'attach', str(job.process.pid))
    drain.join()
    check(job.code == 0, job.err)
    check(len(job.out) > 10 << 20, 'psd_run itself shows all')
    out, err = viewer.communicate(timeout=LIMIT)
    check(len(out) < len(job.out), 'everything was kept for it')
    check(viewer.returncode in (0, 69), '%d %s' % (viewer.returncode, err))


# ---- detach ---------------------------------------------------------------

@test
def detach_returns_when_the_job_runs():
    job = start('--detach', '--name', 'away', '-n', '2', '--', WORKER, 'loop')
    job.wait()
    check(job.code == 0, '%d %s' % (job.code, job.err))
    one = status(job, 'away')
    check(one is not None and one['state'] == 'running', repr(one))
    check(all(x['pid'] for x in one['processes']), repr(one))
    contains(job.out, 'job away runs in the background, pid %d' % one['pid'],
             one['logs'], 'psd attach away', 'psd stop away')
    check(one['pid'] != job.process.pid and
          os.getsid(one['pid']) == one['pid'], 'a session of its own')
    viewer = popen(job, 'attach', 'away')
    check(b'job away' in viewer.stderr.readline(), 'greeting')
    until(lambda: 'ready\n' in job.log('console.log'), 'worker 0')
    check(psd(job, 'stop', 'away').returncode == 0, 'stop')
    _, err = viewer.communicate(timeout=LIMIT)
    check(viewer.returncode == 130, '%d %s' % (viewer.returncode, err))
    contains(job.log('console.log'), 'ready\n', 'psd stop (pid ')
    job.clean()


@test
def detach_tells_what_is_wrong_with_the_set_up():
    for words, code, text in (
            (['-n', '2', '--', 'no-such-program'], 127, 'command not found'),
            (['-n', '2', 'no-such-program x'], 127, 'command not found'),
            (['-n', '0', 'true'], 64, 'must be in'),
            (['-n', '1', '-o', '/proc/nowhere', 'true'], 73, '/proc/nowhere')):
        job = start('--detach', *words).wait()
        check(job.code == code, '%r: %d %s' % (words, job.code, job.err))
        contains(job.err, text)
        check('background' not in job.out, job.out)
        job.clean()


@test
def ctrl_c_during_the_set_up_ends_it():
    folder = tempfile.mkdtemp(prefix='psd-e2e-')
    rsh = os.path.join(folder, 'rsh')
    with open(rsh, 'w') as file:
        file.write('#!/bin/sh\nexec sleep 1000\n')
    os.chmod(rsh, 0o755)
    job = start('--detach', '--name', 'early', *where(['nowhere.invalid'],
                                                      folder),
                '--rsh', rsh, 'true')
    until(lambda: status(job, 'early'), 'the job')
    check(status(job, 'early')['state'] == 'starting', 'state')
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, '%d %s' % (job.code, job.err))
    check(status(job, 'early') is None, 'it is still there')
    shutil.rmtree(folder)


# ---- rubbish, death, strangers --------------------------------------------

def door(job, name):
    return os.path.join(job.tmp, 'poseidon', name)


def knock(job, name, data):
    """What psd_run answers to such bytes."""
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(LIMIT)
        peer.connect(door(job, name))
        try:
            peer.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            pass
        answer = b''
        while True:
            try:
                part = peer.recv(65536)
            except ConnectionResetError:
                return answer
            if not part:
                return answer
            answer += part


def ask(verb, build, rank=0, lines=(1 << 64) - 1, flags=(0, 0, 0)):
    return struct.pack('<BBBBIQI', verb, *flags, rank, lines,
                       len(build)) + build


@test
def rubbish_at_the_door_disturbs_nobody():
    job = begin('calm')
    check(stat.S_IMODE(os.stat(os.path.join(job.tmp, 'poseidon')).st_mode) ==
          0o700, 'the folder is for this user only')
    version = subprocess.run([PSD_RUN, '--version'], capture_output=True,
                             check=True).stdout.split()[1]
    good = ask(1, version)
    for data, want in ((b'GET / HTTP/1.0\r\n\r\n' + b' ' * 64, b'no question'),
                       (os.urandom(4096), b'no question'),
                       (frame(ASK, good, version=77), b'no question'),
                       (frame(ASK, good, crc=1), b'no question'),
                       (frame(ASK, b'', size=1 << 30), b'no question'),
                       (frame(ASK, b'x' * 257), b'no question'),
                       (frame(STATUS, good), b'no question'),
                       (frame(99, good), b'no question'),
                       (frame(ASK, good + b'x'), b'no question'),
                       (frame(ASK, ask(9, version)), b'no question'),
                       (frame(ASK, ask(3, version, lines=1 << 40)),
                        b'no question'),
                       (frame(ASK, ask(1, b'9.9.9')), b'version 9.9.9'),
                       (frame(ASK, ask(3, version, rank=70000)), b'no worker'),
                       (frame(ASK, good), WORKER.encode())):
        answer = knock(job, 'calm', data)
        check(want in answer, '%r gave %r' % (data[:80], answer))
    check(len(knock(job, 'calm', frame(ASK, good) * 1000)) < 1 << 20, 'once')
    silent = []
    for _ in range(100):  # more than there are seats, and none says a word
        peer = socket.socket(socket.AF_UNIX)
        peer.connect(door(job, 'calm'))
        silent.append(peer)
    half = socket.socket(socket.AF_UNIX)
    half.connect(door(job, 'calm'))
    half.sendall(frame(ASK, good)[:70])
    check(status(job, 'calm')['state'] == 'running', 'state')
    for peer in silent + [half]:
        peer.close()
    check(job.process.poll() is None, 'the job goes on')
    check(psd(job, 'stop', 'calm').returncode == 0, 'stop')
    check(job.wait().code == 130, job.err)


@test
def kill_9_of_psd_run_is_recognised_and_cleared_away():
    job = begin('gone')
    viewer = popen(job, 'attach', str(job.process.pid))
    viewer.stderr.readline()
    job.process.kill()
    job.process.wait()
    _, err = viewer.communicate(timeout=LIMIT)
    check(viewer.returncode == 69, str(viewer.returncode))
    contains(err.decode(), 'is gone')
    check(os.path.exists(door(job, 'gone')), 'the socket is left')
    again = begin('gone', env={'XDG_RUNTIME_DIR': job.tmp})
    check(status(again, 'gone')['pid'] == again.process.pid, 'the new one')
    again.process.kill()
    again.process.wait()
    check(status(job, 'gone') is None, 'a dead job is shown')
    check(not os.path.exists(os.path.join(job.tmp, 'poseidon')), 'left')
    job.clean()
    again.clean()


def elsewhere(name):
    return '/tmp/poseidon-%d/%s' % (os.geteuid(), name)


@test
def a_foreign_folder_is_not_used():
    name = 'shy%d' % os.getpid()
    target = tempfile.mkdtemp(prefix='psd-e2e-')
    runtime = tempfile.mkdtemp(prefix='psd-e2e-')
    trap = os.path.join(runtime, 'poseidon')
    traps = [lambda: os.symlink(target, trap), lambda: os.mkdir(trap),
             lambda: open(trap, 'w').close()]
    if os.geteuid() == 0:
        traps.append(lambda: (os.mkdir(trap, 0o700), os.chown(trap, 1, 1)))
    for number, make in enumerate(traps):
        make()
        if number == 1:
            os.chmod(trap, 0o777)
        job = begin(name, env={'XDG_RUNTIME_DIR': runtime})
        check(not os.listdir(target), 'a link was followed')
        check(not os.path.isdir(trap) or not os.listdir(trap), 'it was used')
        check(stat.S_ISSOCK(os.stat(elsewhere(name)).st_mode), 'in /tmp')
        check(status(job, name)['pid'] == job.process.pid, 'it is found')
        check(psd(job, 'stop', name).returncode == 0, 'stop')
        job.wait()
        check(not os.path.exists(elsewhere(name)), 'left')
        if os.path.islink(trap) or os.path.isfile(trap):
            os.unlink(trap)
        else:
            os.rmdir(trap)
    shutil.rmtree(target)
    shutil.rmtree(runtime)


BIND = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'


@test
def without_any_folder_the_job_runs_but_not_detached():
    if os.geteuid() != 0 or subprocess.run(
            ['unshare', '-m', 'true'], check=False,
            stderr=subprocess.DEVNULL).returncode != 0:
        raise Skip('hiding /tmp/poseidon-UID takes root and mount namespaces')
    job = start('-n', '1', 'true').wait()  # its surroundings are used below
    foreign = os.path.join(job.folder, 'foreign')
    os.mkdir(foreign, 0o700)
    os.chown(foreign, 1, 1)
    place = '/tmp/poseidon-0'
    made = not os.path.exists(place)
    os.makedirs(place, 0o700, exist_ok=True)
    os.mkdir(job.tmp + '/poseidon')
    os.chmod(job.tmp + '/poseidon', 0o755)
    for words, code in (([], 0), (['--detach'], 73)):
        done = subprocess.run(
            ['unshare', '-m', 'sh', '-c', BIND, 'sh', foreign, place, PSD_RUN,
             *words, '-n', '1', 'echo done'], env=job.environment,
            cwd=job.folder, capture_output=True, timeout=LIMIT, check=False)
        check(done.returncode == code, '%d %s' % (done.returncode,
                                                  done.stderr))
        contains(done.stderr.decode(), 'belongs to user 1',
                 'will not find this job')
        check((b'done' in done.stdout) == (code == 0), repr(done.stdout))
    check(not os.listdir(foreign), 'it was used')
    os.rmdir(job.tmp + '/poseidon')
    if made:
        os.rmdir(place)


@test
def a_socket_that_was_taken_away_comes_back():
    job = begin('phoenix')
    shutil.rmtree(os.path.join(job.tmp, 'poseidon'))
    check(status(job, 'phoenix') is None, 'it was removed')
    until(lambda: status(job, 'phoenix'), 'it to come back')
    check(psd(job, 'stop', 'phoenix').returncode == 0, 'stop')
    check(job.wait().code == 130, job.err)


# ---- a cluster ------------------------------------------------------------

def where(hosts, folder):
    """Options that put one worker on each host."""
    path = os.path.join(folder, 'cluster.json')
    with open(path, 'w') as file:
        json.dump({'worker_nodes': hosts, 'server_nodes': hosts,
                   'master_node': 'localhost'}, file)
    return ['-c', path]


@test
def logs_come_from_the_host_of_the_worker():
    sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                 '..'))
    from cluster import Cluster
    why = Cluster.missing()
    if why is not None:
        raise Skip(why)
    nodes = ['node0', 'node1']
    folder = tempfile.mkdtemp(prefix='psd-e2e-')
    env = {'XDG_RUNTIME_DIR': folder}
    with Cluster(2) as cluster:
        home = cluster.home()  # the same path, but other files on each host
        job = cluster.popen(
            'node0', [PSD_RUN, *where(nodes, folder), '--name', 'far',
                      '--tee', 'none',
                      'hostname; seq 1 300000; echo e$PSD_RANK >&2; sleep 4; '
                      'echo last'],
            cwd=home, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        def ask_job(*words):
            return cluster.run('node0', [PSD, *words], cwd=home, env=env,
                               timeout=LIMIT)

        def runs():
            found = json.loads(ask_job('status', '--json').stdout)['jobs']
            return [x for x in found if x['name'] == 'far' and
                    x['state'] == 'running']

        try:
            one = until(runs, 'the job')[0]
            check([x['host'] for x in one['processes']
                   if x['role'] == 'worker'] == nodes, repr(one))
            check(ask_job('logs', '-n', '0', 'w1', 'far').stdout == '', 'none')
            done = ask_job('logs', '-f', 'w1', 'far')
            check(done.returncode == 0, done.stderr)
            numbers = '\n'.join(str(i) for i in range(1, 300001))
            check(done.stdout == 'node1\n%s\nlast\n' % numbers,
                  repr(done.stdout[:80]))
            check(done.stderr == 'e1\n', repr(done.stderr))
            _, err = job.communicate(timeout=LIMIT)
            check(job.returncode == 0, err)
        finally:
            job.kill()
            job.communicate()
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == '__main__':
    sys.exit(e2e.main())
