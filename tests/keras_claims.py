"""What the tests of Keras on TensorFlow and on PyTorch share: the trainings
that a script of cases has, what they print (`CASE NAME {json}`), and how a job
compares with a plain run."""
import json
import os
import re
import subprocess
import tempfile
import zlib

CASES = {}     # of this script of cases


def case(function):
    CASES[function.__name__] = function
    return function


def checksum(model):
    return zlib.crc32(b''.join(weight.tobytes() for weight
                               in model.get_weights()))


def results(text):
    return {name: json.loads(found) for name, found in re.findall(
        r'^CASE (\w+) (.*)$', text, re.MULTILINE)}


def run_plainly(words, env, limit):
    """Without psd_run: what came out, or why it failed."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            words, cwd=folder, timeout=limit, check=False,
            env=dict(os.environ, **env), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError('plain run: %s' % done.stderr[-3000:])
    return results(done.stdout)


def _flat(value):
    if not isinstance(value, list):
        return [value]
    return [each for part in value for each in _flat(part)]


def difference(name, expected, found, limit_of):
    """What is not as in the plain run, or ''; limit_of(key): how far off a
    number may be. Weights need not have the same bits."""
    for key, value in expected.items():
        ours, theirs = _flat(value), _flat(found[key])
        if key != 'weights' and (len(ours) != len(theirs) or not all(
                abs(one - other) <= limit_of(key) * max(abs(one), 1e-3)
                for one, other in zip(ours, theirs))):
            return '%s %s: %r, plain %r' % (name, key, theirs, ours)
    return ''
