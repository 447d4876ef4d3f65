#!/usr/bin/env python3
"""Gradients on a CUDA device: training runs on several workers against the
same runs alone. Skipped where torch sees no device; the workers share one.

    PYTHON cuda_test.py --build DIR [PATTERN...]

Prints TAP; common.py says how jobs are run.
"""
import json
import sys

import torch

from common import Skip, check, main, run_alone, run_script, test

SCRIPT = '''
import hashlib, json, sys
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

name = sys.argv[1]
torch.backends.cudnn.allow_tf32 = False
torch.backends.cudnn.deterministic = True
torch.manual_seed(0)
if name != "autocast":
    torch.set_default_dtype(torch.float64)
x, y = torch.randn(480, 1, 28, 28), torch.randint(10, (480,))
if name == "conv":
    net = nn.Sequential(nn.Conv2d(1, 8, 5), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Conv2d(8, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
                        nn.Flatten(), nn.Linear(256, 10))
elif name == "sparse":
    x = torch.randint(500, (480, 7))
    net = nn.Sequential(nn.EmbeddingBag(500, 16, sparse=True),
                        nn.Linear(16, 10))
else:
    net = nn.Sequential(nn.Flatten(), nn.Linear(784, 300), nn.ReLU(),
                        nn.Linear(300, 10))
if name == "channels":
    net = nn.Sequential(nn.Conv2d(1, 8, 5), nn.Conv2d(8, 64, 5),
                        nn.Flatten(), nn.Linear(25600, 10))
    net = net.to(memory_format=torch.channels_last)
net = net.cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
scaler = torch.amp.GradScaler("cuda", enabled=name == "autocast")
loader = DataLoader(TensorDataset(x, y), batch_size=48, shuffle=True,
                    pin_memory=True)
losses = []
for epoch in range(3):
    for number, (a, b) in enumerate(loader):
        a, b = a.cuda(non_blocking=True), b.cuda(non_blocking=True)
        with torch.autocast("cuda", torch.float16,
                            enabled=name == "autocast"):
            loss = F.cross_entropy(net(a), b)
        scaler.scale(loss / 2 if name == "accumulate" else loss).backward()
        if name == "accumulate" and number % 2 == 0:
            continue
        scaler.unscale_(optimizer)
        if name != "sparse":
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
bits = hashlib.sha256()
for parameter in net.parameters():
    bits.update(parameter.detach().cpu().numpy().tobytes())
print(json.dumps([bits.hexdigest(), [p.detach().double().sum().item()
                                     for p in net.parameters()]]))
'''
LIMITS = {'autocast': 1e-2}


def compare(name, workers):
    if not torch.cuda.is_available():
        raise Skip('torch sees no CUDA device')
    alone = json.loads(run_alone(SCRIPT, [name]))[1]
    job = run_script(SCRIPT, workers, ['--digest', 'step'], [name])
    rows = [json.loads(out) for out in job.outs(workers)]
    check(all(row == rows[0] for row in rows), 'replicas differ: %r' % rows)
    check(' 0 differences' in job.err, job.err)
    for got, want in zip(rows[0][1], alone):
        check(abs(got - want) <= LIMITS.get(name, 1e-9) * (1 + abs(want)),
              '%r, alone %r' % (rows[0][1], alone))


def add(name, workers):
    def compared():
        compare(name, workers)
    compared.__name__ = 'cuda_%s_%d' % (name, workers)
    test(compared)


for case in ('mlp', 'conv', 'channels', 'accumulate', 'autocast', 'sparse'):
    add(case, 2)
add('mlp', 4)

sys.exit(main())
