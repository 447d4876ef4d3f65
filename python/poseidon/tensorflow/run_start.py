"""The same start: before the first training run of a session, and again for
variables that were initialised or restored since, every worker takes the
values of rank 0. Nothing is added to the graph, which may be finalized:
values go in by the initializers, whose input is fed.
"""
import numpy

from poseidon import _job
from poseidon.shared import alike

_NAME = "_psd_started"
CHECKED = "_psd_checked"


def state(session):
    """Numbers of operations of variables that are in step."""
    known = session.__dict__.get(_NAME)
    if known is None:
        known = session.__dict__[_NAME] = set()
    return known


def changed(session, plan):
    """A run has set variables anew."""
    known = state(session)
    session.__dict__.pop(CHECKED, None)
    if plan.restores:
        known.clear()
    for variable in plan.sets:
        known.discard(variable.op._id)


def missing(tf, session, book):
    """Variables that are not in step, in the order of their making."""
    known = state(session)
    found = {}
    keys = tf.compat.v1.GraphKeys
    trained = [variable for site in book.sites for variable in site.variables]
    for variable in (book.graph.get_collection(keys.GLOBAL_VARIABLES)
                     + trained):
        number = variable.op._id
        if number not in known and number not in found and is_sendable(
                variable):
            found[number] = variable
    return list(found.values())


def is_sendable(variable):
    return getattr(variable, "initializer", None) is not None and (
        variable.dtype.base_dtype.name not in ("string", "resource",
                                               "variant"))


def run(tf, session, variables):
    """Collective."""
    values = _read(tf, session, variables)
    have = numpy.array([value is not None for value in values], numpy.uint8)
    alike.make([("start/%d" % len(have), have)])
    news = []
    for variable, value, there in zip(variables, values, have):
        if not there:
            continue
        array = _array(variable, value)
        before = array.tobytes()
        alike.make([(variable.op.name, array)])
        if value is None or array.tobytes() != before:
            news.append((variable, array))
    if _job.job().rank != 0:
        _write(session, news)
    state(session).update(
        variable.op._id for variable, there in zip(variables, have) if there)


def _read(tf, session, variables):
    """Their values; None: not initialised."""
    try:
        return session.run(variables)
    except tf.errors.FailedPreconditionError:
        values = []
    for variable in variables:
        try:
            values.append(session.run(variable))
        except tf.errors.FailedPreconditionError:
            values.append(None)
    return values


def _array(variable, value):
    if value is None:
        return numpy.zeros(variable.shape.as_list(),
                           variable.dtype.base_dtype.as_numpy_dtype)
    return numpy.array(value, order="C", copy=True)


def _write(session, news):
    """By the initializers; those that share an input go one by one."""
    while news:
        feeds, targets, later = {}, [], []
        taken = set()
        for variable, array in news:
            given = variable.initializer.inputs[1]
            if id(given) in taken:
                later.append((variable, array))
                continue
            taken.add(id(given))
            feeds[given] = array
            targets.append(variable.initializer)
        session.run(targets, feeds)
        news = later
