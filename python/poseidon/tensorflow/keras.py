"""Keras 2, Keras 3 and tf_keras: where their classes are hooked.

Gradients are exchanged by the tape (tape.py). An optimizer exchanges what it
is given and no tape has marked, before it clips or unscales; of a loss scale
optimizer and the one inside it only the outer one does.
"""
import gc
import threading
import weakref
import zlib

from poseidon import _job
from poseidon.keras import backend, callbacks, ground, metrics
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    agree, data, keras_fit, keras_ground, keras_push, tape)

_tf = None
_patches = Patches()
_inside = threading.local()
_norms = []          # weak references to layers with running statistics


def install(tf):
    global _tf
    _tf = tf
    keras_push.install(tf)
    if ground.now is None:  # tf.saved_model needs no Keras
        ground.use(keras_ground)


def uninstall():
    callbacks.uninstall()
    keras_fit.uninstall()
    keras_push.uninstall()
    _patches.restore()


def found(module):
    """Keras was imported; see backend.py."""
    prefix = module.__name__ + ".src."
    version = 3 if backend.is_3(module) else 2
    ground.use(keras_ground)
    callbacks.install(prefix, version)
    if _job.job().size == 1:
        return
    (_hook_3 if version == 3 else _hook_2)(prefix)
    _patches.wrap(module.layers.BatchNormalization, "build", _norm)
    data.at_end(_average)


def _norm(real):
    def build(self, input_shape):
        real(self, input_shape)
        _norms.append(weakref.ref(self))
    return build


def _average():
    """A loop of the script's that trains has ended: its models go on with
    the statistics of all workers."""
    if _norms:
        layers = _living()
        if not agree.on(zlib.crc32("\n".join(
                each.name for each in layers).encode())):
            layers = None
            gc.collect()  # what is dead may live on another worker
            layers = _living()
        metrics.average([variable for each in layers for variable in (
            each.moving_mean, each.moving_variance)])


def _living():
    layers = [each() for each in _norms]
    return [each for each in layers if each is not None and each.built]


def _hook_3(prefix):
    base = callbacks.load(prefix + "optimizers.base_optimizer").BaseOptimizer
    scale = callbacks.load(prefix + "optimizers.loss_scale_optimizer")
    for owner in (base, scale.LossScaleOptimizer):
        _patches.wrap(owner, "apply", _apply)
    trainer = callbacks.load(prefix + "backend.tensorflow.trainer")
    keras_fit.install(_tf, trainer.TensorFlowTrainer, 3)
    keras_fit.install_data(trainer.TFEpochIterator, "__init__", _epochs)
    keras_fit.install_data(trainer.TFEpochIterator, "reset", _reset)


def _hook_2(prefix):
    new = callbacks.load(prefix + "optimizers.optimizer")
    old = callbacks.load(prefix + "optimizers.legacy.optimizer_v2")
    scale = callbacks.load(prefix + "mixed_precision.loss_scale_optimizer")
    for owner in (new._BaseOptimizer, new.Optimizer, old.OptimizerV2,
                  scale.LossScaleOptimizer, scale.LossScaleOptimizerV3):
        _patches.wrap(owner, "apply_gradients", _apply_pairs)
    training = callbacks.load(prefix + "engine.training")
    adapter = callbacks.load(prefix + "engine.data_adapter")
    keras_fit.install(_tf, training.Model, 2)
    keras_fit.install_data(adapter.DataHandler,
                           "_configure_dataset_and_inferred_steps", _handler)


def _outermost(call):
    """Run call(first) once for optimizers inside one another."""
    first = not getattr(_inside, "apply", False)
    _inside.apply = True
    try:
        return call(first)
    finally:
        if first:
            _inside.apply = False


def _see_scale(optimizer):
    if type(optimizer).__name__.startswith("LossScaleOptimizer"):
        keras_push.watch.scaled = True


def _apply(real):
    @tape.plain
    def apply(self, grads, trainable_variables=None):
        _see_scale(self)

        def call(first):
            given = grads
            if first:
                given = tape.exchanged(grads, (
                    self._trainable_variables if trainable_variables is None
                    else trainable_variables))
            return real(self, given, trainable_variables)
        return _outermost(call)
    return apply


def _apply_pairs(real):
    @tape.plain
    def apply_gradients(self, grads_and_vars, *args, **kwargs):
        _see_scale(self)

        def call(first):
            pairs = list(grads_and_vars)
            if first and pairs:
                grads, variables = zip(*pairs)
                pairs = list(zip(tape.exchanged(grads, variables),
                                 variables))
            return real(self, pairs, *args, **kwargs)
        return _outermost(call)
    return apply_gradients


def _epochs(real):
    """Keras 3: the data of one fit or evaluate."""
    def __init__(self, *args, **kwargs):
        real(self, *args, **kwargs)
        dataset, mode = keras_fit.adopt(self._distributed_dataset)
        self.psd_mode = mode
        if mode is not None:
            keras_fit.say(self._distributed_dataset, mode,
                          self.data_adapter.batch_size)
            self._distributed_dataset = dataset
            _shorten(self)
    return __init__


def _reset(real):
    def reset(self):
        real(self)
        _shorten(self)
    return reset


def _shorten(epochs):
    """Per worker there are fewer batches."""
    if epochs.psd_mode == "per-worker" and epochs._num_batches:
        epochs._num_batches = -(-epochs._num_batches // _job.job().size)


def _handler(real):
    """Keras 2: the same."""
    def configure(self, strategy, x, steps_per_epoch, *args, **kwargs):
        real(self, strategy, x, steps_per_epoch, *args, **kwargs)
        whole = self._dataset
        self._dataset, mode = keras_fit.adopt(whole)
        if mode is not None:
            keras_fit.say(whole, mode, self._adapter.batch_size())
        if mode == "per-worker" and self._inferred_steps and (
                steps_per_epoch is None):
            self._inferred_steps = max(
                1, self._inferred_steps // _job.job().size)
    return configure
