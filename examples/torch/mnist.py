"""A convolutional network learns to read handwritten digits.

    python mnist.py                      the 8 x 8 digits beside this example
    python mnist.py --data FOLDER        MNIST: the four idx files, .gz or not

Plain PyTorch for one process: a DataLoader, a model, an optimizer, a loop.
"""
import argparse
import gzip
import os
import struct

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                      "digits.csv")


def read_idx(folder, name):
    """One of MNIST's files: a head that tells the shape, then bytes."""
    path = os.path.join(folder, name)
    packed = not os.path.exists(path)
    with (gzip.open(path + ".gz") if packed else open(path, "rb")) as file:
        data = file.read()
    dims = data[3]
    shape = struct.unpack(">%dI" % dims, data[4:4 + 4 * dims])
    return torch.frombuffer(bytearray(data[4 + 4 * dims:]),
                            dtype=torch.uint8).reshape(shape)


def load_mnist(folder):
    def part(name):
        images = read_idx(folder, name + "-images-idx3-ubyte")
        labels = read_idx(folder, name + "-labels-idx1-ubyte")
        return TensorDataset(images.unsqueeze(1).float() / 255, labels.long())

    return part("train"), part("t10k")


def load_digits():
    with open(DIGITS) as file:
        rows = torch.tensor([[float(word) for word in line.split(",")]
                             for line in file])
    images = rows[:, :64].reshape(-1, 1, 8, 8) / 16
    return random_split(TensorDataset(images, rows[:, 64].long()),
                        [len(rows) - 360, 360])


class Net(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1)
        self.fc1 = nn.Linear(32 * (size // 4) ** 2, 64)
        self.fc2 = nn.Linear(64, 10)

    def forward(self, x):
        x = F.avg_pool2d(torch.tanh(self.conv1(x)), 2)
        x = F.avg_pool2d(torch.tanh(self.conv2(x)), 2)
        return self.fc2(torch.tanh(self.fc1(x.flatten(1))))


def evaluate(model, loader):
    """Mean loss and share of right answers, in per cent."""
    model.eval()
    loss = right = count = 0
    with torch.no_grad():
        for images, labels in loader:
            answer = model(images)
            loss += F.cross_entropy(answer, labels, reduction="sum").item()
            right += (answer.argmax(1) == labels).sum().item()
            count += len(labels)
    model.train()
    return loss / count, 100 * right / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", metavar="FOLDER",
                        help="MNIST's files; without it the digits beside")
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save", metavar="FILE", help="where the model goes")
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    train, test = load_mnist(args.data) if args.data else load_digits()
    size = train[0][0].shape[-1]
    loader = DataLoader(train, batch_size=args.batch, shuffle=True)
    judge = DataLoader(test, batch_size=1000)
    model = Net(size)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.rate, momentum=0.9)
    for epoch in range(args.epochs):
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        print("epoch %d: test loss %.6f, accuracy %.2f %%"
              % (epoch + 1, *evaluate(model, judge)), flush=True)
    if args.save:
        torch.save(model.state_dict(), args.save)


if __name__ == "__main__":
    main()
