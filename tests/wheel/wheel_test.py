#!/usr/bin/env python3
"""The wheel in an environment of its own:

    [PSD_TEST_TF=PYTHON] python3 tests/wheel/wheel_test.py --build DIR

Packs it, installs it with pip into a new virtual environment, runs jobs from
there and removes it again; each test goes on where the last one ended. No
network. PYTHON is one that has TensorFlow.
"""
import base64
import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from importlib.util import find_spec

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Skip, build, check, contains, main, test)

LIMIT = 120
# What one worker does with nothing but Python's own library: the mean of the
# ranks, by the library that the wheel brought.
SCRIPT = '''
import ctypes
from poseidon import _job, _lib
library, session = _lib.library(), _lib.session()
spec, tensor = _lib.Spec(name=b"x", dtype=_lib.FLOAT64, count=1), _lib.Tensor()
_lib.check(library.psd_register(session, ctypes.byref(spec), 1,
                                ctypes.byref(tensor)))
x = ctypes.c_double(_job.job().rank + 1)
_lib.check(library.psd_push_pull(session, tensor, ctypes.byref(x), 1.0,
                                 _lib.MEAN, None))
print("mean", x.value, _lib.__file__, _lib.path())
'''
PLUG_IN = '''
import tensorflow as tf
from poseidon.tensorflow import core
core.start(tf)
print("plug-in", core._path(), core.plug().psd_tf_steps(b"opt0"))
'''

state = {}


def call(*words, code=0, cwd=None, **more):
    """What a command wrote on stdout; the environment's bin/ is in PATH."""
    env = {name: value for name, value in os.environ.items()
           if not name.startswith(('PSD_', 'PIP_', 'PYTHON'))}
    if 'bin' in state:
        env['PATH'] = state['bin'] + os.pathsep + env['PATH']
    env.update(PIP_DISABLE_PIP_VERSION_CHECK='1', PIP_NO_INDEX='1', **more)
    done = subprocess.run(words, cwd=cwd or state['scratch'], env=env,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT, text=True,
                          check=False)
    check(done.returncode == code, '%s: exit code %d\n%s%s' % (
        ' '.join(words), done.returncode, done.stdout, done.stderr))
    return done.stdout


def pack(out):
    lines = call(sys.executable, os.path.join(ROOT, 'tools', 'wheel.py'),
                 build, '--out', out).splitlines()
    check(len(lines) == 1 and os.path.isfile(lines[0]), str(lines))
    return lines[0]


def listing():
    """Every file and folder of the environment, but for what Python itself
    compiled of its own."""
    found = set()
    for base, folders, names in os.walk(state['home']):
        folders[:] = [name for name in folders if not (
            name == '__pycache__' and os.sep + 'site-packages' in base)]
        found.update(os.path.join(base, name) for name in folders + names)
    return found


def need_home():
    if 'before' not in state:
        raise Skip('there is no environment to look at')


def in_home(*parts):
    return os.path.join(state['home'], *parts)


@test
def the_same_tree_gives_the_same_wheel():
    first, second = (pack(os.path.join(state['scratch'], name))
                     for name in ('first', 'second'))
    with open(first, 'rb') as one, open(second, 'rb') as other:
        check(one.read() == other.read(), 'the bytes differ')
    check(os.path.basename(first).startswith('poseidon-') and
          '-py3-none-linux_' in first, first)
    state['wheel'] = first


@test
def its_record_is_true():
    with zipfile.ZipFile(state['wheel']) as archive:
        names = [name for name in archive.namelist()]
        record = [name for name in names if name.endswith('/RECORD')]
        rows = list(csv.reader(io.StringIO(
            archive.read(record[0]).decode())))
        check(sorted(row[0] for row in rows) == sorted(names),
              'RECORD does not name every file')
        for name, digest, size in rows:
            if name == record[0]:
                continue
            data = archive.read(name)
            told = 'sha256=' + base64.urlsafe_b64encode(
                hashlib.sha256(data).digest()).rstrip(b'=').decode()
            check((digest, int(size)) == (told, len(data)), name)
        check(not [name for name in names if '__pycache__' in name],
              'compiled Python')
        text = archive.read(record[0].replace('RECORD', 'METADATA')).decode()
    contains(text, 'Name: poseidon\n', 'Requires-External: glibc (>=',
             'Requires-External: libcrypto.so')


