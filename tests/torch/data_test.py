"""What each worker gets of the script's batches: together they are those of
the single run, in its order, nothing twice and nothing left out."""
import io
import os
import random
import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import (BatchSampler, DataLoader, Dataset,
                              IterableDataset, RandomSampler,
                              SequentialSampler, SubsetRandomSampler,
                              TensorDataset, WeightedRandomSampler)

import common
import ranks
from common import check, contains, test
from poseidon.torch import cut, data, hint, plan


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


@test
def cut_rows():
    check(cut.rows(130, 4) == [32, 33, 32, 33], 'rows of 130')
    check(cut.rows(3, 4) == [0, 1, 1, 1], 'rows of 3')
    check(cut.rows(7, 4, 2) == [2, 2, 3, 0], 'two at least')
    check(cut.rows(1, 4, 2) == [1, 0, 0, 0], 'a single one')
    check(cut.rows(8, 4, 2) == [2, 2, 2, 2], 'two each')
    for count in range(40):
        for size in range(1, 7):
            for least in (1, 2):
                sizes = cut.rows(count, size, least)
                check(sum(sizes) == count and len(sizes) == size and (
                    least == 1 or count < 2 or 1 not in sizes),
                    '%d %d %d' % (count, size, least))


@test
def split_map_style():
    for size in (2, 3, 4):
        for count in (48, 103, 97, 5):
            same_as_alone(lambda: DataLoader(
                Numbers(count), batch_size=16, shuffle=True), size)
            same_as_alone(lambda: DataLoader(Numbers(count), batch_size=16),
                          size)
            if count > 16:
                same_as_alone(lambda: DataLoader(
                    Numbers(count), batch_size=16, shuffle=True,
                    drop_last=True), size)


@test
def split_samplers():
    def twos():
        for start in range(0, 30, 3):
            yield [start, start + 1, start + 2]

    class Twos:
        def __iter__(self):
            return twos()

        def __len__(self):
            return 10

    class Tensors:
        def __iter__(self):
            for _ in range(3):
                yield torch.randperm(30)[:7]

    makers = (
        lambda: DataLoader(Numbers(30), batch_sampler=Twos()),
        lambda: DataLoader(Numbers(30), batch_sampler=BatchSampler(
            RandomSampler(range(30)), 7, False)),
        lambda: DataLoader(Numbers(30), batch_size=8,
                           sampler=SubsetRandomSampler(range(5, 25))),
        lambda: DataLoader(Numbers(30), batch_size=8,
                           sampler=WeightedRandomSampler([1.] * 30, 20)),
        lambda: DataLoader(Numbers(30), batch_size=8, sampler=RandomSampler(
            range(30), replacement=True, num_samples=70)),
        lambda: DataLoader(torch.arange(30), batch_size=None,
                           sampler=BatchSampler(SequentialSampler(range(30)),
                                                7, False)),
    )
    for make in makers:
        for size in (2, 3):
            same_as_alone(make, size)
    answers = ranks.all_ranks(2, lambda: train(
        lambda: DataLoader(torch.arange(30), batch_sampler=Tensors())))
    for first, second in zip(answers[0][0][0], answers[1][0][0]):
        check(first[1:] == (3, 7) and second[1:] == (4, 7), 'tensors')


@test
def split_processes():
    """num_workers > 0, persistent or not, prefetched, in any order."""
    def make(**options):
        return DataLoader(Numbers(41), batch_size=8, shuffle=True,
                          num_workers=2, **options)

    for size in (2, 3):
        same_as_alone(make, size)
        same_as_alone(lambda: make(persistent_workers=True), size)
        same_as_alone(lambda: make(prefetch_factor=4, in_order=False), size,
                      make)


@test
def split_iterable():
    for size in (2, 3):
        for shuffle in (False, True):
            for drop in (False, True):
                same_as_alone(lambda: DataLoader(
                    Stream(41, shuffle), batch_size=8, drop_last=drop), size)
    same_as_alone(lambda: DataLoader(Stream(3), batch_size=8), 4)


