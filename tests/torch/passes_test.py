#!/usr/bin/env python3
"""What an unmodified script may do around backward(), with real torch: one
exchange for several passes, gradients that are not finite, values that differ
at the start, exceptions, and the calls of poseidon.torch.

    PYTHON passes_test.py --build DIR [PATTERN...]

Prints TAP; common.py says how jobs are run.
"""
import json
import re
import sys

import common
from common import check, contains, run_alone, run_script, test

HEAD = '''
import os, sys
import torch
from torch import nn
from torch.nn import functional as F
rank = int(os.environ.get("PSD_RANK", 0))
torch.manual_seed(1)
x, y = torch.randn(48, 6), torch.randint(0, 3, (48,))
def loader(size=12):
    return torch.utils.data.DataLoader(
        torch.utils.data.TensorDataset(x, y), batch_size=size)
def net():
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
def total(model):
    return sum(p.detach().double().sum() for p in model.parameters()).item()
def exchanges():
    """Count the exchanges from here on."""
    from poseidon.torch import exchange
    count = [0]
    lib = exchange._state.lib
    real = lib.psd_step_begin
    class Counting:
        def __getattr__(self, name):
            return begin if name == "psd_step_begin" else getattr(lib, name)
    def begin(*args):
        count[0] += 1
        return real(*args)
    exchange._state.lib = Counting()
    return count
'''


def numbers(text, word):
    return [float(found) for found in
            re.findall(r'^%s (\S+)$' % word, text, re.M)]


def same(job, workers, word='sum'):
    """All workers printed the same, and something."""
    outs = [numbers(out, word) for out in job.outs(workers)]
    check(outs[0] and all(out == outs[0] for out in outs),
          '%s: %r' % (word, outs))
    return outs[0]


def near(got, want, limit=1e-6):
    check(len(got) == len(want) and all(
        abs(a - b) <= limit * max(1, abs(b)) for a, b in zip(got, want)),
          '%r, not %r' % (got, want))


# ---- one exchange for several passes

ACCUMULATE = HEAD + '''
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
count = None
for epoch in range(8):
    optimizer.zero_grad(set_to_none=epoch % 2 == 0)
    for number, (bx, by) in enumerate(loader(), 1):
        (F.cross_entropy(model(bx), by) / 4).backward()
    if epoch == 5 and len(sys.argv) > 1:  # one more than usual
        bx, by = next(iter(loader()))
        (F.cross_entropy(model(bx), by) / 4).backward()
    if epoch == 6 and len(sys.argv) > 1:  # fewer than usual
        optimizer.zero_grad()
        F.cross_entropy(model(bx), by).backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    print("sum", total(model))
    if epoch == 3 and "PSD_SIZE" in os.environ:
        count = exchanges()
print("exchanges", 0 if count is None else count[0])
'''


@test
def passes_are_seen_and_exchanged_once():
    job = run_script(ACCUMULATE)
    near(same(job, 2), numbers(run_alone(ACCUMULATE), 'sum'))
    contains(job.err, '4 backward passes before each step', '--accum 4')
    check(same(job, 2, 'exchanges') == [4], 'exchanges: %r' % same(
        job, 2, 'exchanges'))


@test
def other_numbers_of_passes_are_right_too():
    job = run_script(ACCUMULATE, args=['odd'])
    near(same(job, 2), numbers(run_alone(ACCUMULATE, ['odd']), 'sum'))


@test
def passes_by_option():
    want = numbers(run_alone(ACCUMULATE, ['odd']), 'sum')
    for option, count in (('4', 6), ('3', 10), ('1', 18)):
        job = run_script(ACCUMULATE, options=['--accum', option],
                         args=['odd'])
        near(same(job, 2), want)
        got = same(job, 2, 'exchanges')
        check(got == [count], '--accum %s: %r exchanges' % (option, got))


@test
def other_sizes_in_a_window_are_exact():
    text = HEAD + '''
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(3):
    optimizer.zero_grad()
    for bx, by in loader(13):  # the last has 9 rows
        (F.cross_entropy(model(bx), by) / 4).backward()
    optimizer.step()
    print("sum", total(model))
'''
    job = run_script(text, 3, options=['--accum', '4'])
    near(same(job, 3), numbers(run_alone(text), 'sum'))


# ---- not finite

BAD = HEAD + '''
class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)
    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))
model = Named()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
scaler = torch.amp.GradScaler("cpu", enabled="scaler" in sys.argv)
for number, (bx, by) in enumerate(loader(), 1):
    optimizer.zero_grad()
    loss = scaler.scale(F.cross_entropy(model(bx), by))
    if number == 3 and rank == 1:
        loss = loss + model.second.bias.sum() * float("nan")
    loss.backward()
    print("none", sum(p.grad is None for p in model.parameters()))
    scaler.step(optimizer)
    scaler.update()
print("sum", float(total(model) == total(model)))
'''


