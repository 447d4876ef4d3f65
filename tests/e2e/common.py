"""What the end-to-end tests share: claims, jobs, TAP.

A test file is called as FILE BUILD_DIR [PATTERN...]; its tests are functions
that were handed to `test`, and it ends with `sys.exit(main())`.

Every job runs with a marker in its environment and a private TMPDIR; after
each test no process with the marker, no socket folder and no new entry of
/dev/shm may be left.
"""
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

LIMIT = 60.0  # of any one job
GONE = 15.0   # everything has to be gone; 2 s on a machine that is not busy

words = [word for word in sys.argv[1:] if word != '--build']
build = os.path.abspath(words[0] if words else 'build')
patterns = words[1:] or ['']
PSD = os.path.join(build, 'bin', 'psd')
PSD_RUN = os.path.join(build, 'bin', 'psd_run')
WORKER = os.path.join(build, 'tests', 'e2e', 'e2e_worker')
EXCHANGE = os.path.join(build, 'tests', 'e2e', 'e2e_exchange')
PASSES = os.path.join(build, 'tests', 'e2e', 'e2e_passes')
TESTS = []
JOBS = []  # of the test that runs


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


def contains(text, *parts):
    for part in parts:
        check(part in text, 'expected %r in:\n%s' % (part, text))


def until(condition, text, limit=LIMIT):
    """Wait for a condition; what it returned."""
    deadline = time.monotonic() + limit
    while True:
        value = condition()
        if value:
            return value
        check(time.monotonic() < deadline, text)
        time.sleep(0.02)


def cmdline(pid):
    try:
        with open('/proc/%d/cmdline' % pid, 'rb') as file:
            return [word.decode(errors='replace')
                    for word in file.read().split(b'\0')[:-1]]
    except OSError:
        return []


class BaseJob:
    """A psd_run: `process` runs in `folder`, where its logs are, too."""

    process = None
    folder = None

    def wait(self, limit=LIMIT):
        try:
            out, err = self.process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            raise Failure('psd_run does not end')
        self.out = (out or b'').decode(errors='replace')
        self.err = (err or b'').decode(errors='replace')
        self.code = self.process.returncode
        return self

    def logs(self):
        found = [os.path.dirname(name) for name in glob.glob(os.path.join(
            glob.escape(self.folder), '*', 'worker_0.out'))] or glob.glob(
                os.path.join(glob.escape(self.folder), 'poseidon_log_*'))
        check(len(found) == 1, 'one log folder, not %r' % found)
        return found[0]

    def log(self, name):
        with open(os.path.join(self.logs(), name), errors='replace') as file:
            return file.read()

    def started(self, name):
        """Pid of "worker 1" or "server 0", from psd_run's own log."""
        with open(os.path.join(self.folder, 'poseidon_run.log')) as file:
            found = re.search(r'%s is pid (\d+)' % name, file.read())
        check(found, 'psd_run logged no %s' % name)
        return int(found.group(1))

    def ready(self, count=1):
        """Every worker, and there are at least `count`, trains."""
        deadline = time.time() + LIMIT
        while time.time() < deadline:
            files = glob.glob(os.path.join(
                glob.escape(self.folder), '*', 'worker_*.out'))
            if len(files) >= count and all('ready' in open(file).read()
                                           for file in files):
                return self
            if self.process.poll() is not None:
                self.wait()
                raise Failure('psd_run ended too early: ' + self.err)
            time.sleep(0.02)
        raise Failure('the workers do not get ready')

    def clean(self):
        """Nothing is left, soon."""

    def end(self):
        """Whatever happened, leave nothing to the next test."""


