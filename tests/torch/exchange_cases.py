"""Training runs for exchange_test.py: ordinary scripts, of a few steps each.

    exchange_cases.py [--float64] [--cuda] [NAME...]

Runs the cases of these names, or all, and prints a line of JSON for each:
the loss on a fixed batch after each step, and the bits of the parameters.
The same file runs with and without psd_run; it knows nothing of it.
--cuda is for those cases that use train(): models move to the device when
their optimizer was made already.
"""
import copy
import io
import json
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

sys.path.append(os.path.dirname(os.path.abspath(__file__)))
import exchange_graphs  # noqa: E402,F401  its cases
import exchange_runs  # noqa: E402
from exchange_runs import (  # noqa: E402
    CASES, Run, batches, blobs, case, mlp, train)

# ---- models

@case
def plain_mlp():
    x, y = blobs()
    model = mlp()
    return train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1,
                                              momentum=0.9))


@case
def adamw_clip():
    x, y = blobs()
    model = mlp()
    return train(model, x, y, torch.optim.AdamW(model.parameters(), lr=1e-2),
                 before=lambda: nn.utils.clip_grad_norm_(
                     model.parameters(), 0.3))


@case
def fused_zeros():
    """fused optimizer, gradients zeroed in place."""
    x, y = blobs()
    model = mlp()
    return train(model, x, y, torch.optim.Adam(model.parameters(), lr=1e-2,
                                               fused=True),
                 zero={"set_to_none": False})


@case
def foreach():
    x, y = blobs()
    model = mlp()
    return train(model, x, y, torch.optim.RMSprop(
        model.parameters(), lr=1e-3, foreach=True))


@case
def lenet():
    torch.manual_seed(5)
    x, y = torch.randn(40, 1, 12, 12), torch.randint(0, 5, (40,))
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.MaxPool2d(2),
                          nn.Conv2d(4, 8, 3), nn.ReLU(), nn.Flatten(),
                          nn.Linear(72, 20), nn.ReLU(), nn.Linear(20, 5))
    model = model.to(memory_format=torch.channels_last)
    return train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.05))


class Words(nn.Module):
    def __init__(self, words=20, width=16):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.place = nn.Parameter(torch.randn(6, width) * 0.1)
        layer = nn.TransformerEncoderLayer(width, 2, 32, dropout=0.0,
                                           batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2,
                                            enable_nested_tensor=False)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.words.weight  # shared

    def forward(self, x):
        return self.head(self.layers(self.words(x) + self.place))


@case
def transformer():
    torch.manual_seed(6)
    x = torch.randint(0, 20, (40, 6))
    y = (x * 3 + 1) % 20
    model = Words()
    return train(model, x, y, torch.optim.AdamW(model.parameters(), lr=1e-3),
                 loss=lambda out, want: F.cross_entropy(
                     out.reshape(-1, 20), want.reshape(-1)))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(5, 12, 2, batch_first=True)
        self.head = nn.Linear(12, 1)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1]).squeeze(-1)


@case
def lstm():
    torch.manual_seed(8)
    x = torch.randn(40, 7, 5)
    model = Recurrent()
    return train(model, x, x.sum((1, 2)).tanh(),
                 torch.optim.Adam(model.parameters(), lr=1e-2),
                 loss=F.mse_loss)


@case
def gan():
    torch.manual_seed(9)
    real, noise = torch.randn(48, 6) * 0.5 + 1, torch.randn(48, 3)
    g = nn.Sequential(nn.Linear(3, 12), nn.Tanh(), nn.Linear(12, 6))
    og = torch.optim.Adam(g.parameters(), lr=1e-2)
    d = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 1))
    od = torch.optim.Adam(d.parameters(), lr=1e-2)
    bce = F.binary_cross_entropy_with_logits

    def score(x, want):
        out = d(x)
        return bce(out, torch.full_like(out, want))

    run = Run(lambda: score(real, 1.0) + score(g(noise), 0.0), g, d)
    for x, z in batches(real, noise):
        od.zero_grad()
        score(x, 1.0).backward()
        score(g(z).detach(), 0.0).backward()
        od.step()
        og.zero_grad()
        score(g(z), 1.0).backward()  # leaves gradients in d, too
        og.step()
        run.note()
    return run