@test
def a_gradient_that_is_not_finite():
    job = run_script(BAD)
    contains(job.err, 'the gradient of second.bias on worker 1 is not finite '
             'in step 3')
    check(job.err.count('is not finite') == 1, job.err)
    check(same(job, 2) == [0.0], 'nan went on')
    job = run_script(BAD, options=['--nan', 'skip'])
    check(same(job, 2) == [1.0], 'nan did not go on')
    check(same(job, 2, 'none') == [0, 0, 4, 0], 'dropped in step 3')
    contains(job.err, 'second.bias on worker 1', 'dropped on all workers')
    job = run_script(BAD, options=['--nan', 'stop'], code=65)
    contains(job.err, 'second.bias on worker 1 is not finite in step 3')


@test
def a_scaler_expects_them():
    job = run_script(BAD, args=['scaler'])
    check(same(job, 2) == [1.0], 'the step was skipped')
    check('not finite' not in job.err, job.err)


# ---- the same start

@test
def values_of_rank_0_for_all():
    text = HEAD + '''
torch.manual_seed(rank + 5)
model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
frozen = nn.Linear(3, 3)  # of no optimizer
model.register_buffer("mask", torch.rand(7) > 0.5)
for name, value in model.state_dict().items():
    if value.is_floating_point():
        value.add_(rank)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
with torch.no_grad():
    model(x)                       # no start: nothing is hidden here
def values():
    kept = list(model.state_dict().values()) + list(frozen.parameters())
    for state in optimizer.state_dict()["state"].values():
        kept += [value for value in state.values()]
    print("sum", sum((value.double() * (at + 1)).sum().item()
                     for at, value in enumerate(kept)))
model(x)                           # here it is
values()
def step():
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
step()
values()
saved = [model.state_dict(), optimizer.state_dict()]
for state in saved[0], *saved[1]["state"].values():
    for value in state.values():
        if value.is_floating_point():
            value.add_(rank * 1e-3)
model.load_state_dict(saved[0])
optimizer.load_state_dict(saved[1])
step()
values()
'''
    check(len(same(run_script(text, 3), 3)) == 3, 'three lines')


@test
def another_model_on_one_worker():
    text = HEAD + '''
model = nn.Sequential(nn.Linear(6, 8 + rank), nn.Linear(8 + rank, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
F.cross_entropy(model(x), y).backward()
'''
    job = run_script(text, code=None)
    check(job.code != 0, 'it ended well')
    contains(job.err, 'o0/g0/p0', '48', '54')


# ---- what goes wrong

@test
def an_exception_in_backward_of_one_worker():
    text = HEAD + '''
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def fail(grad):
    raise ValueError("a hook of worker 1")
for number, (bx, by) in enumerate(loader()):
    if rank == 1 and number == 2:
        model[0].weight.register_hook(fail)
    try:
        optimizer.zero_grad()
        F.cross_entropy(model(bx), by).backward()
    except ValueError:
        if len(sys.argv) == 1:
            raise
    optimizer.step()
'''
    job = run_script(text, code=1)
    contains(job.err, 'worker 1', 'ValueError: a hook of worker 1')
    job = run_script(text, args=['catch'], code=1)  # and goes on
    contains(job.err, 'backward has raised an exception on')


@test
def an_early_end_of_one_worker():
    text = HEAD + '''
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number, (bx, by) in enumerate(loader()):
    if rank == 1 and number == 2:
        sys.exit(0)
    F.cross_entropy(model(bx), by).backward()
    optimizer.step()
'''
    job = run_script(text, code=None)
    check(job.code != 0, 'it ended well')
    contains(job.err, 'worker 1', 'loops must end at the same step')


@test
def forked_children_train_alone():
    text = HEAD + '''
model = net()
if rank == 0:
    early = os.fork()          # before there is a session
    if early == 0:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        F.cross_entropy(model(x), y).backward()
        optimizer.step()
        sys.exit(4)
    print("child", os.waitstatus_to_exitcode(os.waitpid(early, 0)[1]))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def step():
    optimizer.zero_grad()
    F.cross_entropy(model(x), y).backward()
    optimizer.step()
step()
if rank == 1:
    child = os.fork()
    if child == 0:
        for _ in range(3):
            step()
        sys.exit(5)
    print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
step()
print("sum", total(model))
'''
    job = run_script(text)
    same(job, 2)
    check(numbers(job.rank_out(0), 'child') == [4], job.rank_out(0))
    check(numbers(job.rank_out(1), 'child') == [5], job.rank_out(1))


