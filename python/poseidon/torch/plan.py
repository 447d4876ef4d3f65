"""What one run through a DataLoader gives to this worker.

A plan belongs to one iterator. It is open until the first optimizer exists:
until then nothing is cut (the script measures its data, or looks at a
batch). Then it is for training or for evaluation, see `guess`, and has one
of these modes:
  split       this rank's rows of every batch
  per-worker  every P-th batch (of an IterableDataset: every P-th sample)
  items       as per-worker, for items that come one by one: all are read,
              every P-th is handed over
  shard       as split, for evaluation: nothing is handed over twice
  cut         as split, for items that are batches, as all are with Keras:
              they are read whole and cut afterwards
  whole       all of it, on every worker
Every rank draws the same indices from the common stream, so all of them know
the rows of all, and the end.
"""
import collections
import contextlib

from poseidon import _job
from poseidon.shared import lines, rows
from poseidon.torch import cut, phase, seed

_torch = None
_nothing = contextlib.nullcontext()
_quick = ()       # samplers of torch's own: they draw once, and from torch


def install(torch):
    global _torch, _quick
    _torch = torch
    data = torch.utils.data
    _quick = (data.SequentialSampler, data.RandomSampler,
              data.SubsetRandomSampler, data.WeightedRandomSampler,
              data.dataloader._InfiniteConstantSampler)


class Facts:
    """Of one loader, kept with it: what it is, and what was seen of it."""

    def __init__(self, loader):
        self.iterable = isinstance(loader.dataset,
                                   _torch.utils.data.IterableDataset)
        self.batched = loader._auto_collation
        self.lists = not self.iterable and isinstance(
            loader.sampler, _torch.utils.data.BatchSampler)
        self.alone = loader.num_workers == 0
        sampler = loader._index_sampler
        if type(sampler) is _torch.utils.data.BatchSampler:
            sampler = sampler.sampler
        self.quick = type(sampler) in _quick
        self.learned = None  # "train", "train in eval()", "eval"
        self.last = None     # what the last run was taken for
        self.ahead = False   # the script asks for a batch before it needs it


def facts(loader):
    known = loader.__dict__.get("_psd_facts")
    if known is None:
        known = loader.__dict__["_psd_facts"] = Facts(loader)
    return known


def mode_of(known, kind, index=None):
    """How a loader is cut. `index`: its first one, if it has been drawn."""
    job = _job.job()
    if kind == "open":
        return "whole"
    if kind == "eval":
        return "shard" if job.shard_eval and known.batched else "whole"
    batched = known.batched or known.lists or (
        isinstance(index, list) and not known.iterable
        and all(isinstance(row, int) for row in index))
    if job.batch != "per-worker" and not phase.is_whole() and (
            batched or phase.told()):
        return "split" if batched else "cut"
    return "per-worker" if batched or not known.iterable else "items"


def guess(known):
    """For training or for evaluation? Keras says it, or grad mode, or what
    was seen of the loader, or what the script told its model."""
    if phase.told():
        return phase.told()
    if not _torch.is_grad_enabled() or known.learned == "eval":
        return "eval"
    return "eval" if phase.last() is False and (
        known.learned != "train in eval()") else "train"


def kind_of(known):
    return guess(known) if seed.forked() else "open"


