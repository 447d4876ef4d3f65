"""Sparse gradients (embeddings): indices and values travel, never a dense
gradient. The answer is made of what libposeidon has collected."""
import ctypes

from poseidon import _lib


def push(step, slot, grad):
    """Hand a sparse gradient over; what has to be kept until the end of the
    pass."""
    torch = _torch()
    if grad.layout is not torch.sparse_coo:
        raise TypeError(
            "poseidon: the gradient of %s has layout %s; only strided and "
            "sparse_coo gradients can be exchanged" % (slot.name, grad.layout))
    grad = grad.detach().coalesce()
    indices = grad.indices().cpu().contiguous()
    values = grad.values().cpu().contiguous()
    width = _units(values) // max(1, values.shape[0])
    if values.shape[0] == 0:
        width = _width(slot, grad)
    _lib.check(_lib.library().psd_step_push_sparse(
        step, slot.id, indices.data_ptr(), indices.shape[1],
        indices.shape[0], values.data_ptr(), width))
    return indices, values


def result(step, slot, like):
    """The answer, like the gradient `like` (None: of a worker that had
    none)."""
    torch = _torch()
    indices, values = ctypes.c_void_p(), ctypes.c_void_p()
    count = ctypes.c_uint64()
    _lib.check(_lib.library().psd_step_sparse_result(
        step, slot.id, ctypes.byref(indices), ctypes.byref(values),
        ctypes.byref(count)))
    parameter = slot.ref()
    shape = tuple(slot.shape)
    dims = like.sparse_dim() if like is not None else 1
    device = None if parameter is None else parameter.device
    rows = _copy(torch, indices, (dims, count.value), torch.int64)
    cells = _copy(torch, values, (count.value,) + shape[dims:], slot.dtype)
    return torch.sparse_coo_tensor(rows, cells, shape, device=device,
                                   check_invariants=False).coalesce()


def _copy(torch, address, shape, dtype):
    made = torch.empty(shape, dtype=dtype)
    size = made.numel() * made.element_size()
    if size:
        ctypes.memmove(made.data_ptr(), address, size)
    return made


def _units(values):
    return values.numel() * (2 if values.dtype.is_complex else 1)


def _width(slot, grad):
    width = 2 if grad.dtype.is_complex else 1
    for size in tuple(slot.shape)[grad.sparse_dim():]:
        width *= size
    return width


def _torch():
    import torch
    return torch