# ---- by hand

@test
def calls_of_poseidon_torch():
    text = HEAD + '''
import poseidon.torch as psd
psd.init()
psd.init()
print("where", psd.rank() - rank + 10 * psd.size() + psd.local_size())
t = torch.arange(5.0) + psd.rank()
print("sum", psd.allreduce(t).sum().item())
print("sum", psd.allreduce(torch.tensor([psd.rank() + 1]), "sum").item())
print("sum", psd.allreduce(torch.ones(3, 2).t() * psd.rank(),
                           "max").sum().item())
for value in (torch.tensor([psd.rank() == 1] * 3), torch.full(
        (2, 3), psd.rank() + 0.5, dtype=torch.float16)):
    print("sum", psd.broadcast(value, 1).double().sum().item())
psd.barrier()
for call in (lambda: psd.allreduce(t, "min"),
             lambda: psd.allreduce(torch.ones(2, dtype=torch.bool)),
             lambda: psd.broadcast(t, 7)):
    try:
        call()
        print("sum -1")
    except (ValueError, TypeError):
        pass
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
count = exchanges()
def backward():
    bx, by = next(batches)
    F.cross_entropy(model(bx), by).backward()
data = loader(6)
for epoch in range(2):
    batches = iter(data)
    optimizer.zero_grad()
    backward()
    with psd.no_sync():
        backward()
        backward()
    backward()
    with psd.no_sync():
        backward()
    optimizer.step()
    print("sum", total(model))
print("sum", count[0])
'''
    job = run_script(text)
    got = same(job, 2)
    near(got[:5], [2 * 5 + 2.5, 3, 6, 3, 9])
    check(got[-1] == 6, '%r exchanges' % got[-1])
    alone = HEAD + '''
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for epoch in range(2):
    batches = iter(loader(6))
    optimizer.zero_grad()
    for _ in range(5):
        bx, by = next(batches)
        F.cross_entropy(model(bx), by).backward()
    optimizer.step()
    print("sum", total(model))
'''
    near(got[5:7], numbers(run_alone(alone), 'sum'))


@test
def by_hand_alone_and_without_injection():
    text = '''
import torch
import poseidon.torch as psd
psd.init()
psd.barrier()
with psd.no_sync():
    print("sum", psd.rank() + psd.size() + psd.allreduce(
        torch.ones(1)).item())
'''
    path = {'PYTHONPATH': common.ROOT + '/python'}
    check(numbers(run_alone(text, env=path), 'sum') == [2], 'alone')
    job = run_script(text, env=dict(path, PSD_DISABLE='1'))
    check(numbers(job.rank_out(1), 'sum') == [4], job.rank_out(1))


@test
def compiled_models():
    text = HEAD + '''
torch.manual_seed(2 + rank)  # rank 0's values must be there in time
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
fast = torch.compile(model, backend="aot_eager")
whole = torch.compile(lambda bx, by: F.cross_entropy(model(bx), by),
                      backend="aot_eager", fullgraph=True)
data = loader(6)
for number, (bx, by) in enumerate(data):
    optimizer.zero_grad()
    if number % 2 == 0:  # a compiled module is called first
        F.cross_entropy(fast(bx), by).backward()
    else:
        whole(bx, by).backward()
    optimizer.step()
    print("sum", total(model))
'''
    job = run_script(text)
    near(same(job, 2), numbers(run_alone(text), 'sum'))
    check('global hooks' not in job.err, job.err)


@test
def pushes_leave_inside_backward():
    """As a trace shows it: the last layer first, while backward runs."""
    text = HEAD + '''
model = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 64),
                      nn.Tanh(), nn.Linear(64, 3))
optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
for bx, by in loader():
    optimizer.zero_grad()
    F.cross_entropy(model(bx), by).backward()
    optimizer.step()
'''
    job = run_script(text, options=('--trace',))
    for rank in range(2):
        spans = json.loads(job.log('trace.w%d.json' % rank))['traceEvents']
        spans = [span for span in spans if span.get('ph') == 'X']
        passes = [span for span in spans if span['name'] == 'backward']
        check(len(passes) == 4, 'passes of w%d: %r' % (rank, passes))
        for one in passes[1:]:  # in the first, hooks are made
            names = [span['name'] for span in sorted(
                spans, key=lambda span: span['ts'])
                if span['name'].startswith('push ')
                and one['ts'] <= span['ts'] <= one['ts'] + one['dur']]
            order = [name.rpartition('/')[2] for name in names]
            check(len(order) == 6 and
                  {'p4', 'p5'} == set(order[:2]) and
                  {'p0', 'p1'} == set(order[4:]), 'pushes: %r' % names)


if __name__ == '__main__':
    sys.exit(common.main())
