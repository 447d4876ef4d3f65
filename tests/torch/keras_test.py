#!/usr/bin/env python3
"""Keras 3 on PyTorch under psd_run:

    PYTHON tests/torch/keras_test.py --build DIR [PATTERN...]

The trainings are in keras_cases.py; importing Keras takes seconds, so one job
runs many of them, and several tests look at the same job.
"""
import ast
import functools
import json
import os
import re
import sys

from common import (LIMIT, PYTHON, check, contains, environment, main, run,
                    run_script, start, test)

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), '..'))
from keras_claims import difference, results, run_plainly  # noqa: E402

CASES = os.path.join(os.path.dirname(os.path.abspath(__file__)),
                     'keras_cases.py')
KERAS = {'KERAS_BACKEND': 'torch', 'PYTHONDONTWRITEBYTECODE': '1'}
FEW = ('threads', 'few_rows', 'loop')
TOLERANCE = {'arrays_double': 1e-12, 'images_double': 1e-12}


@functools.lru_cache(None)
def plain():
    """Every training without psd_run."""
    return run_plainly([PYTHON, CASES], environment(KERAS), LIMIT)


def cases(workers, *names, options=(), env=None):
    return run([PYTHON, CASES, *names], workers,
               ('--digest', 'step', *options), env=env or KERAS)


def found(job, workers):
    return [results(out) for out in job.outs(workers)]


def close(name, expected, other):
    wrong = difference(name, expected, other,
                       lambda _: TOLERANCE.get(name, 1e-5))
    check(not wrong, wrong)


def judge(job, workers, names):
    each = found(job, workers)
    for name in names:
        for rank, mine in enumerate(each):
            check(name in mine, '%s: nothing from worker %d' % (name, rank))
            check(mine[name] == each[0][name],
                  '%s: other numbers on worker %d' % (name, rank))
        close(name, plain()[name], each[0][name])
    contains(job.err, ' 0 differences')


@test
def two_workers_train_as_one():
    names = [name for name in plain() if name != 'threads']
    job = cases(2, *names)
    judge(job, 2, names)
    contains(job.err, 'global batch 30 = 2 x 15 (split)')
    check('Epoch' in job.rank_out(0), 'no progress bar')
    check('Epoch' not in job.rank_out(1), 'a progress bar twice')
    again = cases(2, 'sequence', options=('--trace',))
    for one, two in zip(found(job, 2), found(again, 2)):
        check(one['sequence'] == two['sequence'],
              'the same training twice has other bits')
    late_layers_leave_first(again)


def late_layers_leave_first(job):
    """In fit, once all know who takes part: from the second step on."""
    with open(os.path.join(job.logs(), 'trace.w0.json')) as file:
        events = json.load(file)['traceEvents']
    starts = {}
    for event in events:
        name = re.match(r'push o0/g0/p(\d+)$', event.get('name', ''))
        if name:
            starts.setdefault(int(name.group(1)), []).append(event['ts'])
    check(len(starts) == 4, 'pushes of the first optimizer: %r' % starts)
    for last, first in list(zip(starts[2], starts[0]))[1:]:
        check(last < first, 'the first layer left first')


@test
def four_workers_train_as_one():
    judge(cases(4, *FEW), 4, FEW)


@test
def one_worker_has_the_bits_of_the_plain_run():
    job = cases(1, 'sequence')
    check(found(job, 1)[0]['sequence'] == plain()['sequence'], 'other bits')
    contains(job.err, '1 worker done at step 18')


@test
def a_killed_job_goes_on_from_its_backup():
    fallen = start([PYTHON, CASES, 'resumed'], env=dict(KERAS, FALL='1'))
    fallen.wait(LIMIT)
    check(fallen.code != 0, 'nobody was killed')
    backup = os.path.join(fallen.folder, 'backup')
    job = cases(2, 'resumed', env=dict(KERAS, BACKUP=backup))
    for rank in range(2):
        contains(job.rank_out(rank), 'EPOCHS [2, 3]')
    judge(job, 2, ('resumed',))
    check(not os.path.exists(backup), 'the backup is left')


PER_WORKER = """
import sys, numpy as np, torch, keras
data = torch.utils.data
X = np.arange(70, dtype="float32").reshape(-1, 1)

class Seen(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.rows = []

    def call(self, x, training=False):
        if training and not x.is_meta:
            self.rows.append([int(row) for row in x])
        return self.dense(x)

class Sequence(keras.utils.PyDataset):
    def __len__(self):
        return 7

    def __getitem__(self, at):
        return X[10 * at:10 * at + 10], X[10 * at:10 * at + 10]

def items():
    return (Sequence()[at] for at in range(7))

for name, given in (("arrays", dict(x=X, y=X, batch_size=10)),
                    ("loader", dict(x=data.DataLoader(data.TensorDataset(
                        torch.from_numpy(X), torch.from_numpy(X)), 10))),
                    ("sequence", dict(x=Sequence())),
                    ("generator", dict(x=items()))):
    model = Seen()
    model.compile(keras.optimizers.SGD(1e-6), "mse")
    history = model.fit(verbose=0, **given)
    print("SAW %s %r" % (name, (model.rows, history.history["loss"],
                                len(model.predict(X, verbose=0)),
                                model.evaluate(X, X, verbose=0),
                                history.params["steps"])))
"""