@test
def split_iterable_processes():
    for options in ({}, {'persistent_workers': True}):
        for size in (2, 3):
            same_as_alone(lambda: DataLoader(
                Stream(41, True), batch_size=8, num_workers=2, **options),
                size)
    same_as_alone(lambda: DataLoader(
        Stream(9), batch_size=4, num_workers=1, persistent_workers=True,
        multiprocessing_context='spawn'), 2,
        lambda: DataLoader(Stream(9), batch_size=4))


@test
def split_user_collate():
    def collate(samples):
        return torch.stack([s['row'] for s in samples]).flip(0)

    def run():
        ranks.optimizer()
        return [batch.tolist() for batch in DataLoader(
            Numbers(10), batch_size=10, collate_fn=collate)]

    got = [answer for answer, _ in ranks.all_ranks(2, run)]
    check(got == [[[4, 3, 2, 1, 0]], [[9, 8, 7, 6, 5]]], got)


@test
def split_fewer_rows_than_workers():
    answers = same_as_alone(lambda: DataLoader(Numbers(3), batch_size=8), 4)
    contains(''.join(answers[0][1]), 'a batch of 3 rows for 4 workers: 1 of')
    check(all(not lines for _, lines in answers[1:]), 'other ranks spoke')
    same_as_alone(lambda: DataLoader(Numbers(1), batch_size=1), 4)


@test
def split_with_batchnorm_takes_two_rows():
    def make():
        nn.BatchNorm1d(3)
        return DataLoader(Numbers(16 + 7), batch_size=16)

    answers = same_as_alone(make, 4)
    check([answer[0][1][1] for answer, _ in answers] == [2, 2, 3, 0],
          'rows %s' % [answer[0][1] for answer, _ in answers])
    check(len(answers[3][0][0][1][0]) == 2, 'a dummy of two')


@test
def split_line():
    def lines(count, size, **options):
        return ''.join(ranks.all_ranks(size, lambda: train(
            lambda: DataLoader(Numbers(count), batch_size=count)),
            **options)[0][1])

    check(lines(128, 4) == 'poseidon: global batch 128 = 4 x 32 (split)\n',
          lines(128, 4))
    contains(lines(130, 4), 'global batch 130 = 32 + 33 + 32 + 33 (split)')
    answers = covers(lambda: DataLoader(Numbers(1024), batch_size=128), 4, 1,
                     batch='per-worker')
    check(answers[0][1] == ['poseidon: global batch 512 = 4 x 128 '
                            '(per-worker)\n'], answers[0][1])


@test
def per_worker_map_style():
    for size in (2, 3, 4):
        for count in (96, 103, 5, 33):
            for workers in (0, 2) if count == 33 else (0,):
                answers = covers(lambda: DataLoader(
                    Numbers(count), batch_size=8, shuffle=True,
                    num_workers=workers), size, batch='per-worker')
                single = alone(lambda: DataLoader(
                    Numbers(count), batch_size=8, shuffle=True))
                for step in range(len(answers[0][0][0])):
                    for rank, (answer, _) in enumerate(answers):
                        rows, mine, _ = answer[0][step]
                        at = step * size + rank
                        check(mine == 0 if at >= len(single[0])
                              else rows == single[0][at], 'r-th of every P')


@test
def per_worker_iterable():
    for size in (2, 3):
        for count in (64, 41, 2):
            covers(lambda: DataLoader(Stream(count, True), batch_size=4),
                   size, batch='per-worker')
        covers(lambda: DataLoader(Stream(41, True), batch_size=4,
                                  num_workers=2), size, batch='per-worker')
    answers = covers(lambda: DataLoader(Stream(16), batch_size=4), 2,
                     batch='per-worker')
    check(answers[1][0][0][0] == ([1, 3, 5, 7], 4, 8), 'every P-th sample')


@test
def items_cannot_be_cut():
    for make in (lambda: DataLoader(Stream(11), batch_size=None),
                 lambda: DataLoader(torch.arange(11), batch_size=None),
                 lambda: DataLoader(Stream(11), batch_size=None,
                                    num_workers=2)):
        answers = covers(make, 3)
        contains(''.join(answers[0][1]), 'cannot be cut', 'per-worker')


