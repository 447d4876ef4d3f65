"""A script that distributes itself is left alone: a strategy of tf.distribute
other than the default one, the distribution API of Keras 3, Horovod."""
from poseidon import _boot, _job
from poseidon.keras import backend
from poseidon.shared import lines
from poseidon.shared.patches import Patches

DEFAULTS = ("_DefaultDistributionStrategy", "_DefaultDistributionStrategyV1")

_patches = Patches()
_done = False


def install(tf):
    """The last part to be installed: it may take all others off again."""
    from tensorflow.python.distribute import distribute_lib
    _patches.wrap(distribute_lib.StrategyBase, "__init__", _strategy)
    if _job.job().size > 1:
        _switch_off_xla(tf)
    _boot.after_import("horovod", _horovod)


def uninstall():
    global _done
    _done = True
    _patches.restore()


def _leave(reason):
    if _done or not _boot.is_worker():
        return
    uninstall()
    from poseidon.tensorflow import _patch
    _patch.stand_aside(reason)


def _strategy(real):
    def __init__(self, *args, **kwargs):
        name = type(self).__name__
        if name not in DEFAULTS:
            _leave("the script makes a tf.distribute.%s" % name)
        real(self, *args, **kwargs)
    return __init__


def _horovod(module):
    _leave("the script uses Horovod")


def watch_keras(module):
    if not backend.is_3(module):
        return
    from keras.src.distribution import distribution_lib

    def watched(real):
        def __init__(self, *args, **kwargs):
            _leave("the script makes a keras.distribution.%s"
                   % type(self).__name__)
            real(self, *args, **kwargs)
        return __init__

    _patches.wrap(distribution_lib.Distribution, "__init__", watched)


def _switch_off_xla(tf):
    """XLA has no ops but its own."""
    from tensorflow.python.eager.polymorphic_function import (
        polymorphic_function as module)

    def make(real):
        def __init__(self, *args, **kwargs):
            real(self, *args, **kwargs)
            if self._jit_compile and not _is_library(self):
                say_no_xla()
                self._jit_compile = None
        return __init__

    _patches.wrap(module.Function, "__init__", make)


def say_no_xla():
    lines.once("jit_compile is switched off: XLA cannot run the exchange")


def _is_library(function):
    """A function of Keras or TensorFlow itself, which trains nothing."""
    name = getattr(function.python_function, "__module__", None) or ""
    return name.split(".")[0] in ("tensorflow", "keras", "tf_keras")
