"""Batches of a tf.data iterator inside a graph: cut there.

An iterator whose batches have an open first dimension gives the same batch on
every worker, as seeds are the same. Who reads it reads this worker's rows
instead, in runs that train; all others read everything. The number of rows is
the weight of the gradients. A batch with a fixed number of rows, or one that
comes from a queue, is left alone.
"""
from poseidon import _job
from poseidon.shared import lines

_NEXT = ("IteratorGetNext", "IteratorGetNextSync")


class Source:
    """An iterator's batch, cut."""

    def __init__(self, op, cut, weight, parts, ours):
        self.op = op
        self.cut = cut          # placeholder, False by default
        self.weight = weight    # rows of this worker; -1: not cut
        self.parts = parts      # what takes the place of each output
        self.ours = ours        # numbers of operations that read all of it


def find(loss):
    """The operation that gives the batches of a loss, if it is one and can
    be cut."""
    found, seen, waiting = [], set(), [loss.op]
    while waiting:
        op = waiting.pop()
        if op._id in seen:
            continue
        seen.add(op._id)
        if op.type in _NEXT:
            found.append(op)
        waiting.extend(tensor.op for tensor in op.inputs)
    if len(found) != 1 or found[0]._get_control_flow_context() is not None:
        return None
    return found[0] if all(map(_has_rows, found[0].outputs)) else None


def _has_rows(tensor):
    return bool(tensor.shape.rank) and tensor.shape.as_list()[0] is None and (
        tensor.dtype.name not in ("variant", "resource"))


def put(tf, graph, op):
    """The Source of an iterator."""
    v1, job = tf.compat.v1, _job.job()
    before = graph.get_operations()[-1]._id
    with v1.name_scope(None), tf.control_dependencies(None), v1.device(None), \
            v1.name_scope("poseidon/rows"):
        cut = v1.placeholder_with_default(False, [], name="cut")
        count = tf.shape(op.outputs[0], out_type=tf.int64)[0]
        start = count * job.rank // job.size
        mine = count * (job.rank + 1) // job.size - start
        start = tf.where(mine > 0, start, 0)      # a dummy, of weight 0
        stop = start + tf.maximum(mine, 1)
        begin = tf.where(cut, start, 0)
        end = tf.where(cut, stop, count)
        parts = [tensor[begin:end] for tensor in op.outputs]
        weight = tf.where(cut, tf.cast(mine, tf.float64),
                          tf.constant(-1.0, tf.float64))
    after = graph.get_operations()[-1]._id
    lines.once("batches of the tf.data iterator are cut into %d parts (split)"
               % job.size)
    return Source(op, cut, weight, parts, range(before + 1, after + 1))


def rewire(source):
    """Also what the script has added since."""
    for tensor, part in zip(source.op.outputs, source.parts):
        for op in tensor.consumers():
            if op._id in source.ours:
                continue
            for index, given in enumerate(op.inputs):
                if given is tensor:
                    op._update_input(index, part)