@test
def lengths():
    def run():
        torch.manual_seed(3)
        loaders = [DataLoader(Numbers(41), batch_size=4),
                   DataLoader(Numbers(41), batch_size=4, drop_last=True),
                   DataLoader(Sized(41), batch_size=4),
                   DataLoader(Sized(41), batch_size=4, drop_last=True),
                   DataLoader(torch.arange(11), batch_size=None),
                   DataLoader(Sized(11), batch_size=None)]
        before = [len(loader) for loader in loaders]
        ranks.optimizer()
        seen = []
        for loader in loaders:
            seen.append(0)
            for _ in loader:
                data.backward_seen()
                seen[-1] += 1
        return before, seen, [len(loader) for loader in loaders]

    for batch in ('split', 'per-worker'):
        for (before, seen, after), _ in ranks.all_ranks(3, run, batch=batch):
            check(before == seen == after, '%s %s %s' % (before, seen, after))


@test
def evaluation_is_whole():
    """No grad; eval(); both. Every rank reads all of it."""
    def run(how):
        model = nn.Linear(1, 1)
        train_set = DataLoader(Numbers(20), batch_size=10)
        test_set = DataLoader(Numbers(20), batch_size=10)
        ranks.optimizer()
        model.train()
        for _ in train_set:
            data.backward_seen()
        if how != 'no_grad':
            model.eval()
        with torch.set_grad_enabled(how == 'eval'):
            seen = [values(batch) for batch in test_set]
            length = len(test_set)
        model.train()
        again = []
        for batch in train_set:
            data.backward_seen()
            again.append(values(batch))
        return seen, length, again

    for batch in ('split', 'per-worker'):
        for how in ('no_grad', 'eval', 'both'):
            for (seen, length, again), _ in ranks.all_ranks(
                    2, lambda: run(how), batch=batch):
                check(seen == [list(range(10)), list(range(10, 20))], seen)
                check(length == 2, 'length %d' % length)
                check(sum(len(rows) for rows in again) == 10, again)


@test
def evaluation_learned():
    """Neither: what no backward follows is whole from the second run on."""
    def run():
        loader = DataLoader(Numbers(8), batch_size=8)
        ranks.optimizer()
        return [values(batch) for _ in range(3) for batch in loader]

    for (runs, lines) in ranks.all_ranks(2, run):
        check([len(rows) for rows in runs] == [4, 8, 8], runs)
    contains(''.join(ranks.all_ranks(2, run)[0][1]), 'taken for evaluation')


@test
def training_in_eval_is_learned():
    """A model that is trained in eval(): cut after the first backward."""
    def run(workers):
        model = nn.Linear(1, 1)
        loader = DataLoader(Numbers(24), batch_size=8, num_workers=workers)
        ranks.optimizer()
        model.eval()
        seen = []
        for batch in loader:
            data.backward_seen()
            seen.append((len(values(batch)), data.samples(), data.whole()))
        for batch in loader:
            data.backward_seen()
            seen.append((len(values(batch)), data.samples(), data.whole()))
        return seen

    for seen, _ in ranks.all_ranks(2, lambda: run(0)):
        check(seen == [(8, None, True)] + [(4, (4, 8), False)] * 5, seen)
    for seen, _ in ranks.all_ranks(2, lambda: run(1)):
        check(seen[3:] == [(4, (4, 8), False)] * 3, seen)


@test
def frozen_parts_do_not_count():
    """Frozen BatchNorm and a teacher in eval() are still training."""
    def run():
        model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
        teacher = nn.Linear(1, 1).requires_grad_(False)
        loader = DataLoader(Numbers(8), batch_size=8)
        ranks.optimizer()
        model.train()
        model[1].eval()
        teacher.eval()
        return [len(values(batch)) for batch in loader]

    for seen, _ in ranks.all_ranks(2, run):
        check(seen == [4], seen)


@test
def nothing_is_cut_before_the_optimizer():
    """A script that measures its data first, and an early iterator."""
    def run():
        loader = DataLoader(Numbers(24), batch_size=8)
        measured = [len(values(batch)) for batch in loader]
        early = iter(loader)
        values(next(early))
        ranks.optimizer()
        return measured, [len(values(batch)) for batch in early]

    for (measured, late), _ in ranks.all_ranks(2, run):
        check(measured == [8, 8, 8] and late == [4, 4], '%s %s' % (measured,
                                                                   late))