@case
def sparse():
    torch.manual_seed(10)
    x, y = torch.randint(0, 30, (40, 4)), torch.randint(0, 3, (40,))
    table = nn.Embedding(30, 8, sparse=True)
    head = nn.Linear(8, 3)
    both = nn.ModuleList([table, head])
    o1 = torch.optim.SparseAdam(table.parameters(), lr=1e-2)
    o2 = torch.optim.SGD(head.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(head(table(x).mean(1)), y), both)
    for bx, by in batches(x, y):
        o1.zero_grad()
        o2.zero_grad()
        F.cross_entropy(head(table(bx).mean(1)), by).backward()
        o1.step()
        o2.step()
        run.note()
    return run


@case
def sparse_by_data():
    """Rows of the table that only some workers have; sums, kept for two
    passes; in some passes nobody has any."""
    torch.manual_seed(17)
    x, y = torch.randint(0, 30, (48, 4)), torch.randint(0, 3, (48,))
    x[::3] = 0
    table = nn.Embedding(30, 8, sparse=True)
    rest = nn.Linear(4, 3), nn.Linear(8, 3)
    both = nn.ModuleList([table, *rest])
    optimizer = torch.optim.SGD(both.parameters(), lr=0.01)
    kind = torch.get_default_dtype()

    def model(bx):
        out = rest[0](bx.to(kind) / 30)
        rows = bx[:, 0] > 22
        if rows.any():
            out = out.clone()
            out[rows] = out[rows] + rest[1](table(bx[rows]).sum(1))
        return out

    run = Run(lambda: F.cross_entropy(model(x), y), both)
    for number, (bx, by) in enumerate(batches(x, y, size=6)):
        F.cross_entropy(model(bx), by, reduction="sum").backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
            run.note()
    return run


# ---- accumulation, scaling, closures

@case
def accumulate():
    """Two micro-batches a step; every fifth time three."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    count = steps = 0
    optimizer.zero_grad()
    for bx, by in batches(x, y):
        (F.cross_entropy(model(bx), by) / 2).backward()
        count += 1
        if count == (3 if steps % 5 == 4 else 2):
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            run.note()
            count, steps = 0, steps + 1
    return run


@case
def ignored():
    """Targets that do not count, other numbers of them in each batch; two
    passes a step."""
    x, y = blobs()
    y = torch.where(x[:, 3] > 0.4, torch.full_like(y, -100), y)
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for number, (bx, by) in enumerate(batches(x, y)):
        (F.cross_entropy(model(bx), by) / 2).backward()
        if number % 2:
            optimizer.step()
            optimizer.zero_grad()
            run.note()
    return run


@case
def accumulate_sum():
    """Sums, and gradients that are never cleared."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    first = None
    for bx, by in batches(x, y):
        F.cross_entropy(model(bx), by, reduction="sum").backward()
        grad = model[0].weight.grad
        first = grad if first is None else first
        if first is not grad:
            raise AssertionError("another tensor took the gradient's place")
        optimizer.step()
        run.note()
    return run


@case
def scaler():
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scale = torch.amp.GradScaler("cpu", init_scale=2.0 ** 10)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for number, (bx, by) in enumerate(batches(x, y)):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(bx), by)
        if number == 20:
            loss = loss * float("inf")
        scale.scale(loss).backward()
        scale.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        scale.step(optimizer)
        scale.update()
        run.note()
    return run


def with_closures(steps, evaluate, **words):
    """LBFGS; evaluate(model, x, y), or None: what the steps return."""
    x, y = blobs()
    model = mlp(hidden=6)
    optimizer = torch.optim.LBFGS(model.parameters(), **words)
    run = Run(lambda: evaluate(model, x, y), model)
    for bx, by in batches(x, y, steps=steps, size=25):
        def closure():
            optimizer.zero_grad()
            loss = F.cross_entropy(model(bx), by)
            loss.backward()
            return loss
        loss = optimizer.step(closure)
        if evaluate is None:
            run.losses.append(loss.item())
        else:
            run.note()
    return run


@case
def lbfgs():
    return with_closures(
        6, lambda model, x, y: F.cross_entropy(model(x), y), lr=0.1,
        max_iter=4)


