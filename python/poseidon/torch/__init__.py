"""Poseidon for PyTorch, by hand.

Under psd_run nothing of this is needed: a script is a worker once it has
imported torch and made an optimizer. Those who like it explicit:

    import poseidon.torch as psd
    psd.init()
    ... psd.rank(), psd.size() ...
    with psd.no_sync():
        loss.backward()

Outside a job everything works alone: rank 0 of 1.
"""
from poseidon import _job, _lib

_TYPES = {"torch.float32": _lib.FLOAT32, "torch.float64": _lib.FLOAT64,
          "torch.float16": _lib.FLOAT16, "torch.bfloat16": _lib.BFLOAT16,
          "torch.int32": _lib.INT32, "torch.int64": _lib.INT64}
_OPS = {"mean": _lib.MEAN, "sum": _lib.SUM, "max": _lib.MAX}


def init():
    """Join the job now. Collective; calling it again does nothing."""
    import torch
    from poseidon import _boot
    from poseidon.torch import _patch, exchange
    if not _job.job().inside:
        return
    if not _patch.applied():
        if not _boot.claim():
            raise RuntimeError(
                "poseidon: psd.init() was called in a child of the worker; "
                "only the process that psd_run has launched can join")
        _patch.apply(torch)
    if _job.job().size == 1:
        _lib.session()
    else:
        exchange.join()


def rank():
    """Number of this worker, from 0."""
    return _job.job().rank


def size():
    """How many workers there are."""
    return _job.job().size


def local_rank():
    """Number of this worker on its host."""
    return _job.job().local_rank


def local_size():
    """How many workers are on this host."""
    return _job.job().local_size


def barrier():
    """Return when every worker has come here. Collective."""
    if size() > 1:
        _lib.check(_lib.library().psd_barrier(_session()))


def broadcast(tensor, root=0):
    """Give every worker the tensor of worker `root`, in place; any type.
    Collective. Returns the tensor."""
    import torch
    if not 0 <= root < size():
        raise ValueError("root is %r, the workers are 0..%d"
                         % (root, size() - 1))
    if size() == 1 or tensor.numel() == 0:
        return tensor
    with torch.no_grad():
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        flat = flat.view(torch.uint8)
        padded = torch.zeros(-(-flat.numel() // 8) * 8, dtype=torch.uint8)
        padded[:flat.numel()] = flat
        handle = _register("broadcast", _lib.INT64, padded.numel() // 8)
        _lib.check(_lib.library().psd_broadcast(
            _lib.session(), handle, padded.data_ptr(), root))
        value = padded[:flat.numel()].view(tensor.dtype)
        tensor.detach().copy_(value.reshape(tensor.shape))
    return tensor


def allreduce(tensor, op="mean"):
    """Make a tensor the mean, sum or max of all workers', in place.
    Collective. Returns the tensor."""
    import torch
    dtype = _TYPES.get(str(tensor.dtype))
    if op not in _OPS:
        raise ValueError("op is %r, it must be one of %s"
                         % (op, ", ".join(sorted(_OPS))))
    if dtype is None or tensor.layout is not torch.strided:
        raise TypeError("allreduce takes dense tensors of %s, not %s, %s"
                        % (", ".join(sorted(_TYPES)), tensor.dtype,
                           tensor.layout))
    if op == "mean" and not tensor.is_floating_point():
        raise TypeError("the mean of %s is not defined; use op='sum'"
                        % tensor.dtype)
    if size() == 1 or tensor.numel() == 0:
        return tensor
    with torch.no_grad():
        value = tensor.detach().cpu().contiguous()
        handle = _register("allreduce", dtype, value.numel())
        _lib.check(_lib.library().psd_push_pull(
            _lib.session(), handle, value.data_ptr(), 1.0, _OPS[op], None))
        if value.data_ptr() != tensor.data_ptr():
            tensor.detach().copy_(value)
    return tensor


def no_sync():
    """A context in which backward() does not exchange gradients: they add up
    and travel with the next pass or step outside."""
    from poseidon.torch import exchange
    return exchange.no_sync()


def _register(call, dtype, count):
    """The tensor for calls of this type and size."""
    _session()
    return _lib.tensor("call/%s/%d/%d" % (call, dtype, count), dtype, count)


def _session():
    """For a call in which this worker may wait for the others."""
    from poseidon.torch import save
    save.passing()
    return _lib.session()
