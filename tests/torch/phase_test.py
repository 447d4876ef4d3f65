"""Training or evaluation, batches drawn by hand, and what is said when a cut
batch does not fit the script."""
import io
import os
import subprocess
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader

import common
import ranks
from common import check, contains, test
from loaders import Numbers, Stream, values
from poseidon.torch import data, hint, plan


@test
def split_random_on_cuda():
    if not torch.cuda.is_available():
        raise common.Skip('no GPU')

    def run():
        ranks.optimizer()
        rows = torch.randint(100, (8,), device='cuda')
        return rows.device.type, rows.tolist()

    got = [answer for answer, _ in ranks.all_ranks(2, run,
                                                   batch='split-random')]
    check(got[0][0] == 'cuda' and len(got[0][1]) == len(got[1][1]) == 4, got)


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

    def alike():
        ranks.optimizer()
        torch.randint(100, (12,), generator=torch.Generator())
        data.backward_seen()

    said = ''.join(ranks.all_ranks(2, alike)[0][1])
    contains(said, 'nothing drawn at random but by the script\'s own '
             'generators: all workers compute the same')

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
def evaluation_left_early():
    """Without no_grad, and by break: what follows is not its batch."""
    def run():
        model = nn.Linear(1, 1)
        loader = DataLoader(Numbers(8), batch_size=4)
        ranks.optimizer()
        model.eval()
        for _ in loader:
            break
        model.train()
        torch.randint(9, (6,))
        data.backward_seen()
        return data.samples(), data.whole(), plan.facts(loader).learned

    for answer, _ in ranks.all_ranks(2, run):
        check(answer == (None, False, None), answer)
    for answer, _ in ranks.all_ranks(2, run, batch='split-random'):
        check(answer == ((3, 6), False, None), answer)


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
