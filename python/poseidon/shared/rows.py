"""Which rows of a batch are whose, and how that is said. Arithmetic only."""


class Batch:
    """What all workers got in one step, and what this one did."""
    __slots__ = ("mode", "sizes", "mine", "total", "shown")

    def __init__(self, mode, sizes, rank, shown):
        self.mode = mode
        self.sizes = sizes          # rows of each rank
        self.mine = sizes[rank]     # this rank's
        self.total = sum(sizes)
        self.shown = shown          # handed to the script; > mine: a dummy


def rows(count, size, least=1):
    """How many of `count` rows each of `size` workers takes: neighbours in
    rank order, even to one row. With `least` 2 nobody takes a single row,
    as BatchNorm cannot work on one; some then take none."""
    busy = size if count >= least * size or least == 1 else (
        max(1, count // least))
    edges = [count * rank // busy for rank in range(busy + 1)]
    sizes = [edges[rank + 1] - edges[rank] for rank in range(busy)]
    return sizes + [0] * (size - busy)


def share(count, rank, size):
    """The Batch of `count` rows, cut; who has none is shown one that counts
    for nothing."""
    sizes = rows(count, size)
    return Batch("split", sizes, rank, max(1, sizes[rank]))


def take(batch, sizes, rank):
    """This rank's part of anything that can be sliced."""
    start = sum(sizes[:rank])
    return batch[start:start + sizes[rank]]


def cut(value, batch, rank):
    """This rank's part, or what it is shown, of all arrays in a structure
    that have the rows of the batch."""
    if isinstance(value, dict):
        return {key: cut(each, batch, rank) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        parts = [cut(each, batch, rank) for each in value]
        return type(value)(*parts) if hasattr(value, "_fields") else (
            type(value)(parts))
    if not getattr(value, "ndim", 0) or len(value) != batch.total:
        return value
    start = sum(batch.sizes[:rank]) if batch.mine else 0
    return value[start:start + batch.shown]


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