@test
def per_worker_means_whole_batches_of_different_rows():
    job = run_script(PER_WORKER, options=('--batch', 'per-worker'), env=KERAS)
    seen = [dict(re.findall(r'^SAW (\w+) (.*)$', out, re.MULTILINE))
            for out in job.outs(2)]
    for name in ('arrays', 'loader', 'sequence', 'generator'):
        first, second = (ast.literal_eval(each[name]) for each in seen)
        rows = [[len(rows) for rows in each[0]] for each in (first, second)]
        check(rows[0] == [10] * 4 and rows[1][:3] == [10] * 3 and (
            len(rows[1]) == 4), '%s: %r' % (name, rows))
        check(sorted(sum(first[0] + second[0][:3], [])) == list(range(70)),
              '%s: not each row once' % name)
        check(first[1:] == second[1:], '%s: %r, %r' % (name, first[1:],
                                                       second[1:]))
        check(first[2] == 70, 'predicted %d' % first[2])
        check(first[4] == (None if name == 'generator' else 4),
              '%s: %r steps expected' % (name, first[4]))
    contains(job.err, 'global batch 20 = 2 x 10 (per-worker)')
    contains(job.err, ' 0 differences')


CALLBACKS = """
import os, sys, zlib
import numpy as np, torch, keras
layers, callbacks = keras.layers, keras.callbacks
for name in sys.modules:
    assert not name.startswith(("tensorflow", "poseidon.tensorflow")), name
keras.utils.set_random_seed(3)
X = np.random.default_rng(0).normal(size=(100, 6)).astype("float32")
Y = X[:, :3].argmax(1)

def bits(model):
    return zlib.crc32(b"".join(np.ascontiguousarray(weight).tobytes()
                               for weight in model.get_weights()))

class Noise(layers.Dropout):
    def call(self, inputs, training=False):
        result = super().call(inputs, training=training)
        if training and not result.is_meta:
            self.mask = zlib.crc32((result == 0).numpy().tobytes())
        return result

class Note(callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        print("STEP", batch, bits(self.model))

    def on_epoch_end(self, epoch, logs=None):
        print("EPOCH", epoch, sorted(logs.items()), bits(self.model))

model = keras.Sequential([layers.Dense(8), layers.BatchNormalization(),
                          Noise(0.3, seed=5), layers.Dense(8), Noise(0.5),
                          layers.Dense(3)])
model.compile(keras.optimizers.Adam(0.05), loss=(
    keras.losses.SparseCategoricalCrossentropy(from_logits=True)),
    metrics=["accuracy"])
history = model.fit(
    X, Y, batch_size=20, epochs=12, validation_split=0.2, verbose=0,
    callbacks=[callbacks.CSVLogger("log.csv"), Note(),
               callbacks.ModelCheckpoint("best.keras", save_best_only=True),
               callbacks.ReduceLROnPlateau(monitor="loss", patience=1),
               callbacks.TerminateOnNaN(), callbacks.EarlyStopping(
                   "val_accuracy", restore_best_weights=True)])
print("EPOCHS", len(history.epoch), float(model.optimizer.learning_rate))
model.save("last.keras")
again = keras.models.load_model("last.keras", custom_objects={"Noise": Noise})
assert bits(again) == bits(model)
again.fit(X, Y, batch_size=20, verbose=0)
other = float(os.environ["PSD_RANK"])   # what one worker loads differs
again.optimizer.variables[3].assign(again.optimizer.variables[3] + other)
again.set_weights([weight + other for weight in again.get_weights()])
again.train_on_batch(X[:20], Y[:20])
print("EQUAL", bits(again), [float(value.sum()) for value in (
    each.numpy() for each in again.optimizer.variables)])
model.load_weights("best.keras")
print("BEST", bits(model))
child = os.fork() if other else 0       # trains alone, on whole batches
if other and child == 0:
    alone = keras.Sequential([layers.Dense(1)])
    alone.compile("sgd", "mse")
    history = alone.fit(X, X[:, :1], batch_size=20, verbose=0)
    os._exit(int(alone.optimizer.iterations) + len(history.epoch))
assert not child or os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
print("MASKS", [model.layers[at].mask for at in (2, 4)], file=sys.stderr)
"""


@test
def callbacks_write_once_and_decide_alike():
    job = run_script(CALLBACKS, options=('--digest', 'step'), files={
        'home/keras.json': '{"backend": "torch"}'}, env={
            'KERAS_HOME': 'home'})
    check(job.rank_out(0) == job.rank_out(1), 'they differ:\n%s\n%s' % (
        job.rank_out(0), job.rank_out(1)))
    epochs = job.rank_out(0).count('EPOCH ')
    check(1 < epochs < 12, '%d epochs' % epochs)
    with open(os.path.join(job.folder, 'log.csv')) as file:
        check(len(file.readlines()) == epochs + 1, 'lines of log.csv')
    masks = [re.findall(r'MASKS \[(\d+), (\d+)\]', job.rank_err(rank))[0]
             for rank in range(2)]
    for one, other in zip(*masks):
        check(one != other, 'the same noise on both workers')
    contains(job.err, ' 0 differences')


@test
def jax_is_told_of():
    job = run_script('import keras', files={
        'keras/__init__.py': '__version__ = "3.15"\n'
                             'from keras import backend',
        'keras/backend.py': 'def backend():\n    return "jax"'})
    contains(job.err, 'Keras runs on JAX here, which Poseidon does not '
             'distribute: every worker trains alone')


if __name__ == '__main__':
    sys.exit(main())
