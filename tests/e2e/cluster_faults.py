"""Everything that can die, killed on a real cluster: nothing is left.

With PSD_TEST_SOAK=1 the times are psd_run's own defaults. The workers of most
tests are `brood`: each has descendants that have left its process group and
session (setsid, fork twice) and ignore SIGTERM and SIGHUP. What is left
behind is looked for after every test, see cluster_job.py.
"""
import os
import signal
import time

from cluster_job import (ALL, DEAD_AFTER, GRACE, NODES, SOAK,
                         check_nothing_left, cluster, find, here, kill, left,
                         start)
from common import LIMIT, Skip, WORKER, check, cmdline, contains, test, until

TIMES = [] if SOAK else ['--grace', str(GRACE)]
SEPARATE = {'worker_nodes': ['node0', 'node1'], 'server_nodes': ['node2']}
BROOD = 3  # processes of one worker


def begin(*words, config=None, workers=3, args=()):
    job = start(*TIMES, *args, '--', *words, config=config or ALL)
    job.ready(workers)
    if words[1:] == ('brood',):
        until(lambda: sum(cmdline(pid)[:1] == [WORKER] for pid, _ in here()) >=
              BROOD * workers, 'the brood is not there')
    return job


@test
def kill_9_of_psd_run_leaves_nothing_on_any_host():
    job = begin(WORKER, 'brood')
    job.process.kill()
    job.process.wait()
    check_nothing_left()


@test
def kill_9_of_a_remote_agent_leaves_nothing():
    job = begin(WORKER, 'brood')
    kill('node1', 'agent')
    job.ends_with(69, 'host node1 was lost', 'agent was killed by signal 9')


@test
def kill_9_of_a_remote_guard_leaves_nothing():
    job = begin(WORKER, 'brood')
    kill('node1', 'guard')
    job.ends_with(69, 'host node1 was lost', 'guard')


@test
def guard_and_agent_killed_at_once_leave_nothing_where_there_are_cgroups():
    """The hosts get a cgroup v2 of their own view, where the kernel has it."""
    c = cluster()
    root = '/sys/fs/cgroup'
    made = c.run('node1', ['sh', '-ec', """
        mount -t tmpfs tmpfs %s; mkdir %s/unified
        mount -t cgroup2 none %s/unified
        test -w %s/unified/cgroup.procs
        mkdir %s/unified/psd-look; test -e %s/unified/psd-look/cgroup.kill
        rmdir %s/unified/psd-look""" % ((root,) * 7)])
    try:
        if made.returncode != 0:
            raise Skip('no cgroup v2 with cgroup.kill: ' +
                       made.stderr.strip())
        job = begin(WORKER, 'brood')
        guard, = find('node1', 'guard')
        for number in (signal.SIGSTOP, signal.SIGKILL):
            kill('node1', 'guard', number)  # stopped, it cannot act between
            kill('node1', 'agent', number)
        job.ends_with(69, 'host node1 was lost')
        check_nothing_left()
        group = c.run('node1', ['ls', '%s/unified/poseidon-%d' % (root,
                                                                  guard)])
        check(group.returncode != 0, 'its cgroup is left')
    finally:
        c.run('node1', ['umount', root + '/unified'])
        c.run('node1', ['umount', root])


@test
def kill_9_of_the_local_ssh_leaves_nothing():
    job = begin(WORKER, 'brood')
    kill('node0', 'ssh node1')
    job.ends_with(69, 'host node1 was lost', 'ssh was killed by signal 9')


@test
def kill_9_of_the_remote_sshd_leaves_nothing():
    """The connection ends on the other side: a host that is rebooted."""
    job = begin(WORKER, 'brood')
    guard, = find('node1', 'guard')
    with open('/proc/%d/stat' % guard) as file:
        parent = int(file.read().rsplit(')', 1)[1].split()[1])
    os.kill(parent, signal.SIGKILL)
    job.ends_with(69, 'host node1 was lost')


@test
def kill_9_of_a_remote_worker_names_it_and_its_victims():
    job = begin(WORKER, 'brood')
    pid = job.started('worker 1')
    os.kill(pid, signal.SIGKILL)
    job.ends_with(137, 'worker 1 (pid %d on node1) was killed by signal 9 '
                  '(SIGKILL)' % pid, 'victims: ')
    contains(job.log('worker_2.err'), 'PSD_ELOST', 'worker 1 (pid %d' % pid)


@test
def kill_9_of_a_remote_server_names_it():
    job = begin(WORKER, 'brood', config=SEPARATE, workers=2)
    kill('node2', 'server')
    job.ends_with(137, 'server 0 (pid ', ' on node2) was killed by signal 9',
                  'SIGKILL')
    contains(job.log('worker_1.err'), 'PSD_ELOST', 'server 0')


@test
def kill_9_of_the_master_leaves_nothing():
    job = begin(WORKER, 'brood')
    kill('node0', 'master')
    job.ends_with(69, 'the master was ')


@test
def kill_9_of_a_remote_master_leaves_nothing():
    """It may share its host with a worker, or have it for itself."""
    for workers in (NODES, NODES[:2]):
        job = begin(WORKER, 'brood', workers=len(workers), config={
            'worker_nodes': workers, 'server_nodes': workers,
            'master_node': 'node2'})
        check(find('node0', 'master') == [], 'the master is not on node2')
        kill('node2', 'master')
        job.ends_with(69, 'master', 'node2')
        check_nothing_left()


