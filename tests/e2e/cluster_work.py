"""What a worker finds on its host, and training over hosts."""
import glob
import json
import os
import re
import shutil
import subprocess
import sys

from cluster_job import ALL, Changed, NODES, cluster, run, start
from common import PSD, Skip, WORKER, check, contains, test, until

# Its environment and arguments, in a file per process of the job.
LOOK = r"""
import json, os, sys
name = '%s-%s' % (os.environ['PSD_ROLE'], os.environ.get('PSD_RANK', 'x'))
out = sys.argv[1] + '/' + name + '.json'
with open(out + '.new', 'w') as file:
    json.dump({'env': dict(os.environ), 'argv': sys.argv[2:],
               'cwd': os.getcwd(), 'uid': os.getuid(),
               'host': os.uname().nodename}, file)
os.rename(out + '.new', out)
"""


def look(*args, config=ALL, words=(), count=3, **more):
    """Run it; what each worker saw, by rank."""
    folder = cluster().path('seen')
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o1777)
    for path in glob.glob(folder + '/*'):
        os.unlink(path)
    job = run(*args, '--', sys.executable, '-c', LOOK, folder, *words,
              config=config, **more).ends_with(0, '%d worker' % count)
    seen = []
    for rank in range(count):
        with open('%s/worker-%d.json' % (folder, rank)) as file:
            seen.append(json.load(file))
    return job, seen


def same(name, got, want):
    check(got == want, '%s is %r, not %r' % (name, got, want))


def environment_is(seen, **wanted):
    for name, value in wanted.items():
        same(name, seen['env'].get(name), value)


# ---- environment ----------------------------------------------------------

@test
def the_environment_is_what_the_manual_says():
    c = cluster()
    for node in NODES:
        os.makedirs(c.path(node, 'root', 'py', 'bin'), exist_ok=True)
    job, seen = look('--name', 'night', '-x', 'COLOUR', '-x', 'SHAPE=a b"$c',
                     words=['{rank}', '{size}', '{host}', '{{rank}}',
                            '{worker_hosts}', '{master}'],
                     config=dict(ALL, virtualenv='~/py'),
                     env={'COLOUR': 'blue', 'UNASKED': 'red'})
    for rank, one in enumerate(seen):
        node = 'node%d' % rank
        same('host', one['host'], node)
        environment_is(
            one, PSD_RANK=str(rank), PSD_SIZE='3', PSD_LOCAL_RANK='0',
            PSD_LOCAL_SIZE='1', PSD_HOST=node, PSD_ROLE='worker',
            JOB_NAME='night', EXPERIMENT_ID='night', COLOUR='blue',
            SHAPE='a b"$c', VIRTUAL_ENV=c.home() + '/py')
        check(one['env']['PATH'].startswith(c.home() + '/py/bin:'),
              one['env']['PATH'])
        same('cwd', one['cwd'], job.folder)
        hosts = ['%s:' % x for x in NODES]
        tf = json.loads(one['env']['TF_CONFIG'])
        same('task', tf['task'], {'type': 'worker', 'index': rank - 1}
             if rank else {'type': 'master', 'index': 0})
        for got, want in zip(tf['cluster']['master'] + tf['cluster']['worker'],
                             hosts, strict=True):
            check(got.startswith(want), '%s %s' % (got, want))
        same('ps', len(tf['cluster']['ps']), 3)
        same('PSD_MASTER', one['env']['PSD_MASTER'],
             tf['cluster']['master'][0])
        same('argv', one['argv'],
             [str(rank), '3', node, '{rank}', ','.join(
                 tf['cluster']['master'] + tf['cluster']['worker']),
              tf['cluster']['master'][0]])
    check('UNASKED' not in seen[1]['env'], 'passed without -x')


@test
def a_program_of_the_virtualenv_is_found_in_both_forms():
    c = cluster()
    for node in NODES:
        os.makedirs(c.path(node, 'root', 'py', 'bin'), exist_ok=True)
        path = c.path(node, 'root', 'py', 'bin', 'trainer')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\necho trainer of $(hostname)\n')
        os.chmod(path, 0o755)
    for words in (['trainer x'], ['--', 'trainer', 'x']):
        job = run(*words, config=dict(ALL, virtualenv='~/py')).ends_with(0)
        for rank, node in enumerate(NODES):
            same('output', job.log('worker_%d.out' % rank),
                 'trainer of %s\n' % node)


@test
def gpus_are_dealt_one_to_each_worker_and_none_to_servers():
    _, seen = look(count=4, config={
        'worker_nodes': ['node0', {'host': 'node1', 'gpus': [2, 3]},
                         {'host': 'node2', 'slots': 1, 'gpus': [0, 1]}],
        'server_nodes': ['node0']}, env={'CUDA_VISIBLE_DEVICES': '5'})
    same('gpus', [x['env'].get('CUDA_VISIBLE_DEVICES') for x in seen],
         ['5', '2', '3', '0,1'])
    same('local', [x['env']['PSD_LOCAL_RANK'] for x in seen],
         ['0', '0', '1', '0'])


