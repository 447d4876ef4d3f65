"""A loop over a data set inside a tf.function: for x, y in dataset.

Whether it trains is not known before it is traced. So it is traced in a graph
of its own first, which is thrown away; if gradients were exchanged there, the
loop is written over this worker's rows (data.py), else as it stands. The
rows of a step are told when it runs: the step may be a tf.function of its
own, which other callers share.
"""
import functools

from poseidon import _job, _lib
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.tensorflow import data, keras_calls, keras_push

_tf = None
_patches = Patches()


def install(tf):
    global _tf
    _tf = tf
    if _job.job().size == 1:
        return
    from tensorflow.python.autograph.operators import control_flow
    _patches.wrap(control_flow.for_loop_registry, "lookup", _lookup)


def uninstall():
    _patches.restore()


def _lookup(real):
    def lookup(iterated):
        loop = real(iterated)
        if not isinstance(iterated, _tf.data.Dataset):
            return loop
        return functools.partial(_loop, loop)
    return lookup


def _loop(real, dataset, extra_test, body, get_state, set_state, *words):
    def write(over, function):
        real(over, extra_test, function, get_state, set_state, *words)

    if not keras_push.is_possible() or not _trains(
            lambda: write(dataset, body), get_state, set_state):
        write(dataset, body)
        return
    parts, mode = data.cut(dataset)
    lines.once("a loop over a data set inside a tf.function: its batches are "
               "%s (%s)" % ("cut into %d parts" % _job.job().size
                            if mode == "split" else "dealt out", mode))
    op = _lib.SUM if mode == "split" else _lib.MEAN
    write(parts, lambda part: body(_begun(part, op)))


def _trains(write, get_state, set_state):
    from tensorflow.python.framework import func_graph
    before, state = keras_push.made(), get_state()
    with func_graph.FuncGraph("poseidon_look").as_default():
        write()
    set_state(state)
    return keras_push.made() > before


def _begun(part, op):
    """The data of a part, behind what tells its rows."""
    def begin(rows):
        data.weigh(int(rows), op)
        keras_calls.note(int(rows))
        keras_calls.fed()

    told = _tf.numpy_function(begin, [part.rows], [])
    with _tf.control_dependencies([told]):
        return _tf.nest.map_structure(_tf.identity, part.data)
