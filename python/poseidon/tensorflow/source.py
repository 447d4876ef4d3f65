"""Batches of a tf.data iterator inside a graph: cut there.

An iterator whose batches have an open first dimension gives the same batch on
every worker, as seeds are the same. Who reads it reads this worker's rows
instead, in runs that train; all others read everything. The number of rows is
the weight of the gradients.

Where batches cannot be cut, as their number of rows is fixed, or must not be
(--batch per-worker), they are dealt: a run that trains draws one for each
worker, and this worker's is its own. So all see the end of the data in the
same step. What a script has sharded by itself, and what comes from a queue,
is left alone.
"""
from poseidon import _job
from poseidon.shared import lines

_NEXT = ("IteratorGetNext", "IteratorGetNextSync")


class Source:
    """An iterator's batch, cut or dealt."""

    def __init__(self, op, cut, weight, parts, ours, dealt=False):
        self.op = op
        self.dealt = dealt      # whole batches, of each worker its own
        self.cut = cut          # placeholder, False by default
        self.weight = weight    # rows of this worker; -1: not cut
        self.parts = parts      # what takes the place of each output
        self.ours = ours        # numbers of operations that read all of it


def find(loss):
    """The operation that gives the batches of a loss, if it is one."""
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
    return found[0]


def is_open(op):
    """Can its batches be cut?"""
    return all(map(_has_rows, op.outputs))


def is_sharded(graph):
    """Has the script given each worker data of its own?"""
    from tensorflow.core.framework import graph_pb2
    kinds = {op.type for op in graph.get_operations()}
    definition = graph_pb2.GraphDef()
    graph._copy_functions_to_graph_def(definition, 0)
    kinds.update(node.op for function in definition.library.function
                 for node in function.node_def)
    return "ShardDataset" in kinds


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


def deal(tf, graph, op):
    """The Source of an iterator that gives each worker batches of its
    own."""
    v1, job = tf.compat.v1, _job.job()
    before = graph.get_operations()[-1]._id
    with v1.name_scope(None), tf.control_dependencies(None), v1.device(None), \
            v1.name_scope("poseidon/deal"):
        cut = v1.placeholder_with_default(False, [], name="cut")
        with tf.control_dependencies([op]):
            after = tf.identity(cut)    # the batch of worker 0 is drawn
        drawn = v1.cond(after, lambda: _draw(tf, op, job),
                        lambda: list(map(tf.identity, op.outputs)))
        parts = [tf.identity(part) for part in
                 (drawn if isinstance(drawn, (list, tuple)) else [drawn])]
        for part, tensor in zip(parts, op.outputs):
            part.set_shape(tensor.shape)
        weight = tf.constant(-1.0, tf.float64)
        if parts[0].shape.rank:
            weight = tf.where(cut, tf.cast(tf.shape(parts[0])[0], tf.float64),
                              weight)
    after = graph.get_operations()[-1]._id
    lines.once("batches of the tf.data iterator are dealt: each worker takes "
               "one of every %d (per-worker)" % job.size)
    return Source(op, cut, weight, parts, range(before + 1, after + 1), True)


def _draw(tf, op, job):
    """The batches of all workers, in order; this worker's."""
    from tensorflow.python.ops import gen_dataset_ops
    batches = [op.outputs]
    last = []
    for _ in range(job.size - 1):
        with tf.control_dependencies(last):
            batches.append(gen_dataset_ops.iterator_get_next(
                op.inputs[0], op.get_attr("output_types"),
                op.get_attr("output_shapes")))
        last = [batches[-1][0].op]
    with tf.control_dependencies(last):
        return list(map(tf.identity, batches[job.rank]))


def rewire(source):
    """Also what the script has added since."""
    for tensor, part in zip(source.op.outputs, source.parts):
        for op in tensor.consumers():
            if op._id in source.ours:
                continue
            for index, given in enumerate(op.inputs):
                if given is tensor:
                    op._update_input(index, part)
