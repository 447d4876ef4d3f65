"""What the training runs of exchange_cases.py and exchange_graphs.py are made
of."""
import hashlib

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

STEPS = 50
BATCH = 12
CASES = {}
DEVICE = "cpu"


def case(function):
    CASES[function.__name__] = function
    return function


class Run:
    """Notes a loss after each step."""

    def __init__(self, evaluate, *modules):
        self.evaluate = evaluate
        self.modules = modules
        self.losses = []

    def note(self):
        with torch.no_grad():
            self.losses.append(float(self.evaluate()))

    def bits(self):
        digest = hashlib.sha256()
        for module in self.modules:
            for value in module.state_dict().values():
                value = value.detach().cpu()
                value = torch.view_as_real(value) if value.is_complex() else (
                    value)
                digest.update(value.to(torch.float64).contiguous().numpy()
                              .tobytes())
        return digest.hexdigest()


def batches(*tensors, size=BATCH, steps=STEPS):
    """`steps` batches out of a DataLoader, epoch after epoch."""
    generator = torch.Generator().manual_seed(7)
    loader = DataLoader(TensorDataset(*tensors), batch_size=size,
                        shuffle=True, generator=generator)
    count = 0
    while True:
        for batch in loader:
            yield batch
            count += 1
            if count == steps:
                return


def blobs(rows=50, width=10, classes=4):
    torch.manual_seed(3)
    x = torch.randn(rows, width)
    return x, (x[:, :classes].argmax(1) + (x[:, 5] > 0)) % classes


def mlp(width=10, hidden=16, classes=4):
    torch.manual_seed(4)
    return nn.Sequential(nn.Linear(width, hidden), nn.Tanh(),
                         nn.Linear(hidden, hidden), nn.Tanh(),
                         nn.Linear(hidden, classes))


def train(model, x, y, optimizer, loss=F.cross_entropy, before=None,
          steps=STEPS, size=BATCH, zero=None):
    model.to(DEVICE)
    wholes = x.to(DEVICE), y.to(DEVICE)
    run = Run(lambda: loss(model(wholes[0]), wholes[1]), model)
    for bx, by in batches(x, y, steps=steps, size=size):
        bx, by = bx.to(DEVICE), by.to(DEVICE)
        optimizer.zero_grad(**(zero or {}))
        loss(model(bx), by).backward()
        if before is not None:
            before()
        optimizer.step()
        run.note()
    return run
