"""Whole models: tf.saved_model.save, SavedModelBuilder and Keras' model.save
and save_weights write on worker 0; loading what was saved waits for it. Keras
2 and 3 save and load by the same four functions, under model's methods."""
import os

from poseidon import _boot, _job
from poseidon.shared import files, host, turns
from poseidon.tensorflow import everywhere, keras_start

KERAS = ("keras.src.saving.saving_api", "tf_keras.src.saving.saving_api")

_patches = everywhere.Patches()


def install(tf):
    if not host.start():
        return
    from tensorflow.python.saved_model import (builder_impl, load,
                                               loader_impl, save)
    turns.start()
    _patches.replace([
        (save, "save", _saver(1, "export_dir")),
        (load, "load", _loader(0, "export_dir"))])
    _patches.wrap(loader_impl.SavedModelLoader, "__init__",
                  _loader(1, "export_dir"))
    _wrap_builder(builder_impl)
    for name in KERAS:
        _boot.after_import(name, _install_keras)


def uninstall():
    _patches.restore()


def _install_keras(module):
    if not host.is_active():
        return
    _patches.replace([
        (module, "save_model", _saver(1, "filepath")),
        (module, "save_weights", _saver(1, "filepath")),
        (module, "load_model", _loader(0, "filepath")),
        (module, "load_weights", _loader(1, "filepath"))])


def _path(at, name, args, kwargs):
    """The path among the arguments; None: nothing to watch."""
    if not host.is_active() or host.is_inside():
        return None
    path = kwargs.get(name, args[at] if len(args) > at else None)
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str) and "://" in path:
        return path
    path = host.plain_path(path)
    return None if path is not None and files.is_private(path) else path


def _saver(at, name):
    def make(original):
        def save(*args, **kwargs):
            path = _path(at, name, args, kwargs)
            if path is None:
                return original(*args, **kwargs)

            def act():
                # A tf.function that is traced for it is traced here alone.
                with host.inside(), keras_start.alone():
                    return original(*args, **kwargs)

            return turns.write([path], act)
        return save

    return make


def _loader(at, name):
    def make(original):
        def load(*args, **kwargs):
            path = _path(at, name, args, kwargs)
            if path is not None:
                turns.read(path, "loading a model")
            keras_start.loaded()
            return original(*args, **kwargs)
        return load

    return make


def _wrap_builder(module):
    """SavedModelBuilder(folder): its folder must be new, which worker 0's is
    not for the others; they gather nothing and write nothing."""
    for owner in {module.SavedModelBuilder, module._SavedModelBuilder}:
        for name in ("__init__", "add_meta_graph",
                     "add_meta_graph_and_variables", "save"):
            if name in vars(owner):
                _patches.wrap(owner, name, _builder)


def _builder(original):
    def act(self, *args, **kwargs):
        if not host.is_active():
            return original(self, *args, **kwargs)
        if original.__name__ == "__init__":
            self._psd_folder = os.fsdecode(
                kwargs.get("export_dir", args[0] if args else ""))
        first = _job.job().rank == 0 or files.is_private(self._psd_folder)
        if original.__name__ == "save":
            folder = self._psd_folder
            if files.is_private(folder):
                return original(self, *args, **kwargs)
            result = turns.write([host.plain_path(folder)], lambda: original(
                self, *args, **kwargs))
            return result if first else os.path.join(folder,
                                                     "saved_model.pb")
        return original(self, *args, **kwargs) if first else None

    return act
