"""Whose rows: what a training run is fed, cut to this worker's part.

The script feeds the same batch on every worker, as seeds are the same. Feeds
whose first dimension is open and that have the same number of rows are cut;
what cannot be cut is fed as it is, and the job says why. In the first run of
an optimizer all workers compare what they are about to do, whatever that is:
if their batches differ, or a graph does not take a part of a batch, each
worker keeps its own. Whole batches that are the same on all workers make the
step of one machine, only P times; the job says so.
"""
import hashlib

import numpy

from poseidon import _job
from poseidon.shared import lines, rows
from poseidon.tensorflow import agree, fields

_HINT = " (--batch per-worker lets each draw its own)"

_parts = {}      # rows of a batch: rows.Batch


def cut(plan, feeds, book, tried):
    """(feeds for this worker, rows behind its gradient, was it cut?).
    tried(feeds) says whether the graph takes a part of a batch."""
    count, why = _count(plan, feeds)
    same = False
    if _job.job().batch != "per-worker":
        if plan.names not in book.same:
            book.same[plan.names] = _compare(plan, feeds, count, why, tried)
        if plan.inside and not plan.rows and not plan.dealt:
            return feeds, 1, True    # the graph knows the rows
        never, same = book.same[plan.names]
        why = why or never
        if not _is_sum(plan):
            why = why or _asked(plan)
        if why is None:
            taken, mine = _take(plan, feeds, count)
            _say_cut(plan, mine)
            return taken, mine.mine, True
    return feeds, _say_whole(plan, count, why, same), False


def _compare(plan, feeds, count, why, tried):
    """(why the batches of these groups are never cut; None: they are. Do all
    workers feed the same?) Collective, in the first run, on all workers
    alike."""
    if why is None and _is_sum(plan):
        why = _asked(plan)    # a sum of parts and wholes would be neither
    if why is None and not tried(_take(plan, feeds, count)[0]):
        why = "the graph does not take a part of a batch"
    number = 2 * _digest(plan, feeds) + (why is None)
    if not agree.on(number):
        return why or "the workers feed different batches", False
    return why, plan.batch is None


def _is_sum(plan):
    return any(site.kind == "sum" for site in plan.sites)


def _asked(plan):
    """The script would see fewer rows than it has fed."""
    return "a value for each row is fetched while training" if (
        plan.asks) else None


def _take(plan, feeds, count):
    mine = _parts.get(count)
    if mine is None:
        job = _job.job()
        mine = _parts[count] = rows.share(count, job.rank, job.size)
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


def _say_whole(plan, count, why, same):
    """A worker's own batch; its weight."""
    job = _job.job()
    if plan.batch is not None and not plan.rows:
        count = plan.batch
    if count <= 1:
        count = fields.batch_size() or count
    if not plan.said:
        plan.said = True
        if same:
            lines.once("%s: batches are not cut, and all workers have the "
                       "same: each computes the whole step, as one would "
                       "alone%s" % (why, _HINT if plan.fixed or plan.rows
                                    else ""))
        elif why is not None and not plan.dealt and (
                job.batch != "per-worker"):
            lines.once("%s: batches are not cut, each worker takes its own "
                       "as a whole (per-worker)" % why)
        if count > 1 and not same:
            lines.once(rows.line(rows.Batch(
                "per-worker", [count] * job.size, job.rank, count)))
    return max(count, 1)


def _digest(plan, feeds):
    digest = hashlib.blake2b(digest_size=7)
    for reference in plan.rows + tuple(plan.fixed):
        value = feeds[reference]
        if not isinstance(value, numpy.ndarray):    # a handle
            continue
        digest.update(repr((value.shape, value.dtype.str)).encode())
        if value.dtype.hasobject:
            digest.update(repr(value.tolist()).encode())
        elif value.size:
            digest.update(numpy.ascontiguousarray(value).data.cast("B"))
    return int.from_bytes(digest.digest(), "little")
