"""Runs of sessions. Every run of a graph in which something is exchanged has
a plan (run_plan.py), kept by the identity of what it fetches and feeds; a run
that trains starts from the same values, takes its rows, and says how many
they are. All others go on untouched.
"""
import os
import threading

from poseidon import _boot, _job, _lib
from poseidon.shared import turns
from poseidon.tensorflow import (
    book, core, export, feeds, insert, run_after, run_plan, run_start, seed)

_KEPT = 1000     # plans of one graph

_tf = None
_on = False
_after = None
_traced = os.environ.get("PSD_TRACE", "0") != "0"
_quiet = threading.local()   # .on: this thread runs for us


def install(tf, patch):
    global _tf, _on, _after
    from tensorflow.python.client import session
    _tf, _on, _after = tf, True, run_after.After()
    patch(session.BaseSession, "_do_run", _running)
    patch(session.BaseSession, "make_callable", _making)
    patch(session.BaseSession, "_make_callable_from_options", _compiling)


def off():
    global _on
    _on = False


def _known(graph):
    """The book of a graph in which something is trained."""
    mine = book.known(graph)
    if mine is None or not (mine.sites or mine.imported) or not _on:
        return None
    return None if getattr(_quiet, "on", False) else mine


def plan_of(mine, targets, fetches, fed):
    """The plan of a run; made when it is seen for the first time, and again
    when the graph has grown."""
    version = mine.graph.version
    if version != mine.version:
        if _job.job().size > 1:
            insert.rewire(mine)
        mine.plans.clear()
        mine.version = version
    key = (tuple(map(id, targets)), tuple(map(id, fetches)), tuple(fed))
    plan = mine.plans.get(key)
    if plan is None:
        if len(mine.plans) >= _KEPT:
            mine.plans.clear()
        plan = mine.plans[key] = run_plan.make(mine, targets, fetches, fed)
    return plan


def _running(real):
    def _do_run(self, handle, targets, fetches, fed, options, metadata):
        mine = _known(self._graph)
        if mine is None or handle is not None:
            return real(self, handle, targets, fetches, fed, options, metadata)
        plan = plan_of(mine, targets, fetches, fed)

        def go(values):
            if plan.extra:
                values = {**values, **plan.extra}
            return real(self, None, targets + plan.targets,
                        plan.fetches or fetches, values, options, metadata)

        if plan.foreign:
            export.refuse()
        if plan.sites:
            return _train(self, mine, plan, fed, go)
        results = go(fed)
        if plan.restores or plan.sets:
            run_start.changed(self, plan)
        return results
    return _do_run


def _making(real):
    def make_callable(self, targets, feed_list=None, accept_options=False):
        """What needs nothing of us is TensorFlow's own."""
        mine = _known(self._graph)
        if mine is None or feed_list is not None:
            return real(self, targets, feed_list, accept_options)
        handler = _handler(self, targets)
        plan = plan_of(mine, handler.targets(), handler.fetches(), {})
        if not (plan.sites or plan.extra or plan.sets or plan.restores
                or plan.foreign):
            return real(self, targets, feed_list, accept_options)

        def run(**words):
            return self.run(targets, **words)
        return run
    return make_callable


def _compiling(real):
    def _make_callable_from_options(self, wanted):
        """By this way Keras runs its graphs. What has to be fed in addition
        is fed; batches stay whole."""
        mine = _known(self._graph)
        if mine is None:
            return real(self, wanted)
        plan = _plan_of_options(mine, wanted)
        call = real(self, _completed(plan, wanted))
        more = tuple(plan.extra.values())

        def run(*values, **words):
            if not plan.sites:
                return call(*values, *more, **words)
            return _train(self, mine, plan, None,
                          lambda _: call(*values, *more, **words))
        return run if more or plan.sites else call
    return _make_callable_from_options


def _plan_of_options(mine, wanted):
    operation = mine.graph.get_operation_by_name
    tensor = mine.graph.get_tensor_by_name
    return plan_of(mine, [operation(name) for name in wanted.target],
                   [tensor(name) for name in wanted.fetch],
                   {tensor(name).ref(): None for name in wanted.feed})


def _completed(plan, wanted):
    """CallableOptions with what the plan adds."""
    options = type(wanted)()
    options.CopyFrom(wanted)
    options.feed.extend(reference.deref().name for reference in plan.extra)
    options.target.extend(op.name for op in plan.targets)
    if plan.fetches is not None:
        del options.fetch[:]
        options.fetch.extend(value.name for value in plan.fetches)
    return options


def _handler(self, targets):
    from tensorflow.python.client import session
    return session._FetchHandler(self._graph, targets, {})


def _train(self, mine, plan, fed, go):
    """A run that applies gradients."""
    if _job.job().size == 1 or not _boot.is_worker():
        results = go(fed)
        if _boot.is_worker():
            _after.step(self, plan, results, 0)
        return results
    core.start(_tf)
    turns.passing()
    seed.fork()
    _start(self, mine)
    rows, cut = 1, False
    if fed is not None:
        fed, rows, cut = feeds.cut(
            plan, fed, mine,
            lambda part: _takes_part(self, plan, part))
    # A sum is summed where the workers have parts of one batch.
    core.step(rows, _lib.SUM if cut else _lib.MEAN)
    steps = [core.plug().psd_tf_steps(name) for name in plan.names]
    _mark(1)
    try:
        results = go(fed)
    except BaseException:
        _mark(0)
        _after.failed(plan)
        for name, count in zip(plan.names, steps):
            core.plug().psd_tf_spoil(name, count)
        raise
    _mark(0)
    with _Quietly():
        _after.step(self, plan, results, rows)
    return results


def _mark(begin):
    """For a trace: a training run of the session."""
    if _traced:
        _lib.library().psd_mark(_lib.session(), b"run", begin)


def _takes_part(self, plan, part):
    """Shapes in the graph may have the size of a whole batch: the loss of a
    part is tried."""
    if plan.trial is None:
        return True
    try:
        with _Quietly():
            self.run(plan.trial, {reference.deref(): value
                                  for reference, value in part.items()})
    except _tf.errors.OpError:
        return False
    return True


def _start(self, mine):
    checked = self.__dict__.get(run_start.CHECKED)
    now = (mine.version, len(run_start.state(self)))
    if checked == now:
        return
    missing = run_start.missing(_tf, self, mine)
    if missing:
        with _Quietly():
            run_start.run(_tf, self, missing)
    self.__dict__[run_start.CHECKED] = (mine.version,
                                        len(run_start.state(self)))


class _Quietly:
    """Runs in here are ours."""

    def __enter__(self):
        self.before = getattr(_quiet, "on", False)
        _quiet.on = True

    def __exit__(self, *what):
        _quiet.on = self.before
