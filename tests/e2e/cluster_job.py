"""psd_run on a cluster of namespaces: what the groups of cluster_test share.

There is one cluster for all tests: node0, where psd_run runs, node1 and node2
behind ssh. Every process on a host is seen by Cluster.ps, whatever its parent
or session; TMPDIR and /dev/shm of a host are its own. So what a test leaves
behind on any host is found by comparison with what was there before.
"""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                os.pardir))
from cluster import Cluster, net_of, processes  # noqa: E402
from common import (BaseJob, Failure, GONE, LIMIT, PSD_RUN, check, cmdline,
                    contains, keep, until)

SOAK = os.environ.get('PSD_TEST_SOAK', '') not in ('', '0')
GRACE = 10.0 if SOAK else 0.8       # the defaults, or scaled down
DEAD_AFTER = 3.0 if SOAK else 0.8
SETUP = 10.0   # a fault of the set-up is told within this time
NODES = ['node0', 'node1', 'node2']
ALL = {'worker_nodes': NODES, 'server_nodes': NODES}


class World:
    """The cluster, and what was on its hosts before the test."""

    cluster = None
    table = set()
    memory = {}


def cluster():
    return World.cluster


def start_cluster():
    """Cluster.up, with a TMPDIR on each host that ssh gives to everybody."""
    c = World.cluster = Cluster(len(NODES), prefix='psdfault')
    c.__enter__()
    for node in NODES:
        os.mkdir(c.path(node, 't'))
        os.chmod(c.path(node, 't'), 0o1777)
        with open(c.path(node, 'sshd_config'), 'a') as file:
            file.write('SetEnv TMPDIR=%s\n' % c.path('host', 't'))
        c.stop_sshd(node)
    c.start_sshd()


def stop_cluster():
    World.cluster.__exit__()


def table():
    return {(x['pid'], x['started']): x for x in cluster().ps()}


def here():
    """(pid, host) of processes in the hosts' networks: less than `table`
    sees, if somebody hides, but cheap enough to be asked again and again."""
    nets = {net_of(cluster().holder(node)): node for node in NODES}
    found = [(pid, nets.get(net_of(pid))) for pid in processes()]
    return [one for one in found if one[1] is not None]


def memory(node):
    """Entries of the host's /dev/shm."""
    root = '/proc/%d/root' % cluster().holder(node)
    return set(os.listdir(os.path.join(root, 'dev', 'shm')))


def note_before():
    World.table = set(table())
    World.memory = {node: memory(node) for node in NODES}


def left():
    """What is on the hosts that was not there before, as sentences."""
    c = cluster()
    found = ['%(node)s has process %(pid)d: %(command)s' % x
             for key, x in table().items() if key not in World.table]
    for node in NODES:
        found += ['%s has %s in TMPDIR' % (node, x)
                  for x in os.listdir(c.path(node, 't'))]
        found += ['%s has /dev/shm/%s' % (node, x)
                  for x in memory(node) - World.memory[node]]
    return found


def check_nothing_left(limit=GONE):
    deadline = time.monotonic() + limit
    known = {pid for pid, _ in World.table}
    known |= {pid for pid, _ in cluster().holders.values()}
    while True:
        late = time.monotonic() >= deadline
        if late or not any(pid not in known for pid, _ in here()):
            found = left()
            if not found:
                return
            check(not late, 'left behind: %s' % '\n'.join(found))
        time.sleep(0.05)


def write_json(path, value):
    with open(path, 'w') as file:
        json.dump(value, file)
    return path


