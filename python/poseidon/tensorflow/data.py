"""Batches of tf.data: each worker takes its part of what the script made.

Nothing is sent: all workers read the same batches in the same order (the
seeds are the same), and a batch of n rows is cut as shared/rows.py says. In
the mode per-worker a worker takes one of every P batches instead. Whoever has
no row gets one that counts for nothing: `rows` is 0.

model.fit: the batched data set is mapped to Cuts (the data, its rows, those of
all workers), which the training step takes apart (keras_fit.py).

A loop `for x, y in dataset`: its first batch is whole on every worker. If a
gradient was exchanged before the next is drawn, it is a training loop, the
rest of it is cut, and so is the next loop over this data set at this line. A
loop that trains nothing (evaluation, statistics, pictures) stays whole. As
all workers compute the same on a whole batch, both are the same mathematics.
A loop over a data set inside a tf.function: graph_loop.py.
"""
import collections
import sys
import threading
import weakref

from poseidon import _job, _lib
from poseidon.shared import lines, rows as rows_
from poseidon.shared.patches import Patches
from poseidon.tensorflow import core, keras_calls, keras_push, tape

Cut = collections.namedtuple("PoseidonCut", ("data", "rows", "total"))

_tf = None
_patches = Patches()
# (line of a loop, id of the data set): the data set, while it lives
_trains = weakref.WeakValueDictionary()
_said = set()        # modes
_at_end = []         # called when a loop that trains has ended
_Watched = None      # class of the iterators that are watched


def install(tf):
    global _tf, _Watched
    _tf = tf
    if _job.job().size == 1:
        return
    from tensorflow.python.data.ops import iterator_ops
    _Watched = _watched(iterator_ops.OwnedIterator)
    _patches.wrap(tf.data.Dataset, "__iter__", _iter)


def uninstall():
    _patches.restore()
    _trains.clear()
    del _at_end[:]
    _said.clear()


def at_end(function):
    """Call function() on every worker when a loop that trains has ended."""
    _at_end.append(function)


def share(count):
    """How many of `count` rows this worker takes, and from where."""
    return rows_.share(count, _job.job().rank, _job.job().size)


def say(count, mode):
    """The line about the first batch, and what a step's rows are."""
    if mode in _said:
        return
    _said.add(mode)
    job = _job.job()
    sizes = (rows_.rows(count, job.size) if mode == "split"
             else [count] * job.size)
    batch = rows_.Batch(mode, sizes, job.rank, sizes[job.rank])
    keras_calls.note(batch.mine)
    lines.once(rows_.line(batch))


def cut(dataset, whole=False):
    """A data set of batches as one of Cuts, and the mode it runs in; whole:
    no batch may be cut."""
    specs = [spec for spec in _tf.nest.flatten(dataset.element_spec)
             if _leading(spec)]
    if not specs:
        lines.once("this data set gives rows one by one, which cannot be "
                   "cut: it runs per-worker")
    if not specs or whole or _job.job().batch == "per-worker":
        return _dealt(dataset, bool(specs)), "per-worker"
    joined = _joiner(dataset)
    return dataset.map(tape.plain(lambda *words: _cut(joined(words)))), "split"


def _joiner(dataset):
    """A map gives the parts of a tuple one by one."""
    whole = type(dataset.element_spec) is tuple
    return tuple if whole else (lambda words: words[0])


def _leading(spec):
    """Does it have a first dimension to cut?"""
    shape = getattr(spec, "shape", None)
    if shape is None or isinstance(
            spec, _tf.experimental.Optional) or "Optional" in (
                type(spec).__name__):
        return False
    return shape.rank is None or shape.rank > 0


def _count(leaf):
    """Rows of a tensor of any kind; None: it has none."""
    if isinstance(leaf, _tf.RaggedTensor):
        return leaf.nrows(out_type=_tf.int64)
    if isinstance(leaf, _tf.SparseTensor):
        return leaf.dense_shape[0]
    if isinstance(leaf, _tf.Tensor) and leaf.dtype != _tf.variant and (
            leaf.shape.rank != 0):
        return _tf.shape(leaf, out_type=_tf.int64)[0]
    return None


