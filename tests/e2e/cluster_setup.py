"""Faults of the set-up: told soon, with host, cause and cure, before any
worker runs. One fault is on one host only, mostly node2."""
import os
import subprocess
import sys

from cluster_job import (ALL, Changed, Mounted, NODES, World, cluster,
                         note_before, run, start, table)
from common import PSD, WORKER, Failure, check, test

TRAIN = ['--', WORKER, 'train']


def config(*hosts, **more):
    return dict({'worker_nodes': list(hosts), 'server_nodes': list(hosts)},
                **more)


def ssh_file(node, name, user='root'):
    return cluster().path(node, user, '.ssh', name)


def text_of(path):
    with open(path) as file:
        return file.read()


@test
def a_host_that_cannot_be_reached_is_named_with_the_cure():
    """All at once; one whose packets vanish is in cluster_faults.py."""
    c = cluster()
    silent = '10.77.%d.250' % c.net  # nobody answers for it
    jobs = [(start(*TRAIN, config=config('node0', host)), host, parts)
            for host, parts in (
                ('nowhere', ['its name is not known here', '/etc/hosts']),
                ('10.99.0.1', ['there is no route to its network',
                               '`ip route`']),
                ('fd99::1', ['there is no route to its network']),
                (silent, ['there is no route to it', 'ping ' + silent]))]
    jobs.append((start(*TRAIN, config=config('node0', 'node1',
                                             master_node='nowhere')),
                 'nowhere', ['the master could not be started: ',
                             'its name is not known here']))
    for job, host, parts in jobs:
        job.refused(69, 'host %s: ' % host, *parts)


@test
def a_host_without_sshd_is_named_with_the_cure():
    c = cluster()
    c.stop_sshd('node2')
    try:
        run(*TRAIN, config=ALL).refused(
            69, 'host node2: no sshd listens there', 'systemctl start ssh')
    finally:
        c.start_sshd(['node2'])
        check_sshd_only()


def check_sshd_only():
    """What is new on the hosts is the sshd that was started again."""
    new = [x for key, x in table().items() if key not in World.table]
    check(all('sshd' in x['command'] for x in new), repr(new))
    note_before()


@test
def a_refused_key_is_told_with_ssh_copy_id():
    with Changed(ssh_file('node2', 'authorized_keys'), ''):
        run(*TRAIN, config=ALL).refused(
            69, 'host node2: it accepts none of your keys',
            '`ssh-copy-id node2`')
        run(*TRAIN, config=config('node0', 'node1', master_node='node2')
            ).refused(69, 'the master could not be started: host node2: it '
                      'accepts none of your keys')


@test
def an_unknown_host_key_is_not_accepted():
    path = ssh_file('node0', 'known_hosts')
    lines = text_of(path).splitlines(True)
    less = ''.join(x for x in lines if not x.startswith('node2'))
    with Changed(path, less):
        run(*TRAIN, config=ALL).refused(
            69, 'host node2: its host key is not known yet',
            '`ssh node2 true`')
        check(text_of(path) == less, 'known_hosts was changed')


@test
def a_changed_host_key_is_not_accepted():
    path = ssh_file('node0', 'known_hosts')
    text = text_of(path)
    swap = text.replace('node1', 'node9').replace('node2', 'node1').replace(
        'node9', 'node2')
    with Changed(path, swap):
        run(*TRAIN, config=config('node0', 'node2')).refused(
            69, 'host node2: its host key is not the one that is known',
            'ssh-keygen -R node2')
        run(*TRAIN, config=config('node0', master_node='node2')).refused(
            69, 'host node2: its host key is not the one that is known')
        check(text_of(path) == swap, 'known_hosts was changed')


@test
def a_missing_virtualenv_is_named_with_its_host():
    c = cluster()
    for node in NODES[:2]:
        os.makedirs(c.path(node, 'root', 'venv', 'bin'), exist_ok=True)
    run(*TRAIN, config=dict(ALL, virtualenv='~/venv')).refused(
        69, 'host node2: there is no virtualenv %s/venv' % c.home(),
        'python3 -m venv')


def script(name, text):
    """A program on no host's PATH; its path."""
    path = cluster().path(name)
    with open(path, 'w') as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


OTHER = """#!/bin/sh
[ "$1" != --version ] || { echo psd 9.9.9; exit; }
echo poseidon $1 1 9.9.9
exec cat >/dev/null
"""


@test
def another_version_of_psd_is_told_and_copy_replaces_it():
    other = script('other-psd', OTHER)
    with Mounted('node2', other, PSD):
        run(*TRAIN, config=ALL).refused(
            69, 'host node2: psd is version 9.9.9', 'same version', '--copy')
        run(*TRAIN, config=config('node0', master_node='node2')).refused(
            69, 'host node2: psd is version 9.9.9')
        run('--copy', *TRAIN, config=ALL).ends_with(0, ' 0 differences')


