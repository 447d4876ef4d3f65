"""Random streams: equal before the first optimizer, different after it, and
common where they must stay equal."""
import os
import random
import subprocess
import sys

import numpy
import torch
from torch import utils
from torch.utils.data import DataLoader, RandomSampler

import common
import ranks
from common import check, test
from poseidon.torch import seed


def draws():
    return (torch.rand(2).tolist(), random.random(),
            numpy.random.rand(2).tolist())


def of_all(function, size=3, **options):
    return [answer for answer, _ in ranks.all_ranks(size, function,
                                                    **options)]


def equal(values, text):
    check(all(value == values[0] for value in values),
          '%s: %s' % (text, values))


def different(values, text):
    check(len({repr(value) for value in values}) == len(values),
          '%s: %s' % (text, values))


@test
def seed_equal_at_start():
    equal(of_all(draws), 'first draws')
    check(of_all(draws)[0] != of_all(draws, seed=12)[0], 'not of PSD_SEED')


@test
def seed_streams_fork_by_rank():
    def run():
        model = torch.nn.Linear(3, 3).weight.tolist()
        ranks.optimizer()
        return model, draws(), torch.nn.Dropout()(torch.ones(64)).tolist()

    answers = of_all(run, 4)
    equal([model for model, _, _ in answers], 'models')
    for part in range(3):
        different([drawn[part] for _, drawn, _ in answers], 'after the fork')
    different([mask for _, _, mask in answers], 'dropout')
    check(answers == of_all(run, 4), 'not the same twice')


@test
def seed_of_the_script_counts():
    def run():
        torch.manual_seed(5)
        ranks.optimizer()
        return draws()

    def other():
        torch.manual_seed(6)
        ranks.optimizer()
        return draws()

    different(of_all(run), 'by rank')
    check(of_all(run)[0][0] != of_all(other)[0][0], 'the seed is lost')


@test
def seed_models_after_the_fork_are_those_of_the_single_run():
    def run():
        ranks.optimizer()
        torch.rand(3)
        return [value.tolist() for made in (
            torch.nn.Linear(3, 3), torch.nn.MultiheadAttention(4, 2))
            for value in made.parameters()]

    answers = of_all(run)
    equal(answers, 'models')
    torch.manual_seed(11)
    alone = torch.nn.Linear(3, 3)
    check(answers[0][0] == alone.weight.tolist(), 'not the single run\'s')


@test
def seed_second_optimizer_changes_nothing():
    def run(times):
        for _ in range(times):
            ranks.optimizer()
        return draws()

    check(of_all(lambda: run(1)) == of_all(lambda: run(2)), 'forked twice')


@test
def seed_random_split_equal():
    def run():
        before = [list(p.indices) for p in utils.data.random_split(
            range(20), [15, 5])]
        ranks.optimizer()
        torch.rand(1 + torch.randint(9, ()).item())
        after = [list(p.indices) for p in utils.data.random_split(
            range(20), [15, 5])]
        return before, after

    equal(of_all(run, 4), 'random_split')


@test
def seed_order_is_that_of_the_single_run():
    """Also when each worker draws something else in between."""
    def alone():
        torch.manual_seed(3)
        loader = DataLoader(range(50), batch_size=10, shuffle=True)
        with torch.no_grad():
            return [[batch.tolist() for batch in loader] for _ in range(3)]

    def run():
        torch.manual_seed(3)
        loader = DataLoader(range(50), batch_size=10, shuffle=True)
        ranks.optimizer()
        epochs = []
        with torch.no_grad():
            for _ in range(3):
                epochs.append([])
                for batch in loader:
                    torch.rand(1 + torch.randint(9, ()).item())
                    random.random()
                    epochs[-1].append(batch.tolist())
        return epochs

    single = alone()
    for epochs in of_all(run, 3):
        check(epochs == single, 'another order')


@test
def seed_custom_samplers_equal():
    """Samplers of the script that draw from torch, random or numpy."""
    class Shuffled(torch.utils.data.Sampler):
        def __len__(self):
            return 12

        def __iter__(self):
            order = list(range(12))
            random.shuffle(order)
            order = [order[i] for i in numpy.random.permutation(12)]
            order = [order[i] for i in numpy.random.default_rng()
                     .permutation(12)]
            for i in order:
                yield (i + int(torch.randint(12, ()))) % 12

    def run():
        ranks.optimizer()
        draws()
        with torch.no_grad():
            return [batch.tolist() for _ in range(2) for batch in DataLoader(
                range(12), batch_size=4, sampler=Shuffled())]

    equal(of_all(run), 'custom sampler')
    check(of_all(run)[0][:3] != of_all(run)[0][3:], 'the same every epoch')


@test
def seed_by_hand_in_the_loop_warns_once():
    def run():
        ranks.optimizer()
        first = draws()
        torch.manual_seed(7)
        same = torch.rand(3).tolist()
        torch.manual_seed(8)
        return first, same

    answers = ranks.all_ranks(3, run)
    different([first for (first, _), _ in answers], 'before')
    equal([same for (_, same), _ in answers], 'after manual_seed')
    for rank, (_, lines) in enumerate(answers):
        check(len(lines) == (rank == 0), 'w%d: %s' % (rank, lines))
    common.contains(answers[0][1][0], 'torch.manual_seed(7) after')