# ---- commands -------------------------------------------------------------

@test
def ps_processes_run_beside_the_workers_and_end_with_them():
    job = run('echo {job_name} {task_index} {ps_hosts}; '
              '[ {job_name} = worker ] || { touch ps{task_index}; '
              'exec sleep 1000; }; '
              'until [ -e ps0 ] && [ -e ps1 ]; do sleep 0.02; done',
              config={'worker_nodes': ['node0', 'node1'],
                      'server_nodes': ['node1', 'node2']}).ends_with(0)
    ps = job.log('worker_0.out').split()[2]
    check(re.fullmatch(r'node1:\d+,node2:\d+', ps), ps)
    for index in range(2):
        same('worker', job.log('worker_%d.out' % index),
             'worker %d %s\n' % (index, ps))
        same('ps', job.log('server_%d.log' % index),
             'ps %d %s\n' % (index, ps))
    job = run('echo $PSD_ROLE; [ $PSD_ROLE = worker ] || { touch up; '
              'exec sleep 1000; }; until [ -e up ]; do sleep 0.02; done',
              config={'worker_nodes': ['node0'], 'server_nodes': ['node1'],
                      'roles': True}).ends_with(0)
    same('ps', job.log('server_0.log'), 'ps\n')


@test
def each_worker_can_have_its_own_command():
    commands = ['echo a $PSD_RANK', 'echo b $PSD_RANK', 'echo c; echo "d, e"']
    for job in (start(', '.join(commands[:2] + ['echo c']), config=ALL),
                start(config=dict(ALL, commands=commands))):
        job.ends_with(0)
        same('first', job.log('worker_0.out'), 'a 0\n')
        same('second', job.log('worker_1.out'), 'b 1\n')
        check(job.log('worker_2.out') in ('c\n', 'c\nd, e\n'), 'third')


@test
def words_after_two_dashes_meet_no_shell():
    words = ['$HOME', '`id`', "a  'b", '*', ';', '', '-x', '"', '\n', '\\']
    _, seen = look(words=words)
    for one in seen:
        same('argv', one['argv'], words)


@test
def a_missing_working_directory_is_home_with_a_warning():
    c = cluster()
    folder = c.home() + '/only-here'
    os.makedirs(c.path('node0', 'root', 'only-here'), exist_ok=True)
    job, seen = look(cwd=folder, config=ALL)
    contains(job.err, 'there is no folder %s, working in %s' % (
        folder, c.home()), 'host node1 and 1 more')
    same('cwd', [x['cwd'] for x in seen], [folder, c.home(), c.home()])
    logs = glob.glob(c.path('node2', 'root', 'poseidon_log_*'))
    same('logs', [sorted(os.listdir(x)) for x in logs],
         [['worker_2.err', 'worker_2.out']])


@test
def the_same_name_again_goes_on_in_the_same_folder():
    first = start('--name', 'night', '-o', 'out', '--', 'sh', '-c',
                  'echo ready; sleep 1000', config=ALL)
    path = first.folder + '/out/night/worker_%d.out'
    until(lambda: all(os.path.exists(path % x) and os.path.getsize(path % x)
                      for x in range(3)), 'it does not start')
    second = start('--name', 'night', '-o', 'out', '--', 'true',
                   cwd=first.folder, config=ALL)
    second.ends_with(69, 'the name night is running', 'another --name')
    first.interrupt().ends_with(130)
    run('--name', 'night', '-o', 'out', '--', 'echo', 'again',
        cwd=first.folder, config=ALL).ends_with(0)
    for rank in range(3):
        with open(path % rank) as file:
            same('log', file.read(), 'ready\nagain\n')


# ---- hosts ----------------------------------------------------------------

@test
def hosts_come_from_a_hostfile_or_slurm():
    c = cluster()
    path = c.path('hostfile')
    with open(path, 'w') as file:
        file.write('# ours\nnode0\nnode1 slots=2  # two\nnode2:22\n')
    _, seen = look('--hostfile', path, config=None, count=4)
    same('hosts', [x['host'] for x in seen],
         ['node0', 'node1', 'node1', 'node2'])
    _, seen = look(config=None, env={
        'SLURM_JOB_ID': '7', 'SLURM_JOB_NODELIST': 'node[0-2]',
        'SLURM_TASKS_PER_NODE': '1(x2),2'}, count=4)
    same('hosts', [x['host'] for x in seen],
         ['node0', 'node1', 'node2', 'node2'])


