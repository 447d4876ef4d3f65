"""PyTorch under Keras: what poseidon/keras asks for, by its ground.py."""
import numpy as np
import torch

from poseidon.torch import data, exchange, modules

join, loaded = exchange.join, exchange.loaded
batch, alone = data.working_on, modules.alone
key = id


def plain(function):
    return function


def raw(variable):
    value = getattr(variable, "_value", variable)
    return value if isinstance(value, torch.Tensor) else None


def is_number(tensor):
    return not tensor.is_complex() and tensor.dtype is not torch.bool


def is_float(tensor):
    return tensor.is_floating_point()


def read(tensor):
    """By way of float64 where numpy has no such type."""
    value = tensor.detach().cpu()
    if value.dtype is torch.bfloat16:
        value = value.double()
    return np.array(value)


def write(tensor, value):
    with torch.no_grad():
        tensor.copy_(torch.from_numpy(np.asarray(value)))


def tell(logs):
    """The meter has seen the loss of the step."""
