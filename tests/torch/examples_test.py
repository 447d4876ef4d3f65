"""The examples do what their README says.

    PYTHON tests/torch/examples_test.py --build DIR [PATTERN...]
"""
import os
import re
import subprocess
import sys

from common import (LIMIT, PYTHON, ROOT, build, check, contains, environment,
                    main, run, test)

EXAMPLES = os.path.join(ROOT, 'examples', 'torch')
SMALL = ('--steps', '6', '--report', '2', '--width', '32', '--batch', '10',
         '--context', '16', '--letters', '0')


def alone(script, *args):
    done = subprocess.run(
        [PYTHON, os.path.join(EXAMPLES, script), *args],
        env=dict(os.environ, **environment()), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
        text=True, check=False)
    check(done.returncode == 0, done.stdout)
    return done.stdout


def together(script, *args, workers=3, options=()):
    return run([PYTHON, os.path.join(EXAMPLES, script), *args], workers,
               options)


def losses(text):
    return [float(word) for word in re.findall(r'test loss ([\d.]+)', text)]


def same(first, second):
    check(len(first) == len(second) > 0, '%r\n%r' % (first, second))
    check(all(abs(a - b) <= 1e-4 * a for a, b in zip(first, second)),
          '%r\n%r' % (first, second))


@test
def the_demo_finds_the_same_training():
    done = subprocess.run([os.path.join(EXAMPLES, 'demo.sh'), build],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=2 * LIMIT,
                          text=True, check=False)
    check(done.returncode == 0, done.stdout)
    contains(done.stdout, 'global batch 64 = 4 x 16 (split)',
             'the same training, on 4 workers')


@test
def digits_per_worker_have_a_larger_batch():
    job = together('mnist.py', '--epochs', '2',
                   options=('--batch', 'per-worker'))
    contains(job.err, 'global batch 192 = 3 x 64 (per-worker)')
    check(len(losses(job.out)) == 2, job.out)


@test
def hand_drawn_batches_are_cut_when_asked():
    job = together('char_transformer.py', *SMALL,
                   options=('--batch', 'split-random'))
    contains(job.err, 'global batch 10 = 3 + 3 + 4 (split-random)')
    same(losses(alone('char_transformer.py', *SMALL)), losses(job.out))


@test
def hand_drawn_batches_are_each_workers_own():
    job = together('char_transformer.py', *SMALL, '--save', 'state.pt')
    contains(job.err, 'global batch 30 = 3 x 10 (per-worker)')
    first = losses(job.out)
    check(all(losses(text) == first for text in job.outs(3)), job.out)
    check(os.path.isfile(os.path.join(job.folder, 'state.pt')), 'no state.pt')


if __name__ == '__main__':
    sys.exit(main())