@test
def shard_eval():
    def run(make):
        loader = make()
        ranks.optimizer()
        with torch.no_grad():
            return [row for batch in loader for row in values(batch)]

    for make in (lambda: DataLoader(Numbers(21), batch_size=5),
                 lambda: DataLoader(Stream(21), batch_size=5),
                 lambda: DataLoader(Numbers(21), batch_size=5,
                                    num_workers=1)):
        got = [answer for answer, _ in ranks.all_ranks(
            3, lambda: run(make), shard_eval=1)]
        check(sorted(sum(got, [])) == list(range(21)), got)
        check(min(len(rows) for rows in got) > 3, got)


@test
def loader_inside_a_data_set():
    class Outer(IterableDataset):
        def __iter__(self):
            for batch in DataLoader(Numbers(12), batch_size=6, shuffle=True):
                yield from batch['row']

    same_as_alone(lambda: DataLoader(Outer(), batch_size=4), 2)


@test
def loader_is_freed():
    """Nothing of ours keeps a persistent loader's processes alive."""
    with ranks.worker(0, 2):
        ranks.optimizer()
        loader = DataLoader(Numbers(8), batch_size=4, num_workers=1,
                            persistent_workers=True)
        for _ in loader:
            data.backward_seen()
        process = loader._iterator._workers[0]
        data._handed.clear()
        del loader
        process.join(10)
        check(not process.is_alive(), 'its process lives')


@test
def two_loaders_at_once():
    """Each has its own rows; the last one handed over counts."""
    def run():
        first = DataLoader(Numbers(16), batch_size=8)
        second = DataLoader(Numbers(12), batch_size=6)
        ranks.optimizer()
        seen = []
        for a, b in zip(first, second):
            data.backward_seen()
            seen.append((values(a), values(b), data.samples()))
        return seen, plan.facts(first).learned, plan.facts(second).learned

    for rank, ((seen, *learned), _) in enumerate(ranks.all_ranks(2, run)):
        check(seen[0] == ([[0, 1, 2, 3], [4, 5, 6, 7]][rank],
                          [[0, 1, 2], [3, 4, 5]][rank], (3, 6)), seen)
        check(learned == ['train', 'train'], learned)


@test
def prefetchers_are_seen():
    """A script, or a library, that is one batch ahead."""
    def ahead(loader):
        last = None
        for batch in loader:
            if last is not None:
                yield last
            last = batch
        yield last

    def run():
        loader = DataLoader(Numbers(29), batch_size=8)
        ranks.optimizer()
        seen = []
        for _ in range(2):
            for batch in ahead(loader):
                data.backward_seen()
                seen.append((len(values(batch)), data.samples()))
        return seen

    for rank, (seen, _) in enumerate(ranks.all_ranks(2, run)):
        want = [(4, (4, 8))] * 3 + [((2, (2, 5)), (3, (3, 5)))[rank]]
        check(seen == want * 2, seen)


@test
def skipped_and_grouped_batches():
    """Not ahead: two batches for every backward pass."""
    def run():
        loader = DataLoader(Numbers(37), batch_size=8)
        ranks.optimizer()
        seen = []
        for step, batch in enumerate(loader):
            if step % 2:
                data.backward_seen()
                seen.append((len(values(batch)), data.samples()))
        data.backward_seen()
        return seen + [data.samples()]

    for seen, _ in ranks.all_ranks(2, run):
        check(seen[:2] == [(4, (4, 8))] * 2 and seen[2][1] == 5, seen)


@test
def data_pipes():
    try:
        from torch.utils.data.datapipes.iter import IterableWrapper
    except ImportError:
        raise common.Skip('this torch has no data pipes')

    def make():
        pipe = IterableWrapper(range(20)).shuffle().map(torch.tensor)
        return DataLoader(pipe, batch_size=6, shuffle=True)

    same_as_alone(make, 2)


