"""Which rows of a batch are whose: arithmetic, and the collate function that
cuts the samples of an IterableDataset. Knows nothing of DataLoader."""


class Batch:
    """What all workers got in one step, and what this one did."""
    __slots__ = ("mode", "sizes", "mine", "total", "shown")

    def __init__(self, mode, sizes, rank, shown):
        self.mode = mode
        self.sizes = sizes          # rows of each rank
        self.mine = sizes[rank]     # this rank's
        self.total = sum(sizes)
        self.shown = shown          # handed to the script; > mine: a dummy


class Share:
    """Collated data on its way through a loader's queues, with its rows."""

    def __init__(self, data, sizes, shown):
        self.data = data
        self.sizes = sizes
        self.shown = shown

    def pin_memory(self, *device):
        from torch.utils.data._utils.pin_memory import pin_memory
        self.data = pin_memory(self.data, *device)
        return self


class Slicer:
    """A collate function that first takes this rank's samples of the list.
    It travels to the loader's processes, so it is a plain object."""

    def __init__(self, collate, rank, size):
        self.collate = collate
        self.rank = rank
        self.size = size
        self.mode = "whole"
        self.least = 1

    def __call__(self, samples):
        if self.mode == "whole":
            return self.collate(samples)
        if self.mode == "per-worker":
            sizes = [len(range(rank, len(samples), self.size))
                     for rank in range(self.size)]
            mine = samples[self.rank::self.size]
        else:
            sizes = rows(len(samples), self.size, self.least)
            mine = take(samples, sizes, self.rank)
        if not mine and self.mode == "shard":
            return Share(None, sizes, 0)
        mine = mine or samples[:2]
        return Share(self.collate(mine), sizes, len(mine))


def rows(count, size, least=1):
    """How many of `count` rows each of `size` workers takes: neighbours in
    rank order, even to one row. With `least` 2 nobody takes a single row,
    as BatchNorm cannot work on one; some then take none."""
    busy = size if count >= least * size or least == 1 else (
        max(1, count // least))
    edges = [count * rank // busy for rank in range(busy + 1)]
    sizes = [edges[rank + 1] - edges[rank] for rank in range(busy)]
    return sizes + [0] * (size - busy)


def take(batch, sizes, rank):
    """This rank's part of anything that can be sliced."""
    start = sum(sizes[:rank])
    return batch[start:start + sizes[rank]]


def line(batch):
    """`global batch 128 = 4 x 32 (split)`"""
    sizes = batch.sizes
    if len(set(sizes)) == 1:
        text = "%d x %d" % (len(sizes), sizes[0])
    elif len(sizes) <= 8:
        text = " + ".join(str(count) for count in sizes)
    else:
        text = " + ".join("%d x %d" % (sizes.count(count), count)
                          for count in sorted(set(sizes), reverse=True))
    return "global batch %d = %s (%s)" % (batch.total, text, batch.mode)
