"""GradientTape: gradients of variables are exchanged where they are made.

Then clipping, logging, accumulation and an update by hand all see the mean of
all workers, as the script on one machine would. The rule:

- every source is a variable, one of them trainable: exchanged;
- a source is a tensor (an input, an interpolation of a gradient penalty):
  never exchanged;
- another tape is recording (the inner gradient of a second-order method), or
  this is part of a jacobian: not exchanged here. If such a gradient is handed
  to an optimizer, that exchanges it.

What was exchanged is marked by variable, so that the optimizer does not do it
again. A mark belongs to the graph in which the gradient was made and is taken
off by an optimizer in that graph; one that stays (a tf.function that returns
gradients) counts in every graph.
"""
import threading
import weakref

from poseidon import _job
from poseidon.shared.patches import Patches
from poseidon.tensorflow import keras_push

_tf = None
_record = None
_patches = Patches()
_eager = set()                             # marks outside of functions
_graphs = weakref.WeakKeyDictionary()      # marks inside of them
_inside = threading.local()                # jacobian
_entered = []                              # called when a tape begins


def install(tf):
    global _tf, _record
    _tf = tf
    if _job.job().size == 1:
        return
    from tensorflow.python.eager import record
    _record = record
    _patches.wrap(tf.GradientTape, "gradient", _gradient)
    _patches.wrap(tf.GradientTape, "__enter__", _enter)
    for name in ("jacobian", "batch_jacobian"):
        _patches.wrap(tf.GradientTape, name, _jacobian)


def uninstall():
    _patches.restore()
    _eager.clear()
    _graphs.clear()
    del _entered[:]


def on_enter(function):
    """Call function() when a tape begins to record, eagerly."""
    _entered.append(function)


def plain(function):
    """AutoGraph shall call this as it is; it takes half a second to write
    one anew."""
    function.autograph_info__ = None
    return function


def exchanged(grads, variables):
    """What an optimizer is given, and no tape has exchanged yet."""
    grads = list(grads)
    if not keras_push.is_possible():
        return grads
    raws = [keras_push.raw(variable) for variable in variables]
    if any(variable is None for variable in raws):
        return grads
    missing = [index for index, is_open in enumerate(_take_marks(raws))
               if is_open and grads[index] is not None]
    if missing:
        answers = keras_push.exchange([grads[index] for index in missing],
                                      [raws[index] for index in missing])
        for index, answer in zip(missing, answers):
            grads[index] = answer
    return grads


def _take_marks(variables):
    """Which of these still have to be exchanged?"""
    marks = _marks()
    elsewhere = [marks, _eager, *_graphs.values()]
    names = [variable._unique_id for variable in variables]
    open_ = [not any(name in each for each in elsewhere) for name in names]
    marks.difference_update(names)
    return open_


def _marks():
    if _tf.executing_eagerly():
        return _eager
    return _graphs.setdefault(_tf.compat.v1.get_default_graph(), set())


def _gradient(real):
    @plain
    def gradient(self, target, sources, *args, **kwargs):
        result = real(self, target, sources, *args, **kwargs)
        if getattr(_inside, "jacobian", False) or (
                not keras_push.is_possible()
                or _record.could_possibly_record()):
            return result
        flat = _tf.nest.flatten(sources)
        variables = [keras_push.raw(source) for source in flat]
        if any(variable is None for variable in variables) or (
                not any(variable.trainable for variable in variables)):
            return result
        grads = _tf.nest.flatten(result)
        answers = keras_push.exchange(grads, variables, target)
        _marks().update(variable._unique_id for grad, variable
                        in zip(grads, variables) if grad is not None)
        return _tf.nest.pack_sequence_as(sources, answers)
    return gradient


def _enter(real):
    @plain
    def __enter__(self):
        if _tf.executing_eagerly():
            for function in _entered:
                function()
        return real(self)
    return __enter__


def _jacobian(real):
    @plain
    def jacobian(self, *args, **kwargs):
        before = getattr(_inside, "jacobian", False)
        _inside.jacobian = True
        try:
            return real(self, *args, **kwargs)
        finally:
            _inside.jacobian = before
    return jacobian
