"""The kind of a loss, read from its graph, and what it weighs."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

import common
import ranks
from common import check, test
from poseidon.shared.rows import Batch
from poseidon.torch import cut, data, loss

ROWS, TOTAL, WIDTH = 6, 24, 3


class Case:
    """A small net over `rows` rows."""

    def __init__(self, rows=ROWS):
        torch.manual_seed(1)
        self.rows = rows
        self.net = nn.Linear(4, WIDTH)
        self.x = torch.randn(rows, 4)
        self.y = torch.randint(WIDTH, (rows,))
        self.t = torch.rand(rows, WIDTH)

    @property
    def out(self):
        return self.net(self.x)

    @property
    def each(self):
        return F.cross_entropy(self.out, self.y, reduction='none')


def no_line(make, expected, rows=ROWS, total=TOTAL, said=0):
    with ranks.worker(0, 4) as lines:
        kind = loss.kind(make(Case(rows)), rows, total)
    check(kind == expected, 'kind is %s' % kind)
    check(len(lines) == said, 'lines: %s' % lines)
    return lines


MEAN = {
    'cross_entropy': lambda c: F.cross_entropy(c.out, c.y),
    'label_smoothing': lambda c: F.cross_entropy(c.out, c.y,
                                                 label_smoothing=0.1),
    'soft_targets': lambda c: F.cross_entropy(c.out, c.t),
    'mse': lambda c: F.mse_loss(c.out, c.t),
    'weighted_mse': lambda c: F.mse_loss(c.out, c.t,
                                         weight=torch.ones(c.rows, WIDTH)),
    'l1': lambda c: F.l1_loss(c.out, c.t),
    'bce': lambda c: F.binary_cross_entropy(torch.sigmoid(c.out), c.t),
    'bce_logits': lambda c: F.binary_cross_entropy_with_logits(c.out, c.t),
    'huber': lambda c: F.huber_loss(c.out, c.t),
    'smooth_l1': lambda c: F.smooth_l1_loss(c.out, c.t),
    'kl_batchmean': lambda c: F.kl_div(F.log_softmax(c.out, 1), c.t,
                                       reduction='batchmean'),
    'gaussian': lambda c: F.gaussian_nll_loss(c.out, c.t,
                                              torch.ones(c.rows, WIDTH)),
    'triplet': lambda c: F.triplet_margin_loss(c.out, c.t, c.t.flip(0)),
    'cosine': lambda c: F.cosine_embedding_loss(c.out, c.t,
                                                torch.ones(c.rows)),
    'mean': lambda c: c.each.mean(),
    'sum_by_own_rows': lambda c: c.each.sum() / c.x.shape[0],
    'sum_by_own_elements': lambda c: ((c.out - c.t) ** 2).sum() / c.t.numel(),
    'features_then_rows': lambda c: ((c.out - c.t) ** 2).sum(-1).mean(),
    'rows_then_features': lambda c: ((c.out - c.t) ** 2).mean(0).sum(),
    'scaled': lambda c: F.cross_entropy(c.out, c.y) * torch.tensor(65536.),
    'accumulated': lambda c: F.cross_entropy(c.out, c.y) / 4,
    'casts': lambda c: F.cross_entropy(c.out, c.y).double().view(1)[0],
    'two': lambda c: F.cross_entropy(c.out, c.y) + 0.1 * F.mse_loss(c.out,
                                                                    c.t),
    'stacked': lambda c: torch.stack([F.cross_entropy(c.out, c.y),
                                      F.mse_loss(c.out, c.t)]).sum(),
    'mean_of_scalar': lambda c: F.cross_entropy(c.out, c.y).mean(),
    'penalty': lambda c: F.cross_entropy(c.out, c.y) + 0.1 * sum(
        p.pow(2).sum() for p in c.net.parameters()),
    'penalty_l1_norm': lambda c: (F.cross_entropy(c.out, c.y)
                                  + c.net.weight.abs().sum()
                                  + c.net.weight.norm()),
    'policy': lambda c: -(F.log_softmax(c.out, 1)[:, 0] * c.t[:, 0]).mean(),
}
SUM = {
    'cross_entropy': lambda c: F.cross_entropy(c.out, c.y, reduction='sum'),
    'label_smoothing': lambda c: F.cross_entropy(
        c.out, c.y, label_smoothing=0.1, reduction='sum'),
    'mse': lambda c: F.mse_loss(c.out, c.t, reduction='sum'),
    'kl': lambda c: F.kl_div(F.log_softmax(c.out, 1), c.t, reduction='sum'),
    'sum': lambda c: c.each.sum(),
    'half_square': lambda c: ((c.out - c.t) ** 2).sum() / 2,
    'sum_by_batch': lambda c: c.each.sum() / TOTAL,
    'elements_by_batch': lambda c: ((c.out - c.t) ** 2).sum() / TOTAL,
    'by_all_elements': lambda c: ((c.out - c.t) ** 2).sum() / (TOTAL * WIDTH),
    'loss_by_batch': lambda c: F.mse_loss(c.out, c.t,
                                          reduction='sum') / TOTAL,
    'rows_first': lambda c: ((c.out - c.t) ** 2).sum(0).sum(),
    'features_first': lambda c: ((c.out - c.t) ** 2).mean(1).sum(),
    'vae': lambda c: (F.binary_cross_entropy_with_logits(
        c.out, c.t, reduction='sum') - 0.5 * torch.sum(
            1 + c.out - c.out.pow(2) - c.out.exp())),
    'cast': lambda c: c.each.sum().double() * 3,
}


@test
def kind_means():
    for name, make in MEAN.items():
        for rows in (ROWS, 2, 1):
            try:
                no_line(make, 'mean', rows)
            except common.Failure as error:
                raise common.Failure('%s, %d rows: %s' % (name, rows, error))


@test
def kind_sums():
    for name, make in SUM.items():
        for rows in (ROWS, 3, 1):
            try:
                no_line(make, 'sum', rows)
            except common.Failure as error:
                raise common.Failure('%s, %d rows: %s' % (name, rows, error))


@test
def kind_unknown_is_mean_and_said():
    for make in (lambda c: (c.out - c.t).norm(),
                 lambda c: torch.einsum('ij,ij->', c.out, c.t),
                 lambda c: c.each.sum() / 5,
                 lambda c: c.each,
                 lambda c: F.mse_loss(c.out, c.t).sqrt(),
                 lambda c: F.mse_loss(c.out, c.t) + c.each.sum()):
        lines = no_line(make, 'mean', said=1)
        check('poseidon: loss: ' in lines[0], lines[0])


@test
def kind_custom_function():
    class Mine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.sum()

        @staticmethod
        def backward(ctx, g):
            return g.expand(ROWS, WIDTH)

    no_line(lambda c: Mine.apply(c.out), 'mean', said=1)


@test
def kind_sum_with_penalty():
    no_line(lambda c: c.each.sum() + c.net.weight.abs().sum(), 'sum', said=1)


@test
def kind_constant_is_remembered():
    """Fixed batch size in the script, and a last batch that is smaller."""
    with ranks.worker(0, 4) as lines:
        big, small = Case(6), Case(2)
        kinds = [loss.kind(((c.out - c.t) ** 2).sum() / 24, c.rows, total)
                 for c, total in ((big, 24), (small, 7))]
    check(kinds == ['sum', 'sum'] and not lines, '%s %s' % (kinds, lines))


@test
def kind_same_on_all_ranks():
    """Uneven rows, one row, and a dummy of weight 0."""
    for count in (25, 7, 5, 3, 1):
        for name, make in list(MEAN.items()) + list(SUM.items()):
            kinds = set()
            for rank, mine in enumerate(cut.rows(count, 4)):
                with ranks.worker(rank, 4):
                    rows = mine or min(count, 2)
                    data._current = Batch(
                        'split', cut.rows(count, 4), rank, rows)
                    if 'batch' in name or 'all' in name:
                        continue
                    loss.kind(make(Case()), ROWS, TOTAL)  # a full one before
                    kinds.add(loss.kind(make(Case(rows)), mine, count))
            check(len(kinds) < 2, '%s, batch of %d: %s' % (name, count,
                                                           kinds))


@test
def kind_per_worker_by_hand():
    """Nothing known of the batch: by the graph alone."""
    for make, expected in ((lambda c: c.each.sum(), 'sum'),
                           (lambda c: c.each.mean(), 'mean'),
                           (lambda c: c.each.sum() / c.rows, 'mean'),
                           (lambda c: F.cross_entropy(c.out, c.y), 'mean')):
        no_line(make, expected, ROWS, TOTAL)
        with ranks.worker(0, 4) as lines:
            kind = loss.kind(make(Case()), None, None)
        check(kind == expected and not lines, '%s %s' % (kind, lines))


@test
def kind_of_equal_workers_is_mean():
    """Nothing was cut and nothing drawn: all have the single run's sum."""
    for seeded in (False, True):
        with ranks.worker(0, 4):
            total = Case().each.sum()
            ranks.optimizer()
            check(loss.kind(total, None, None) == 'mean', 'summed')
            if seeded:
                torch.manual_seed(1)
            torch.rand(1)
            check(loss.kind(total, None, None) == (
                'mean' if seeded else 'sum'), 'seeded: %s' % seeded)


