"""The data of Model.fit and its relatives, of Keras 2 and 3.

The data set of a fit is replaced by its cut one where Keras hands it to the
strategy; the training step then gets a Cut and works on its `data`,
`rows` being the weight of its gradients. Metrics: fit.py in poseidon/keras.
"""
import functools
import inspect

from poseidon import _job
from poseidon.keras import fit
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    aside, data, keras_ground, keras_metrics, keras_push, tape)

_tf = None
_patches = Patches()
_wrapped = set()     # functions that take Cuts


def install(tf, trainer, version):
    """`trainer`: the class that has fit; version: 2 or 3."""
    global _tf
    _tf = tf
    if _job.job().size == 1:
        return
    wrap = functools.partial(_patches.wrap, trainer)
    fit.install(trainer, version)
    wrap("make_train_function", _taker("train_step"))
    wrap("make_test_function", _taker("test_step"))
    wrap("reset_metrics", _reset)
    # Where it is defined: Keras compares, to know if it is the script's.
    owner = next(x for x in trainer.__mro__ if "compile" in vars(x))
    _patches.wrap(owner, "compile", _compile(version))


def install_data(owner, name, maker):
    _patches.wrap(owner, name, maker)


def uninstall():
    _patches.restore()
    fit.uninstall()


def adopt(dataset):
    """The data set of the call that is going on, and its mode; None: it is
    left as it is."""
    frame = fit.wanting() if isinstance(dataset, _tf.data.Dataset) else None
    if frame is None or frame.kind == "predict" or (
            frame.kind == "evaluate" and not _job.job().shard_eval):
        return dataset, None
    dataset, frame.mode = data.cut(dataset, fit.is_whole(frame.model))
    return dataset, frame.mode


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
            rows = batch if isinstance(batch, data.Cut) else (
                keras_ground.at_hand())
            if rows is None:
                return real(self, batch, *args, **kwargs)
            if rows is batch:
                taken = keras_push.training_step(batch.rows, _op(self))
                batch = batch.data
            else:    # the plug-in was told its rows
                taken = keras_push.training_step(None, "look")
            with taken as about:
                result = real(self, batch, *args, **kwargs)
            keras_metrics.count(self, rows, "sum" if about.summed
                                else fit.loss_kind(self))
            return result
        return step
    return make


def _op(model):
    """What is not said to be a sum shows it, perhaps. Whole batches of
    workers are averaged, whatever their loss is."""
    kind = fit.loss_kind(model)
    return "look" if kind == "mean" and fit.mode() == "split" else kind


def _reset(real):
    @tape.plain
    def reset_metrics(self):
        result = real(self)
        keras_metrics.was_reset(self)
        return result
    return reset_metrics


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
