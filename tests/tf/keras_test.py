#!/usr/bin/env python3
"""Keras 2 and 3 and loops with GradientTape under psd_run:

    PYTHON tests/tf/keras_test.py --build DIR [PATTERN...]

PYTHON has TensorFlow (`tools/setup.sh tf --python`, or tf215). The trainings
are in keras_cases.py; importing TensorFlow takes seconds, so one job runs
many of them, and several tests look at the same job.
"""
import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, os.path.join(HERE, '..', 'e2e'))
sys.path.append(os.path.join(HERE, '..'))
from common import (  # noqa: E402
    Job, check, contains, keep, run_all, test)
from keras_claims import difference, results, run_plainly  # noqa: E402

LIMIT = 600.0  # of one job; many trainings
CASES = os.path.join(HERE, 'keras_cases.py')
EXAMPLES = os.path.join(ROOT, 'examples', 'keras')
ENVIRONMENT = {'OMP_NUM_THREADS': '1', 'TF_CPP_MIN_LOG_LEVEL': '3',
               'TF_NUM_INTRAOP_THREADS': '1', 'PYTHONDONTWRITEBYTECODE': '1'}
FEW = ('fit_arrays', 'loop_function', 'on_batch', 'dropped')
TOLERANCE = {'fit_double': 1e-12}
LOOSE = {'rough': 0.02}  # numbers of a few bits


@functools.lru_cache(None)
def plain():
    """Every training without psd_run."""
    return run_plainly([sys.executable, CASES], ENVIRONMENT, LIMIT)


def job(workers, *args, code=0, options=(), script=CASES, files=None,
        env=None):
    made = keep(Job('-n', str(workers), *options, '--', sys.executable,
                    script, *args, files=files,
                    env=dict(ENVIRONMENT, **(env or {}))))
    made.wait(LIMIT)
    check(code is None or made.code == code, 'exit code %d, not %s\n%s%s'
          % (made.code, code, made.out[-3000:], made.err[-6000:]))
    return made


def outs(made, workers):
    return [results(made.log('worker_%d.out' % rank))
            for rank in range(workers)]


def close(name, expected, found):
    limit = TOLERANCE.get(name, 1e-5)
    wrong = difference(name, expected, found,
                       lambda key: LOOSE.get(key, limit))
    check(not wrong, wrong)


def judge(made, workers, names):
    found = outs(made, workers)
    for name in names:
        for rank, each in enumerate(found):
            check(name in each, '%s: nothing from worker %d' % (name, rank))
            check(each[name]['weights'] == found[0][name]['weights'],
                  '%s: other weights on worker %d' % (name, rank))
            close(name, plain()[name], each[name])
    contains(made.err, ' 0 differences')
    return found


@test
def two_workers_train_as_one():
    made = job(2, options=('--digest', 'step', '--trace'))
    judge(made, 2, plain())
    contains(made.err, 'global batch 40 = 2 x 20 (split)',
             'global batch 16 = 2 x 8 (per-worker)')
    check('Epoch' in made.log('worker_0.out'), 'no progress bar')
    check('Epoch' not in made.log('worker_1.out'), 'a progress bar twice')
    late_layers_leave_first(made)


def late_layers_leave_first(made):
    """In fit, the push of the last layer begins before that of the first."""
    name = glob.glob(os.path.join(glob.escape(made.logs()),
                                  'trace.w0.json'))
    check(name, 'no trace')
    with open(name[0]) as file:
        events = json.load(file)['traceEvents']
    starts = {}
    for event in events:
        found = re.match(r'push opt0/(\d+)$', event.get('name', ''))
        if found:
            starts.setdefault(int(found.group(1)), []).append(event['ts'])
    check(len(starts) == 4, 'pushes of opt0: %r' % sorted(starts))
    for last, first in zip(starts[3], starts[0]):
        check(last < first, 'the first layer left first')


@test
def one_worker_has_the_bits_of_the_plain_run():
    found = outs(job(1, *FEW), 1)[0]
    for name in FEW:
        check(found[name] == plain()[name], '%s: %r, plain %r' % (
            name, found[name], plain()[name]))


@test
def four_workers_train_as_one():
    judge(job(4, *FEW), 4, FEW)


@test
def the_same_job_twice_has_the_same_bits():
    first, second = (outs(job(2, 'loop_function'), 2) for _ in range(2))
    check(first == second, '%r\n%r' % (first, second))


PER_WORKER = '''
import numpy as np, tensorflow as tf, keras
keras.utils.set_random_seed(1)
seen = []
class Seen(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
    def call(self, x):
        return self.dense(x)
    def train_step(self, data):
        x, y = data
        tf.py_function(lambda v: seen.extend(v.numpy().ravel()), [y], [])
        return super().train_step(data)
y = np.arange(50, dtype='float32').reshape(-1, 1)
model = Seen()
model.compile('sgd', loss='mae')
data = tf.data.Dataset.from_tensor_slices((y / 50, y)).batch(10)
model.fit(data, epochs=1, verbose=0)
print('seen', [int(v) for v in seen], flush=True)
rows = []
w = tf.Variable(1.0)
for x, t in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((w * x - t) ** 2)
    w.assign_sub(0.001 * tape.gradient(loss, w))
    rows.append(int(t[0, 0]))
print('rows', rows, float(w).hex(), flush=True)
'''


