"""Metrics of all workers: their state variables are sums (tf.distribute
counts on that, too), so those of the job are the sums over the workers.
Running statistics, which BatchNorm and its like keep, become the mean."""
import contextlib

import numpy as np

from poseidon import _job, _lib
from poseidon.keras import ground
from poseidon.shared import alike, turns


def combine(arrays, op, weight=1.0):
    """Sum or mean over all workers, by way of float64. Collective."""
    sizes = [array.size for array in arrays]
    if _job.job().size == 1 or not sum(sizes):
        return arrays
    whole = np.concatenate([array.reshape(-1).astype(np.float64)
                            for array in arrays])
    ground.now.join()
    turns.passing()
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
            variable = ground.now.raw(variable)
            if variable is not None and ground.now.is_number(variable):
                found[ground.now.key(variable)] = variable
    return list(found.values())


def of_losses(model):
    """The metrics that follow the losses: those that Keras weighs by the rows
    of a batch, and those of single outputs, which it weighs so only where it
    knows the rows while it builds a graph (Keras 3)."""
    tracker = getattr(model, "_loss_tracker", None)
    by_rows = [] if tracker is None else [tracker]
    by_rows += getattr(getattr(model, "compiled_loss", None), "metrics", [])
    return by_rows, list(getattr(getattr(model, "_compile_loss", None),
                                 "metrics", None) or ())


@contextlib.contextmanager
def counted(model, batch, kind):
    """The metrics of an eager step on a rows.Batch: rows that count for
    nothing leave no trace. A loss that is a sum is taken times the rows of
    this worker, but it is a part of that of the whole batch."""
    if batch is None or (batch.mine and kind != "sum"):
        yield
        return
    before = {ground.now.key(each): ground.now.read(each)
              for each in variables_of(model)}
    yield
    changed, factor = variables_of(model), 0
    if batch.mine:
        changed = [ground.now.raw(each.total)
                   for group in of_losses(model) for each in group]
        factor = batch.total / batch.mine
    for each in changed:
        old = before.get(ground.now.key(each), 0)
        ground.now.write(each, old + factor * (ground.now.read(each) - old))


class Together:
    """Within it the metrics of a model are those of all workers."""

    def __init__(self, model, keep=False):
        self.variables = variables_of(model)
        self.keep = keep

    def __enter__(self):
        self.mine = [ground.now.read(each) for each in self.variables]
        for variable, value in zip(self.variables,
                                   combine(self.mine, _lib.SUM)):
            ground.now.write(variable, value)

    def __exit__(self, *_):
        if not self.keep:
            for variable, value in zip(self.variables, self.mine):
                ground.now.write(variable, value)


def mean_of(logs):
    """Numbers that a script's own train_step returned."""
    names = _numbers(logs)
    values = combine([np.asarray(float(logs[name])) for name in names],
                     _lib.MEAN)
    return dict(logs, **{name: float(value)
                         for name, value in zip(names, values)})


def _numbers(logs):
    return sorted(name for name, value in logs.items()
                  if np.ndim(value) == 0 and _is_number(value))


def _is_number(value):
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def equal(logs):
    """The logs of rank 0, to the bit. Collective."""
    names = _numbers(logs)
    values = np.array([float(logs[name]) for name in names], np.float64)
    alike.make([("logs/%d" % len(values), values)])
    return dict(logs, **{name: float(value)
                         for name, value in zip(names, values)})


def average_statistics(model):
    """Variables that steps change without training them. Collective."""
    metrics = {ground.now.key(each) for each in variables_of(model)}
    found = [ground.now.raw(variable)
             for variable in model.non_trainable_variables]
    average([variable for variable in found if variable is not None
             and ground.now.key(variable) not in metrics])


def average(variables):
    """Make them the mean over the workers. Collective."""
    variables = [ground.now.raw(variable) for variable in variables]
    variables = [each for each in variables if ground.now.is_float(each)]
    values = [ground.now.read(variable) for variable in variables]
    for variable, old, new in zip(variables, values,
                                  combine(values, _lib.MEAN)):
        if (old != new).any():  # equal ones are exact in float64
            ground.now.write(variable, new)
