#!/usr/bin/env python3
"""End-to-end tests of psd_run with real processes.

    run.py BUILD_DIR [PATTERN]

desk_test.py beside it uses what is defined here.

Prints TAP. Nothing depends on timing beyond generous upper limits.
"""
import glob
import os
import pty
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from common import (Failure, JOBS, Job, LIMIT, PSD, PSD_RUN, Skip, TESTS,
                    WORKER, build, check, cmdline, contains, keep, main,
                    name_of, run, start, test)


# ---- output ---------------------------------------------------------------

ECHO = 'echo out$PSD_RANK; echo err$PSD_RANK >&2'


@test
def stdout_and_stderr_of_worker_0_are_kept_apart():
    job = run('-n', '3', '--', 'sh', '-c', ECHO)
    check(job.code == 0, job.err)
    check(job.out == 'out0\n', repr(job.out))
    contains(job.err, 'err0\n', '3 workers done', job.logs().split('/')[-1])
    check('err1' not in job.err and 'err2' not in job.err, job.err)
    for rank in range(3):
        check(job.log('worker_%d.out' % rank) == 'out%d\n' % rank, 'logs')
        check(job.log('worker_%d.err' % rank) == 'err%d\n' % rank, 'logs')


@test
def tee_all_prefixes_every_line():
    job = run('-n', '3', '--tee', 'all', '--', 'sh', '-c',
              ECHO + '; printf unfinished')
    lines = sorted(job.out.splitlines())
    want = sorted('[w%d] %s' % (i, text) for i in range(3)
                  for text in ('out%d' % i, 'unfinished'))
    check(lines == want, repr(job.out))
    contains(job.err, '[w0] err0\n', '[w1] err1\n', '[w2] err2\n')


@test
def a_quoted_string_goes_through_the_shell_and_words_do_not():
    job = run('-n', '2', 'echo $PSD_RANK/$PSD_SIZE | tr 0 o')
    check(job.out == 'o/2\n', repr(job.out))
    job = run('-n', '1', '--', 'echo', '$HOME', 'a  b', ';')
    check(job.out == '$HOME a  b ;\n', repr(job.out))


@test
def a_slow_reader_loses_nothing():
    job = start('-n', '1', '--', 'seq', '1', '400000')
    data = []

    def read():
        time.sleep(1.0)
        data.append(job.process.stdout.read())

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    check(job.process.wait(timeout=LIMIT) == 0, 'exit code')
    want = ''.join('%d\n' % i for i in range(1, 400001)).encode()
    check(data[0] == want, 'lost or changed output')
    check(job.log('worker_0.out').encode() == want, 'lost or changed log')


@test
def a_closed_stdout_does_not_end_the_job():
    job = start('-n', '1', 'seq 1 200000; echo done >&2')
    job.process.stdout.close()
    err = job.process.stderr.read().decode()
    check(job.process.wait(timeout=LIMIT) == 0, err)
    contains(err, 'done')


def printed_variables(job):
    return dict(line.split('=', 1) for line in job.out.splitlines()
                if '=' in line)


@test
def the_environment_is_what_the_manual_says():
    job = run('-n', '2', '--name', 'demo', '--digest', 'off', 'env; cat',
              env={'MKL_NUM_THREADS': '7'})
    check(job.code == 0, job.err)
    values = printed_variables(job)
    for name, value in (('PSD_RANK', '0'), ('PSD_SIZE', '2'),
                        ('PSD_LOCAL_RANK', '0'), ('PSD_LOCAL_SIZE', '2'),
                        ('PSD_INCARNATION', '0'), ('PSD_DIGEST', 'off'),
                        ('JOB_NAME', 'demo'), ('PYTHONUNBUFFERED', '1'),
                        ('MKL_NUM_THREADS', '7')):
        check(values.get(name) == value, '%s is %r' % (name, values.get(name)))
    check(int(values['OMP_NUM_THREADS']) >= 1, 'OMP_NUM_THREADS')
    for name in ('RANK', 'WORLD_SIZE'):
        check(name not in values or name in os.environ, name)
    contains(job.err, 'OMP_NUM_THREADS')


