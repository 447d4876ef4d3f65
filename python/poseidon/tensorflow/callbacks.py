"""Callbacks of Keras: worker 0 writes, all decide alike.

Logs at the end of an epoch are equal on all workers, so EarlyStopping,
ReduceLROnPlateau and ModelCheckpoint decide alike by themselves; models.py
lets worker 0 alone save. After weights were set all are made equal again.
"""
import sys

from poseidon import _job
from poseidon.shared.patches import Patches
from poseidon.tensorflow import keras_calls, keras_start, tape

WRITERS = ("TensorBoard", "CSVLogger", "RemoteMonitor")

_tf = None
_patches = Patches()


def install(tf, prefix, version):
    global _tf
    _tf = tf
    module = _load(prefix + "callbacks")
    _patches.wrap(module.CallbackList, "__init__", _list(module))
    _patches.wrap(module.CallbackList, "on_train_batch_end", _telling)
    _patches.wrap(module.TerminateOnNaN, "on_batch_end", _nan)
    if version == 3:
        _hook_3(prefix, module)
    else:
        _hook_2(prefix, module)


def uninstall():
    _patches.restore()


def _load(name):
    __import__(name)
    return sys.modules[name]


def _hook_3(prefix, module):
    layer = _load(prefix + "layers.layer").Layer
    base = _load(prefix + "optimizers.base_optimizer").BaseOptimizer
    _patches.wrap(layer, "set_weights", _loader)
    _patches.wrap(base, "load_own_variables", _loader)
    for name in ("_save_model", "on_train_end"):
        _patches.wrap(module.BackupAndRestore, name, _first_only)


def _hook_2(prefix, module):
    layer = _load(prefix + "engine.base_layer").Layer
    new = _load(prefix + "optimizers.optimizer")._BaseOptimizer
    old = _load(prefix + "optimizers.legacy.optimizer_v2").OptimizerV2
    for owner in (layer, new, old):
        _patches.wrap(owner, "set_weights", _loader)
    state = _load(prefix + "distribute.worker_training_state")
    for name in ("back_up", "delete_backup"):
        _patches.wrap(state.WorkerTrainingState, name, _first_only)
    _patches.wrap(state.WorkerTrainingState, "restore", _loader)


def _list(module):
    """Who only writes, writes on worker 0."""
    writers = tuple(getattr(module, name) for name in WRITERS
                    if hasattr(module, name))

    def make(real):
        def __init__(self, callbacks=None, *args, **kwargs):
            if _job.job().rank and callbacks is not None:
                callbacks = [each for each in _tf.nest.flatten(callbacks)
                             if not isinstance(each, writers)]
            real(self, callbacks, *args, **kwargs)
        return __init__
    return make


def _telling(real):
    @tape.plain
    def on_train_batch_end(self, batch, logs=None):
        keras_calls.tell(logs)
        return real(self, batch, logs)
    return on_train_batch_end


def _nan(real):
    """One worker's loss may be bad and the others' not: they stop
    together."""
    @tape.plain
    def on_batch_end(self, batch, logs=None):
        from poseidon.tensorflow import keras_metrics
        if logs and logs.get("loss") is not None:
            logs = keras_metrics.mean_of(dict(loss=logs["loss"]))
        return real(self, batch, logs)
    return on_batch_end


def _first_only(real):
    @tape.plain
    def call(self, *args, **kwargs):
        if _job.job().rank:
            return None
        with keras_start.alone():
            return real(self, *args, **kwargs)
    return call


def _loader(real):
    @tape.plain
    def load(*args, **kwargs):
        keras_start.loaded()
        return real(*args, **kwargs)
    return load
