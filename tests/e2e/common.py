"""What the end-to-end tests share: claims, jobs, TAP.

A test file is called as FILE BUILD_DIR [PATTERN]; its tests are functions
that were handed to `test`, and it ends with `sys.exit(main())`.
"""
import glob
import os
import re
import subprocess
import sys
import time

LIMIT = 60.0  # of any one job
GONE = 15.0   # everything has to be gone; 2 s on a machine that is not busy

build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else 'build')
pattern = sys.argv[2] if len(sys.argv) > 2 else ''
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


def keep(job):
    JOBS.append(job)
    return job


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


def main(before=lambda: None, after=lambda: None):
    """Run the tests whose name has the pattern; the exit code."""
    chosen = [function for function in TESTS if pattern in function.__name__]
    failed = 0
    print('1..%d' % len(chosen), flush=True)
    for number, function in enumerate(chosen, 1):
        before()
        failed += not run_one(number, function, after)
    return 1 if failed else 0