@test
def a_given_number_of_threads_holds_for_those_who_follow_it():
    job = run('-n', '1', 'env', env={'OMP_NUM_THREADS': '3'})
    check(job.code == 0, job.err)
    values = printed_variables(job)
    check(values.get('OMP_NUM_THREADS') == '3', 'OMP_NUM_THREADS')
    for name in ('MKL_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):
        check(values.get(name) == os.environ.get(name), name)
    check(int(values['TF_NUM_INTRAOP_THREADS']) >= 1, 'TensorFlow')


@test
def the_heap_of_workers_is_in_huge_pages_unless_told_otherwise():
    for given, found in (
            (None, 'glibc.malloc.hugetlb=1'),
            ('', 'glibc.malloc.hugetlb=1'),
            ('glibc.malloc.check=0',
             'glibc.malloc.check=0:glibc.malloc.hugetlb=1'),
            ('glibc.malloc.hugetlb=0', 'glibc.malloc.hugetlb=0')):
        words = [] if given is None else ['-x', 'GLIBC_TUNABLES=' + given]
        job = run('-n', '1', *words, 'env')
        check(job.code == 0, job.err)
        value = printed_variables(job).get('GLIBC_TUNABLES')
        check(value == found, '%r: %r' % (given, value))
    job = run('-n', '1', '-x', 'GLIBC_TUNABLES=glibc.malloc.hugetlb=0', '-x',
              'GLIBC_TUNABLES=glibc.malloc.check=0', 'env')
    check(printed_variables(job)['GLIBC_TUNABLES'] ==
          'glibc.malloc.check=0:glibc.malloc.hugetlb=1', job.out)
    job = run('-n', '1', 'env',
              env={'GLIBC_TUNABLES': 'glibc.malloc.hugetlb=0'})
    check(printed_variables(job)['GLIBC_TUNABLES'] ==
          'glibc.malloc.hugetlb=0', job.out)


@test
def a_terminal_has_a_live_block():
    try:
        master, slave = pty.openpty()
    except OSError as error:
        raise Skip('no pseudo-terminal here: %s' % error)
    job = start('-n', '2', '--', WORKER, 'loop', stderr=slave,
                env={'TERM': 'xterm'})
    os.close(slave)
    text = b''
    deadline = time.time() + LIMIT
    while b'samples/s' not in text and time.time() < deadline:
        text += os.read(master, 4096)
    job.process.send_signal(signal.SIGINT)
    reader = threading.Thread(target=drain, args=(master,))
    reader.start()
    job.wait()
    reader.join()
    os.close(master)
    contains(text.decode(), 'step ', ' samples/s')


def drain(fd):
    try:
        while os.read(fd, 4096):
            pass
    except OSError:
        pass


# ---- exit codes -----------------------------------------------------------

@test
def the_culprits_exit_code_is_returned():
    job = run('--grace', '0.1', '-n', '3',
              'test $PSD_RANK = 1 || exec sleep 100; echo last words >&2; '
              'exit 7')
    check(job.code == 7, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1 (pid ', 'ended with exit code 7',
             '| last words', 'victims: worker 0 was killed by signal 15',
             'logs: ')


@test
def a_signal_is_named_and_becomes_128_plus_it():
    for name, number in (('KILL', 9), ('SEGV', 11)):
        job = run('--grace', '0.1', '-n', '2', '--', 'sh', '-c',
                  'kill -%s $$' % name)
        check(job.code == 128 + number, '%d %s' % (job.code, job.err))
        contains(job.err, 'was killed by signal %d (SIG%s)' % (number, name))


@test
def a_command_that_is_not_there_is_127_before_anything_runs():
    for command in (['--', 'no-such-program', 'x'], ['no-such-program x'],
                    ['no-such-program'], ['--', './nowhere']):
        job = run('-n', '2', *command)
        check(job.code == 127, '%r: %d %s' % (command, job.code, job.err))
        contains(job.err, 'command not found', command[-1].split()[0]
                 if command[0] != '--' else command[1])
        check(job.out == '', job.out)


@test
def a_file_that_is_no_program_is_126():
    folder = tempfile.mkdtemp(prefix='psd-e2e-')
    path = os.path.join(folder, 'plain')
    open(path, 'w').close()
    for command in (['--', path], [path + ' x']):
        job = run('-n', '2', *command)
        check(job.code == 126, '%d %s' % (job.code, job.err))
        contains(job.err, 'cannot be executed')
    shutil.rmtree(folder)


@test
def options_for_adapters_reach_the_workers():
    show = 'echo $PSD_BATCH $PSD_ACCUM $PSD_NAN $PSD_SHARD_EVAL $PSD_SEED'
    first = run('-n', '2', '--tee', 'all', show)
    lines = re.findall(r'\] split auto allow 0 (\d+)\n', first.out)
    check(len(lines) == 2 and lines[0] == lines[1], first.out)
    with open(os.path.join(first.folder, 'poseidon_run.log')) as file:
        contains(file.read(), 'the seed of all workers is %s\n' % lines[0])
    check(run('-n', '2', show).out.split()[-1] != lines[0], 'the same seed')
    given = run('--batch', 'per-worker', '--accum', '8', '--nan', 'stop',
                '--shard-eval', '--seed', '0', show)
    check(given.out == 'per-worker 8 stop 1 0\n', given.out)


@test
def a_ps_that_fails_ends_the_job_with_its_code():
    job = run('-n', '2', '[ {job_name} = worker ] || { echo no luck; '
              'exit 7; }; exec sleep 1000')
    check(job.code == 7, '%d: %s' % (job.code, job.err))
    contains(job.err, 'server 0', 'ended with exit code 7', 'no luck')


@test
def wrong_usage_is_a_sentence_and_64():
    for args, text in (
            (['--frobnicate', '-n', '2', 'true'], 'unknown option'),
            (['--digset', 'off', 'true'], 'did you mean --digest'),
            (['-n', '2'], 'no command'),
            (['-n', '0', 'true'], 'must be in 1..1024'),
            (['-n', '5000', 'true'], 'must be in 1..1024'),
            (['-n', 'two', 'true'], 'must be in'),
            (['-n', '2', '-s', '5000', 'true'], 'must be in'),
            (['-n', '2', '-s', '500', '--threads', '9', 'true'], 'fewer'),
            (['--threads', '0', 'true'], 'must be auto or in 1..64'),
            (['--transport', 'pigeon', 'true'], 'auto|shm|tcp'),
            (['--batch', 'whole', 'true'], 'split|per-worker|split-random'),
            (['--accum', '0', 'true'], 'auto or a number from 1 to 1024'),
            (['--accum', '1025', 'true'], 'auto or a number'),
            (['--accum', '2x', 'true'], 'auto or a number'),
            (['--nan', 'ignore', 'true'], 'allow|skip|stop'),
            (['--seed', '-1', 'true'], 'must be in 0..4294967295'),
            (['-n'], 'needs a value')):
        job = run(*args)
        check(job.code == 64, '%r: %d %s' % (args, job.code, job.err))
        contains(job.err, text)
        check(len(job.err.strip().splitlines()) == 1, job.err)
        check(not glob.glob(os.path.join(job.folder, 'poseidon*')), 'files')


@test
def too_few_files_is_71_and_says_what_to_raise():
    job = run('-n', '300', 'true', preexec=lambda: resource.setrlimit(
        resource.RLIMIT_NOFILE, (256, 256)))
    check(job.code == 71, '%d %s' % (job.code, job.err))
    contains(job.err, 'open files', 'ulimit')


@test
def an_output_folder_that_cannot_be_made_is_73():
    job = run('-n', '2', '-o', '/proc/nowhere/x', 'true')
    check(job.code == 73, '%d %s' % (job.code, job.err))
    contains(job.err, '/proc/nowhere', '-o')


@test
def help_and_version_are_there():
    job = run('--help')
    check(job.code == 0, job.err)
    contains(job.out, '--digest', '--workers', 'exit codes')
    check(run('--version').out.startswith('psd_run '), 'version')


# ---- training -------------------------------------------------------------

@test
def members_train_and_their_replicas_are_equal():
    for args in (['-n', '1'], ['-n', '2'], ['-n', '4'], ['-n', '3', '-s', '2'],
                 ['-n', '2', '-s', '3', '--threads', '2'],
                 ['-n', '2', '--transport', 'tcp'],
                 ['-n', '2', '-s', '1', '--transport', 'tcp']):
        job = run(*args, '--digest', 'step', '--', WORKER, 'train')
        check(job.code == 0, '%r: %d %s' % (args, job.code, job.err))
        check(job.out == 'trained\n', '%r: %r' % (args, job.out))
        contains(job.err, 'at step 49')
        if args[1] != '1':
            contains(job.err, 'replicas equal: ', ' 0 differences')
        job.clean()


@test
def a_link_that_is_cut_is_mended_and_counted_once():
    if shutil.which('ss') is None or os.geteuid() != 0:
        raise Skip('cutting a link takes `ss -K` and root')
    job = start('-n', '2', '--transport', 'tcp', '--digest', 'step', '--ports',
                '23400-23499', '--', WORKER, 'long').ready()
    cut = 0
    for _ in range(5):
        out = subprocess.run(
            ['ss', '-K', '-tn', 'state', 'established',
             '( sport >= :23400 and sport <= :23499 )'],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            check=False).stdout
        cut += out.count('127.0.0.1:234')
        time.sleep(0.1)
    job.wait()
    if cut == 0:
        raise Skip('this kernel does not let `ss -K` cut a link')
    check(job.code == 0, '%d %s' % (job.code, job.err))
    contains(job.out, 'trained')
    contains(job.err, ' 0 differences')


@test
def a_port_that_is_taken_is_an_error_and_names_it():
    with socket.create_server(('127.0.0.1', 0)) as server:
        port = str(server.getsockname()[1])
        job = run('-n', '2', '--transport', 'tcp', '--ports', port, '--',
                  WORKER, 'train')
        check(job.code not in (0, 124), str(job.code))
        contains(job.err, port)
    job = run('-n', '2', '--ports', '9-8', '--', WORKER, 'train')
    check(job.code == 64, str(job.code))


@test
def different_models_are_told_name_by_name_and_65():
    for extra in ([], ['-s', '1']):
        job = run('-n', '3', *extra, '--', WORKER, 'diff-model')
        check(job.code == 65, '%d %s' % (job.code, job.err))
        contains(job.err, 'tensor 0: worker 0 has "fc.weight" float32 x 1000, '
                 'worker 1 has "fc.weight" float32 x 900')
        contains(job.log('worker_2.err'), 'PSD_EDIFFER', 'fc.weight')


@test
def bytes_that_make_no_sense_end_the_job():
    for way in ([], ['-s', '1']):
        job = run('-n', '2', '--transport', 'tcp', *way, '--', WORKER,
                  'garbage')
        check(job.code == 76, '%r: %d %s' % (way, job.code, job.err))
        contains(job.err, 'link of worker 1: a peer sent bytes that are not '
                          'the protocol')
        job.clean()


@test
def different_bits_are_found_and_65():
    job = run('-n', '2', '--digest', 'step', '--', WORKER, 'diff-bits')
    check(job.code == 65, '%d %s' % (job.code, job.err))
    contains(job.err, 'replicas differ', 'fc.weight', 'worker 0', 'worker 1')


@test
def an_abort_ends_the_job_with_its_code():
    job = run('-n', '3', '--', WORKER, 'abort')
    check(job.code == 9, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1 aborted: the data are gone')
    contains(job.log('worker_2.err'), 'PSD_EABORT', 'the data are gone')


@test
def a_worker_that_fails_by_itself_is_the_culprit():
    job = run('-n', '3', '--', WORKER, 'exit-five')
    check(job.code == 5, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1 (pid', '| no more memory', 'victims: worker 0')
    contains(job.log('worker_0.err'), 'PSD_ELOST', 'worker 1')
    job = run('-n', '2', '-s', '1', '--', WORKER, 'crash')
    check(job.code == 139, '%d %s' % (job.code, job.err))
    contains(job.err, 'SIGSEGV', '| about to crash')


@test
def a_worker_that_deserts_is_named():
    job = run('-n', '2', '--', WORKER, 'exit-early')
    check(job.code == 69, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1', 'without psd_close while others still train')
    job = run('-n', '2', '--', WORKER, 'no-join')
    check(job.code == 69, '%d %s' % (job.code, job.err))
    contains(job.err, 'worker 1', 'without joining')
    contains(job.log('worker_0.err'), 'PSD_ELOST', 'without joining')


@test
def a_worker_that_closes_early_does_not_hang_the_others():
    job = run('-n', '2', '--', WORKER, 'leave')
    check(job.code != 0, '%d %s' % (job.code, job.err))
    contains(job.log('worker_0.err'), 'PSD_ELOST')


@test
def a_rank_is_taken_once():
    job = run('-n', '2', '--grace', '0.5', '--', WORKER, 'same-rank')
    check(job.code == 3, '%d %s' % (job.code, job.err))
    contains(job.log('worker_1.err'), 'PSD_EINVAL')
    contains(job.log('worker_1.err'), 'rank 0')


@test
def a_dead_agent_and_half_an_environment_are_errors_soon():
    base = {name: value for name, value in os.environ.items()
            if not name.startswith('PSD_')}
    full = dict(PSD_AGENT='/nowhere/agent', PSD_RANK='0', PSD_SIZE='2')
    for extra, want in ((full, 'PSD_ELOST'),
                        (dict(PSD_RANK='0'), 'PSD_EENV'),
                        (dict(PSD_AGENT='/nowhere/agent'), 'PSD_EENV')):
        began = time.time()
        done = subprocess.run([WORKER, 'alone'], env={**base, **extra},
                              capture_output=True, timeout=LIMIT)
        check(done.returncode == 3, '%r' % extra)
        contains(done.stderr.decode(), want)
        check(time.time() - began < 10, 'slow')
    done = subprocess.run([WORKER, 'alone'], env=base, capture_output=True,
                          timeout=LIMIT)
    check(done.stdout == b'alone: 0 of 1\n', repr(done.stdout))


def frame(kind, payload=b'', version=1, size=None, crc=None):
    """Bytes of a control frame: struct frame_header of src/wire/wire.h."""
    size = len(payload) if size is None else size
    header = bytearray(64)
    header[0:8] = struct.pack('<IBBH', size, version, kind, 0)
    header[52:56] = struct.pack('<I', size)
    total = crc32c(bytes(header) + payload) if crc is None else crc
    header[8:12] = struct.pack('<I', total)
    return bytes(header) + payload


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def knock(job, data):
    """What the agent answers to a stranger at its socket."""
    path, = glob.glob(os.path.join(job.tmp, 'psd-*', 'agent'))
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(LIMIT)
        peer.connect(path)
        peer.sendall(data)
        answer = b''
        while True:
            try:
                part = peer.recv(65536)
            except ConnectionResetError:
                break
            if not part:
                break
            answer += part
    return answer


@test
def strangers_at_the_agents_door_are_refused_and_disturb_nobody():
    job = start('-n', '2', '--', WORKER, 'loop').ready()
    check(os.stat(glob.glob(os.path.join(job.tmp, 'psd-*'))[0]).st_mode
          & 0o777 == 0o700, 'the folder is for this user only')
    version = subprocess.run([PSD_RUN, '--version'], capture_output=True)
    build_name = version.stdout.split()[1]
    hello = struct.pack('<BIIII', 0, 0, 0, 1, len(build_name)) + build_name
    other = struct.pack('<BIIII', 0, 0, 0, 1, 5) + b'9.9.9'
    absent = struct.pack('<BIIII', 0, 7, 0, 1, len(build_name)) + build_name
    for data, want in ((b'GET / HTTP/1.0\r\n\r\n' + b' ' * 64, b'hello'),
                       (frame(16, hello, version=77), b'hello'),
                       (frame(16, hello, crc=1), b'hello'),
                       (frame(16, b'', size=1 << 30), b'hello'),
                       (frame(99, hello), b'hello'),
                       (frame(18, hello), b'hello'),
                       (frame(16, b'abc'), b'hello'),
                       (frame(16, other), b'9.9.9'),
                       (frame(16, absent), b'not of this host'),
                       (frame(16, hello), b'already taken by pid')):
        answer = knock(job, data)
        check(want in answer, '%r gave %r' % (data[:80], answer))
        check(len(answer) < 4096 and answer[5] == 27, 'an end, no more')
    check(job.process.poll() is None, 'the job goes on')
    job.process.send_signal(signal.SIGINT)
    check(job.wait().code == 130, job.err)


# ---- nothing is left ------------------------------------------------------

@test
def kill_9_of_a_worker_is_named_to_the_survivors():
    for extra in ([], ['-s', '1']):
        job = start('-n', '3', *extra, '--', WORKER, 'loop').ready()
        os.kill(job.started('worker 1'), signal.SIGKILL)
        job.wait()
        check(job.code == 137, '%d %s' % (job.code, job.err))
        contains(job.err, 'worker 1 (pid ', 'SIGKILL', 'victims: ')
        contains(job.log('worker_0.err'), 'PSD_ELOST', 'worker 1 (pid ',
                 'SIGKILL')


@test
def kill_9_of_a_server_is_named_to_the_workers():
    job = start('-n', '2', '-s', '2', '--', WORKER, 'loop').ready()
    os.kill(job.started('server 1'), signal.SIGKILL)
    job.wait()
    check(job.code == 137, '%d %s' % (job.code, job.err))
    contains(job.err, 'server 1 (pid ', 'SIGKILL')
    contains(job.log('worker_0.err'), 'PSD_ELOST', 'server 1 (pid ')


@test
def kill_9_of_psd_run_leaves_nothing():
    job = start('-n', '2', '-s', '1', '--', WORKER, 'loop').ready()
    job.process.kill()
    job.process.wait()
    job.clean()


@test
def kill_9_of_psd_run_ends_those_who_hide():
    job = start('-n', '2', '--', WORKER, 'brood').ready()
    deadline = time.time() + LIMIT
    while len(job.pids()) < 10 and time.time() < deadline:
        time.sleep(0.02)
    check(len(job.pids()) >= 10, 'the brood is not there')
    job.process.kill()
    job.process.wait()
    job.clean()


@test
def kill_9_of_the_agent_leaves_nothing():
    job = start('-n', '2', '--', WORKER, 'brood').ready()
    os.kill(job.role('agent'), signal.SIGKILL)
    job.wait()
    check(job.code == 69, '%d %s' % (job.code, job.err))
    contains(job.err, 'agent')


@test
def kill_9_of_the_guard_leaves_nothing():
    job = start('-n', '2', '--', WORKER, 'brood').ready()
    os.kill(job.role('guard'), signal.SIGKILL)
    job.wait()
    check(job.code == 69, '%d %s' % (job.code, job.err))
    contains(job.err, 'guard')


def own_cgroup():
    """Folder of this process's cgroup v2 in which groups can be made."""
    with open('/proc/self/cgroup') as file:
        found = re.search(r'^0::(/.*)$', file.read(), re.M)
    for mount in ('/sys/fs/cgroup', '/sys/fs/cgroup/unified'):
        path = mount + found.group(1) if found else ''
        if (os.path.exists(os.path.join(path, 'cgroup.procs')) and
                os.path.exists(mount + '/cgroup.controllers') and
                os.access(path, os.W_OK)):
            return path
    return None


@test
def guard_and_agent_killed_in_one_instant_leave_nothing():
    parent = own_cgroup()
    if parent is None:
        raise Skip('no cgroup v2 to write in')
    job = start('-n', '2', '--', WORKER, 'brood').ready()
    guard, agent = job.role('guard'), job.role('agent')
    os.kill(guard, signal.SIGSTOP)  # so that it cannot act in between
    os.kill(agent, signal.SIGSTOP)
    os.kill(guard, signal.SIGKILL)
    os.kill(agent, signal.SIGKILL)
    job.wait()
    check(job.code == 69, '%d %s' % (job.code, job.err))
    job.clean()
    check(not os.path.exists(os.path.join(parent, 'poseidon-%d' % guard)),
          'its cgroup is left')


@test
def kill_9_of_the_master_leaves_nothing():
    job = start('-n', '2', '-s', '1', '--', WORKER, 'loop').ready()
    os.kill(job.role('master'), signal.SIGKILL)
    job.wait()
    check(job.code == 69, '%d %s' % (job.code, job.err))
    contains(job.err, 'master')


@test
def a_child_left_behind_ends_with_the_job():
    job = run('-n', '2', 'setsid sleep 1000 >/dev/null 2>&1 & exit 0')
    check(job.code == 0, job.err)


@test
def ctrl_c_once_gives_time_and_twice_does_not():
    job = start('-n', '2', '--', WORKER, 'loop').ready()
    job.process.send_signal(signal.SIGINT)
    job.wait()
    check(job.code == 130, '%d %s' % (job.code, job.err))
    job = start('-n', '2', '--grace', '1000', '--', WORKER, 'stubborn').ready()
    job.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    check(job.process.poll() is None, 'it ended before its grace was over')
    job.process.send_signal(signal.SIGINT)
    job.wait()
    check(job.code == 130, '%d %s' % (job.code, job.err))


@test
def nohup_is_respected():
    job = start('-n', '2', '--', WORKER, 'loop', preexec=lambda: signal.signal(
        signal.SIGHUP, signal.SIG_IGN)).ready()
    job.process.send_signal(signal.SIGHUP)
    time.sleep(0.3)
    check(job.process.poll() is None, 'it ended')
    job.process.send_signal(signal.SIGTERM)
    check(job.wait().code == 143, str(job.code))


@test
def two_jobs_do_not_touch_each_other():
    first = start('-n', '2', '--', WORKER, 'loop').ready()
    second = start('-n', '2', '--', WORKER, 'train').wait()
    check(second.code == 0, second.err)
    check(first.process.poll() is None, 'the first job ended')
    first.process.send_signal(signal.SIGTERM)
    check(first.wait().code == 143, str(first.code))


if __name__ == '__main__':
    sys.exit(main())
