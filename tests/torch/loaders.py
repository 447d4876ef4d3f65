"""Data sets whose rows are numbers, and runs through their loaders: alone, and
as every worker."""
import random

import torch
from torch.utils.data import Dataset, IterableDataset

import ranks
from common import check
from poseidon.torch import data


class Numbers(Dataset):
    def __init__(self, count):
        self.count = count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return {'row': torch.tensor(index), 'name': 'n%d' % index}


class Stream(IterableDataset):
    """Shuffled in a buffer with `random`, split among loader processes."""

    def __init__(self, count, shuffle=False):
        self.count = count
        self.shuffle = shuffle

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        rows = list(range(self.count))[info.id::info.num_workers] if (
            info) else list(range(self.count))
        if self.shuffle:
            random.shuffle(rows)
        yield from (torch.tensor(row) for row in rows)


class Sized(Stream):
    def __len__(self):
        return self.count


def values(batch):
    if isinstance(batch, dict):
        batch = batch['row']
    return batch.tolist() if batch.dim() else [batch.item()]


def train(make, epochs=2):
    """Train on make()'s loader: per epoch and step (rows, mine, total)."""
    torch.manual_seed(3)
    random.seed(3)
    loader = make()
    ranks.optimizer()
    result = []
    for _ in range(epochs):
        result.append([])
        for batch in loader:
            torch.rand(1 + torch.randint(9, ()).item())  # dropout
            data.backward_seen()
            mine, total = data.samples() or (None, None)
            result[-1].append((values(batch), mine, total))
    return result


def alone(make, epochs=2):
    torch.manual_seed(3)
    random.seed(3)
    loader = make()
    return [[values(batch) for batch in loader] for _ in range(epochs)]


def same_as_alone(make, size, single=None, **options):
    """Split: step by step, the ranks' rows are the single run's batch."""
    single = alone(single or make)
    answers = ranks.all_ranks(size, lambda: train(make), **options)
    for epoch, batches in enumerate(single):
        for steps in (answer[epoch] for answer, _ in answers):
            check(len(steps) == len(batches), '%d steps, not %d' % (
                len(steps), len(batches)))
        for step, batch in enumerate(batches):
            got = []
            for answer, _ in answers:
                rows, mine, total = answer[epoch][step]
                check(total == len(batch), 'total %s' % total)
                check(mine == len(rows) or mine == 0 and 0 < len(rows) <= 2,
                      'mine %d of %s' % (mine, rows))
                got += rows[:mine]
            check(got == batch, 'epoch %d step %d: %s, alone %s' % (
                epoch, step, got, batch))
    return answers


def covers(make, size, epochs=2, **options):
    """Per-worker: as many steps on all ranks, every row of the single run
    once; the same group of batches in every step."""
    single = alone(make, epochs)
    answers = ranks.all_ranks(size, lambda: train(make, epochs), **options)
    for epoch, batches in enumerate(single):
        runs = [answer[epoch] for answer, _ in answers]
        check(len({len(run) for run in runs}) == 1, 'steps: %s' % [
            len(run) for run in runs])
        got = []
        for parts in zip(*runs):
            check(len({total for _, _, total in parts}) == 1, 'totals')
            check(sum(mine for _, mine, _ in parts) == parts[0][2], 'sum')
            for rows, mine, _ in parts:
                check(mine in (0, len(rows)), 'mine %d of %s' % (mine, rows))
                got += rows[:mine]
        want = [row for batch in batches for row in batch]
        check(sorted(got) == sorted(want), 'rows %s, alone %s' % (
            sorted(got), sorted(want)))
    return answers
