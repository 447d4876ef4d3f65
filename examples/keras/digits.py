"""Handwritten digits for the examples: MNIST from a folder, or the 8 x 8
digits beside these examples."""
import gzip
import os
import struct

import numpy as np

DIGITS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "data",
                      "digits.csv")


def load(folder=None):
    """(images, labels) to train on and to test with, images in 0..1."""
    return load_mnist(folder) if folder else load_digits()


def load_mnist(folder):
    def part(name):
        images = read_idx(folder, name + "-images-idx3-ubyte")
        labels = read_idx(folder, name + "-labels-idx1-ubyte")
        return (images[..., None] / 255).astype("float32"), (
            labels.astype("int64"))

    return part("train"), part("t10k")


def read_idx(folder, name):
    """One of MNIST's files: a head that tells the shape, then bytes."""
    path = os.path.join(folder, name)
    packed = not os.path.exists(path)
    with (gzip.open(path + ".gz") if packed else open(path, "rb")) as file:
        data = file.read()
    dims = data[3]
    shape = struct.unpack(">%dI" % dims, data[4:4 + 4 * dims])
    return np.frombuffer(data, np.uint8, offset=4 + 4 * dims).reshape(shape)


def load_digits():
    rows = np.loadtxt(DIGITS, delimiter=",")
    images = (rows[:, :64].reshape(-1, 8, 8, 1) / 16).astype("float32")
    labels = rows[:, 64].astype("int64")
    return (images[:-360], labels[:-360]), (images[-360:], labels[-360:])
