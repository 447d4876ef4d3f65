"""The models of the benchmark with torch, and the loop that times a step.

Used by torch_plain.py, a plain script, and torch_ddp.py, the same script
rewritten for DistributedDataParallel. Every process has its own batch of the
size that the table names. BENCH_MEET=FOLDER:COUNT lets COUNT processes begin
the measured steps together, whether they communicate or not.
"""
import json
import os
import resource
import time

import torch
from torch import nn


def mlp():
    net = nn.Sequential(nn.Linear(784, 4096), nn.ReLU(),
                        nn.Linear(4096, 4096), nn.ReLU(),
                        nn.Linear(4096, 10))
    return net, torch.randn(32, 784), torch.randint(10, (32,))


def vgg_head():
    net = nn.Sequential(nn.Linear(25088, 4096), nn.ReLU(),
                        nn.Linear(4096, 4096), nn.ReLU(),
                        nn.Linear(4096, 1000))
    return net, torch.randn(32, 25088), torch.randint(1000, (32,))


def cifar_quick():
    net = nn.Sequential(
        nn.Conv2d(3, 32, 5, padding=2), nn.MaxPool2d(3, 2, ceil_mode=True),
        nn.ReLU(),
        nn.Conv2d(32, 32, 5, padding=2), nn.ReLU(),
        nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(),
        nn.AvgPool2d(3, 2, ceil_mode=True),
        nn.Flatten(), nn.Linear(1024, 64), nn.Linear(64, 10))
    return net, torch.randn(100, 3, 32, 32), torch.randint(10, (100,))


class Transformer(nn.Module):
    """4 layers of width 128 over 64 tokens of 96 kinds, next token."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(96, 128)
        self.place = nn.Parameter(torch.zeros(64, 128))
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0,
                                           batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4,
                                            enable_nested_tensor=False)
        self.head = nn.Linear(128, 96)

    def forward(self, tokens):
        return self.head(self.layers(self.token(tokens) +
                                     self.place)).flatten(0, 1)


def transformer():
    tokens = torch.randint(96, (8, 65))
    return Transformer(), tokens[:, :-1], tokens[:, 1:].flatten()


# Their names in torch_peers.py.
MODELS = {"mlp": mlp, "vgg": vgg_head, "cifar": cifar_quick,
          "transformer": transformer}


def meet():
    """Wait until all processes of this run are here."""
    where = os.environ.get("BENCH_MEET")
    if where is None:
        return
    folder, count = where.rsplit(":", 1)
    open(os.path.join(folder, "here.%d" % os.getpid()), "w",
         encoding="ascii").close()
    while len(os.listdir(folder)) < int(count):
        time.sleep(0.002)


def train(net, data, target, steps, warm):
    """Train, and print what a step cost this process as a line of JSON."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loss_of = nn.CrossEntropyLoss()
    for number in range(warm + steps):
        if number == warm:
            meet()
            faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            wall, cpu = time.perf_counter(), time.process_time()
        optimizer.zero_grad()
        loss = loss_of(net(data), target)
        loss.backward()
        optimizer.step()
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - faults
    print(json.dumps({
        "wall_ms": 1e3 * wall / steps, "cpu_ms": 1e3 * cpu / steps,
        "faults": faults / steps, "steps": warm + steps,
        "bytes": sum(x.numel() * x.element_size()
                     for x in net.parameters()),
        "sum": sum(x.detach().double().sum().item()
                   for x in net.parameters())}), flush=True)
