#!/usr/bin/env python3
"""The examples in TensorFlow 1 style with two workers; tf1_test.py runs them
alone:

    PYTHON tests/tf/examples_test.py --build DIR [PATTERN...]
"""
import glob
import os
import re
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
from common import (  # noqa: E402
    Job, check, contains, keep, run_all, test)
from tf1_data import write_cifar, write_mnist  # noqa: E402

LIMIT = 240.0
EXAMPLES = os.path.join(ROOT, 'examples', 'tf1')
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1'}


def together(script, *args, workers=2, options=(), env=None):
    """The job, once it has ended well, and what each worker printed."""
    job = keep(Job('-n', str(workers), *options, '--', sys.executable,
                   os.path.join(EXAMPLES, script), *args,
                   env=dict(ENVIRONMENT, **(env or {}))))
    job.wait(LIMIT)
    check(job.code == 0, 'exit code %d\n%s%s' % (job.code, job.out, job.err))
    return job, [job.log('worker_%d.out' % rank) for rank in range(workers)]


def events(folder):
    return glob.glob(os.path.join(folder, '**', 'events.out.*'),
                     recursive=True)


@test
def plain():
    _, outs = together('plain.py', '--steps', '61')
    for out in outs:
        contains(out, 'step 60: loss 0.0000', 'a + b = [')


@test
def digits_with_three_are_those_of_one():
    def losses(text):
        return [float(x) for x in re.findall(r'test loss ([\d.]+)', text)]

    _, alone = together('digits.py', '--epochs', '2', workers=1)
    job, outs = together('digits.py', '--epochs', '2', workers=3,
                         options=('--digest', 'step'))
    contains(job.err + job.log('worker_0.err'),
             'global batch 64 = 21 + 21 + 22 (split)')
    for out in outs:
        check(len(losses(out)) == 2 and all(
            abs(a - b) <= 1e-5 * a for a, b in
            zip(losses(alone[0]), losses(out))), alone[0] + out)


@test
def mnist_deep_writes_once():
    with tempfile.TemporaryDirectory() as folder:
        write_mnist(folder)
        logs = os.path.join(folder, 'log')
        _, outs = together('mnist_deep.py', '--data_dir', folder,
                           '--log_dir', logs, '--steps', '41',
                           '--validation', '100')
        for out in outs:
            contains(out, 'step 40, training accuracy')
        rights = {out.rpartition('test accuracy')[2].strip() for out in outs}
        check(len(rights) == 1 and float(rights.pop()) > 0.2, str(outs))
        check(len(events(logs)) == 1, str(os.listdir(logs)))
        check(os.path.exists(logs + '/model.ckpt-41.index'), 'no checkpoint')


@test
def cifar10_is_trained_by_two_and_evaluated():
    with tempfile.TemporaryDirectory() as folder:
        write_cifar(folder)
        common = ('--data_dir', folder, '--batch_size', '16')
        job, outs = together('cifar10_train.py', *common, '--train_dir',
                             folder + '/train', '--max_steps', '6',
                             '--log_frequency', '5')
        contains(outs[0], 'step 0, loss = 4.', 'step 5, loss = ')
        contains(job.err + job.log('worker_0.err'), 'global batch 32 = 2 x 16')
        check(len(events(folder + '/train')) == 1,
              str(os.listdir(folder + '/train')))
        _, outs = together('cifar10_eval.py', *common, '--checkpoint_dir',
                           folder + '/train', '--eval_dir', folder + '/eval',
                           '--run_once', '--num_examples', '32', workers=1)
        contains(outs[0], 'precision @ 1 = 0.')


@test
def iris_experiment_goes_on_where_two_stopped():
    with tempfile.TemporaryDirectory() as folder:
        for steps in ('10', '20'):
            _, outs = together(
                'iris_experiment.py', env={'OUTPUT_DIR': folder,
                                           'STEPS': steps},
                options=('--name', 'one', '-x', 'STEPS', '-x', 'OUTPUT_DIR'))
            contains(outs[0], 'step %s: loss' % steps)
        names = os.listdir(os.path.join(folder, 'one'))
        check('model.ckpt-20.index' in names and 'eval' in names, str(names))


if __name__ == '__main__':
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    sys.exit(1 if failed else 0)
