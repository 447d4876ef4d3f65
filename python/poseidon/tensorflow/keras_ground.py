"""TensorFlow under Keras: what poseidon/keras asks for, by its ground.py."""
import contextlib

import numpy as np

from poseidon import _lib
from poseidon.tensorflow import (
    core, keras_calls, keras_push, keras_start, tape)

plain, raw, tell = tape.plain, keras_push.raw, keras_calls.tell
loaded, alone = keras_start.loaded, keras_start.alone


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


@contextlib.contextmanager
def batch(mine):
    join()
    keras_calls.fed()
    if mine is None:
        core.step(1)
    else:    # parts of one batch: a loss may be its sum
        keras_calls.note(mine.mine)
        core.step(mine.mine, _lib.SUM)
    try:
        yield
    finally:
        core.step(1)