class Job(BaseJob):
    """psd_run on node0, in a folder of its own that all hosts see."""

    def __init__(self, *args, config=None, env=None, cwd=None, node='node0',
                 program=None):
        c = cluster()
        self.parent = tempfile.mkdtemp(prefix='psd-e2e-')
        os.chmod(self.parent, 0o755)
        self.folder = cwd or self.parent
        args = list(args)
        if config is not None:
            args = ['-c', write_json(self.parent + '/cluster.json', config),
                    *args]
        environment = {
            name: value for name, value in c.environment(node).items()
            if not name.startswith(('PSD_', 'SLURM_')) and
            not name.endswith('_NUM_THREADS')}
        environment['TMPDIR'] = c.path('host', 't')
        environment.update(env or {})
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            c.words(node, [program or PSD_RUN, *args], cwd=self.folder),
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True)

    def wait(self, limit=LIMIT + 10 * GRACE):
        super().wait(limit)
        self.seconds = time.monotonic() - self.began
        return self

    def ends_with(self, code, *parts):
        """The exit code is `code`, and stderr has these parts."""
        self.wait()
        check(self.code == code, 'exit code %d, not %d: %s' % (
            self.code, code, self.err))
        contains(self.err, *parts)
        return self

    def refused(self, code, *parts):
        """Ended before any worker ran, soon, with this code and text."""
        self.ends_with(code, *parts)
        check(self.seconds < SETUP, 'told after %.1f s' % self.seconds)
        for root, _, files in os.walk(self.folder):
            for name in files:
                check(not name.startswith(('worker_', 'server_')),
                      'something ran: %s/%s' % (root, name))
        check(self.out == '', self.out)
        return self

    def interrupt(self):
        self.process.send_signal(signal.SIGINT)
        return self

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        until(lambda: not end_rest(), 'processes do not end')
        shutil.rmtree(self.parent, ignore_errors=True)


def end_rest():
    """Kill what a failed test has left; how many."""
    rest = [x for key, x in table().items() if key not in World.table]
    for one in rest:
        try:
            os.kill(one['pid'], signal.SIGKILL)
        except ProcessLookupError:
            pass
    for node in NODES if rest else []:
        for name in os.listdir(cluster().path(node, 't')):
            shutil.rmtree(cluster().path(node, 't', name),
                          ignore_errors=True)
    return len(rest)


def start(*args, **more):
    return keep(Job(*args, **more))


def run(*args, **more):
    return start(*args, **more).wait()


def find(node, what):
    """Pids on a host: agent, guard, master, server, or `ssh HOST`."""
    found = []
    for pid, at in here():
        words = cmdline(pid) if at == node else []
        if not words:
            continue
        try:
            with open('/proc/%d/comm' % pid) as file:
                name = file.read().strip()
        except OSError:
            continue
        program = os.path.basename(words[0])
        if (what in ('agent', 'guard') and name == 'psd ' + what or
                what in ('master', 'server') and program == 'psd' and
                words[1:2] == [what] or
                what.startswith('ssh ') and program == 'ssh' and
                what.split()[1] in words):
            found.append(pid)
    return found


def kill(node, what, number=signal.SIGKILL):
    found = find(node, what)
    if not found:
        raise Failure('no %s on %s' % (what, node))
    for pid in found:
        os.kill(pid, number)


class Changed:
    """A file of a host that is another while the block runs; None: none."""

    def __init__(self, path, text, mode=0o600):
        self.path, self.text, self.mode = path, text, mode

    def __enter__(self):
        self.before = None
        if os.path.exists(self.path):
            with open(self.path) as file:
                self.before = file.read()
            self.about = os.stat(self.path)
        self.write(self.text, self.mode)

    def write(self, text, mode):
        if text is None:
            os.unlink(self.path)
            return
        with open(self.path, 'w') as file:
            file.write(text)
        os.chmod(self.path, mode)

    def __exit__(self, *_):
        if self.before is None:
            os.unlink(self.path)
            return
        self.write(self.before, self.about.st_mode & 0o7777)
        os.chown(self.path, self.about.st_uid, self.about.st_gid)


class Mounted:
    """Something else over a path, on one host, while the block runs."""

    def __init__(self, node, source, path):
        self.node, self.source, self.path = node, source, path

    def do(self, *words):
        done = cluster().run(self.node, list(words))
        check(done.returncode == 0, '%r: %s' % (words, done.stderr))

    def __enter__(self):
        self.do('mount', '--bind', self.source, self.path)

    def __exit__(self, *_):
        until(lambda: cluster().run(
            self.node, ['umount', self.path]).returncode == 0,
            self.path + ' stays busy', GONE)
