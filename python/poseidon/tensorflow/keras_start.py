"""The same start: every variable gets the bits of rank 0.

Variables are noted when they are made. They are made equal before the next
step that could train: at the call of a tf.function, when a tape begins, or,
for those a function makes while it is traced, before it runs for the first
time. Loading a checkpoint or setting weights makes everything equal again.
An eager step that builds its model inside the tape has computed with its own
first values; they are equal already where the seeds are.
"""
import contextlib
import gc
import hashlib
import threading
import weakref

import numpy as np

from poseidon import _job
from poseidon.shared import alike
from poseidon.shared.patches import Patches
from poseidon.tensorflow import agree, core, keras_push

CHUNK = 64 << 20     # bytes that travel at once
TEXT = 1 << 16       # of rank 0's list of variables

_tf = None
_unread = ()         # the class of what an assign returns: no new variable
_patches = Patches()
_noted = []          # weak references, in the order of their making
_open = []           # those of them that are not equal yet
_news = False        # a trainable one is among these
_stale = False       # values were loaded
_alone = 0           # inside of alone()


def install(tf):
    global _tf, _unread
    _tf = tf
    if _job.job().size == 1:
        return
    from tensorflow.python.ops import resource_variable_ops as module
    _unread = module._UnreadVariable
    from tensorflow.python.eager.polymorphic_function import (
        polymorphic_function as functions)
    _patches.wrap(module.BaseResourceVariable, "__init__", _init)
    _patches.wrap(functions.Function, "_initialize_uninitialized_variables",
                  _lifted)
    keras_push.before_first(_before_first)


def uninstall():
    global _news, _stale
    _patches.restore()
    del _noted[:], _open[:]
    _news, _stale = False, False


def loaded():
    """Values come from somewhere else: make all equal before training."""
    global _stale
    _stale = _stale or not _alone


@contextlib.contextmanager
def alone():
    """What this worker makes or loads inside, the others may not have."""
    global _alone
    _alone += 1
    try:
        yield
    finally:
        _alone -= 1


def ready():
    """Before a step, eagerly: what is new or loaded is made equal.
    Collective; every worker comes here at the same call of the script."""
    if (_news or _stale) and not _alone and (
            threading.current_thread() is threading.main_thread()):
        _make_equal()


def _before_first(variables=None):
    """A function is being traced that trains variables it has made."""
    if (_news or _stale) and not _alone:
        with _tf.init_scope():
            _make_equal()


def _lifted(real):
    """Variables that were made while a function was traced get their first
    values after that, before it runs."""
    def initialize(self, initializers):
        global _news
        real(self, initializers)
        _news = _news or bool(_open)
        _before_first()
    return initialize


def _init(real):
    def __init__(self, *args, **kwargs):
        global _news
        real(self, *args, **kwargs)
        if hasattr(self._handle, "_numpy") and not _alone and (  # eager
                not isinstance(self, _unread)):
            _noted.append(weakref.ref(self))
            _open.append(_noted[-1])
            _news = _news or bool(self.trainable)
    return __init__


def _make_equal():
    """Those without a value have to wait for the next time."""
    global _news, _stale
    core.start(_tf)
    chosen = _chosen()
    if agree.any_true(_difference(chosen)):
        chosen = None
        gc.collect()  # what is dead may live on another worker
        chosen = _chosen()
        difference = _difference(chosen)
        if difference:
            raise RuntimeError("poseidon: %s; every worker must build the "
                               "same model" % difference)
    _noted[:] = [each for each in _noted if each() is not None]
    _open[:] = [each for each in _open if each() is not None
                and not _has_value(each())]
    _news = _stale = False
    for part in _parts(chosen):
        _broadcast(part)


def _chosen():
    """The variables that are to be made equal now, as far as they live."""
    living = [each() for each in (_noted if _stale else _open)]
    return [variable for variable in living
            if variable is not None and _is_plain(variable)]


def _has_value(variable):
    return bool(variable.is_initialized())


def _is_plain(variable):
    """Not text, not a handle, not without a value yet."""
    return (variable.dtype.base_dtype not in (
        _tf.string, _tf.resource, _tf.variant)
        and variable.shape.is_fully_defined() and _has_value(variable))


def _difference(variables):
    """What differs from the variables of worker 0; None: nothing."""
    lines = ["%s %s %s" % (variable.name, tuple(variable.shape),
                           variable.dtype.base_dtype.name)
             for variable in variables]
    whole = "\n".join(lines).encode()
    mine = np.zeros(TEXT, np.uint8)
    mine[:8].view(np.uint64)[0] = len(lines)
    mine[8:16] = np.frombuffer(hashlib.sha256(whole).digest()[:8], np.uint8)
    mine[16:16 + len(whole)] = np.frombuffer(whole[:TEXT - 16], np.uint8)
    theirs = mine.copy()
    alike.make([("start/names", theirs)])
    if (mine == theirs).all():
        return None
    others = bytes(theirs[16:]).rstrip(b"\0").decode(errors="replace")
    for here, there in zip(lines, others.split("\n")):
        if here != there:
            return "variable %s of worker %d is %s on worker 0" % (
                here, _job.job().rank, there)
    return "worker %d has %d variables, worker 0 has %d" % (
        _job.job().rank, len(lines), int(theirs[:8].view(np.uint64)[0]))


def _parts(variables):
    part, size = [], 0
    for variable in variables:
        bytes_ = variable.shape.num_elements() * variable.dtype.size
        if part and size + bytes_ > CHUNK:
            yield part
            part, size = [], 0
        part.append(variable)
        size += bytes_
    if part:
        yield part


def _broadcast(variables):
    values = [np.asarray(variable.numpy(), order="C")
              for variable in variables]
    whole = np.concatenate([value.reshape(-1).view(np.uint8)
                            for value in values])
    mine = whole.copy()
    alike.make([("start/%d" % whole.size, whole)])
    at = 0
    for variable, value in zip(variables, values):
        end = at + value.nbytes
        if (whole[at:end] != mine[at:end]).any():
            variable.assign(whole[at:end].view(value.dtype).reshape(
                value.shape))
        at = end
