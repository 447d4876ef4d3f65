"""What a training step on a dummy row does to the metrics of its worker is
taken back, by ops. The metrics of all workers: poseidon/keras/metrics.py."""
import weakref

import numpy as np

from poseidon.keras.metrics import variables_of
from poseidon.tensorflow import keras_push

_shadows = weakref.WeakKeyDictionary()   # model: {name: (variable, shadow)}


def only_with_rows(model, rows):
    """Ops after a training step: without rows the state comes back from the
    copies that were made after the step before."""
    tf, pairs = keras_push._tf, _shadows.setdefault(model, {})
    for variable in variables_of(model):
        if variable._unique_id not in pairs:
            with tf.init_scope():
                value = variable.numpy() if variable.is_initialized() else (
                    np.zeros(variable.shape))
                pairs[variable._unique_id] = (variable, tf.Variable(
                    value, trainable=False, dtype=variable.dtype))
    pairs = list(pairs.values())

    def keep():
        return [shadow.assign(variable) for variable, shadow in pairs]

    def restore():
        return [variable.assign(shadow) for variable, shadow in pairs]

    if pairs:
        tf.cond(rows > 0, keep, restore)


def was_reset(model):
    for variable, shadow in _shadows.get(model, {}).values():
        shadow.assign(variable)
