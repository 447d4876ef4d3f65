#!/usr/bin/env python3
"""Several workers that use the TensorFlow ops on the stand-in runtime:

    tests/tf/job_standin.py BUILD_DIR [PATTERN...]

What a worker does is in job.c.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)),
                                '..', 'e2e'))
from common import (  # noqa: E402
    build, check, contains, main, run, test)

WORKER = os.path.join(build, 'tests', 'tf', 'tf_job')
PLUGIN = os.path.join(build, 'libposeidon_tf.so')
WAYS = ([], ['--transport', 'tcp'], ['--servers', '1'])


def scene(name, workers=2, options=(), code=0):
    job = run('-n', str(workers), *options, '--', WORKER, PLUGIN, name)
    check(code is None or job.code == code, '%s: exit code %d, not %s\n%s%s'
          % (name, job.code, code, job.out, job.err))
    return job


def lines(job, rank):
    return job.log('worker_%d.out' % rank).splitlines()


def good(name, expected, workers=2, options=()):
    """Every worker prints these lines and has nothing left over."""
    job = scene(name, workers, options)
    for rank in range(workers):
        got = lines(job, rank)
        want = expected + ['left over: 0 of %d workers' % workers]
        check(got == want, '%s, rank %d: %r, not %r' % (name, rank, got,
                                                        want))


@test
def gradients_are_averaged_and_summed():
    steps = ['step %g %g' % (x, x)
             for x in (1.5, 2.5, 3.5, 4.5, 5.5, 0.25, 1)]
    for options in WAYS:
        good('mean', steps, options=options)


@test
def a_broadcast_has_the_bits_of_rank_0():
    good('broadcast', ['broadcast 5 7'], workers=3)


@test
def sparse_rows_are_gathered_in_rank_order():
    # Weights 1 and 3: shares 0.25 and 0.75, in half precision.
    rows = 'rows 0:3400' + ' 10:3a00' * 5
    for options in WAYS:
        good('sparse', [rows, 'rows'], options=options)


@test
def a_step_that_all_have_left_is_forgotten():
    for options in WAYS[:2]:
        good('left-by-all', ['step 1.5 1.5', 'second 0.5', 'step 3.5 3.5',
                             'second 0.5', 'step 4.5 4.5'], options=options)


@test
def a_step_that_all_have_left_can_be_settled():
    good('left-and-settled', ['step 2 2', 'step 4 4'], workers=3)


@test
def a_step_that_one_has_left_ends_the_job():
    for options in WAYS[:2]:
        job = scene('left-by-one', options=options, code=65)
        contains(job.err, 'the run of worker 1 ended in the middle of step 1')
        for rank in range(2):
            contains(job.log('worker_%d.out' % rank), 'step 1.5',
                     'failed: ', 'poseidon: ', 'the run of worker 1')


@test
def a_worker_that_ends_in_the_middle_ends_the_job():
    job = scene('left-and-ended', code=None)
    check(job.code != 0, 'the job ended well')
    contains(job.log('worker_0.out'), 'failed: ', 'poseidon: ')


@test
def a_run_that_failed_behind_the_wait_is_compared():
    good('spoiled-by-all', ['step %g %g' % (x, x)
                            for x in (1.5, 2.5, 3.5, 4.5)])
    job = scene('spoiled-by-one', code=65)
    contains(job.err, 'the run of worker 1 failed after step 1')


@test
def a_nan_fails_the_wait_of_every_worker_by_name():
    good('nan', ['step 1.5 1.5', 'poseidon: step 1 of opt0: the gradient a of '
                 'worker 1 has a NaN or an infinity', 'step 3.5 3.5'])


@test
def a_gradient_of_another_size_is_refused():
    job = scene('different', code=None)
    check(job.code != 0, 'the job ended well')
    contains(job.log('worker_1.out'), 'key a comes with 12 bytes')


if __name__ == '__main__':
    sys.exit(main())
