"""Functions of TensorFlow are known under many names: where they are defined,
in the modules that took them from there, and in the public ones. Replacing
one means all of them; methods of classes need no such care."""
import functools
import sys

from poseidon.shared import patches

ROOTS = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator",
         "tensorboard")


class Patches(patches.Patches):
    def replace(self, functions):
        """functions: [(module, name, make)]; see patches.Patches."""
        table = {}
        for module, name, make in functions:
            original = getattr(module, name, None)
            if original is not None:
                table[id(original)] = (
                    original, functools.wraps(original)(make(original)))
        for module in _modules():
            for name, value in list(vars(module).items()):
                found = table.get(id(value))
                if found is not None and found[0] is value:
                    self.put(module, name, found[1])


def _modules():
    """Those that are loaded; a lazy one stays as it is."""
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ROOTS and hasattr(module, "__dict__"):
            yield module
