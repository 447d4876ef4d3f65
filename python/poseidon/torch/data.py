"""Batches: each worker takes its part of what the script's DataLoader gives.

Patched: torch.utils.data's iterators (where indices are drawn and batches
handed over), len(DataLoader), Module.train (see phase.py), torch.randint and
randperm (see hand.py). Nothing is sent: all workers draw the same indices
from the common stream (seed.py), and so they know each other's rows.
"""
import contextlib
import functools
import math
import os
import weakref

from poseidon import _job
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.torch import cut, hand, hint, phase, plan, seed

_on = False
_patches = Patches()
_current = None      # the rows.Batch the script works on, None: not known
_whole = False       # that batch is the same on all workers
_handed = []         # plans of the batches since the last backward
_backwards = 0
_slicers = weakref.WeakSet()


def install(torch):
    global _on, _backwards
    if _job.job().size == 1 or _on:
        return
    _on, _backwards = True, 0
    phase.install(torch)
    plan.install(torch)
    hand.install(torch, _forget)
    hint.install()
    loader = torch.utils.data.dataloader
    base = loader._BaseDataLoaderIter
    single = loader._SingleProcessDataLoaderIter
    _patches.wrap(base, "__init__", _make)
    _patches.wrap(single, "__init__", _make_single)
    _patches.wrap(base, "_reset", _restart)
    _patches.wrap(base, "_next_index", _next_index)
    _patches.wrap(base, "__next__", _next)
    _patches.wrap(base, "__len__", _iterator_length)
    _patches.wrap(torch.utils.data.DataLoader, "__len__", _length)
    _patches.wrap(torch.utils.data.DataLoader, "__iter__", _begin)
    os.register_at_fork(after_in_child=_off)


def uninstall():
    _off()
    for slicer in _slicers:
        slicer.mode = "whole"
    _patches.restore()
    hint.uninstall()
    hand.uninstall()
    phase.uninstall()
    lines.forget()


def samples():
    """(rows of this worker, rows of all) of the training batch at hand, or
    None where that is not known."""
    batch = hand.batch() if _current is None and not _whole else _current
    return None if batch is None else (batch.mine, batch.total)


def current():
    """The rows.Batch at hand, another object for every batch; None: not
    known."""
    return _current


def shown():
    """Rows that the script got: as samples() says, or those of a dummy."""
    batch = hand.batch() if _current is None and not _whole else _current
    return None if batch is None else batch.shown


def whole():
    """Has every worker the same batch? Then a sum must not be summed."""
    return _whole


@contextlib.contextmanager
def working_on(batch):
    """The step in here is on this rows.Batch; None: on a batch of this
    worker alone."""
    global _current, _whole
    before = _current, _whole
    _current, _whole = batch, False
    del _handed[:]
    if batch is not None:
        hint.cut(batch)
    hand.stop()
    try:
        yield
    finally:
        _current, _whole = before


def backward_seen():
    """A backward pass begins."""
    global _backwards
    if not _on:
        return
    _backwards += 1
    for each in _handed:
        if each.is_stale():
            _forget()
        else:
            each.train()
    del _handed[:]
    hand.backward_seen(_backwards == 1 and _current is None and not _whole)
    hint.backward_seen()


def _forget():
    """The script works on something else than a loader's batch."""
    global _current, _whole
    _current, _whole = None, False


def _off():
    global _on
    _on = False
    _forget()
    del _handed[:]


def _make(real):
    def __init__(self, loader):
        # A loader inside another one's data set is that one's business.
        if not _on or seed.inside() and not self.__dict__.get("_psd_outer"):
            return real(self, loader)
        with seed.common():
            real(self, loader)
        job = _job.job()
        mine = self._psd_plan = plan.Plan(loader)
        known = mine.facts
        if known.iterable and known.batched:
            mine.slicer = cut.Slicer(self._collate_fn, job.rank, job.size)
            mine.slicer.mode, mine.slicer.least = mine.mode, mine.least()
            self._collate_fn = mine.slicer
            _slicers.add(mine.slicer)
        elif not known.iterable and mine.kind != "eval":
            # other augmentations on every worker, of other rows
            self._base_seed = seed.of_rank(self._base_seed)
    return __init__


def _make_single(real):
    def __init__(self, loader):
        self._psd_outer = not seed.inside()
        with seed.common():
            real(self, loader)
    return __init__


def _restart(real):
    def _reset(self, loader, first_iter=False):
        mine = self.__dict__.get("_psd_plan")
        if not _on or mine is None:
            return real(self, loader, first_iter)
        with seed.common():
            real(self, loader, first_iter)
        if not first_iter:
            mine.start()
        # batches of all workers belong to the same step, so order counts
        self._in_order = True
    return _reset


def _next_index(real):
    def _next_index(self):
        mine = self.__dict__.get("_psd_plan")
        if not _on or mine is None:
            return real(self)
        return mine.draw(functools.partial(real, self))
    return _next_index


def _next(real):
    def __next__(self):
        mine = self.__dict__.get("_psd_plan")
        if not _on or mine is None:
            return real(self)
        try:
            data, batch = mine.fetch(functools.partial(real, self))
        except StopIteration:
            _ended(mine)
            raise
        _hand_over(mine, batch)
        return data
    return __next__


def _begin(real):
    def __iter__(self):
        old = self.__dict__.get("_iterator")
        mine = old.__dict__.get("_psd_plan") if old is not None else None
        if _on and mine is not None and mine.slicer is not None:
            # Its processes have the old mode; others are needed.
            known = plan.facts(self)
            if plan.mode_of(known, plan.kind_of(known)) != mine.mode:
                old._shutdown_workers()
                self._iterator = None
        return real(self)
    return __iter__


def _length(real):
    def __len__(self):
        count = real(self)
        if not _on:
            return count
        known = plan.facts(self)
        mode = plan.mode_of(known, phase.told() or known.last
                            or plan.guess(known))
        if mode not in ("per-worker", "items"):
            return count
        size = _job.job().size
        if mode == "per-worker" and known.iterable:
            number = len(self.dataset) / (self.batch_size * size)
            return math.floor(number) if self.drop_last else (
                math.ceil(number))
        return -(-count // size)
    return __len__


def _iterator_length(real):
    def __len__(self):
        mine = self.__dict__.get("_psd_plan")
        count = real(self)
        if not _on or mine is None or mine.mode not in (
                "per-worker", "items"):
            return count
        return -(-count // mine.size)
    return __len__


def _hand_over(mine, batch):
    """The script gets a batch: what it is, for samples()."""
    global _current, _whole
    if mine.kind == "open" or not plan._torch.is_grad_enabled():
        return
    if mine.kind == "eval":
        # perhaps trained on nevertheless, the next backward tells
        _current, _whole = None, mine.mode == "whole"
        _handed[:] = [mine]
        return
    _current = mine.hand(batch)
    _whole = _current is None
    _handed[:] = [each for each in _handed if each.kind == "train"]
    if mine not in _handed:
        _handed.append(mine)
    if batch is None:
        return
    hand.stop()
    lines.empty(batch)
    if not mine.named:
        mine.named = True
        hint.cut(batch)
        if not phase.is_whole():
            lines.batch(batch)


def _ended(mine):
    global _current, _whole
    if mine.end() and mine in _handed:
        _handed.remove(mine)
        _forget()
    elif mine.facts.ahead and mine.recent:
        _current = mine.recent[-1]
        _whole = _current is None