class Plan:
    def __init__(self, loader):
        job = _job.job()
        self.rank, self.size = job.rank, job.size
        self.facts = facts(loader)
        self.slicer = None
        self.start()

    def start(self):
        """A new run through the loader."""
        self.queue = collections.deque()  # drawn, not handed over yet
        self.drawn = 0
        self.ended = False
        self.backward = False             # seen in this run
        self.named = False                # the line was said for this run
        self.recent = collections.deque(maxlen=2)
        self.groups = [0]                 # batches between backward passes
        self.mode = None
        self.decide()

    def decide(self, kind=None):
        known = self.facts
        self.kind = kind or kind_of(known)
        if self.kind != "open":
            known.last = self.kind
        if known.iterable or known.batched:
            self.mode = mode_of(known, self.kind)
        else:
            self.mode = None              # known with the first index
        if self.slicer is not None:
            self.slicer.mode = self.mode
            self.slicer.least = self.least()

    def can_change(self):
        """Not where other processes hold the collate function."""
        return self.facts.alone or self.slicer is None

    def settle(self):
        """Open until there is an optimizer."""
        if self.kind == "open" and seed.forked() and self.can_change():
            self.decide()

    def train(self):
        """A backward pass followed a batch: this is training."""
        self.backward = True
        if len(self.groups) < 3:
            self.groups.append(0)
        if self.kind == "eval":
            self.facts.learned = "train in eval()"
            if self.can_change():
                self.decide("train")
        elif self.facts.learned is None:
            self.facts.learned = "train"

    def is_stale(self):
        """Left early by an evaluation, and train() was called since?"""
        return self.kind == "eval" and self.facts.learned != "eval" and (
            phase.last() is not False)

    def least(self):
        return 2 if phase.has_norm() else 1

    # Drawing: in the main process, before anything is loaded.

    def draw(self, real):
        """The index of this rank's next batch."""
        self.settle()
        with self.common():
            return self.draw_common(real)

    def common(self):
        self.drawn += 1
        if not self.facts.quick:
            return seed.common()
        return seed.common("torch") if self.drawn == 1 else _nothing

    def draw_common(self, real):
        index = real()
        if self.facts.iterable:
            return index * self.size if self.mode == "per-worker" else index
        if self.mode is None:
            self.mode = mode_of(self.facts, self.kind, index)
            self.facts.lists = self.facts.lists or self.mode == "split"
        if self.mode in ("split", "shard") and not hasattr(
                index, "__getitem__"):
            index = list(index)
        if self.mode == "split":
            return self.split(index)
        if self.mode == "shard":
            return self.shard(index, real)
        if self.mode == "per-worker":
            return self.turn(index, real)
        self.queue.append(None)
        return index

    def split(self, index):
        sizes = rows.rows(len(index), self.size, self.least())
        mine = rows.take(index, sizes, self.rank)
        if len(mine) == 0:
            mine = index[:2]
        self.queue.append(rows.Batch("split", sizes, self.rank, len(mine)))
        return mine

    def shard(self, index, real):
        while True:
            sizes = rows.rows(len(index), self.size)
            if sizes[self.rank]:
                self.queue.append(None)
                return rows.take(index, sizes, self.rank)
            index = real()

    def turn(self, index, real):
        """One batch for each rank; who gets none at the end has a dummy."""
        group = [index]
        while len(group) < self.size:
            try:
                group.append(real())
            except StopIteration:
                break
        sizes = [_length(each) for each in group]
        sizes += [0] * (self.size - len(group))
        if self.rank < len(group):
            mine = group[self.rank]
            shown = sizes[self.rank]
        else:
            mine = index if phase.is_whole() else _some(index)
            shown = _length(mine)
        self.queue.append(rows.Batch("per-worker", sizes, self.rank, shown))
        return mine

    # Handing over: in the order of drawing.

    def fetch(self, real):
        """The next data for the script, and its rows.Batch or None."""
        self.settle()
        if self.facts.iterable and self.facts.alone:
            with seed.common():
                return self.receive(real)
        return self.receive(real)

    def receive(self, real):
        if self.mode == "items":
            return self.items(real)
        if self.mode == "cut":
            return self.cut(real)
        while True:
            data = real()
            if self.facts.iterable:
                if not isinstance(data, cut.Share):
                    return data, None
                if data.shown == 0:
                    continue              # shard: none of it is ours
                batch = rows.Batch(self.mode, data.sizes, self.rank,
                                  data.shown)
                return data.data, None if self.mode == "shard" else batch
            return data, self.queue.popleft() if self.queue else None

    def cut(self, real):
        data = real()
        if self.queue:
            self.queue.popleft()
        count = _rows(data)
        if count is None:
            return data, None
        sizes = rows.rows(count, self.size, self.least())
        batch = rows.Batch("split", sizes, self.rank,
                           sizes[self.rank] or min(count, 2))
        return rows.cut(data, batch, self.rank), batch

    def items(self, real):
        group = [real()]
        while len(group) < self.size:
            try:
                group.append(real())
            except StopIteration:
                break
        counts = [_rows(item) for item in group]
        if None in counts:
            counts = [1] * len(group)
        sizes = counts + [0] * (self.size - len(group))
        mine = self.rank if self.rank < len(group) else 0
        batch = rows.Batch("per-worker", sizes, self.rank, counts[mine])
        return group[mine], batch

    def hand(self, batch):
        """A training batch goes to the script; which one does it work on?
        Prefetchers (of timm, Lightning, Accelerate) ask for the next before
        they give out the last: two come before the first backward pass, one
        before the second."""
        self.recent.append(batch)
        if len(self.groups) < 3:
            self.groups[-1] += 1
        elif self.groups[2] == 0:
            self.groups[2] = 1
            self.facts.ahead = self.groups[:2] == [2, 1]
        return self.recent[0] if self.facts.ahead else batch

    def end(self):
        """The run is over. Is it the first, and had it no backward pass?"""
        if self.ended:
            return False
        self.ended = True
        if self.kind == "train" and not self.backward and (
                self.facts.learned is None):
            self.facts.learned = "eval"
            lines.once("no backward pass followed the batches of a "
                       "DataLoader: it is taken for evaluation, every worker "
                       "reads all of it from its next run on")
        return not self.backward


def _length(index):
    """Rows of one index; a single one counts as one."""
    return len(index) if isinstance(index, (list, tuple)) else (
        index.shape[0] if getattr(index, "ndim", 0) == 1 else 1)


def _some(index):
    """Up to two rows, for a worker that takes part with weight 0."""
    return index[:2] if isinstance(index, (list, tuple)) or (
        getattr(index, "ndim", 0) == 1) else index


def _rows(item):
    """Rows of an item that came as it is: of its first tensor."""
    if isinstance(item, _torch.Tensor):
        return item.shape[0] if item.dim() else None
    if isinstance(item, dict):
        item = list(item.values())
    if isinstance(item, (list, tuple)):
        for part in item:
            count = _rows(part)
            if count is not None:
                return count
    return None
