"""What a training step does to the metrics of its worker, corrected by ops of
its graph: a step on a dummy row is taken back, and the losses of the steps
become those of the whole batch, once the metrics of all workers are added
(poseidon/keras/metrics.py)."""
import weakref

import numpy as np

from poseidon.keras import metrics
from poseidon.tensorflow import keras_push

_shadows = weakref.WeakKeyDictionary()   # model: {name: (variable, shadow)}


def count(model, cut, kind):
    """Ops after a training step on a data.Cut. The shadows are the state
    after the step before."""
    tf, pairs = keras_push._tf, _pairs(model)
    factors = _factors(model, tf.cast(cut.rows, tf.float64) / tf.cast(
        cut.total, tf.float64), kind)

    def keep():
        for name, (variable, shadow) in pairs.items():
            if name in factors:
                grown = (variable - shadow) * tf.cast(factors[name],
                                                      variable.dtype)
                variable.assign(shadow + grown)
                shadow.assign_add(grown)
            else:
                shadow.assign(variable)

    def restore():
        for variable, shadow in pairs.values():
            variable.assign(shadow)

    if pairs:
        tf.cond(cut.rows > 0, keep, restore)


def _factors(model, share, kind):
    """{name: what the growth of a variable is to be taken times}. A worker
    has this share of the rows."""
    by_rows, by_steps = metrics.of_losses(model)
    factors = {}
    if kind == "sum":
        factors.update((_name(each.total), 1 / share) for each in by_rows)
    else:
        factors.update((_name(each.total), share) for each in by_steps)
    factors.update((_name(each.count), share) for each in by_steps)
    return factors


def _name(variable):
    return keras_push.raw(variable)._unique_id


def _pairs(model):
    tf, pairs = keras_push._tf, _shadows.setdefault(model, {})
    for variable in metrics.variables_of(model):
        if variable._unique_id not in pairs:
            with tf.init_scope():
                value = variable.numpy() if variable.is_initialized() else (
                    np.zeros(variable.shape))
                pairs[variable._unique_id] = (variable, tf.Variable(
                    value, trainable=False, dtype=variable.dtype))
    return pairs


def was_reset(model):
    for variable, shadow in _shadows.get(model, {}).values():
        shadow.assign(variable)
