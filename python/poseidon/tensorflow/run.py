"""Runs of sessions. Every run of a graph in which something is exchanged has
a plan (run_plan.py), kept by the identity of what it fetches and feeds; a run
that trains starts from the same values, takes its rows, and says how many
they are. All others go on untouched.
"""
import threading

from poseidon import _boot, _job, _lib
from poseidon.shared import turns
from poseidon.tensorflow import (
    agree, book, core, export, feeds, insert, run_after, run_plan, run_start,
    seed)

_KEPT = 1000     # plans of one graph

_tf = None
_on = False
_after = None
_quiet = threading.local()   # .on: this thread runs for us


def install(tf, patch):
    global _tf, _on, _after
    from tensorflow.python.client import session
    _tf, _on, _after = tf, True, run_after.After()
    feeds.forget()
    patch(session.BaseSession, "_do_run", _running)
    patch(session.BaseSession, "make_callable", _making)


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
            return real(self, None, targets, plan.fetches or fetches, values,
                        options, metadata)

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
    turns.passing()
    seed.fork()
    _start(self, mine)
    fed, rows, cut = feeds.cut(
        plan, fed, lambda part: _takes_part(self, mine, plan, part))
    # A sum is summed where the workers have parts of one batch.
    core.step(rows, _lib.SUM if cut else _lib.MEAN)
    steps = [core.plug().psd_tf_steps(name) for name in plan.names]
    try:
        results = go(fed)
    except BaseException:
        _after.failed(plan)
        for name, count in zip(plan.names, steps):
            core.plug().psd_tf_spoil(name, count)
        raise
    with _Quietly():
        _after.step(self, plan, results, rows)
    return results


def _takes_part(self, mine, plan, part):
    """Shapes in the graph may have the size of a whole batch: the loss of a
    part is tried once, on all workers. Collective."""
    if plan.trial is None:
        return True
    key, loss = plan.trial
    if key not in mine.tried:
        failed = 0
        try:
            with _Quietly():
                self.run(loss, {reference.deref(): value
                                for reference, value in part.items()})
        except _tf.errors.OpError:
            failed = 1
        mine.tried[key] = agree.largest(failed, 0)[0] == 0
    return mine.tried[key]


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