class Job(BaseJob):
    """One psd_run with its own folder and marker."""

    program = PSD_RUN

    def __init__(self, *args, env=None, cwd=None, preexec=None, stderr=None,
                 files=None):
        self.mark = uuid.uuid4().hex
        self.folder = tempfile.mkdtemp(prefix='psd-e2e-')
        self.tmp = os.path.join(self.folder, 't')
        os.mkdir(self.tmp)
        for name, text in (files or {}).items():
            path = os.path.join(self.folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        self.shm = set(os.listdir('/dev/shm'))
        environment = dict(os.environ)
        for name in list(environment):
            if name.startswith('PSD_') or name.endswith('_NUM_THREADS'):
                del environment[name]
        environment.update(PSD_E2E_MARK=self.mark, TMPDIR=self.tmp,
                           XDG_RUNTIME_DIR=self.tmp)
        environment.update(env or {})
        self.environment = environment
        self.process = subprocess.Popen(
            [self.program, *args], cwd=cwd or self.folder, env=environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr or subprocess.PIPE, preexec_fn=preexec,
            start_new_session=True)

    def pids(self):
        """Living processes of this job: pid -> parent."""
        found = {}
        for name in os.listdir('/proc'):
            if not name.isdigit():
                continue
            try:
                with open('/proc/%s/environ' % name, 'rb') as file:
                    if self.mark.encode() not in file.read():
                        continue
                with open('/proc/%s/stat' % name) as file:
                    fields = file.read().rsplit(')', 1)[1].split()
                if fields[0] != 'Z':
                    found[int(name)] = int(fields[1])
            except (OSError, IndexError):
                pass
        return found

    def role(self, role):
        """Pid of the master, the guard or the agent."""
        pids = self.pids()
        for pid in pids:
            words = cmdline(pid)
            if len(words) < 2 or os.path.basename(words[0]) != 'psd':
                continue
            if (words[1] == role if role == 'master' else
                    name_of(pid) == 'psd ' + role):
                return pid
        raise Failure('no %s among %r' % (role, pids))

    def left(self):
        """What is in the private folder."""
        return os.listdir(self.tmp)

    def clean(self):
        """Nothing is left, soon."""
        deadline = time.time() + GONE
        while time.time() < deadline:
            left = self.pids()
            if not left:
                break
            time.sleep(0.02)
        check(not left, 'processes are left: %r' %
              [(pid, cmdline(pid)) for pid in left])
        if self.process.returncode == -signal.SIGKILL:
            # Whoever looks for jobs next removes what psd_run could not.
            subprocess.run([PSD, 'status'], env=self.environment,
                           stdout=subprocess.DEVNULL, check=False)
        while self.left() and time.time() < deadline:
            time.sleep(0.02)
        check(not self.left(), 'a socket folder is left: %r' % self.left())
        new = [name for name in set(os.listdir('/dev/shm')) - self.shm
               if 'psd' in name]
        check(not new, '/dev/shm has %r' % new)

    def end(self):
        """Whatever happened, leave nothing to the next test."""
        for pid in self.pids():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def keep(job):
    JOBS.append(job)
    return job


def name_of(pid):
    try:
        with open('/proc/%d/comm' % pid) as file:
            return file.read().strip()
    except OSError:
        return ''


def start(*args, **kwargs):
    return keep(Job(*args, **kwargs))


def run(*args, **kwargs):
    return start(*args, **kwargs).wait()


def run_one(number, function, after):
    name = function.__name__.replace('_', ' ')
    began = time.time()
    try:
        function()
        for job in JOBS:
            job.clean()
        after()
        print('ok %d - %s # %.1f s' % (number, name, time.time() - began),
              flush=True)
    except Skip as reason:
        print('ok %d - %s # SKIP %s' % (number, name, reason), flush=True)
    except Exception as error:  # any failure is one of this test
        print('not ok %d - %s' % (number, name), flush=True)
        for line in ('%s: %s' % (type(error).__name__, error)).split('\n'):
            print('# ' + line, flush=True)
        return False
    finally:
        for job in JOBS:
            job.end()
        JOBS.clear()
    return True


def run_all(before=lambda: None, after=lambda: None):
    """Run the tests whose name has a pattern; (passed or skipped, failed)."""
    chosen = [function for function in TESTS
              if any(part in function.__name__ for part in patterns)]
    failed = 0
    print('1..%d' % len(chosen), flush=True)
    for number, function in enumerate(chosen, 1):
        before()
        failed += not run_one(number, function, after)
    return len(chosen) - failed, failed


def main(before=lambda: None, after=lambda: None):
    """The same; the exit code."""
    return 1 if run_all(before, after)[1] else 0