@test
def kind_whole_batch_is_never_summed():
    with ranks.worker(0, 4):
        data._whole = True
        check(loss.kind(Case().each.sum(), None, None) == 'mean', 'summed')


@test
def kind_autocast_and_scaler():
    scaler = torch.amp.GradScaler('cpu')

    def make(case):
        with torch.autocast('cpu', torch.bfloat16):
            return scaler.scale(F.cross_entropy(case.out, case.y))

    no_line(make, 'mean')


@test
def kind_several_roots():
    no_line(lambda c: [F.cross_entropy(c.out, c.y), c.each.mean()], 'mean')
    no_line(lambda c: (c.each.sum(), c.each.sum()), 'sum')


@test
def weight_of_ignored_targets():
    """Gradients of parts, weighted, give those of the whole."""
    torch.manual_seed(2)
    net = nn.Linear(4, 3)
    x, y = torch.randn(10, 4), torch.randint(3, (10,))
    y[:4] = -100
    weights = torch.tensor([1., 2., 5.])

    def gradient(rows):
        net.zero_grad()
        value = F.cross_entropy(net(x[rows]), y[rows], weight=weights)
        kind, weight = loss.look(value, len(x[rows]), 10)
        check(kind == 'mean', kind)
        value.backward()
        return net.weight.grad.clone(), weight

    with ranks.worker(0, 3):
        whole, _ = gradient(slice(0, 10))
        parts = [gradient(slice(0, 5)), gradient(slice(5, 7)),
                 gradient(slice(7, 10))]
    total = sum(weight for _, weight in parts)
    mean = sum(g * weight for g, weight in parts) / total
    check(torch.allclose(mean, whole, atol=1e-6), '%s %s' % (mean, whole))


@test
def weight_is_rows_else():
    with ranks.worker(0, 4):
        case = Case()
        check(loss.look(F.mse_loss(case.out, case.t), 6, 24)
              == ('mean', 6.0), 'mse')
        check(loss.look(case.each.sum(), 6, 24) == ('sum', 6.0), 'sum')
        check(loss.look(case.each.mean(), None, None) == ('mean', 1.0),
              'unknown rows')
        check(loss.look(F.cross_entropy(case.out, case.y), 0, 24)
              == ('mean', 0.0), 'dummy')


if __name__ == '__main__':
    sys.exit(common.main())