@case
def wolfe():
    """The search takes the losses that the closure returns."""
    return with_closures(3, None, max_iter=3, line_search_fn="strong_wolfe")


@case
def deciding():
    """The loss that the script sees ends loops and lowers the rate."""
    x, y = blobs()
    model = mlp(hidden=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.4)
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, patience=0, threshold=0.05)
    run = Run(None, model)
    for step, (bx, by) in enumerate(batches(x, y, size=9)):
        before = F.cross_entropy(model(bx), by, reduction="sum")
        own = before.item()
        optimizer.zero_grad()
        (before if step % 2 else before / len(bx)).backward()
        optimizer.step()
        run.losses.append(before.item() if step % 2 else 1.0)
        plateau.step(own)
        if step > 20 and before.item() > run.losses[-3] > 1.0:
            break
    return run


@case
def by_hand():
    """Gradients of autograd.grad, and of torch.func for single rows."""
    x, y = blobs()
    model = mlp(hidden=6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), model)

    def loss(values, row, label):
        out = torch.func.functional_call(model, values, (row[None],))
        return F.cross_entropy(out, label[None])

    rows = torch.func.vmap(torch.func.grad(loss), (None, 0, 0))
    for step, (bx, by) in enumerate(batches(x, y, steps=6, size=9)):
        values = dict(model.named_parameters())
        if step % 2:
            grads = torch.autograd.grad(F.cross_entropy(model(bx), by),
                                        list(values.values()))
        else:
            grads = [g.mean(0) for g in rows(
                {key: p.detach() for key, p in values.items()}, bx,
                by).values()]
        for parameter, grad in zip(values.values(), grads):
            parameter.grad = grad
        optimizer.step()
        run.note()
    return run


@case
def inside_backward():
    """An optimizer per parameter that steps in a hook."""
    x, y = blobs()
    model = mlp()
    optimizers = {p: torch.optim.SGD([p], lr=0.1, momentum=0.5)
                  for p in model.parameters()}

    def hook(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(hook)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for bx, by in batches(x, y, steps=10):
        F.cross_entropy(model(bx), by).backward()
        run.note()
    return run


# ---- parameters that come, go and change

class Branches(nn.Module):
    """Some layers are used in some steps, one never."""

    def __init__(self):
        super().__init__()
        self.front = nn.Linear(10, 8)
        self.left, self.right = nn.Linear(8, 4), nn.Linear(8, 4)
        self.never = nn.Linear(3, 3)
        self.count = 0

    def forward(self, x):
        x = torch.tanh(self.front(x))
        if self.training:
            self.count += 1
        return self.left(x) if self.count // 20 % 2 else self.right(x)


@case
def branches():
    x, y = blobs()
    torch.manual_seed(13)
    model = Branches()
    run = train(model, x, y, torch.optim.AdamW(model.parameters(), lr=1e-2))
    if model.never.weight.grad is not None:
        raise AssertionError("a gradient that nobody made")
    return run


@case
def by_data():
    """A layer that only rows of one kind reach: on some workers only."""
    x, y = blobs()
    torch.manual_seed(14)
    front, extra = nn.Linear(10, 4), nn.Linear(10, 4)
    both = nn.ModuleList([front, extra])

    def model(bx):
        out = front(bx)
        rows = bx[:, 0] > 1.2
        if rows.any():
            out = out.clone()
            out[rows] = out[rows] + extra(bx[rows])
        return out

    optimizer = torch.optim.SGD(both.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), both)
    for bx, by in batches(x, y, size=4):
        optimizer.zero_grad()
        F.cross_entropy(model(bx), by).backward()
        optimizer.step()
        run.note()
    return run


