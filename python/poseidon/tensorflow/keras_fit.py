"""Model.fit and its relatives, of Keras 2 and 3.

The data set of a fit is replaced by its cut one where Keras hands it to the
strategy; the training step then gets Cut(data, rows) and works on `data`,
`rows` being the weight of its gradients. Metrics are those of all workers
wherever all of them read them: at the end of an epoch, after train_on_batch.
Evaluation sees all rows on every worker, or with PSD_SHARD_EVAL its part.
"""
import functools
import inspect

import numpy as np

from poseidon import _job, _lib
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    aside, core, data, keras_calls, keras_metrics, keras_push, tape)

_tf = None
_patches = Patches()
_frames = []         # of the calls of fit and evaluate that are going on
_wrapped = set()     # functions that take Cuts


class Frame:
    """One call of fit or evaluate."""

    def __init__(self, kind, model):
        self.kind = kind
        self.model = model
        self.wants = True     # its data set is still to come


def install(tf, trainer, version):
    """`trainer`: the class that has fit; version: 2 or 3."""
    global _tf
    _tf = tf
    if _job.job().size == 1:
        return
    wrap = functools.partial(_patches.wrap, trainer)
    wrap("fit", _caller("fit"))
    wrap("evaluate", _caller("evaluate"))
    wrap("predict", _quiet)
    wrap("train_on_batch", _on_batch)
    wrap("make_train_function", _taker("train_step"))
    wrap("make_test_function", _taker("test_step"))
    wrap("reset_metrics", _reset)
    # Where it is defined: Keras compares, to know if it is the script's.
    owner = next(x for x in trainer.__mro__ if "compile" in vars(x))
    _patches.wrap(owner, "compile", _compile(version))
    wrap("_get_metrics_result_or_logs" if version == 3
         else "_validate_and_get_metrics_result", _result)


def install_data(owner, name, maker):
    _patches.wrap(owner, name, maker)


def uninstall():
    _patches.restore()
    del _frames[:]


def _bound(real, self, args, kwargs):
    bound = inspect.signature(real).bind(self, *args, **kwargs)
    if _job.job().rank and "verbose" in inspect.signature(real).parameters:
        bound.arguments["verbose"] = 0
    return bound


def _quiet(real):
    @tape.plain
    def predict(self, *args, **kwargs):
        bound = _bound(real, self, args, kwargs)
        return real(*bound.args, **bound.kwargs)
    return predict


def _caller(kind):
    def make(real):
        @tape.plain
        def call(self, *args, **kwargs):
            bound = _bound(real, self, args, kwargs)
            within = bool(_frames)
            _frames.append(Frame(kind, self))
            try:
                result = real(*bound.args, **bound.kwargs)
            finally:
                _frames.pop()
            if kind == "evaluate" and within and isinstance(result, dict):
                # Decisions hang on it: equal to the bit on every worker.
                result = keras_metrics.equal(result)
            return result
        return call
    return make


def adopt(dataset):
    """The data set of the call that is going on, and its mode; None: it is
    left as it is."""
    frame = _frames[-1] if _frames else None
    if frame is None or not frame.wants or not isinstance(
            dataset, _tf.data.Dataset):
        return dataset, None
    frame.wants = False
    if frame.kind == "evaluate" and not _job.job().shard_eval:
        return dataset, None
    return data.cut(dataset, _is_whole(frame.model))


def _is_whole(model):
    """Does a recurrent layer keep a state for each row of its batch? The
    shapes of inputs tell less: Keras may have them from the first batch."""
    if not any(getattr(each, "stateful", False) and hasattr(each, "cell")
               for each in model._flatten_layers()):
        return False
    lines.once("a stateful layer has a state for each row: batches are not "
               "cut, each worker takes its own as a whole (per-worker)")
    return True


def say(dataset, mode, batch_size):
    """`global batch ...`, where the size of a batch is known."""
    for spec in _tf.nest.flatten(dataset.element_spec):
        shape = getattr(spec, "shape", None)
        if shape is not None and shape.rank and shape[0]:
            batch_size = shape[0]
            break
    batch_size = batch_size or _size_of_batches(dataset)
    if batch_size:
        data.say(int(batch_size), mode)


def _size_of_batches(dataset):
    """What the script gave to batch(); None: not seen."""
    while dataset is not None:
        size = getattr(dataset, "_batch_size", None)
        if size is not None:
            return _tf.get_static_value(size)
        dataset = getattr(dataset, "_input_dataset", None)
    return None


