"""Random streams of TensorFlow scripts: equal on all workers, but for what a
worker draws for its own rows.

1. `random`, numpy and TensorFlow begin with the job's seed (PSD_SEED), the
   same on all workers, unless the script sets one, which is the same on all
   workers, too. So the batches that a script draws (next_batch, a shuffled
   index, tf.data's shuffle) are equal everywhere, and `split` is exact; so
   are weights, permutations, and what eager code draws. An operation with a
   seed of its own draws what it draws alone.
2. Different on every worker, as they are for different rows there:
   - dropout, of TensorFlow and of Keras, and Keras' layers of noise and
     augmentation;
   - what a tf.function draws, outside of tf.data;
   - in a graph of TensorFlow 1, what is drawn in a shape that is only known
     when it runs (the noise for a batch of any size);
   - the shuffles of queues (string_input_producer, shuffle_batch): they are
     not cut, each worker reads in an order of its own.
   Worker 0 has what the script alone would have; another has its seeds mixed
   with its rank. Initial values may differ: all take those of worker 0.
3. With --batch per-worker each worker draws batches of its own: fork(), when
   the first step begins, mixes the streams of Python and numpy with the rank.
   What was drawn before (a split into training and test) is equal.
4. In a job of one nothing is touched.

Not covered: RandomState objects and tf.random.Generator made without a seed.
"""
import contextlib
import sys
import threading

from poseidon import _boot, _job
from poseidon.keras import draws
from poseidon.shared import everywhere, host, streams

KERAS_3 = "keras.src.random.seed_generator"
KERAS_2 = ("keras.src.backend", "tf_keras.src.backend")

_patches = everywhere.Patches()
_local = threading.local()   # how seeds are made here: mine, common or None
_draws = [0]                 # seeds that were asked of the system
_watches = False             # are Python's and numpy's streams in our hands?
_streams = {}                # name: stream, of Python and numpy
_forked = False
_given = False               # has the script set TensorFlow's seed?
_tf = None


def install(tf):
    global _tf, _watches, _given
    if _job.job().size == 1 or not host.start():
        return
    from tensorflow.python.eager import context
    _tf, _draws[0], _given = tf, 0, False
    _watches = streams.watch(_fresh, _arrive, _heard)
    context.set_global_seed(_job.job().seed)    # no graph's: see _get_seed
    _install_graph()
    _boot.after_import(KERAS_3, _install_keras_3)
    for name in KERAS_2:
        _boot.after_import(name, _install_keras_2)
    _boot.on_fork(_off)


def uninstall():
    _off()
    _patches.restore()
    if _watches:
        streams.unwatch()


def _off():
    if _watches:
        streams.pause()


def fork():
    """The first training step begins."""
    global _forked
    if _forked or not _watches or _job.job().batch != "per-worker":
        return
    _forked = True
    for stream in _streams.values():
        stream.seed(streams.mixed(stream.digest(), _job.job().rank))


def own(number):
    """The seed of what gives out batches, such as the DataSet of the
    tutorials: with --batch per-worker each worker has another."""
    if host.is_active() and _job.job().batch == "per-worker":
        return of_rank(number)
    return number


def _arrive(name, stream):
    _streams[name] = stream
    stream.seed(_job.job().seed)


def _heard(name, call):
    """A seed by hand is equal on all workers, as it should be."""


def _fresh():
    """In place of a seed from the system."""
    _draws[0] += 1
    return streams.mixed(b"fresh %d %d" % (_job.job().seed, _draws[0]), 0)


def of_rank(number):
    """A seed of 31 bits of this worker; worker 0 keeps the number."""
    rank = _job.job().rank
    if rank == 0 or number is None:
        return number
    return streams.mixed(b"%d" % number, rank) & 0x7fffffff


@contextlib.contextmanager
def _drawing(kind):
    before = getattr(_local, "kind", None)
    _local.kind = kind
    try:
        yield
    finally:
        _local.kind = before


def _within(kind):
    """Wrap a function: seeds made in it are of that kind."""
    def make(original):
        def call(*args, **kwargs):
            with _drawing(kind):
                return original(*args, **kwargs)
        return call
    return make


def _install_graph():
    from tensorflow.python.data.ops import structured_function
    from tensorflow.python.data.util import random_seed as data_seed
    from tensorflow.python.framework import random_seed
    from tensorflow.python.ops import data_flow_ops, nn_ops
    from tensorflow.python.training import input as queues
    _patches.replace([
        (random_seed, "get_seed", _get_seed),
        (random_seed, "set_random_seed", _set_seed),
        (data_seed, "get_seed", _within("common")),
        (queues, "input_producer", _within("mine")),
        (nn_ops, "_dropout", _within("mine"))])
    _patches.wrap(data_flow_ops.RandomShuffleQueue, "__init__",
                  _within("mine"))
    _patches.wrap(structured_function.StructuredFunctionWrapper, "__init__",
                  _within("common"))


def _set_seed(original):
    def set_random_seed(seed):
        global _given
        _given = True
        return original(seed)
    return set_random_seed


def _get_seed(original):
    """get_seed(op_seed) -> (graph's or global seed, op's seed)."""
    from tensorflow.python.framework import random_seed

    def get_seed(op_seed):
        if not host.is_active():
            return original(op_seed)
        graph = None
        if not _tf.executing_eagerly():
            graph = _tf.compat.v1.get_default_graph()
        if op_seed is None and graph is not None and graph.seed is None:
            graph.seed = _job.job().seed
            try:
                first, second = original(None)
            finally:
                graph.seed = None
        elif op_seed is not None and not _given:
            first = random_seed.DEFAULT_GRAPH_SEED
            second = op_seed % (2**31 - 1)
        else:
            first, second = original(op_seed)
        if _is_mine(graph, sys._getframe(1)):
            second = of_rank(second)
        return first, second

    return get_seed


def _is_mine(graph, frame):
    """Is this drawn for rows of this worker?"""
    kind = getattr(_local, "kind", None)
    if kind is not None or graph is None:
        return kind == "mine"
    if graph.building_function:
        return True
    shape = frame.f_locals.get("shape")  # of random_normal and its like
    if not _tf.is_tensor(shape):
        return False
    return _tf.get_static_value(shape) is None


def _install_keras_3(module):
    if host.is_active():
        draws.install(_patches, module, host.is_active)


def _install_keras_2(module):
    owner = getattr(module, "RandomGenerator", None)
    if owner is None or not host.is_active():
        return
    for name in ("random_normal", "random_uniform", "truncated_normal",
                 "dropout"):
        _patches.wrap(owner, name, _keras_2)


def _keras_2(original):
    """Layers draw with RNG_LEGACY_STATEFUL, initializers stateless."""

    def draw(self, *args, **kwargs):
        layer = self._rng_type == self.RNG_LEGACY_STATEFUL
        with _drawing("mine" if layer else None):
            return original(self, *args, **kwargs)

    return draw