@test
def seed_before_the_optimizer_is_silent():
    def run():
        torch.manual_seed(1)
        random.seed(1)
        numpy.random.seed(1)
        ranks.optimizer()

    for _, lines in ranks.all_ranks(2, run):
        check(not lines, lines)


@test
def seed_fork_rng_is_left_alone():
    """A fixed picture in between changes nothing for what follows."""
    def run(paint):
        torch.manual_seed(3)
        ranks.optimizer()
        if paint:
            with torch.random.fork_rng():
                torch.manual_seed(0)
                torch.rand(5)
        with torch.no_grad():
            order = [b.tolist() for b in DataLoader(range(9), shuffle=True)]
        return order, draws()

    painted = ranks.all_ranks(2, lambda: run(True))
    plain = ranks.all_ranks(2, lambda: run(False))
    check([a for a, _ in painted] == [a for a, _ in plain], 'changed')
    check(not any(lines for _, lines in painted), 'warned')


@test
def seed_from_the_system_is_equal_until_the_fork():
    def run():
        random.seed()
        torch.seed()
        numpy.random.seed()
        before = draws(), numpy.random.default_rng().random()
        ranks.optimizer()
        random.seed()
        torch.seed()
        return before, draws(), numpy.random.default_rng().random()

    answers = of_all(run)
    equal([before for before, _, _ in answers], 'before')
    different([drawn[:2] for _, drawn, _ in answers], 'after')
    different([value for _, _, value in answers], 'default_rng after')


@test
def seed_samplers_with_their_own_generator():
    def run():
        own = torch.Generator().manual_seed(4)
        loader = DataLoader(range(9), sampler=RandomSampler(
            range(9), generator=own), generator=own)
        ranks.optimizer()
        with torch.no_grad():
            return [batch.tolist() for batch in loader]

    equal(of_all(run), 'own generator')


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        return torch.rand(()), random.random()


@test
def seed_of_loader_processes():
    """Other augmentations on every worker in training, the same for all in
    evaluation."""
    def run(train):
        ranks.optimizer()
        loader = DataLoader(Noise(), batch_size=4, num_workers=1)
        with torch.set_grad_enabled(train):
            return [[part.tolist() for part in batch] for batch in loader]

    different(of_all(lambda: run(True), 2), 'training')
    equal(of_all(lambda: run(False), 2), 'evaluation')


@test
def seed_numpy_imported_later():
    """numpy.random that the script imports after torch, before and after
    the optimizer."""
    text = ('import sys; sys.path.insert(0, sys.argv[1])\n'
            'import torch\n'
            'from poseidon.torch import seed\n'
            'seed.install(torch)\n'
            'if sys.argv[2] == "late": seed.fork()\n'
            'import numpy.random\n'
            'print(numpy.random.rand())\n'
            'with seed.common(): print(numpy.random.rand())\n')

    def run(rank, when):
        env = dict(os.environ, PSD_AGENT='none', PSD_RANK=str(rank),
                   PSD_SIZE='2', PSD_SEED='5', OMP_NUM_THREADS='1')
        done = subprocess.run(
            [sys.executable, '-c', text, os.path.join(common.ROOT, 'python'),
             when], env=env, stdout=subprocess.PIPE, timeout=common.LIMIT,
            text=True, check=True)
        return done.stdout.split()

    early, late = ([run(rank, when) for rank in range(2)]
                   for when in ('early', 'late'))
    equal(early, 'before the optimizer')
    different([drawn for drawn, _ in late], 'after it')
    equal([shared for _, shared in late], 'common')


@test
def seed_cuda_streams():
    """On a GPU, also where CUDA starts after the fork."""
    if not torch.cuda.is_available():
        raise common.Skip('no GPU')

    def run():
        before = torch.rand(3, device='cuda').tolist()
        ranks.optimizer()
        return before, torch.rand(3, device='cuda').tolist()

    answers = of_all(run)
    equal([before for before, _ in answers], 'before the optimizer')
    different([after for _, after in answers], 'after it')


@test
def seed_nothing_in_one_process():
    before = torch.manual_seed
    with ranks.worker(0, 1):
        check(torch.manual_seed is before, 'patched')
        torch.manual_seed(1)
        state = torch.get_rng_state()
        seed.fork()
        check(torch.equal(torch.get_rng_state(), state), 'forked')


@test
def seed_uninstall_restores():
    before = (torch.manual_seed, torch.random.fork_rng, random.seed,
              numpy.random.seed, numpy.random.default_rng,
              utils.data.random_split)
    with ranks.worker(1, 2):
        check(torch.manual_seed is not before[0], 'not patched')
    after = (torch.manual_seed, torch.random.fork_rng, random.seed,
             numpy.random.seed, numpy.random.default_rng,
             utils.data.random_split)
    check(before == after, 'not restored')


if __name__ == '__main__':
    sys.exit(common.main())
