"""Callbacks and files of Keras: worker 0 writes, all decide alike.

Logs at the end of an epoch are equal on all workers, so EarlyStopping,
ReduceLROnPlateau and ModelCheckpoint decide alike by themselves; only worker
0 saves. Before a worker loads what it believes to have saved, it waits until
worker 0 has come as far.
"""
import sys

from poseidon import _job, _lib
from poseidon.shared.patches import Patches
from poseidon.tensorflow import core, keras_start, tape

WRITERS = ("TensorBoard", "CSVLogger", "RemoteMonitor")

_tf = None
_patches = Patches()
_saved = False       # something was saved, or would have been


def install(tf, prefix, version):
    global _tf
    _tf = tf
    module = _load(prefix + "callbacks")
    _patches.wrap(module.CallbackList, "__init__", _list(module))
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
    model = _load(prefix + "models.model").Model
    layer = _load(prefix + "layers.layer").Layer
    base = _load(prefix + "optimizers.base_optimizer").BaseOptimizer
    api = _load(prefix + "saving.saving_api")
    for name in ("save", "save_weights", "export"):
        _patches.wrap(model, name, _saver)
    _patches.wrap(api, "save_model", _saver)
    for owner, name in ((model, "load_weights"), (layer, "set_weights"),
                        (base, "load_own_variables"), (api, "load_model"),
                        (api, "load_weights")):
        _patches.wrap(owner, name, _loader)
    for name in ("_save_model", "on_train_end"):
        _patches.wrap(module.BackupAndRestore, name, _first_only)


def _hook_2(prefix, module):
    model = _load(prefix + "engine.training").Model
    layer = _load(prefix + "engine.base_layer").Layer
    new = _load(prefix + "optimizers.optimizer")._BaseOptimizer
    old = _load(prefix + "optimizers.legacy.optimizer_v2").OptimizerV2
    api = _load(prefix + "saving.saving_api")
    for name in ("save", "save_weights", "export"):
        _patches.wrap(model, name, _saver)
    _patches.wrap(api, "save_model", _saver)
    for owner, name in ((model, "load_weights"), (layer, "set_weights"),
                        (new, "set_weights"), (old, "set_weights"),
                        (api, "load_model"), (api, "load_weights")):
        _patches.wrap(owner, name, _loader)
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


def _saver(real):
    @tape.plain
    def save(*args, **kwargs):
        global _saved
        _saved = True
        if _job.job().rank:
            return None
        with keras_start.alone():
            return real(*args, **kwargs)
    return save


def _loader(real):
    @tape.plain
    def load(*args, **kwargs):
        global _saved
        if _saved and core.started() and "set_weights" not in real.__name__:
            _saved = False
            _lib.check(_lib.library().psd_barrier(_lib.session()))
        keras_start.loaded()
        return real(*args, **kwargs)
    return load
