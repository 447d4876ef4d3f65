"""Asynchronous training in sessions: each worker on its own clock.

The script's optimizer updates the variables here, as on one machine. Behind
its update a PsdShare op adds what has changed to the values that the job's
servers own, and gives the variables what these are by then: the changes of
all workers so far. The global step is such a value, so that it counts the
steps of all workers. Nobody waits for another worker.

At the first step of a session the variables take the values of worker 0: all
workers come together there, and not again until they end.
"""
import math
import threading

from poseidon import _job, _lib
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    book, core, local_sessions, run_plan, run_start)

GROUP = "hogwild"
_NAME = "_psd_shares"

_patches = Patches()
_tf = None
_graphs = 0      # that share something
_steps = 0       # of this worker


class Shares:
    """What the workers share of one graph."""

    def __init__(self, graph, number):
        self.graph = graph
        self.number = number
        self.keys = {}       # name of a variable: key
        self.steps = set()   # numbers of operations PsdShare
        self.begins = []     # operations that begin, or ask for the values
        self.sessions = []   # weak: those that have begun
        self.plans = {}      # names of fetches: do they train?
        self.lock = threading.RLock()   # one step at a time


def install(tf):
    global _tf
    from tensorflow.python.client import session
    from tensorflow.python.training import saver
    _tf = tf
    _patches.wrap(session.BaseSession, "_do_run", _running)
    _patches.wrap(saver.Saver, "save", _saving)


def uninstall():
    _patches.restore()


def known(graph):
    return getattr(graph, _NAME, None)


# ---- the graph

def apply(real, optimizer, pairs, global_step=None, name=None):
    """In the place of real(optimizer, pairs, global_step, name)."""
    graph = _tf.compat.v1.get_default_graph()
    with _alone(graph):
        train = real(optimizer, pairs, global_step, name)
    variables = [variable for grad, variable in pairs if grad is not None]
    if global_step is not None:
        variables.append(global_step)
    return share(graph, train, variables)


class _alone:
    """Within: gradients are this worker's own and are not exchanged, as if
    an optimizer around this one did that."""

    def __init__(self, graph):
        self.book = book.of(graph)

    def __enter__(self):
        self.book.depth += 1

    def __exit__(self, *_):
        self.book.depth -= 1


def share(graph, train, variables):
    """Behind the operation `train` these variables are shared; the operation
    that does both."""
    v1 = _tf.compat.v1
    _start()
    shares = _shares(graph)
    keys = _register(shares, variables)
    with v1.name_scope("poseidon"), v1.control_dependencies([train]):
        values = [_read(variable) for variable in variables]
        place = all(map(_in_place, variables))
        outs = core.ops.psd_share(values, keys=keys,
                                  mode="place" if place else "copy")
        shares.steps.add(outs[0].op._id)
        done = v1.group(*(outs if place else _assign(variables, outs)),
                        name="shared")
    trained = graph.get_collection_ref(v1.GraphKeys.TRAIN_OP)
    trained[:] = [done if op is train else op for op in trained]
    return done


def _start():
    if not core.started():
        core.start(_tf)
        lines.once("asynchronous (hogwild): every worker trains on its own "
                   "clock with the script's own learning rate; each feeds "
                   "its own batches (per-worker)")


def _shares(graph):
    global _graphs
    shares = known(graph)
    if shares is None:
        shares = Shares(graph, _graphs)
        setattr(graph, _NAME, shares)
        _graphs += 1
    return shares


def _register(shares, variables):
    """Keys of the variables; new ones get an operation that begins."""
    fresh = []
    for variable in variables:
        name = variable.op.name
        if name not in shares.keys:
            shares.keys[name] = "%s%d/%s" % (GROUP, shares.number, name)
            fresh.append(variable)
    if fresh:
        keys = [shares.keys[variable.op.name] for variable in fresh]
        core.register(GROUP, [
            (key, variable.dtype.base_dtype, _count(variable), core.SHARED,
             0) for key, variable in zip(keys, fresh)])
        v1 = _tf.compat.v1
        with v1.name_scope("poseidon"), v1.control_dependencies(None):
            outs = core.ops.psd_broadcast(
                [_read(variable) for variable in fresh], keys=keys)
            shares.begins.append(
                v1.group(*_assign(fresh, outs), name="begin"))
    return [shares.keys[variable.op.name] for variable in variables]