@test
def a_cut_network_is_a_lost_host_and_both_sides_end():
    """Whether node2 has a worker, the master or both: nobody hangs, and what
    runs on node2 ends while it is still cut off. Three jobs at once, and one
    that is set up meanwhile."""
    c = cluster()
    two = {'worker_nodes': NODES[:2], 'server_nodes': NODES[:2],
           'master_node': 'node2'}
    times = ['--dead-after', str(DEAD_AFTER)]
    jobs = [begin(WORKER, 'brood', args=times),
            begin(WORKER, 'loop', config=two, workers=2, args=times),
            begin(WORKER, 'loop', config=dict(ALL, master_node='node2'),
                  args=times)]
    c.cut('node2')
    try:
        began = time.monotonic()
        late = start('--', WORKER, 'train', config={
            'worker_nodes': ['node0', 'node2'], 'server_nodes': ['node0']})
        jobs[0].ends_with(69, 'host node2 was lost: nothing was heard of it')
        jobs[1].ends_with(69, 'the master on node2 was lost: nothing was ')
        jobs[2].ends_with(69, 'node2 was lost: nothing was heard of it for ')
        seconds = time.monotonic() - began
        check(seconds < DEAD_AFTER + 15, 'lost after %.1f s' % seconds)
        late.refused(69, 'host node2: ', 'is it switched on, and does a '
                     'firewall let ssh through? See `ssh -v node2 true`')
        until(lambda: not any(x.startswith('node2') and 'sshd' not in x
                              for x in left()),
              'the lost host does not end its part', LIMIT)
    finally:
        c.join('node2')
    check_nothing_left(LIMIT)  # sshd has to learn that its client is gone


@test
def a_psd_run_that_sleeps_a_while_loses_nobody():
    """Ctrl-Z, or a machine that was suspended."""
    job = begin(WORKER, 'loop', args=['--dead-after', str(DEAD_AFTER)],
                config=dict(ALL, master_node='node2'))
    job.process.send_signal(signal.SIGSTOP)
    time.sleep(2.5 * DEAD_AFTER)
    job.process.send_signal(signal.SIGCONT)
    time.sleep(1.5 * DEAD_AFTER)
    check(job.process.poll() is None, 'it ended')
    job.interrupt().ends_with(130)


TRAP = ('trap "echo saved; exit 0" TERM; echo ready; '
        'while :; do sleep 0.05; done')


@test
def ctrl_c_once_gives_workers_time_to_save():
    job = start('--grace', '30', '--', 'sh', '-c', TRAP, config=ALL).ready(3)
    began = time.monotonic()
    job.interrupt().ends_with(130, 'SIGINT: ending the job', 'interrupted')
    check(time.monotonic() - began < 20, 'it waited for its grace')
    for rank in range(3):
        contains(job.log('worker_%d.out' % rank), 'saved')


@test
def ctrl_c_once_ends_those_who_ignore_sigterm_at_grace():
    job = begin(WORKER, 'stubborn')
    began = time.monotonic()
    job.interrupt().ends_with(130, 'interrupted')
    seconds = time.monotonic() - began
    check(GRACE * 0.95 <= seconds < GRACE + 10, '%.1f s' % seconds)


@test
def ctrl_c_twice_ends_them_at_once():
    job = start('--grace', '1000', '--', WORKER, 'stubborn', config=ALL)
    job.ready(3).interrupt()
    time.sleep(0.3)
    check(job.process.poll() is None, 'it ended before its grace was over')
    began = time.monotonic()
    job.interrupt().ends_with(130)
    check(time.monotonic() - began < 10, 'not at once')


@test
def ctrl_c_during_the_set_up_ends_it():
    """A host that does not answer keeps ssh for a while."""
    c = cluster()
    c.cut('node2')
    try:
        job = start(*TIMES, '--', WORKER, 'loop', config=ALL)
        until(lambda: find('node0', 'ssh node2'), 'ssh is not there')
        began = time.monotonic()
        job.interrupt().ends_with(130)
        check(time.monotonic() - began < 10, 'slow')
    finally:
        c.join('node2')


@test
def a_grandchild_that_hides_ends_with_the_job():
    hide = ('import os, signal, time\n'
            'signal.signal(signal.SIGTERM, signal.SIG_IGN)\n'
            'for _ in range(2):\n'
            '    if os.fork(): os._exit(0)\n'
            '    os.setsid()\n'
            'os.closerange(0, 100)\n'
            'time.sleep(1000)\n')
    job = start(*TIMES, '--', 'python3', '-c', hide, config=ALL)
    job.ends_with(0, '3 workers done')


@test
def two_jobs_at_once_do_not_touch_each_other():
    first = begin(WORKER, 'brood')
    second = begin(WORKER, 'brood')
    third = start(*TIMES, '--', WORKER, 'train', config=ALL)
    third.ends_with(0, ' 0 differences')
    second.process.kill()
    second.process.wait()
    until(lambda: len(find('node1', 'agent')) == 1, 'the second does not end')
    time.sleep(0.3)
    check(first.process.poll() is None, 'the first job ended: %s' % first)
    first.interrupt().ends_with(130)