@test
def by_hand_is_per_worker():
    def run():
        ranks.optimizer()
        rows = torch.randint(100, (12,)).tolist()
        data.backward_seen()
        return rows, data.samples()

    answers = ranks.all_ranks(4, run)
    check(len({str(rows) for (rows, _), _ in answers}) == 4, 'equal draws')
    check(all(samples is None for (_, samples), _ in answers), 'samples')
    contains(''.join(answers[0][1]), 'no DataLoader seen',
             'global batch 48 = 4 x 12 (per-worker)', '--batch split-random')

    def permuted():
        ranks.optimizer()
        rows = torch.randperm(100)[:12].tolist()
        data.backward_seen()
        return rows

    answers = ranks.all_ranks(4, permuted, batch='split-random')
    contains(''.join(answers[0][1]), 'torch.randperm cannot be cut')
    check(len({str(rows) for rows, _ in answers}) == 4, 'equal draws')


@test
def split_random():
    """nanoGPT style: the ranks' rows are the single run's, also with other
    draws in between, and evaluation sees all."""
    def draw(model):
        result = []
        for step in range(6):
            if step == 3:
                model.eval()
                with torch.no_grad():
                    result.append(torch.randint(100, (9,)).tolist())
                model.train()
            result.append(torch.randint(0, 100, (7,)))
        return result

    def single():
        model = nn.Linear(1, 1)
        torch.manual_seed(3)
        return [torch.as_tensor(rows).tolist() for rows in draw(model)]

    def run():
        model = nn.Linear(1, 1)
        torch.manual_seed(3)
        ranks.optimizer()
        result = []
        for step in range(6):
            if step == 3:
                model.eval()
                with torch.no_grad():
                    result.append((torch.randint(100, (9,)).tolist(), None))
                model.train()
            rows = torch.randint(0, 100, size=(7,))
            torch.randint(0, 9, (len(rows),))  # of these rows: not cut
            torch.rand(torch.randint(9, ()).item())
            data.backward_seen()
            result.append((rows.tolist(), data.samples()))
        return result

    want = single()
    for size in (2, 3, 8):
        answers = ranks.all_ranks(size, run, batch='split-random')
        for step, rows in enumerate(want):
            parts = [answer[step] for answer, _ in answers]
            if parts[0][1] is None:
                check(all(part == (rows, None) for part in parts), 'eval')
                continue
            got = [row for part, (mine, _) in parts for row in part[:mine]]
            check(got == rows, 'step %d: %s, not %s' % (step, got, rows))
            check({total for _, (_, total) in parts} == {7}, 'total')
        contains(''.join(answers[0][1]), 'global batch 7 = ',
                 '(split-random)')


@test
def hint_after_a_shape_error():
    with ranks.worker(0, 4):
        ranks.optimizer()
        for _ in DataLoader(Numbers(8), batch_size=8):
            error = RuntimeError("shape '[8, 1]' is invalid for input of "
                                 "size 2")
            contains(hint.text(RuntimeError, error), 'cut to 2 rows of 8',
                     'try --batch per-worker')
            check(hint.text(RuntimeError, RuntimeError('disk full')) is None,
                  'any error')
            check(hint.text(KeyError, KeyError('shape')) is None, 'any kind')
            stderr, sys.stderr = sys.stderr, io.StringIO()
            try:
                sys.excepthook(RuntimeError, error, None)
                text = sys.stderr.getvalue()
            finally:
                sys.stderr = stderr
            check(text.index('RuntimeError') < text.index('poseidon: the '
                                                          'batch'), text)
            data.backward_seen()
            data.backward_seen()
            check(hint.text(RuntimeError, error) is None, 'later')
    with ranks.worker(0, 4, batch='per-worker'):
        ranks.optimizer()
        for _ in DataLoader(Numbers(8), batch_size=8):
            check(hint.text(RuntimeError, error) is None, 'per-worker')


@test
def nothing_in_one_process_and_after_uninstall():
    before = DataLoader.__len__, nn.Module.train, torch.randint
    with ranks.worker(0, 1):
        check(DataLoader.__len__ is before[0], 'patched alone')
    with ranks.worker(0, 2):
        ranks.optimizer()
        running = iter(DataLoader(Numbers(8), batch_size=2))
        next(running)
    check((DataLoader.__len__, nn.Module.train, torch.randint) == before,
          'not restored')
    check([len(values(batch)) for batch in running] == [2, 2, 2], 'whole')


# Training: gradients of all ranks, weighted by their rows and added by hand,
# against the single run.


