"""A small transformer learns to write like a text, character by character.

    python char_transformer.py               a part of Shakespeare's Coriolanus
    python char_transformer.py FILE.txt      any text

Plain PyTorch for one process. Batches are drawn by hand: random places of the
text, no DataLoader.
"""
import argparse
import os

import torch
from torch import nn
from torch.nn import functional as F

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                    "shakespeare.txt")


class Block(nn.Module):
    """Attention to what came before, then a layer for each place."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.mix(self.norm1(x)).reshape(
            batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    def __init__(self, letters, args):
        super().__init__()
        self.context = args.context
        self.letter = nn.Embedding(letters, args.width)
        self.place = nn.Embedding(args.context, args.width)
        self.blocks = nn.Sequential(*[Block(args.width, args.heads)
                                      for _ in range(args.layers)])
        self.norm = nn.LayerNorm(args.width)
        self.head = nn.Linear(args.width, letters)

    def forward(self, x, target=None):
        x = self.letter(x) + self.place.weight[:x.shape[1]]
        x = self.head(self.norm(self.blocks(x)))
        if target is None:
            return x
        return F.cross_entropy(x.flatten(0, 1), target.flatten())

    @torch.no_grad()
    def write(self, x, count):
        for _ in range(count):
            chance = self(x[:, -self.context:])[:, -1].softmax(-1)
            x = torch.cat([x, torch.multinomial(chance, 1)], 1)
        return x[0].tolist()


def windows(data, starts, context):
    """The letters at these places, and those that follow each."""
    x = torch.stack([data[i:i + context] for i in starts])
    y = torch.stack([data[i + 1:i + context + 1] for i in starts])
    return x, y


@torch.no_grad()
def evaluate(model, data, context):
    """The mean loss over the text that was kept back."""
    model.eval()
    starts = range(0, len(data) - context - 1, context)
    loss = model(*windows(data, starts, context)).item()
    model.train()
    return loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("text", nargs="?", default=TEXT)
    for name, value in (("steps", 200), ("batch", 32), ("context", 64),
                        ("width", 128), ("heads", 4), ("layers", 2),
                        ("report", 50), ("letters", 200), ("seed", 1)):
        parser.add_argument("--" + name, type=int, default=value)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--save", metavar="FILE",
                        help="checkpoint: written at each report, and read "
                        "at the start when it is there")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    with open(args.text, encoding="utf-8") as file:
        text = file.read()
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    data = torch.tensor([number[letter] for letter in text])
    kept = len(data) // 10
    train, test = data[:-kept], data[-kept:]

    model = Transformer(len(letters), args)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.rate)
    first = 0
    if args.save and os.path.exists(args.save):
        state = torch.load(args.save)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    for step in range(first + 1, args.steps + 1):
        starts = torch.randint(len(train) - args.context - 1, (args.batch,))
        loss = model(*windows(train, starts, args.context))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % args.report == 0 or step == args.steps:
            print("step %d: test loss %.6f"
                  % (step, evaluate(model, test, args.context)), flush=True)
            if args.save:
                torch.save({"model": model.state_dict(), "step": step,
                            "optimizer": optimizer.state_dict()}, args.save)
    if args.letters:
        model.eval()
        begin = torch.tensor([[number["\n"]]])
        print("".join(letters[i] for i in model.write(begin, args.letters)))


if __name__ == "__main__":
    main()
