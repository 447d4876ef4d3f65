"""Keras' model.save and save_weights write on worker 0; loading what was saved
waits for it. Keras 2 and 3 save and load by the same four functions, under
model's methods."""
import os

from poseidon.keras import ground
from poseidon.shared import files, host, turns


def replace(patches, module):
    """`module`: keras.src.saving.saving_api; patches: of everywhere.py."""
    patches.replace([
        (module, "save_model", saver(1, "filepath")),
        (module, "save_weights", saver(1, "filepath")),
        (module, "load_model", loader(0, "filepath")),
        (module, "load_weights", loader(1, "filepath"))])


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


def saver(at, name):
    """For a function that saves: argument `at`, `name`, is the path."""
    def make(original):
        def save(*args, **kwargs):
            path = _path(at, name, args, kwargs)
            if path is None:
                return original(*args, **kwargs)

            def act():
                # A tf.function that is traced for it is traced here alone.
                with host.inside(), ground.now.alone():
                    return original(*args, **kwargs)

            return turns.write([path], act)
        return save

    return make


def loader(at, name):
    """For one that loads."""
    def make(original):
        def load(*args, **kwargs):
            path = _path(at, name, args, kwargs)
            if path is not None:
                turns.read(path, "loading a model")
            ground.now.loaded()
            return original(*args, **kwargs)
        return load

    return make