@test
def another_way_than_ssh_reaches_hosts():
    c = cluster()
    path, calls = c.path('rsh'), c.path('rsh-calls')
    with open(path, 'w') as file:
        file.write('#!/bin/sh\n[ "$1" = -z ] || exit 9\nshift; host=$1; '
                   'shift\necho "$host: $*" >>%s\nexec ssh "$host" "$@"\n' %
                   calls)
    os.chmod(path, 0o755)
    look('--rsh', path + ' -z')
    look(env={'PSD_RSH': path + ' -z'})
    with open(calls) as file:
        lines = sorted(re.sub(r': \S*/', ': ', x) for x in file)
    same('calls', lines, ['node1: psd agent\n'] * 2 + ['node2: psd agent\n']
         * 2)
    run('--rsh', 'no-such-rsh', '--', 'true', config=ALL).refused(
        69, 'no-such-rsh')


@test
def hosts_can_be_addresses_with_user_and_port():
    c = cluster()
    for hosts in ([c.address(x, 6) for x in NODES],
                  ['localhost', '[%s]:2222' % c.address('node1', 6),
                   c.address('node2')],
                  ['node0', 'node1:2222', 'root@node2:22']):
        _, seen = look(config={'worker_nodes': hosts, 'server_nodes': hosts})
        same('hosts', [x['host'] for x in seen], NODES)
        tf = json.loads(seen[2]['env']['TF_CONFIG'])
        check(len(tf['cluster']['worker']) == 2, repr(tf))


def users(cwd, config):
    """Who the workers of node1 and node2 are, by number."""
    c = cluster()
    for path in glob.glob(c.path('node[12]', 'ubuntu', 'poseidon_log_*')):
        shutil.rmtree(path)
    run('--', 'id', '-u', cwd=cwd, config=config).ends_with(0)
    found = []
    for rank in (1, 2):
        path, = glob.glob(c.path('node%d' % rank, 'ubuntu', 'poseidon_log_*',
                                 'worker_%d.out' % rank))
        with open(path) as file:
            found.append(int(file.read()))
    return found


@test
def another_user_and_a_pem_file_are_used():
    c = cluster()
    if c.run('node0', ['ssh', 'ubuntu@node1', 'test', '-x', PSD]).returncode:
        raise Skip('%s is in a folder that other users do not see' % PSD)
    key = c.path('node0', 'root', 'aws.pem')
    if not os.path.exists(key):
        subprocess.run(['ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f',
                        key], check=True)
    with open(key + '.pub') as file:
        public = file.read()
    os.makedirs(c.path('node0', 'root', 'only-here'), exist_ok=True)
    cwd = c.home() + '/only-here'
    hosts = ['node0', 'ubuntu@node1', {'host': 'node2', 'user': 'ubuntu'}]
    want = [c.users['ubuntu']] * 2
    same('uid', users(cwd, {'worker_nodes': hosts, 'server_nodes': hosts}),
         want)
    authorized = [c.path(x, 'ubuntu', '.ssh', 'authorized_keys')
                  for x in NODES[1:]]
    with Changed(authorized[0], public), Changed(authorized[1], public):
        same('uid', users(cwd, dict(ALL, pem_file='~/aws.pem')), want)
        run('--', 'true', cwd=cwd, config=dict(ALL, username='ubuntu')
            ).ends_with(69, 'it accepts none of your keys')


def listening(node):
    """Ports with a listener, and its address in hexadecimal digits."""
    found = set()
    for name in ('tcp', 'tcp6'):
        with open('/proc/%d/net/%s' % (cluster().holder(node), name)) as file:
            for line in list(file)[1:]:
                fields = line.split()
                if fields[3] == '0A':
                    address, port = fields[1].split(':')
                    found.add((int(port, 16), address))
    return found


@test
def interface_and_ports_are_where_data_links_listen():
    c = cluster()
    before = {node: listening(node) for node in NODES}
    job = start('--', WORKER, 'loop', config=dict(
        ALL, interface='eth0', ports='7100-7109')).ready(3)
    for i, node in enumerate(NODES):
        new = listening(node) - before[node]
        v4 = '%02X%02X4D0A' % (i + 1, c.net)  # 10.77.net.i, little-endian
        check(new and all(7100 <= port <= 7109 and address == v4
                          for port, address in new), '%s: %r' % (node, new))
    job.interrupt().ends_with(130)
    run('--', WORKER, 'train', config=dict(ALL, interface='ib7')).refused(
        69, 'there is no interface ib7', 'ip -brief addr')


# ---- training -------------------------------------------------------------

@test
def replicas_are_equal_on_every_layout():
    for workers, servers in (
            (NODES, NODES),
            (NODES[:2], NODES[2:]),
            (NODES, ['node1']),
            ([{'host': 'node0', 'slots': 2}, 'node1', 'node1', 'node2'],
             ['node0', 'node2'])):
        job = run('--digest', 'step', '--', WORKER, 'train', config={
            'worker_nodes': workers, 'server_nodes': servers})
        job.ends_with(0, 'at step 49', ' 0 differences')
        count = len(workers) + (workers != NODES and len(workers) == 4)
        for rank in range(count):
            same('output of %d' % rank, job.log('worker_%d.out' % rank),
                 'trained\n')
        alone = workers != servers and len(servers)
        same('servers', len(glob.glob(job.logs() + '/server_*')),
             alone if alone else 0)


