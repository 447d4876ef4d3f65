"""Functions of TensorFlow and Keras are known under many names: where they are
defined, in the modules that took them from there, and in the public ones.
Replacing one means all of them; methods of classes need no such care.

Looking through all modules takes time, so it is done once, for all parts
together: what they replace within gathered() is put in place at its end. A
module that is just being imported is nobody's source yet, there only its own
name is replaced.
"""
import contextlib
import functools
import sys

from poseidon.shared import patches

ROOTS = ("tensorflow", "keras", "tf_keras", "tensorflow_estimator",
         "tensorboard")

_table = None  # id: (original, replacement, patches), while they gather


class Patches(patches.Patches):
    def replace(self, functions):
        """functions: [(module, name, make)]; see patches.Patches."""
        for module, name, make in functions:
            original = getattr(module, name, None)
            if original is None:
                continue
            function = functools.wraps(original)(make(original))
            if _table is None:
                self.put(module, name, function)
            else:
                _table[id(original)] = (original, function, self)


@contextlib.contextmanager
def gathered():
    global _table
    _table = {}
    try:
        yield
    finally:
        table, _table = _table, None
        _put(table)


def _put(table):
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] not in ROOTS:
            continue
        names = getattr(module, "__dict__", None)  # a lazy one stays so
        for name, value in list(names.items()) if names else ():
            if id(value) in table and table[id(value)][0] is value:
                table[id(value)][2].put(module, name, table[id(value)][1])
