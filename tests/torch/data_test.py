"""What each worker gets of the script's batches: together they are those of
the single run, in its order, nothing twice and nothing left out."""
import sys

import torch
from torch import nn
from torch.utils.data import (BatchSampler, DataLoader, IterableDataset,
                              RandomSampler, SequentialSampler,
                              SubsetRandomSampler, TensorDataset,
                              WeightedRandomSampler)

import common
import ranks
from common import check, contains, test
from loaders import (Numbers, Sized, Stream, alone, covers, same_as_alone,
                     train, values)
from poseidon.torch import cut, data, plan


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
def split_pinned():
    """Through the thread that pins memory for a GPU."""
    if not torch.cuda.is_available():
        raise common.Skip('no GPU')
    for make in (lambda: Numbers(41), lambda: Stream(41)):
        for workers in (0, 2):
            same_as_alone(lambda: DataLoader(
                make(), batch_size=8, num_workers=workers, pin_memory=True),
                2)


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


if __name__ == '__main__':
    sys.exit(common.main())
