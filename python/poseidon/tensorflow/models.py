"""Whole models: tf.saved_model.save and SavedModelBuilder write on worker 0;
loading what was saved waits for it, as with the models of Keras (saving.py in
poseidon/keras)."""
import os

from poseidon import _boot, _job
from poseidon.keras import saving
from poseidon.shared import everywhere, files, host, turns
from poseidon.tensorflow import gfiles

KERAS = ("keras.src.saving.saving_api", "tf_keras.src.saving.saving_api")

_patches = everywhere.Patches()


def install(tf):
    if not host.start():
        return
    from tensorflow.python.saved_model import (builder_impl, load,
                                               loader_impl, save)
    turns.start()
    _patches.replace([
        (save, "save", saving.saver(1, "export_dir")),
        (load, "load", saving.loader(0, "export_dir"))])
    _patches.wrap(loader_impl.SavedModelLoader, "__init__",
                  saving.loader(1, "export_dir"))
    _wrap_builder(builder_impl)
    for name in KERAS:
        _boot.after_import(name, _install_keras)


def uninstall():
    _patches.restore()


def _install_keras(module):
    if host.is_active():
        saving.replace(_patches, module)


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
        if not first:
            gfiles.unwritten(self._psd_folder)
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
