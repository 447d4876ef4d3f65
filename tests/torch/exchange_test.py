#!/usr/bin/env python3
"""Equal results: training runs of exchange_cases.py on several workers against
the same runs alone, with real torch.

    PYTHON exchange_test.py --build DIR [PATTERN...]

Prints TAP; common.py says how jobs are run.
"""
import functools
import json
import os
import sys

import common
from common import HERE, check, run, run_alone, test

CASES = os.path.join(HERE, 'exchange_cases.py')
# Relative differences of losses that are allowed, where not the usual ones.
LOOSE = {'batch_norm': 1.0, 'bfloat16': 0.1, 'autocast': 0.02,
         # float32: a search line multiplies what is rounded
         'lbfgs': 1e-3, 'wolfe': 1e-3}
LOOSE64 = {'batch_norm': 1.0, 'bfloat16': 0.1, 'autocast': 0.02,
           'lbfgs': 1e-9, 'wolfe': 1e-9}
# Four workers on few cores take long: the kinds of models, not every case.
MODELS = ('plain_mlp', 'adamw_clip', 'lenet', 'transformer', 'lstm', 'gan',
          'sparse', 'accumulate', 'scaler', 'by_data', 'batch_norm')


def parse(text):
    rows = [json.loads(line) for line in text.splitlines()
            if line.startswith('{')]
    return {row['case']: row for row in rows}


@functools.lru_cache(None)
def alone(*words):
    return parse(run_alone('import runpy, sys; sys.argv[0] = %r; '
                           'runpy.run_path(%r, run_name="__main__")'
                           % (CASES, CASES), args=words))


def spread(workers, words, options=()):
    """Rows of all workers, which must have the same bits."""
    job = run([common.PYTHON, CASES, *words], workers,
              ['--digest', 'step', *options])
    outs = [parse(out) for out in job.outs(workers)]
    for rank, out in enumerate(outs):
        check(list(out) == list(outs[0]), 'cases of worker %d' % rank)
        for name, row in out.items():
            check(row == outs[0][name],
                  '%s: worker %d has other numbers' % (name, rank))
    check(workers == 1 or ' 0 differences' in job.err, job.err)
    return outs[0]


def compare(got, want, limit, loose, names=None):
    names = list(names or want)
    check(list(got) == names, 'cases: %r, not %r' % (list(got), names))
    wrong = []
    for name in names:
        row = want[name]
        mine, other = got[name]['losses'], row['losses']
        check(len(mine) == len(other), name + ': number of steps')
        worst = max(abs(a - b) / abs(b) for a, b in zip(mine, other))
        if not worst <= loose.get(name, limit):
            wrong.append('%s: %.2g' % (name, worst))
    check(not wrong, 'relative differences: ' + ', '.join(wrong))


@test
def one_worker_is_the_script_itself():
    got = spread(1, ['plain_mlp', 'gan', 'sparse', 'lstm'])
    want = alone()
    for name, row in got.items():
        check(row == want[name], name + ': other bits than alone')


@test
def two_workers_in_float32():
    compare(spread(2, []), alone(), 1e-5, LOOSE)


@test
def two_workers_in_float64():
    compare(spread(2, ['--float64']), alone('--float64'), 1e-12, LOOSE64)


@test
def four_workers_in_float32_through_tcp():
    compare(spread(4, MODELS, ['--transport', 'tcp']), alone(), 1e-5, LOOSE,
            MODELS)


@test
def four_workers_in_float64_and_the_same_bits_again():
    first = spread(4, ['--float64', *MODELS])
    compare(first, alone('--float64'), 1e-12, LOOSE64, MODELS)
    again = spread(4, ['--float64', 'transformer', 'sparse', 'by_data'])
    for name, row in again.items():
        check(row == first[name], name + ': other bits than before')


@test
def one_more_worker_than_rows():
    """Five workers, batches of four rows: weight 0 for one of them."""
    compare(spread(5, ['by_data']), alone(), 1e-5, {}, ['by_data'])


if __name__ == '__main__':
    sys.exit(common.main())