def _taker(name):
    """Before the function is made: the step that it will call, of whatever
    class, shall take Cuts."""
    def make(real):
        @tape.plain
        def make_function(self, *args, **kwargs):
            for owner in type(self).__mro__:
                step = owner.__dict__.get(name)
                if step is not None and step not in _wrapped:
                    _patches.wrap(owner, name, _step_taker(name))
                    _wrapped.add(owner.__dict__[name])
            return real(self, *args, **kwargs)
        return make_function
    return make


def _step_taker(name):
    def make(real):
        @tape.plain
        def step(self, batch, *args, **kwargs):
            if not isinstance(batch, data.Cut):
                return real(self, batch, *args, **kwargs)
            with keras_push.training_step(batch.rows, _op(self)):
                result = real(self, batch.data, *args, **kwargs)
            keras_metrics.only_with_rows(self, batch.rows)
            return result
        return step
    return make


def _op(model):
    """Is the loss a sum over the batch? Only where that is sure."""
    loss = getattr(model, "loss", None)
    found = [getattr(each, "reduction", None)
             for each in _tf.nest.flatten(loss)]
    if not found or not all(each == "sum" for each in found):
        return "mean"
    if getattr(model, "losses", None):
        lines.once("the loss is a sum over the batch and there are "
                   "regularisers: those are added once per worker")
    return "sum"


def _reset(real):
    @tape.plain
    def reset_metrics(self):
        result = real(self)
        keras_metrics.was_reset(self)
        return result
    return reset_metrics


def _result(real):
    """Keras asks for the metrics at the end of an epoch of fit and at the
    end of an evaluation."""
    @tape.plain
    def metrics_result(self, logs):
        frame = _frames[-1] if _frames else None
        if frame is None or frame.model is not self or (
                frame.kind == "evaluate" and not _job.job().shard_eval):
            return real(self, logs)
        if frame.kind == "fit":
            keras_metrics.average_statistics(self)
        with keras_metrics.Together(self, keep=True):
            result = real(self, logs)
        result = {name: _number(value) for name, value in result.items()}
        if set(result) != set(self.get_metrics_result()):
            return keras_metrics.mean_of(result)
        return keras_metrics.equal(result)
    return metrics_result


def _number(value):
    return value.numpy() if hasattr(value, "numpy") else value


def _on_batch(real):
    @tape.plain
    def train_on_batch(self, *args, **kwargs):
        bound = _bound(real, self, args, kwargs)
        words = bound.arguments
        named = {name: words[name] for name in ("x", "y", "sample_weight")
                 if words.get(name) is not None}
        weight, op = 1, _lib.MEAN
        if _job.job().batch != "per-worker" and not _is_whole(self):
            weight, op = _cut_arrays(named), _lib.SUM
            words.update(named)
        core.start(_tf)
        core.step(weight, op)
        result = real(*bound.args, **bound.kwargs)
        core.step(1)
        with keras_metrics.Together(self):
            logs = {name: _number(value) for name, value
                    in self.get_metrics_result().items()}
        keras_calls.tell(logs)
        if isinstance(result, dict):
            return keras_metrics.equal(logs) if set(logs) == set(
                result) else keras_metrics.mean_of(result)
        values = keras_metrics.equal(logs)
        count = len(result) if isinstance(result, (list, tuple)) else 1
        if len(values) != count:
            return result
        return list(values.values()) if count > 1 or isinstance(
            result, list) else type(result)(next(iter(values.values())))
    return train_on_batch


def _cut_arrays(named):
    """Each worker its rows of the arrays, in place; how many they are."""
    leaves = [leaf for value in named.values()
              for leaf in _tf.nest.flatten(value) if np.ndim(leaf)]
    if not leaves:
        return 1
    total = len(leaves[0])
    batch = data.share(total)
    start = sum(batch.sizes[:_job.job().rank]) if batch.mine else 0
    data.say(total, "split")
    lines.empty(batch)
    for name, value in named.items():
        named[name] = _tf.nest.map_structure(
            lambda leaf: leaf[start:start + batch.shown]
            if np.ndim(leaf) and len(leaf) == total else leaf, value)
    return batch.mine


def _compile(version):
    def make(real):
        @tape.plain
        def compile(self, *args, **kwargs):
            bound = inspect.signature(real).bind(self, *args, **kwargs)
            if bound.arguments.get("jit_compile") is True:
                aside.say_no_xla()
            if version == 3 or "jit_compile" in bound.arguments:
                bound.arguments["jit_compile"] = False
            return real(*bound.args, **bound.kwargs)
        return compile
    return make
