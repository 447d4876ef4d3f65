#!/usr/bin/env python3
"""Training in sessions on several workers against the same scripts alone:

    PYTHON tests/tf/graph_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow (`tools/setup.sh tf --python`, or tf215). The scripts
are in graph_cases.py; importing TensorFlow takes seconds, so one job runs
many of them.
"""
import functools
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Job, Skip, check, contains, keep, run_all, test)

LIMIT = 240.0
CASES = os.path.join(HERE, 'graph_cases.py')
CLAIMS = os.path.join(HERE, 'graph_claims.py')
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1',
               'TF_ENABLE_ONEDNN_OPTS': '0'}


def parse(text):
    rows = [json.loads(line) for line in text.splitlines()
            if line.startswith('{')]
    return {row['case']: row for row in rows}


@functools.lru_cache(None)
def alone(*words):
    done = subprocess.run([sys.executable, CASES, *words],
                          env=dict(os.environ, **ENVIRONMENT),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=LIMIT, text=True,
                          check=False)
    check(done.returncode == 0, 'alone: exit code %d\n%s' % (
        done.returncode, done.stderr[-3000:]))
    return parse(done.stdout)


def start(workers, words, options=(), files=None, env=None, code=0):
    job = keep(Job('-n', str(workers), *options, '--', sys.executable, *words,
                   files=files, env=dict(ENVIRONMENT, **(env or {}))))
    job.wait(LIMIT)
    check(code is None or job.code == code, 'exit code %d, not %s\n%s%s'
          % (job.code, code, job.out, job.err))
    return job


def spread(workers, words, options=()):
    """What the cases give, which has to be the same on all workers."""
    job = start(workers, [CASES, *words], ['--digest', 'step', *options])
    outs = [parse(job.log('worker_%d.out' % rank))
            for rank in range(workers)]
    for rank, out in enumerate(outs):
        check(list(out) == list(outs[0]), 'cases of worker %d' % rank)
        for name, row in out.items():
            check(row == outs[0][name],
                  '%s: worker %d has other numbers' % (name, rank))
    check(workers == 1 or ' 0 differences' in job.err, job.err)
    return outs[0]


def compare(got, want, limit):
    check(set(got) <= set(want), 'cases: %r' % list(got))
    wrong = []
    for name, row in got.items():
        for what in ('seen', 'whole'):
            mine, other = row[what], want[name][what]
            check(len(mine) == len(other), name + ': number of steps')
            worst = max(abs(a - b) / abs(b) for a, b in zip(mine, other))
            if not worst <= limit:
                wrong.append('%s, %s: %.2g' % (name, what, worst))
    check(not wrong, 'relative differences: ' + ', '.join(wrong))


@test
def one_worker_is_the_script_itself():
    got, want = spread(1, ['mlp_ref', 'tutorial', 'embedding']), alone()
    for name, row in got.items():
        check(row == want[name], name + ': other bits than alone')


@test
def two_workers_in_float32():
    compare(spread(2, []), alone(), 1e-5)


@test
def four_workers_in_float64_through_tcp():
    words = ['--float64', 'mlp_resource', 'tutorial', 'embedding', 'clipped',
             'two_optimizers', 'iterator']
    compare(spread(4, words, ['--transport', 'tcp']), alone('--float64'),
            1e-12)


@test
def the_same_job_twice_has_the_same_bits():
    words = ['--steps', '10', 'conv', 'embedding', 'gan']
    first = spread(2, words)
    check(first == spread(2, words), 'other bits than before')


def claim(*words, options=(), code=0):
    return start(2, [CLAIMS, *words], options, code=code)


def good(job, *words):
    for rank in range(2):
        contains(job.log('worker_%d.out' % rank),
                 *('good ' + word for word in words))


@test
def late_layers_leave_first_and_what_is_not_applied_never():
    """And batches that cannot be cut stay whole, or are dealt; a queue that
    ends early holds nobody up."""
    job = claim('order', 'quiet', 'whole', 'dealt', 'queues')
    good(job, 'order', 'quiet', 'rows fetched', 'fixed', 'different',
         'dealt', 'queues')
    contains(job.err, 'a value for each row is fetched while training',
             'feeds have their number of rows in their shapes: batches are '
             'not cut, and all workers have the same',
             'are dealt: each worker takes one of every 2 (per-worker)',
             'the workers feed different batches',
             'batches come from inside the graph',
             'global batch 16 = 2 x 8 (per-worker)')


@test
def a_variable_on_one_worker_only_is_named():
    job = claim('extra', code=65)
    contains(job.err, 'the workers registered different models', '"opt0/2"')
    contains(job.log('worker_1.err'), 'opt0/2 is z')


@test
def a_gradient_that_is_not_finite_is_named():
    job = claim('nan', options=['--nan', 'stop'], code=65)
    contains(job.err, 'the gradient of w on worker 1 is not finite in step 3')
    job = claim('nan', options=['--nan', 'skip'])
    good(job, 'nan')
    contains(job.err, 'on worker 1 is not finite in step 3',
             'its gradients are zeros on all workers')


@test
def a_graph_that_was_imported_is_not_trained():
    job = claim('foreign', code=65)
    contains(job.err, 'this graph was imported with its training operations')
    contains(job.log('worker_0.out'), 'good loss 1')


@test
def a_run_that_fails_is_made_again_or_ends_the_job():
    job = claim('failing', code=65)
    good(job, 'failed 1', 'before')
    contains(job.log('worker_1.out'), 'good failed 2', 'good late')
    contains(job.err, 'the run of worker 1 failed after step 4 had been '
             'exchanged')


@test
def keras_in_sessions():
    from importlib.util import find_spec
    if find_spec('tensorflow_estimator') is None:
        raise Skip('this TensorFlow has no Keras for sessions')
    job = claim('keras', options=['--digest', 'step'])
    good(job, 'keras')
    check(job.log('worker_0.out') == job.log('worker_1.out'),
          'workers differ:\n' + job.log('worker_0.out')
          + job.log('worker_1.out'))
    contains(job.err, ' 0 differences')


@test
def optimizers_of_old_in_functions_of_today():
    good(claim('functions'), 'functions')


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