def copies():
    folder = cluster().path('node2', 'root', '.cache', 'poseidon')
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


@test
def a_missing_psd_is_told_and_copied_once():
    c = cluster()
    empty = c.path('empty')
    os.makedirs(empty, exist_ok=True)
    c.run('node2', ['rm', '-rf', c.home() + '/.cache'])
    with Mounted('node2', empty, os.path.dirname(PSD)):
        run(*TRAIN, config=ALL).refused(
            69, 'host node2: psd is not installed there', '--copy')
        run('--copy', *TRAIN, config=ALL).ends_with(0, ' 0 differences')
        first = copies()
        check(len(first) == 1 and first[0].startswith('copy-'), repr(first))
        path = c.path('node2', 'root', '.cache', 'poseidon', first[0], 'bin',
                      'psd')
        root = os.path.dirname(os.path.dirname(path))
        for name in ('libposeidon.so.0', 'python/boot/sitecustomize.py',
                     'python/poseidon/_boot.py'):
            check(os.path.isfile(os.path.join(root, name)), name)
        before = os.stat(path)
        run('--copy', '--', WORKER, 'train', config=dict(
            ALL, master_node='node2')).ends_with(0)
        check(copies() == first and os.stat(path).st_ino == before.st_ino,
              'copied again: %r' % copies())
    c.run('node2', ['rm', '-rf', c.home() + '/.cache'])


LISTEN = """
import socket, sys
ends = [socket.create_server(('', int(sys.argv[1]) + i)) for i in range(2)]
ends += [socket.create_server(('::', int(sys.argv[1]) + i),
                              family=socket.AF_INET6) for i in range(2)]
print('ready', flush=True)
sys.stdin.read()
"""


@test
def taken_ports_are_told_before_anything_runs():
    c = cluster()
    with c.popen('node2', [sys.executable, '-c', LISTEN, '7000'],
                 stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        other.stdout.readline()
        run(*TRAIN, config=dict(ALL, ports='7000-7001')).refused(
            69, 'host node2: 0 of the ports 7000-7001 are free', 'ss -ltnp',
            '"ports"')
        other.stdin.close()
        other.wait()
    run(*TRAIN, config=dict(ALL, ports='7000-7001')).ends_with(0)


@test
def a_log_folder_that_cannot_be_made_is_told_with_its_host():
    c = cluster()
    path = c.path('node2', 'root', 'logs')
    with Changed(path, 'a file, no folder'):
        run('-o', c.home() + '/logs', *TRAIN, config=ALL).refused(
            73, 'host node2: cannot make the folder %s/logs' % c.home(), '-o')
    os.makedirs(path, exist_ok=True)
    mounted = c.run('node2', ['mount', '-t', 'tmpfs', '-o', 'size=1m', 'tmpfs',
                              c.home() + '/logs'])
    check(mounted.returncode == 0, mounted.stderr)
    try:
        run('-o', c.home() + '/logs', *TRAIN, config=ALL).refused(
            73, 'host node2: the disk of %s/logs' % c.home(), ' is full')
    finally:
        c.run('node2', ['umount', c.home() + '/logs'])
    # And on this one, where it is found first.
    run('-o', '/proc/nothing', *TRAIN, config=ALL).refused(
        73, 'cannot make the folder /proc/nothing', '-o')


@test
def a_command_that_one_host_lacks_is_told_with_it():
    c = cluster()
    tool = c.home() + '/tool'
    for node in NODES[:2]:
        path = c.path(node, 'root', 'tool')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\necho ready\n')
        os.chmod(path, 0o755)
    for words in ([tool + ' --x'], ['--', tool, '--x']):
        run(*words, config=ALL).refused(
            127, 'host node2: %s: command not found' % tool)
    with Changed(c.path('node2', 'root', 'tool'), 'echo ready\n', 0o644):
        for words in ([tool + ' --x'], ['--', tool, '--x']):
            run(*words, config=ALL).refused(
                126, 'host node2: %s: cannot be executed' % tool)
    for words in (['no-such-tool --x'], ['--', 'no-such-tool', '--x']):
        run(*words, config=ALL).refused(127, 'no-such-tool: command not found')


NOISE = """
echo Welcome to this machine
echo poseidon is a god
echo 'mail: none' >&2
printf 'no end of line'
"""


@test
def a_login_script_that_prints_does_no_harm():
    c = cluster()
    with Changed(c.path('node1', 'root', '.bashrc'), NOISE, 0o644):
        done = c.run('node0', ['ssh', 'node1', 'true'])
        if 'Welcome' not in done.stdout:
            raise Failure('the script is not run: %r' % done)
        run(*TRAIN, config=dict(ALL, master_node='node1')).ends_with(
            0, ' 0 differences')
        run('--copy', *TRAIN, config=ALL).ends_with(0, ' 0 differences')