@case
def frozen():
    """Frozen at first, thawed later; then another group."""
    x, y = blobs()
    model = mlp()
    model[0].requires_grad_(False)
    model[4].requires_grad_(False)
    optimizer = torch.optim.SGD(
        [p for layer in model[:4] for p in layer.parameters()], lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for number, (bx, by) in enumerate(batches(x, y, steps=30)):
        if number == 10:
            model[0].requires_grad_(True)
        if number == 20:
            model[4].requires_grad_(True)
            optimizer.add_param_group({"params": model[4].parameters()})
        optimizer.zero_grad()
        F.cross_entropy(model(bx), by).backward()
        optimizer.step()
        run.note()
    return run


@case
def moved():
    """The model changes its type after the optimizer was made, and again
    while training."""
    x, y = blobs()
    x = x.double()
    model = mlp().float()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model.double()
    run = Run(lambda: F.cross_entropy(model(x.to(
        model[0].weight.dtype)), y), model)
    for number, (bx, by) in enumerate(batches(x, y, steps=20)):
        if number == 10 and torch.get_default_dtype() is torch.float32:
            model.float()
        optimizer.zero_grad()
        F.cross_entropy(model(bx.to(model[0].weight.dtype)), by).backward()
        optimizer.step()
        run.note()
    return run


@case
def copied():
    """A deep copy of model and optimizer goes on."""
    x, y = blobs()
    first = mlp()
    pair = (first, torch.optim.SGD(first.parameters(), lr=0.1, momentum=0.9))
    train(*pair[:1], x, y, pair[1], steps=5)
    model, optimizer = copy.deepcopy(pair)
    return train(model, x, y, optimizer, steps=15)


@case
def reloaded():
    """state_dict saved and loaded in the middle, assigned at the end."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    train(model, x, y, optimizer, steps=8)
    file = io.BytesIO()
    torch.save([model.state_dict(), optimizer.state_dict()], file)
    train(model, x, y, optimizer, steps=5)
    file.seek(0)
    saved = torch.load(file)
    model.load_state_dict(saved[0])
    optimizer.load_state_dict(saved[1])
    run = train(model, x, y, optimizer, steps=8)
    model.load_state_dict(saved[0], assign=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run.losses += train(model, x, y, optimizer, steps=8).losses
    return run


@case
def kept():
    """Gradients that the script keeps stay what they were."""
    x, y = blobs()
    model = mlp()
    history, sums = [], []

    def keep():
        history.append(model[0].weight.grad)
        sums.append(history[-1].clone())

    run = train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1),
                before=keep, steps=10)
    for grad, was in zip(history, sums):
        if not torch.equal(grad, was):
            raise AssertionError("a kept gradient has changed")
    return run


@case
def caught():
    """An exception inside backward on all workers that the script catches."""
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(lambda: F.cross_entropy(model(x), y), model)

    def fail(grad):
        raise ValueError("on purpose")

    for number, (bx, by) in enumerate(batches(x, y, steps=20)):
        optimizer.zero_grad()
        out = model(bx)
        handle = None
        if number % 7 == 5:
            handle = model[2].weight.register_hook(fail)
        try:
            F.cross_entropy(out, by).backward()
        except ValueError:
            optimizer.zero_grad()
        if handle is not None:
            handle.remove()
        optimizer.step()
        run.note()
    return run


# ---- not the single run's numbers, but the same on all workers

@case
def batch_norm():
    """Statistics of parts of a batch are others than those of the whole."""
    x, y = blobs()
    torch.manual_seed(15)
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(),
                          nn.Linear(16, 4))
    run = train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.1))
    model.eval()
    run.losses = []
    run.note()
    return run


@case
def bfloat16():
    x, y = blobs()
    model = mlp().bfloat16()
    return train(model, x.bfloat16(), y,
                 torch.optim.SGD(model.parameters(), lr=0.05))


@case
def autocast():
    x, y = blobs()
    model = mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    run = Run(lambda: F.cross_entropy(model(x), y), model)
    for bx, by in batches(x, y):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(bx), by)
        loss.backward()
        optimizer.step()
        run.note()
    return run


def main():
    words = sys.argv[1:]
    if "--cuda" in words:
        words.remove("--cuda")
        exchange_runs.DEVICE = "cuda"
        torch.backends.cudnn.allow_tf32 = False  # float32 is what is compared
    if "--float64" in words:
        words.remove("--float64")
        torch.set_default_dtype(torch.float64)
    for name in words or CASES:
        run = CASES[name]()
        print(json.dumps({"case": name, "bits": run.bits(),
                          "losses": run.losses}), flush=True)


if __name__ == "__main__":
    main()