@test
def pip_puts_the_programs_into_path():
    if find_spec('ensurepip') is None:
        raise Skip('this Python makes no environments: python3-venv is '
                   'missing')
    state['home'] = os.path.join(state['scratch'], 'home')
    call(sys.executable, '-m', 'venv', state['home'])
    state['bin'] = in_home('bin')
    state['before'] = listing()
    call('python', '-m', 'pip', 'install', '--quiet', state['wheel'])
    for name in ('psd', 'psd_run'):
        found = call('sh', '-c', 'command -v ' + name).strip()
        check(found == in_home('bin', name), found)
        check(call(name, '--version').strip() != '', name)
    contains(call('python', '-m', 'pip', 'show', 'poseidon'),
             'Name: poseidon')


@test
def two_workers_reduce():
    need_home()
    lines = call('psd', 'bench', 'allreduce', '--workers', '2', '--bytes',
                 '64K', '--seconds', '0.05', '--json').splitlines()
    check(len(lines) == 1, str(lines))
    row = json.loads(lines[0])
    check(row['workers'] == 2 and row['identical'], lines[0])


@test
def two_python_workers_find_their_package():
    need_home()
    with open(os.path.join(state['scratch'], 'job.py'), 'w') as file:
        file.write(SCRIPT)
    out = call('psd_run', '-q', '--tee', 'all', '-n', '2', 'python job.py')
    line = 'mean 1.5 %s %s' % (
        in_home('lib', 'poseidon', 'python', 'poseidon', '_lib.py'),
        in_home('lib', 'libposeidon.so.0'))
    check(out.count(line) == 2, out)


@test
def python_finds_the_package_without_a_job():
    need_home()
    out = call('python', '-c', 'import poseidon; from poseidon import _lib; '
               'print(poseidon.__file__); print(_lib.path())')
    check(out.split() == [
        in_home('lib', 'poseidon', 'python', 'poseidon', '__init__.py'),
        in_home('lib', 'libposeidon.so.0')], out)
    script = os.path.join(state['scratch'], 'hello.py')
    with open(script, 'w') as file:
        file.write('print("hello")\n')
    contains(call('python', '-m', 'poseidon.tf1', script), 'hello')


@test
def tensorflow_loads_the_plug_in():
    need_home()
    python = os.environ.get('PSD_TEST_TF')
    if not python:
        raise Skip(os.environ.get('PSD_TEST_TF_WHY') or
                   'PSD_TEST_TF names no Python that has TensorFlow')
    with open(os.path.join(state['scratch'], 'plug.py'), 'w') as file:
        file.write(PLUG_IN)
    out = call('psd_run', '-q', '--tee', 'all', '-n', '2', '--', python,
               'plug.py', TF_CPP_MIN_LOG_LEVEL='3')
    check(out.count('plug-in ' + in_home('lib', 'libposeidon_tf.so')) == 2,
          out)


@test
def pip_leaves_nothing():
    need_home()
    added = listing() - state['before']
    check(in_home('lib', 'libposeidon_tf.so') in added, str(added))
    call('python', '-m', 'pip', 'uninstall', '--quiet', '--yes', 'poseidon')
    check(listing() == state['before'], 'left: %s' % sorted(
        listing() ^ state['before']))


if __name__ == '__main__':
    with tempfile.TemporaryDirectory(prefix='psd_wheel.') as scratch:
        state['scratch'] = os.path.realpath(scratch)
        sys.exit(main())
