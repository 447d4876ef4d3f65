"""Where gradients lie: in the shared arena while torch holds them, and what
that must not change for a script."""
import sys

import common
from common import check, run_script, test

# A net with large and small parameters, and a way to ask where memory is.
HEAD = """
import ctypes, os, torch
from torch import nn
from poseidon import _lib
from poseidon.torch import arena

torch.manual_seed(3)
net = nn.Sequential(nn.Linear(256, 512), nn.Tanh(), nn.Linear(512, 10))
large, small = net[0].weight, net[2].bias
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
x, y = torch.randn(16, 256), torch.randint(10, (16,))

def inside(tensor):
    call = _lib.library().psd_contains
    call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    return call(_lib.session(), tensor.data_ptr(),
                tensor.numel() * tensor.element_size())

def step(keep=None):
    optimizer.zero_grad()
    nn.functional.cross_entropy(net(x), y).backward()
    if keep is not None:
        keep.append(large.grad)
    optimizer.step()
"""


def job(text, workers=2, **more):
    return run_script(HEAD + text, workers=workers, **more)


def claims(job_, count, text):
    for rank in range(count):
        check(text in job_.rank_out(rank), 'worker %d: %s%s' % (
            rank, job_.rank_out(rank), job_.rank_err(rank)))


@test
def large_gradients_lie_in_the_arena_and_nothing_else_does():
    done = job("""
for _ in range(3):
    step()
    outside = torch.zeros(1 << 20)
    print(inside(large.grad), inside(small.grad), inside(large),
          inside(outside))
""")
    for rank in range(2):
        lines = done.rank_out(rank).split('\n')[:3]
        check(lines == ['1 0 0 0'] * 3, 'worker %d: %s' % (rank, lines))


@test
def memory_is_used_again_and_a_gradient_that_is_kept_is_not():
    done = job("""
places, kept = set(), []
for _ in range(10):
    step()
    places.add(large.grad.data_ptr())
for _ in range(4):
    step(kept)
alike = [x.clone() for x in kept]
for _ in range(10):
    step()
print(len(places) <= 2, len({x.data_ptr() for x in kept}),
      all(torch.equal(a, b) for a, b in zip(alike, kept)))
""")
    claims(done, 2, 'True 4 True')


@test
def gradients_outlive_the_session():
    done = job("""
step()
before = large.grad.sum().item()
_lib.close()
print(large.grad.sum().item() == before)
large.grad.zero_()
for p in net.parameters():
    p.grad = None
torch.ones(1 << 20)
print('still here')
""")
    claims(done, 2, 'True\nstill here')


@test
def a_forked_child_takes_nothing_and_gives_nothing_back():
    done = job("""
for _ in range(2):
    step()
place, total = large.grad.data_ptr(), large.grad.double().sum().item()
child = os.fork()
if child == 0:
    for p in net.parameters():
        p.grad = None
    arena.on()
    for _ in range(100):
        tensor = torch.full((1 << 18,), 7.0)
    os._exit(0 if tensor.data_ptr() != place else 1)
code = os.waitpid(child, 0)[1]
print(code, large.grad.data_ptr() == place and inside(large.grad),
      large.grad.double().sum().item() == total)
step()
""")
    claims(done, 2, '0 1 True')


@test
def workers_of_a_loader_and_a_second_thread_do_no_harm():
    done = job("""
import threading
from torch.utils.data import DataLoader, TensorDataset

stop = False
def other():
    while not stop:
        torch.ones(1 << 16).mul_(2)
thread = threading.Thread(target=other)
thread.start()
data = TensorDataset(torch.randn(64, 256), torch.randint(10, (64,)))
for _ in range(2):
    for x, y in DataLoader(data, 16, num_workers=1):
        step()
stop = True
thread.join()
print('sum %.9f' % sum(p.double().sum().item() for p in net.parameters()))
""")
    sums = {x.split('\n')[-2] for x in done.outs(2)}
    check(len(sums) == 1 and 'sum' in sums.pop(), str(done.outs(2)))


@test
def a_worker_alone_keeps_the_allocator_of_torch():
    done = run_script("""
import torch
net = torch.nn.Linear(512, 512)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
net(torch.randn(4, 512)).sum().backward()
optimizer.step()
from poseidon.torch import arena
print('on' if arena._on else 'off')
""", workers=1)
    claims(done, 1, 'off')


@test
def over_sockets_gradients_lie_in_the_arena_too():
    done = job("""
for _ in range(2):
    step()
print(inside(large.grad))
""", options=('--transport', 'tcp'))
    claims(done, 2, '1')


if __name__ == '__main__':
    sys.exit(common.main())
