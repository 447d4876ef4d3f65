"""Model.fit and its relatives, on whatever framework.

Metrics are those of all workers wherever all of them read them: at the end of
an epoch, after train_on_batch. Evaluation sees all rows on every worker, or
with PSD_SHARD_EVAL its part.
"""
import inspect

import numpy as np

from poseidon import _job, _lib
from poseidon.keras import ground, metrics
from poseidon.shared import lines, rows
from poseidon.shared.patches import Patches

_patches = Patches()
_frames = []         # of the calls of fit and evaluate that are going on


class Frame:
    """One call of fit, evaluate or predict."""

    def __init__(self, kind, model):
        self.kind = kind
        self.model = model
        self.wants = True     # its data is still to come
        self.mode = None      # of its batches: split, per-worker
        self.begun = False    # has a step ended?


def install(trainer, version):
    """`trainer`: the class that has fit; version: of Keras, 2 or 3."""
    for kind in ("fit", "evaluate", "predict"):
        _patches.wrap(trainer, kind, _caller(kind))
    _patches.wrap(trainer, "train_on_batch", _on_batch)
    _patches.wrap(trainer, "_get_metrics_result_or_logs" if version == 3
                  else "_validate_and_get_metrics_result", _result)


def uninstall():
    _patches.restore()
    del _frames[:]


def wanting():
    """The call that is going on, if this is the data it was given; None: the
    data is not of a call, or is another's that it makes."""
    frame = _frames[-1] if _frames else None
    if frame is None or not frame.wants:
        return None
    frame.wants = False
    return frame


def is_going_on():
    return bool(_frames)


def mode():
    """Of the batches of the call that is going on."""
    return _frames[-1].mode if _frames else None


def _bound(real, self, args, kwargs):
    bound = inspect.signature(real).bind(self, *args, **kwargs)
    if _job.job().rank and "verbose" in inspect.signature(real).parameters:
        bound.arguments["verbose"] = 0
    return bound


def _caller(kind):
    def make(real):
        def call(self, *args, **kwargs):
            bound = _bound(real, self, args, kwargs)
            within = bool(_frames)
            frame = Frame(kind, self)
            _frames.append(frame)
            try:
                result = real(*bound.args, **bound.kwargs)
            except Exception:
                _hint(frame)
                raise
            finally:
                _frames.pop()
            if kind == "evaluate" and within and isinstance(result, dict):
                # Decisions hang on it: equal to the bit on every worker.
                result = metrics.equal(result)
            return result
        return ground.now.plain(call)
    return make


def stepped():
    """A step of the call that is going on has ended."""
    if _frames:
        _frames[-1].begun = True


def _hint(frame):
    """A script may count on whole batches."""
    if frame.kind == "fit" and frame.mode == "split" and not frame.begun:
        lines.once("fit has failed in its first step, on a part of a batch; "
                   "if it does not alone, --batch per-worker gives every "
                   "worker whole batches")


def loss_kind(model):
    """Is the loss a sum over the batch? Only where that is sure."""
    found = [getattr(each, "reduction", None)
             for each in _leaves(getattr(model, "loss", None))]
    if not found or not all(each == "sum" for each in found):
        return "mean"
    if getattr(model, "losses", None):
        lines.once("the loss is a sum over the batch and there are "
                   "regularisers: those are added once per worker")
    return "sum"


def is_whole(model):
    """Does a recurrent layer keep a state for each row of its batch? The
    shapes of inputs tell less: Keras may have them from the first batch."""
    if not any(getattr(each, "stateful", False) and hasattr(each, "cell")
               for each in model._flatten_layers()):
        return False
    lines.once("a stateful layer has a state for each row: batches are not "
               "cut, each worker takes its own as a whole (per-worker)")
    return True


def _result(real):
    """Keras asks for the metrics at the end of an epoch of fit and at the
    end of an evaluation."""
    def metrics_result(self, logs):
        frame = _frames[-1] if _frames else None
        if frame is None or frame.model is not self or (
                frame.kind == "evaluate" and not _job.job().shard_eval):
            return real(self, logs)
        if frame.kind == "fit":
            metrics.average_statistics(self)
        mine = _numbers(self.get_metrics_result())
        with metrics.Together(self, keep=True):
            result = _numbers(real(self, logs))
        whole = _numbers(self.get_metrics_result())
        if set(result) != set(whole):
            # The step has returned other numbers, or more than its metrics.
            shown = _shown(mine, result)
            result = dict(metrics.mean_of(result), **{
                name: whole[name] for name in shown})
        return metrics.equal(result)
    return ground.now.plain(metrics_result)


def _number(value):
    if hasattr(value, "detach"):  # torch's
        value = value.detach().cpu()
    return value.numpy() if hasattr(value, "numpy") else value


def _numbers(logs):
    return {name: _number(value) for name, value in logs.items()}


def _shown(mine, result):
    """Names of the metrics whose values these are, on any worker: without
    rows the step of this one was taken back. Collective."""
    names = sorted(set(mine) & set(result))
    same = np.array([_is_same(mine[name], result[name]) for name in names],
                    np.float64)
    same = metrics.combine([same], _lib.SUM)[0]
    return [name for name, count in zip(names, same) if count]


def _is_same(first, second):
    return np.ndim(first) == np.ndim(second) == 0 and bool(
        np.isclose(first, second, rtol=1e-6, atol=0))


def _on_batch(real):
    def train_on_batch(self, *args, **kwargs):
        bound = _bound(real, self, args, kwargs)
        words, batch = bound.arguments, None
        if _job.job().batch != "per-worker" and not is_whole(self):
            named = {name: words[name] for name in ("x", "y", "sample_weight")
                     if words.get(name) is not None}
            batch = _cut_arrays(named)
            words.update(named)
        with ground.now.batch(batch):
            result = real(*bound.args, **bound.kwargs)
        with metrics.Together(self):
            logs = {name: _number(value) for name, value
                    in self.get_metrics_result().items()}
        ground.now.tell(logs)
        return _like(result, logs)
    return ground.now.plain(train_on_batch)


def _like(result, logs):
    """The metrics in the form in which Keras has given this worker's."""
    if isinstance(result, dict):
        return metrics.equal(logs) if set(logs) == set(
            result) else metrics.mean_of(result)
    values = metrics.equal(logs)
    count = len(result) if isinstance(result, (list, tuple)) else 1
    if len(values) != count:
        return result
    return list(values.values()) if count > 1 or isinstance(
        result, list) else type(result)(next(iter(values.values())))


def _cut_arrays(named):
    """Each worker its rows of the arrays, in place; None: there are none."""
    leaves = [leaf for leaf in _leaves(named) if np.ndim(leaf)]
    if not leaves:
        return None
    job, total = _job.job(), len(leaves[0])
    batch = rows.share(total, job.rank, job.size)
    lines.once(rows.line(batch))
    lines.empty(batch)
    named.update(rows.cut(named, batch, job.rank))
    return batch


def _leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in _leaves(each)]
    return [] if value is None else [value]
