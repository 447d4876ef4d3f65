"""Runs for exchange_test.py whose graphs are unusual: gradients of gradients,
checkpoints, parameters that share memory, hooks. exchange_cases.py runs
them."""
import torch
from exchange_runs import Run, batches, blobs, case, mlp, train
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


@case
def penalty():
    """autograd.grad inside, then backward; and one with create_graph."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for bx, by in batches(x, y, steps=20):
        optimizer.zero_grad()
        bx.requires_grad_(True)
        out = model(bx)
        loss = F.cross_entropy(out, by)
        slope = torch.autograd.grad(out.sum(), bx, create_graph=True)[0]
        (loss + slope.pow(2).sum(1).mean()).backward()
        optimizer.step()
        run.note()
    return run


@case
def second_order():
    """A loss of the gradients themselves (create_graph, retain_graph)."""
    x, y = blobs()
    model = mlp(hidden=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for bx, by in batches(x, y, steps=10):
        optimizer.zero_grad()
        F.cross_entropy(model(bx), by).backward(create_graph=True)
        norm = sum(p.grad.pow(2).mean() for p in model.parameters())
        optimizer.zero_grad()
        norm.backward()
        optimizer.step()
        for parameter in model.parameters():
            parameter.grad = None
        run.note()
    return run


@case
def twice():
    """Two backward passes over one graph; a third for some inputs only."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for bx, by in batches(x, y, steps=20):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(bx), by)
        loss.backward(retain_graph=True)
        loss.backward(retain_graph=True)
        loss.backward(inputs=[model[0].weight])
        optimizer.step()
        run.note()
    return run


class Deep(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.reentrant = reentrant
        self.front = nn.Linear(10, 16)
        self.middle = nn.Linear(16, 16)  # used inside and outside
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.tanh(self.front(x))
        x = torch.tanh(checkpoint(self.middle, x,
                                  use_reentrant=self.reentrant))
        x = torch.tanh(checkpoint(self.middle, x,
                                  use_reentrant=self.reentrant))
        return self.head(torch.tanh(self.middle(x)))


@case
def checkpointed():
    x, y = blobs()
    torch.manual_seed(11)
    model = Deep(False)
    return train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1))


@case
def reentrant():
    x, y = blobs()
    torch.manual_seed(11)
    model = Deep(True)
    return train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1))


class Aliased(nn.Module):
    """The gradient of `shift` shares its memory with one that is still
    needed; `tall` has another layout; `spin` is complex."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 5) * 0.3)
        self.shift = nn.Parameter(torch.zeros(40))
        self.tall = nn.Parameter(torch.randn(5, 8).t())
        self.holes = nn.Parameter(torch.randn(8, 10)[:, ::2] * 0.1)
        self.spin = nn.Parameter(torch.randn(5, dtype=torch.complex64).to(
            torch.get_default_dtype().to_complex()))

    def table(self, x):
        scaled = self.weight * x
        return (self.shift.view(8, 5) + scaled) * self.tall.cos() + (
            self.holes)

    def forward(self, x):
        table = self.table(1.5) ** 2
        out = x[:, :8] @ table
        return out + (out * self.spin).abs()


@case
def layouts():
    x, _ = blobs()
    torch.manual_seed(12)
    model = Aliased()
    y = torch.randn(50, 5)
    return train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.01),
                 loss=F.mse_loss, steps=30)


@case
def hooks():
    """Hooks of the script: on tensors, and on accumulated gradients."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model[0].weight.register_hook(lambda grad: grad * 2)

    def halve(parameter):
        parameter.grad.mul_(0.5)

    model[2].weight.register_post_accumulate_grad_hook(halve)
    return train(model, x, y, optimizer)