def _cut(batch):
    job = _job.job()
    counts = [_count(leaf) for leaf in _tf.nest.flatten(batch)]
    total = next(count for count in counts if count is not None)
    start, end = (total * at // job.size for at in (job.rank, job.rank + 1))
    mine = end - start
    start = _tf.where(mine > 0, start, 0)
    end = _tf.where(mine > 0, end, _tf.minimum(total, 1))
    leaves = [_slice(leaf, count, total, start, end) for leaf, count
              in zip(_tf.nest.flatten(batch), counts)]
    return Cut(_tf.nest.pack_sequence_as(batch, leaves), mine, total)


def _slice(leaf, count, total, start, end):
    """What is not as long as the batch is no part of it."""
    if count is None:
        return leaf
    if isinstance(leaf, _tf.SparseTensor):
        shape = _tf.concat([[end - start], leaf.dense_shape[1:]], 0)
        first = _tf.concat([[start], _tf.zeros_like(shape[1:])], 0)
        return _tf.sparse.slice(leaf, first, shape)
    if isinstance(leaf, _tf.RaggedTensor):
        return leaf[start:end]
    static = leaf.shape[0] if leaf.shape.rank else None
    if static == 1:  # one for the whole batch, unless the batch is one row
        return _tf.cond(count == total, lambda: leaf[start:end],
                        lambda: leaf)
    return leaf[start:end]


def _dealt(dataset, batched):
    """One of every P elements; the last may be somebody else's, for 0."""
    job, tf, joined = _job.job(), _tf, _joiner(dataset)

    def counted(*words):
        batch = joined(words)
        counts = [_count(leaf) for leaf in tf.nest.flatten(batch)]
        found = [count for count in counts if count is not None]
        count = found[0] if batched and found else tf.constant(1, tf.int64)
        return Cut(batch, count, count)

    def nothing(*words):
        return Cut(joined(words), *[tf.constant(0, tf.int64)] * 2)

    def mine(*window):
        parts = tf.data.Dataset.zip(joined(window))
        real = parts.skip(job.rank).take(1).map(tape.plain(counted))
        rest = parts.take(1).map(tape.plain(nothing))
        return real.concatenate(rest).take(1)

    count = int(dataset.cardinality())
    dealt = dataset.window(job.size).flat_map(tape.plain(mine))
    if count >= 0:
        count = -(-count // job.size)
    if count != tf.data.UNKNOWN_CARDINALITY:
        dealt = dealt.apply(tf.data.experimental.assert_cardinality(count))
    return dealt


def _iter(real):
    def __iter__(self):
        line = _line()
        inner = real(self)
        if line is not None and _tf.executing_eagerly() and (
                threading.current_thread() is threading.main_thread()):
            inner.__class__ = _Watched
            inner.psd_loop = Loop(self, line)
        return inner
    return __iter__


def _line():
    """Where the script begins this loop; None: a library does."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        if not name.startswith(("tensorflow.python.data.", "tqdm")):
            break
        frame = frame.f_back
    if frame is None or name.split(".")[0] in ("tensorflow", "keras",
                                               "tf_keras", "poseidon"):
        return None
    return frame.f_code, frame.f_lineno


class Loop:
    """What happens between the batches of one iterator of tf.data."""

    def __init__(self, dataset, line):
        self.dataset = dataset
        self.key = (line, id(dataset))
        self.steps = keras_push.total()
        self.drawn = 0
        self.cuts = self.key in _trains

    def next(self, draw):
        """The next batch by draw(). The iterator is not known here: in a
        circle it would live on, and with it its threads and buffers."""
        keras_calls.fed()
        steps = keras_push.total()
        if self.drawn and steps > self.steps and not self.cuts:
            self.cuts = True
            _trains[self.key] = self.dataset
        self.steps = steps
        self.drawn += 1
        if self.cuts and _job.job().batch == "per-worker":
            return self.deal(draw)
        try:
            batch = draw()
        except StopIteration:
            self.ended()
            raise
        if self.cuts:
            return self.part(batch)
        weigh(1)
        return batch

    def ended(self):
        if self.cuts:
            weigh(1)
            for function in _at_end:
                function()

    def part(self, batch):
        counts = [_count(leaf) for leaf in _tf.nest.flatten(batch)]
        counts = [int(count) for count in counts if count is not None]
        if not counts:
            lines.once("this data set gives rows one by one, which cannot "
                       "be cut: every worker trains on all of them")
            weigh(1)
            return batch
        part = _cut(batch)
        say(counts[0], "split")
        lines.empty(share(counts[0]))
        weigh(int(part.rows), _lib.SUM)
        return part.data

    def deal(self, draw):
        """This worker's of the next P batches."""
        job, batches = _job.job(), []
        try:
            for _ in range(job.size):
                batches.append(draw())
        except StopIteration:
            if not batches:
                self.ended()
                raise
        mine = batches[min(job.rank, len(batches) - 1)]
        counts = [_count(leaf) for leaf in _tf.nest.flatten(mine)]
        rows = next((int(count) for count in counts if count is not None), 1)
        say(rows, "per-worker")
        weigh(rows if job.rank < len(batches) else 0)
        return mine


def weigh(weight, op=_lib.MEAN):
    """Rows of the step to come. SUM: they are parts of one batch, so that a
    loss that is a sum over the batch is summed."""
    if core.started():
        core.step(weight, op)


def _watched(base):
    """The iterator itself, so that it is one for TensorFlow, too."""

    class OwnedIterator(base):
        def __next__(self):
            if not _tf.executing_eagerly():
                return super().__next__()
            return self.psd_loop.next(super().__next__)

        def next(self):
            return self.__next__()

        def get_next(self):
            if not _tf.executing_eagerly():
                return super().get_next()
            try:
                return self.psd_loop.next(super().__next__)
            except StopIteration:
                raise _tf.errors.OutOfRangeError(
                    None, None, "End of sequence") from None

    return OwnedIterator