def model_and_loss(kind):
    torch.manual_seed(5)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 4))
    if kind == 'sum':
        return model, nn.CrossEntropyLoss(reduction='sum')
    if kind == 'by_rows':
        return model, lambda out, y: nn.functional.cross_entropy(
            out, y, reduction='sum') / len(out)
    if kind == 'by_batch':
        return model, lambda out, y: nn.functional.cross_entropy(
            out, y, reduction='sum') / 16
    return model, nn.CrossEntropyLoss()


def simulate(size, kind, make):
    """What the ranks see, recorded; then all of them in step."""
    from poseidon.torch import loss

    def record():
        torch.manual_seed(3)
        loader = make()
        ranks.optimizer()
        steps = []
        for _ in range(3):
            for x, y in loader:
                data.backward_seen()
                steps.append((x, y, data._current))
        return steps

    runs = [steps for steps, _ in ranks.all_ranks(size, record)]
    model, criterion = model_and_loss(kind)
    best = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for parts in zip(*runs):
        sums, value, kinds = None, 0.0, set()
        for rank, (x, y, batch) in enumerate(parts):
            with ranks.worker(rank, size):
                data._current = batch
                loss._constants.add(16.0) if kind == 'by_batch' else None
                out = criterion(model(x), y)
                name, weight = loss.look(out, batch.mine, batch.total)
            kinds.add(name)
            factor = (weight / batch.total if name == 'mean'
                      else float(batch.mine > 0))
            best.zero_grad()
            out.backward()
            value += factor * out.item()
            grads = [factor * p.grad for p in model.parameters()]
            sums = grads if sums is None else [
                a + b for a, b in zip(sums, grads)]
        check(len(kinds) == 1, 'kinds %s' % kinds)
        for p, grad in zip(model.parameters(), sums):
            p.grad = grad
        best.step()
        losses.append(value)
    return losses


@test
def training_equals_the_single_run():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(9)
    x, y = torch.randn(103, 6), torch.randint(4, (103,))
    makers = (lambda: DataLoader(TensorDataset(x, y), batch_size=16,
                                 shuffle=True),
              lambda: DataLoader(TensorDataset(x[:97], y[:97]), batch_size=16,
                                 shuffle=True, drop_last=False))
    try:
        for kind in ('mean', 'sum', 'by_rows', 'by_batch'):
            for make in makers:
                model, criterion = model_and_loss(kind)
                best = torch.optim.Adam(model.parameters(), lr=0.01)
                torch.manual_seed(3)
                loader, single = make(), []
                for _ in range(3):
                    for a, b in loader:
                        out = criterion(model(a), b)
                        best.zero_grad()
                        out.backward()
                        best.step()
                        single.append(out.item())
                for size in (2, 3, 4):
                    losses = simulate(size, kind, make)
                    check(len(losses) == len(single), 'steps')
                    worst = max(abs(p - q) / abs(q) for p, q in zip(losses,
                                                                    single))
                    check(worst < 1e-12, '%s, %d workers: %g' % (
                        kind, size, worst))
    finally:
        torch.set_default_dtype(torch.float32)


SCRIPT = '''
import sys
sys.path.insert(0, sys.argv[1])
import torch
from poseidon.torch import data, seed
seed.install(torch)
data.install(torch)
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
model = nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
seed.fork()
for x, in DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=8,
                     num_workers=1):
    print(model(x).view(8, 2).sum())
'''


@test
def hint_in_a_process():
    env = dict(os.environ, PSD_AGENT='none', PSD_RANK='0', PSD_SIZE='4',
               PSD_SEED='5', OMP_NUM_THREADS='1')
    done = subprocess.run(
        [sys.executable, '-c', SCRIPT, os.path.join(common.ROOT, 'python')],
        env=env, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        timeout=common.LIMIT, check=False)
    check(done.returncode == 1, 'exit code %d' % done.returncode)
    lines = done.stderr.strip().splitlines()
    check(lines[0] == 'poseidon: global batch 8 = 4 x 2 (split)', lines[0])
    contains(lines[-1], 'poseidon: the batch was cut to 2 rows of 8 (split)',
             'try --batch per-worker')


if __name__ == '__main__':
    sys.exit(common.main())
