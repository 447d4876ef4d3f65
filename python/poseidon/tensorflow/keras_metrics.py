"""Metrics of all workers: their state variables are sums (tf.distribute
counts on that, too), so those of the job are the sums over the workers.
Running statistics, which BatchNorm and its like keep, become the mean."""
import weakref

import numpy as np

from poseidon import _job, _lib
from poseidon.tensorflow import core, keras_push

_shadows = weakref.WeakKeyDictionary()   # model: {name: (variable, shadow)}


def combine(arrays, op, weight=1.0):
    """Sum or mean over all workers, by way of float64. Collective."""
    sizes = [array.size for array in arrays]
    if _job.job().size == 1 or not sum(sizes):
        return arrays
    whole = np.concatenate([array.reshape(-1).astype(np.float64)
                            for array in arrays])
    core.start(keras_push._tf)
    _lib.check(_lib.library().psd_push_pull(
        _lib.session(),
        _lib.tensor("keras/%d" % whole.size, _lib.FLOAT64, whole.size),
        whole.ctypes.data, weight, op, None))
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    return [part.reshape(array.shape).astype(array.dtype)
            for part, array in zip(parts, arrays)]


def variables_of(model):
    """The state of a model's metrics, each once."""
    found = {}
    for metric in model.metrics:
        for variable in metric.variables:
            variable = keras_push.raw(variable)
            if variable is not None and (
                    variable.dtype.is_floating or variable.dtype.is_integer):
                found[variable._unique_id] = variable
    return list(found.values())


class Together:
    """Within it the metrics of a model are those of all workers."""

    def __init__(self, model, keep=False):
        self.variables = variables_of(model)
        self.keep = keep

    def __enter__(self):
        self.mine = [variable.numpy() for variable in self.variables]
        mine = [np.asarray(value) for value in self.mine]
        for variable, value in zip(self.variables,
                                   combine(mine, _lib.SUM)):
            variable.assign(value)

    def __exit__(self, *_):
        if not self.keep:
            for variable, value in zip(self.variables, self.mine):
                variable.assign(value)


def mean_of(logs):
    """Numbers that a script's own train_step returned."""
    names = sorted(name for name, value in logs.items()
                   if np.ndim(value) == 0 and _is_number(value))
    values = combine([np.asarray(float(logs[name])) for name in names],
                     _lib.MEAN)
    return dict(logs, **{name: float(value)
                         for name, value in zip(names, values)})


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def equal(logs):
    """The logs of rank 0, to the bit. Collective."""
    names = sorted(name for name, value in logs.items()
                   if np.ndim(value) == 0 and _is_number(value))
    values = np.array([float(logs[name]) for name in names], np.float64)
    core.same([("logs/%d" % len(values), values)])
    return dict(logs, **{name: float(value)
                         for name, value in zip(names, values)})


def only_with_rows(model, rows):
    """Ops after a training step: what a dummy row has done to the metrics is
    taken back, from copies made after the step before."""
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


def average_statistics(model):
    """Variables that steps change without training them. Collective."""
    metrics = {variable._unique_id for variable in variables_of(model)}
    found = [keras_push.raw(variable)
             for variable in model.non_trainable_variables]
    average([variable for variable in found if variable is not None
             and variable._unique_id not in metrics])


def average(variables):
    """Make them the mean over the workers. Collective."""
    variables = [keras_push.raw(variable) for variable in variables]
    variables = [each for each in variables if each.dtype.is_floating]
    values = [np.asarray(variable.numpy()) for variable in variables]
    for variable, old, new in zip(variables, values,
                                  combine(values, _lib.MEAN)):
        if (old != new).any():  # equal ones are exact in float64
            variable.assign(new)
