#!/usr/bin/env python3
"""The demo finds what it says:

    PYTHON tests/tf/demo_test.py --build DIR [PATTERN...]
"""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import build, check, contains, run_all, test  # noqa: E402

LIMIT = 300


@test
def the_demo_finds_the_same_training():
    done = subprocess.run(
        [os.path.join(ROOT, 'examples', 'demo_tf.sh'), build],
        env=dict(os.environ, PYTHON=sys.executable,
                 PYTHONDONTWRITEBYTECODE='1'),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, timeout=LIMIT, text=True, check=False)
    check(done.returncode == 0, done.stdout)
    contains(done.stdout, 'poseidon: global batch 64 = 2 x 32 (split)',
             'TensorFlow-1   alone and together differ',
             'the same training, on 2 workers')


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
