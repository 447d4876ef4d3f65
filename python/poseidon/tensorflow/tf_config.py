"""TF_CONFIG is the script's to read. TensorFlow, its estimators and Keras see
none, so that a cluster in it does not start TensorFlow's own runtime behind
our back: to them this is a single machine.

os.environ stays the same object; only its class looks who asks.
"""
import os
import sys

NAME = "TF_CONFIG"
HIDDEN = frozenset(("tensorflow", "tensorflow_estimator", "keras", "tf_keras"))
_PASSED = frozenset(("os", "collections", "_collections_abc",
                     "collections.abc", __name__))

_plain = type(os.environ)


def install(_tf):
    if os.environ.get(NAME) and type(os.environ) is _plain:
        os.environ.__class__ = _Environ


def uninstall():
    if type(os.environ) is _Environ:
        os.environ.__class__ = _plain


def _is_hidden(key):
    return key == NAME and _asker() in HIDDEN


def _asker():
    """The package of the code that asks."""
    frame = sys._getframe(1)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if name not in _PASSED:
            return name.partition(".")[0]
        frame = frame.f_back
    return ""


class _Environ(_plain):
    def __getitem__(self, key):
        if _is_hidden(key):
            raise KeyError(key)
        return super().__getitem__(key)

    def __contains__(self, key):
        return not _is_hidden(key) and super().__contains__(key)

    def get(self, key, default=None):
        try:
            return self[key]
        except KeyError:
            return default
