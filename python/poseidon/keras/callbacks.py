"""Callbacks of Keras: worker 0 writes, all decide alike.

Logs at the end of an epoch are equal on all workers, so EarlyStopping,
ReduceLROnPlateau and ModelCheckpoint decide alike by themselves; saving.py
lets worker 0 alone save. After weights were set all are made equal again.
"""
import math
import sys

import numpy as np

from poseidon import _job, _lib
from poseidon.keras import fit, ground, metrics
from poseidon.shared.patches import Patches

WRITERS = ("TensorBoard", "CSVLogger", "RemoteMonitor")

_patches = Patches()
_batches = 0


def install(prefix, version):
    module = load(prefix + "callbacks")
    if _job.job().size == 1:
        _patches.wrap(module.CallbackList, "on_train_batch_end",
                      _count_batches)
        return
    _patches.wrap(module.CallbackList, "__init__", _list(module))
    _patches.wrap(module.CallbackList, "on_train_batch_end", _telling)
    _patches.wrap(module.TerminateOnNaN, "on_batch_end", _nan)
    if version == 3:
        _hook_3(prefix, module)
    else:
        _hook_2(prefix, module)


def uninstall():
    _patches.restore()


def load(name):
    __import__(name)
    return sys.modules[name]


def loss_of(logs):
    value = (logs or {}).get("loss")
    return math.nan if value is None or np.size(value) != 1 else float(value)


def _count_batches(real):
    """A job of one: only progress is told."""
    def on_train_batch_end(self, batch, logs=None):
        global _batches
        _batches += 1
        _lib.check(_lib.library().psd_metrics(
            _lib.session(), _batches, loss_of(logs), 0))
        return real(self, batch, logs)
    return on_train_batch_end


def _hook_3(prefix, module):
    layer = load(prefix + "layers.layer").Layer
    base = load(prefix + "optimizers.base_optimizer").BaseOptimizer
    _patches.wrap(layer, "set_weights", _loader)
    _patches.wrap(base, "load_own_variables", _loader)
    for name in ("_save_model", "on_train_end"):
        _patches.wrap(module.BackupAndRestore, name, _first_only)


def _hook_2(prefix, module):
    layer = load(prefix + "engine.base_layer").Layer
    new = load(prefix + "optimizers.optimizer")._BaseOptimizer
    old = load(prefix + "optimizers.legacy.optimizer_v2").OptimizerV2
    for owner in (layer, new, old):
        _patches.wrap(owner, "set_weights", _loader)
    state = load(prefix + "distribute.worker_training_state")
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
                callbacks = [each for each in _flat(callbacks)
                             if not isinstance(each, writers)]
            real(self, callbacks, *args, **kwargs)
        return __init__
    return make


def _flat(callbacks):
    if not isinstance(callbacks, (list, tuple)):
        return [callbacks]
    return [one for each in callbacks for one in _flat(each)]


def _telling(real):
    def on_train_batch_end(self, batch, logs=None):
        fit.stepped()
        ground.now.tell(logs)
        return real(self, batch, logs)
    return ground.now.plain(on_train_batch_end)


def _nan(real):
    """One worker's loss may be bad and the others' not: they stop
    together."""
    def on_batch_end(self, batch, logs=None):
        if logs and logs.get("loss") is not None:
            logs = metrics.mean_of(dict(loss=logs["loss"]))
        return real(self, batch, logs)
    return ground.now.plain(on_batch_end)


def _first_only(real):
    def call(self, *args, **kwargs):
        if _job.job().rank:
            return None
        with ground.now.alone():
            return real(self, *args, **kwargs)
    return ground.now.plain(call)


def _loader(real):
    def load_values(*args, **kwargs):
        ground.now.loaded()
        return real(*args, **kwargs)
    return ground.now.plain(load_values)
