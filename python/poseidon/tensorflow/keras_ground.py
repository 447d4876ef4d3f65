"""TensorFlow under Keras: what poseidon/keras asks for, by its ground.py."""
import contextlib

import numpy as np

from poseidon import _lib
from poseidon.tensorflow import (
    core, data, keras_calls, keras_push, keras_start, tape)

plain, raw, tell = tape.plain, keras_push.raw, keras_calls.tell
loaded, alone = keras_start.loaded, keras_start.alone
_at_hand = None
_numbers = None      # variables: rows of this worker and of all


def join():
    core.start(keras_push._tf)


def key(variable):
    return variable._unique_id


def is_number(variable):
    return variable.dtype.is_floating or variable.dtype.is_integer


def is_float(variable):
    return variable.dtype.is_floating


def read(variable):
    return np.asarray(variable.numpy())


def write(variable, value):
    variable.assign(value)


def at_hand():
    """The data.Cut of train_on_batch, without its data: a graph is built once
    and reads the rows. None: nothing of that kind is going on."""
    return _at_hand


@contextlib.contextmanager
def batch(mine):
    global _at_hand
    join()
    keras_calls.fed()
    if mine is None:
        core.step(1)
    else:    # parts of one batch: a loss may be its sum
        keras_calls.note(mine.mine)
        core.step(mine.mine, _lib.SUM)
        _at_hand = _rows(mine)
    try:
        yield
    finally:
        core.step(1)
        _at_hand = None


def _rows(mine):
    global _numbers
    if _numbers is None:
        with alone():    # they differ from worker to worker
            _numbers = [keras_push._tf.Variable(
                1, trainable=False, dtype="int64") for _ in range(2)]
    for variable, number in zip(_numbers, (mine.mine, mine.total)):
        variable.assign(number)
    return data.Cut(None, *_numbers)