def _count(variable):
    count = variable.shape.num_elements()
    if count is None:
        raise ValueError(
            "poseidon: variable %s has no fixed shape, %s; it cannot be "
            "shared by workers that train asynchronously"
            % (variable.op.name, variable.shape))
    return count


def _read(variable):
    """The value by then, not one that was read before."""
    return _tf.identity(variable.read_value())


def _in_place(variable):
    """Is what one reads the memory of the variable? A reference variable's
    is, in the memory of the processor."""
    return (variable.dtype._is_ref_dtype and
            not _tf.config.list_physical_devices("GPU"))


def _assign(variables, values):
    return [_tf.compat.v1.assign(variable, value, validate_shape=False)
            for variable, value in zip(variables, values)]


# ---- runs

def _running(real):
    def _do_run(self, handle, targets, fetches, *rest):
        shares = known(self.graph)
        if shares is None or not _trains(shares, targets, fetches):
            return _first_aid(
                real, self, handle, targets, fetches, *rest)
        with shares.lock:
            if not any(other is self for other in shares.sessions):
                begin(self, shares)
            result = real(self, handle, targets, fetches, *rest)
        _tell()
        return result
    return _do_run


def _first_aid(real, session, handle, targets, fetches, *rest):
    """A worker that looks until the chief has initialised the variables
    would look for ever: its variables are its own."""
    result = real(session, handle, targets, fetches, *rest)
    if _job.job().rank and any(
            "report_uninitialized_variables" in tensor.name
            and len(value) for tensor, value in zip(fetches, result)):
        local_sessions.initialise(session, session.graph, _tf)
        result = real(session, handle, targets, fetches, *rest)
    return result


def _trains(shares, targets, fetches):
    """Does this run reach an operation that shares?"""
    names = tuple(op.name for op in targets) + tuple(
        tensor.name for tensor in fetches)
    known_plan = shares.plans.get(names)
    if known_plan is None:
        known_plan = shares.plans[names] = not shares.steps.isdisjoint(
            run_plan.reach(targets, fetches, ()))
    return known_plan


def begin(session, shares):
    """The first step of a session: the values of worker 0, or, once the
    workers have begun, what the shared ones are by now."""
    again = bool(shares.sessions)
    shares.sessions.append(session)
    try:
        _initialised(session)
        if not again:
            _same(session, shares)
        session.run(shares.begins)
    except BaseException:
        shares.sessions.pop()
        raise


def _initialised(session):
    """Only the chief of the script may have initialised its variables."""
    graph = session.graph
    variables = graph.get_collection(
        _tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    try:
        session.run([variable.op if variable.op.type == "VarHandleOp"
                     else variable.value().op for variable in variables])
    except _tf.errors.FailedPreconditionError:
        if _job.job().rank == 0:
            raise
        local_sessions.initialise(session, graph, _tf)


def _same(session, shares):
    """All that is not shared: slots, moving averages."""
    others = [variable for variable in session.graph.get_collection(
        _tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
        if variable.op.name not in shares.keys
        and run_start.is_sendable(variable)]
    if others:
        run_start.run(_tf, session, others)


def _tell():
    global _steps
    _steps += 1
    _lib.library().psd_metrics(_lib.session(), _steps, math.nan, 0)


def _saving(real):
    def save(self, sess, *args, **words):
        """What is saved has in it what all workers have done so far."""
        session = _unwrapped(sess)
        shares = known(getattr(session, "graph", None))
        if shares is not None and any(
                other is session for other in shares.sessions):
            with shares.lock:
                session.run(shares.begins)
        return real(self, sess, *args, **words)
    return save


def _unwrapped(session):
    """A monitored session holds others, the innermost is the real one."""
    while hasattr(session, "_sess"):
        session = session._sess
    return session
