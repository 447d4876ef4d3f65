"""Around every tf.function that the script calls: the same start before it,
progress and digest after it. An eager step is seen when the next tape begins.
"""
import math
import threading

import numpy as np

from poseidon import _job, _lib
from poseidon.keras import callbacks, fit
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.tensorflow import core, keras_push, keras_start, tape

UNFED = 10           # steps on batches that nobody has cut, and a line says it

_tf = None
_patches = Patches()
_depth = threading.local()
_ended = {}          # group: steps when last looked at
_steps = 0           # of the script, as far as can be told
_rows = 0            # of this worker in a step
_loss = math.nan     # the last one that was told
_fed = False         # has a data set given a batch since the last step?
_unfed = 0           # steps since then


def install(tf):
    global _tf
    if _job.job().size == 1:
        return
    _tf = tf
    from tensorflow.python.eager.polymorphic_function import (
        polymorphic_function as module)
    _patches.wrap(module.Function, "__call__", _call)
    tape.on_enter(before)
    tape.on_enter(after)


def uninstall():
    _patches.restore()


def note(rows):
    """This worker's part of the steps to come."""
    global _rows
    _rows = rows


def fed():
    """A batch was given out that is cut, or could have been."""
    global _fed
    _fed = True


def _see_batches():
    """Nobody sees where the rows of a numpy array come from."""
    global _fed, _unfed
    _unfed = 0 if _fed or fit.is_going_on() else _unfed + 1
    _fed = False
    if _unfed == UNFED:
        lines.once("these steps take batches that are not of a data set: all "
                   "workers compute all of their rows; batches of a "
                   "tf.data.Dataset, of fit and of train_on_batch are cut")


def tell(logs):
    """What Keras says of the batch that has ended."""
    global _loss
    _loss = callbacks.loss_of(logs)
    _lib.check(_lib.library().psd_metrics(
        _lib.session(), _steps, _loss, 0))


def before():
    if not getattr(_depth, "value", 0):
        keras_start.ready()


def after():
    """Steps have ended since the last time: tell it, hand in parameters."""
    global _loss, _steps
    if getattr(_depth, "value", 0) or threading.current_thread() is not (
            threading.main_thread()):
        return
    now = dict(keras_push.counts())
    # Several optimizers in one step of the script: the one ahead counts.
    more = max((count - _ended.get(group, 0)
                for group, count in now.items()), default=0)
    if more == 0:
        return
    moved = [each for each in keras_push.sources()
             if now[each.name] > _ended.get(each.name, 0)]
    _ended.update(now)
    _steps += more
    _see_batches()
    _lib.check(_lib.library().psd_metrics(
        _lib.session(), _steps, _loss, _rows * more))
    _loss = math.nan  # of this step it is not known yet
    keras_push.watch.look(now, _steps)
    digest = _job.job().digest
    if digest != "off":
        core.audit([(key, np.asarray(variable.numpy(), order="C"))
                    for each in moved
                    for key, variable in each.look(digest == "step")])


def _call(real):
    @tape.plain
    def __call__(self, *args, **kwargs):
        if getattr(_depth, "value", 0) or not _tf.executing_eagerly():
            return real(self, *args, **kwargs)
        before()
        counts = keras_push.counts()
        _depth.value = 1
        try:
            result = real(self, *args, **kwargs)
        except Exception:
            # Whether a step that has ended was applied is not known.
            for group, count in counts:
                core.plug().psd_tf_spoil(group, count)
            keras_push.watch.failed(dict(keras_push.counts()), _steps + 1)
            raise
        finally:
            _depth.value = 0
        after()
        return result
    return __call__
