"""Whose rows: what a training run is fed, cut to this worker's part.

The script feeds the same batch on every worker, as seeds are the same. Feeds
whose first dimension is open and that have the same number of rows are cut;
what cannot be cut is fed as it is, and the job says why. That the batches
are the same is looked at once, in the first run that cuts; if they are not,
each worker keeps its own.
"""
import hashlib

import numpy

from poseidon import _job
from poseidon.shared import lines, rows
from poseidon.tensorflow import agree

_same = None     # are the batches of all workers the same? None: not known
_parts = {}      # rows of a batch: rows.Batch


def forget():
    global _same
    _same = None
    _parts.clear()


def cut(plan, feeds, tried):
    """(feeds for this worker, rows behind its gradient, was it cut?).
    tried(feeds) says whether the graph takes a part of a batch."""
    job = _job.job()
    count, why = _count(plan, feeds)
    if plan.inside and not plan.rows:
        return feeds, 0, True
    if why is None and job.batch != "per-worker":
        if not _are_same(plan, feeds):
            why = "the workers feed different batches"
        elif job.size > 1:
            taken, mine = _take(plan, feeds, count)
            if tried(taken):
                _say_cut(plan, mine)
                return taken, mine.mine, True
            why = "the graph does not take a part of a batch"
    return feeds, _say_whole(plan, count, why), False


def _take(plan, feeds, count):
    mine = _parts.get(count)
    if mine is None:
        job = _job.job()
        sizes = rows.rows(count, job.size)
        mine = rows.Batch("split", sizes, job.rank, max(1, sizes[job.rank]))
        _parts[count] = mine
    start = sum(mine.sizes[:_job.job().rank]) if mine.mine else 0
    taken = dict(feeds)
    for reference in plan.rows:
        value = taken[reference]
        if value.ndim:
            taken[reference] = value[start:start + mine.shown]
    return taken, mine


def _say_cut(plan, mine):
    if not plan.said:
        plan.said = True
        lines.batch(mine)
    if not mine.mine:
        lines.empty(mine)


def _count(plan, feeds):
    """(rows of the batch, why it cannot be cut). No rows at all is no
    reason to say something."""
    count = None
    for reference in plan.rows:
        value = feeds[reference]
        if not isinstance(value, numpy.ndarray):
            return 1, "a handle is fed"
        if value.ndim == 0:
            continue
        if count is None:
            count = len(value)
        elif count != len(value):
            return 1, "feeds have different numbers of rows"
    if plan.whole is not None:
        return count or 1, plan.whole
    if count is None:
        fixed = max(plan.fixed.values(), default=0)
        return fixed or 1, _nothing(plan)
    if count > 1 and count in plan.fixed.values():
        return count, "a feed has its number of rows in its shape"
    if count == 0:
        return 0, "a batch is empty"
    return count, None


def _nothing(plan):
    if plan.batch is not None:
        return "batches come from inside the graph"
    if plan.fixed:
        return "feeds have their number of rows in their shapes"
    return "no batch is fed"


def _say_whole(plan, count, why):
    """A worker's own batch; its weight."""
    job = _job.job()
    if plan.batch is not None and not plan.rows:
        count = plan.batch
    if not plan.said:
        plan.said = True
        if why is not None and job.batch != "per-worker":
            lines.once("%s: batches are not cut, each worker takes its own "
                       "as a whole (per-worker)" % why)
        if count > 1:
            lines.once(rows.line(rows.Batch(
                "per-worker", [count] * job.size, job.rank, count)))
    return max(count, 1)


def _are_same(plan, feeds):
    global _same
    if _same is None:
        digest = hashlib.blake2b(digest_size=7)
        for reference in plan.rows:
            value = feeds[reference]
            digest.update(repr((value.shape, value.dtype.str)).encode())
            if value.dtype.hasobject:
                digest.update(repr(value.tolist()).encode())
            else:
                digest.update(numpy.ascontiguousarray(value).data.cast("B")
                              if value.size else b"")
        _same = agree.on(int.from_bytes(digest.digest(), "little"))
    return _same
