"""The same start: the bits of rank 0 for everybody.

Happens at the first forward with gradients after an optimizer was made, and
again inside the first exchange after a load_state_dict. What takes part: the
parameters of optimizers, all other parameters and buffers of all modules, and
the state tensors of optimizers.
"""
import ctypes
import gc

from poseidon import _lib


def run(torch, table, statistics, values):
    """Broadcast. `values` are (name, tensor) of modules; collective."""
    taken, parts = set(), []

    def take(slot, tensor):
        if slot is not None and id(tensor) not in taken:
            taken.add(id(tensor))
            parts.append((slot, tensor))

    for slot in table.live:
        parameter = slot.ref()
        if parameter is not None:
            take(slot, parameter)
    statistics.announce()
    for name, tensor in values:
        if id(tensor) not in taken and _is_sendable(torch, table, tensor):
            take(statistics.known.get(name) or table.add_value(name, tensor),
                 tensor)
    for name, tensor in _states(torch, table):
        take(table.add_value(name, tensor), tensor)
    table.announce()
    _broadcast(torch, table, parts)
    table.unstarted = False
    statistics.freeze()


def collect():
    """Cycles that wait for the collector would count as living modules, on
    one worker and not on another."""
    gc.collect()


def _is_sendable(torch, table, tensor):
    return not table.is_lazy(tensor) and tensor.numel() > 0 and (
        tensor.layout is torch.strided and tensor.device.type != "meta")


def _states(torch, table):
    """[(name, tensor)]: state tensors of the optimizers."""
    found = []
    for optimizer, number in sorted(table.optimizers.items(),
                                    key=lambda item: item[1]):
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                state = optimizer.state.get(parameter)
                if not isinstance(state, dict):
                    continue
                for key, value in state.items():
                    if torch.is_tensor(value) and _is_sendable(
                            torch, table, value):
                        found.append(("o%d/g%d/p%d/%s" % (number, g, p, key),
                                      value))
    return found


def _broadcast(torch, table, parts):
    count = len(table.slots)
    addresses = (ctypes.c_void_p * count)()
    sizes = (ctypes.c_uint64 * count)()
    copies = []
    with torch.no_grad():
        for slot, tensor in parts:
            value = tensor.detach()
            if not _is_plain(torch, value):
                value = value.cpu().contiguous().clone()
                copies.append((tensor, value))
            addresses[slot.id] = value.data_ptr()
            sizes[slot.id] = value.numel() * value.element_size()
        _lib.check(_lib.library().psd_step_start(table.step, addresses, sizes,
                                                 count))
        for tensor, value in copies:
            tensor.detach().copy_(value)


def _is_plain(torch, value):
    """On the host, every element once, without holes."""
    if not value.is_cpu or value.is_conj() or value.is_neg():
        return False
    if value.is_contiguous():
        return True
    return torch.empty_like(value).stride() == value.stride()
