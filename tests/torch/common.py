"""What the tests with real torch share: jobs of Python scripts.

A test file is called as `PYTHON FILE --build DIR [PATTERN...]`, where PYTHON
has torch (`tools/setup.sh torch --python`); its tests are functions that were
handed to `test`, and it ends with `sys.exit(main())`. Prints TAP, then
"N passed, N failed". Claims, jobs and what must not be left are those of
tests/e2e/common.py.
"""
import importlib.util
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))


def _load():
    path = os.path.join(ROOT, 'tests', 'e2e', 'common.py')
    spec = importlib.util.spec_from_file_location('e2e_common', path)
    module = importlib.util.module_from_spec(spec)
    sys.modules['e2e_common'] = module
    spec.loader.exec_module(module)
    return module


e2e = _load()
PSD, PSD_RUN, build = e2e.PSD, e2e.PSD_RUN, e2e.build
Failure, Skip = e2e.Failure, e2e.Skip
check, contains, keep, test, until = (e2e.check, e2e.contains, e2e.keep,
                                      e2e.test, e2e.until)
PYTHON = sys.executable
LIMIT = 120.0  # of any one job: torch takes seconds to import


class TorchJob(e2e.Job):
    """A job whose folder has `files`; see e2e.Job for what else it knows."""

    def left(self):
        """Not what torch keeps there for another time."""
        return [name for name in super().left()
                if not name.startswith('torchinductor_')]

    def rank_out(self, rank):
        """What worker `rank` wrote on stdout."""
        return self.log('worker_%d.out' % rank)

    def rank_err(self, rank):
        return self.log('worker_%d.err' % rank)

    def outs(self, count):
        return [self.rank_out(rank) for rank in range(count)]

    def run_log(self):
        with open(os.path.join(self.folder, 'poseidon_run.log'),
                  errors='replace') as file:
            return file.read()


def environment(env=None):
    """One thread per process, whatever the machine has."""
    return dict({'OMP_NUM_THREADS': '1'}, **(env or {}))


def start(command, workers=2, options=(), files=None, env=None, cwd=None):
    """psd_run -n WORKERS OPTIONS... COMMAND, a text for the shell or a list
    of words."""
    words = [command] if isinstance(command, str) else ['--', *command]
    return keep(TorchJob('-n', str(workers), *options, *words, files=files,
                         env=environment(env), cwd=cwd))


def run(command, workers=2, options=(), files=None, env=None, code=0):
    """The same to its end; it must end with `code` (None: any)."""
    job = start(command, workers, options, files, env).wait(LIMIT)
    check(code is None or job.code == code, 'exit code %d, not %s\n%s%s'
          % (job.code, code, job.out, job.err))
    return job


def run_script(text, workers=2, options=(), args=(), files=None, env=None,
               code=0):
    """Run a script, given as its text, with this Python."""
    return run([PYTHON, 'train.py', *args], workers, options,
               dict({'train.py': text}, **(files or {})), env, code)


def run_alone(text, args=(), env=None, cwd=None):
    """The same script without psd_run; what it wrote on stdout."""
    done = subprocess.run([PYTHON, '-c', text, *args], cwd=cwd,
                          env=dict(os.environ, **environment(env)),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT, text=True,
                          check=False)
    check(done.returncode == 0, 'alone: exit code %d\n%s%s' % (
        done.returncode, done.stdout, done.stderr))
    return done.stdout


def main():
    passed, failed = e2e.run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    return 1 if failed else 0
