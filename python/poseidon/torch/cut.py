"""The collate function that cuts the samples of an IterableDataset, and what
travels through a loader's queues with them. Knows nothing of DataLoader."""
from poseidon.shared.rows import rows, take


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