@test
def per_worker_means_whole_batches_of_different_rows():
    made = job(2, options=('--batch', 'per-worker'), script='train.py',
               files={'train.py': PER_WORKER})
    contains(made.err, 'global batch 20 = 2 x 10 (per-worker)')
    logs = [made.log('worker_%d.out' % rank) for rank in range(2)]
    # five batches: worker 1 ends with somebody else's, for nothing
    batch = [list(range(at, at + 10)) for at in range(0, 50, 10)]
    contains(logs[0], 'seen %r' % (batch[0] + batch[2] + batch[4]))
    contains(logs[1], 'seen %r' % (batch[1] + batch[3] + batch[4]))
    contains(logs[0], 'rows [0, 10, 30] ')
    contains(logs[1], 'rows [0, 20, 40] ')
    check(logs[0].split()[-1] == logs[1].split()[-1], '%s%s' % tuple(logs))


OTHER_MODEL = '''
import os, numpy as np, keras
width = 4 + int(os.environ['PSD_RANK'])
model = keras.Sequential([keras.layers.Dense(width), keras.layers.Dense(1)])
model.compile('sgd', loss='mse')
model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)
'''


@test
def another_model_on_one_worker_is_named():
    made = job(2, code=None, script='train.py',
               files={'train.py': OTHER_MODEL})
    check(made.code != 0, 'the job ended well')
    check('every worker must build the same model' in made.err
          or 'the workers registered different models' in made.err, made.err)


ASIDE = '''
import numpy as np, tensorflow as tf, keras
strategy = tf.distribute.MirroredStrategy(['/cpu:0'])
with strategy.scope():
    model = keras.Sequential([keras.layers.Dense(1)])
    model.compile('sgd', loss='mse')
model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)
print('trained', flush=True)
'''


@test
def a_script_with_a_strategy_is_left_alone():
    made = job(2, script='train.py', files={'train.py': ASIDE})
    contains(made.err, 'MirroredStrategy; this script distributes itself, '
                       'Poseidon stands aside')
    contains(made.log('worker_1.out'), 'trained')


XLA = '''
import numpy as np, tensorflow as tf, keras
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.layers.Dense(1)])
model.compile('sgd', loss='mse', jit_compile=True)
model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)

@tf.function(jit_compile=True)
def step(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x) ** 2)
    model.optimizer.apply_gradients(zip(
        tape.gradient(loss, model.trainable_variables),
        model.trainable_variables))

for _ in range(11):
    step(tf.ones([8, 3]))
other = keras.Sequential([keras.layers.Dense(1)])
other.compile('sgd', loss=lambda y, x: tf.reduce_mean(tf.reshape(x, [8])))
try:
    other.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0)
except Exception:
    pass
seen = []
model.fit(np.ones((8, 3)), np.ones((8, 1)), verbose=0, batch_size=4,
          callbacks=[keras.callbacks.LambdaCallback(
              on_train_batch_end=lambda batch, logs: seen.append(
                  float(logs['loss'])))])
print('trained', seen[-1], flush=True)
'''


@test
def xla_whole_batches_and_the_loss_are_told():
    made = job(2, script='train.py', files={'train.py': XLA})
    for line in ('jit_compile is switched off',
                 'take batches that are not of a data set',
                 'fit has failed in its first step, on a part of a batch'):
        check(made.err.count(line) == 1, made.err)
    contains(made.log('worker_1.out'), 'trained')
    with open(os.path.join(made.logs(), 'report.json')) as file:
        told = json.load(file)['figures']['loss']
    loss = float(made.log('worker_0.out').split()[-1])
    check(told is not None and abs(told - loss) <= 1e-6 * loss,
          'the report says %r, Keras %r' % (told, loss))


NAN = '''
import numpy as np
import keras

x = np.ones((8, 4), "float32")
x[7] = np.nan      # a row of worker 1
model = keras.Sequential([keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.1), "mse")
model.fit(x, np.ones((8, 1)), batch_size=8, verbose=0, shuffle=False)
print("finite", all(np.isfinite(w).all() for w in model.get_weights()))
'''


@test
def a_gradient_that_is_not_finite_is_named():
    for value, code, finite in (('stop', 65, None), ('skip', 0, 'True'),
                                ('allow', 0, 'False')):
        made = job(2, script='train.py', files={'train.py': NAN}, code=code,
                   options=('--nan', value))
        contains(made.err, 'on worker 1 is not finite in step 1')
        if finite is not None:
            contains(made.out, 'finite ' + finite)


def accuracies(text):
    return [float(found) for found in
            re.findall(r'test accuracy ([\d.]+)', text)]


@test
def the_examples_train_as_alone():
    for name in ('mnist.py', 'custom_loop.py'):
        script = os.path.join(EXAMPLES, name)
        made = job(2, '--epochs', '2', script=script)
        with tempfile.TemporaryDirectory() as folder:
            alone = subprocess.run(
                [sys.executable, script, '--epochs', '2'], cwd=folder,
                env=dict(os.environ, **ENVIRONMENT), timeout=LIMIT,
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True, check=False)
        want, found = accuracies(alone.stdout), accuracies(made.out)
        check(want and len(found) == len(want) and all(
            abs(a - b) < 0.01 for a, b in zip(found, want)),
              '%s: %r, alone %r %s' % (name, found, want,
                                       alone.stderr[-500:]))


def main():
    passed, failed = run_all()
    print('%d passed, %d failed' % (passed, failed), flush=True)
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
