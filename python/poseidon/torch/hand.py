"""Batches that the script draws by hand: torch.randint and an index.

Without a DataLoader every worker draws its own batch (seed.py makes the
draws differ), and one line says what the global batch is. With --batch
split-random the results of one-dimensional torch.randint calls are drawn
from the common stream and cut like a DataLoader's indices. A permutation
(torch.randperm) that is sliced later cannot be cut.
"""
import functools

from poseidon import _job
from poseidon.shared import lines, rows
from poseidon.torch import forward, hint, phase, seed

_torch = None
_on_cut = None       # called when a batch is cut
_real = {}           # name: torch's own function
_count = None        # rows of the last batch drawn by hand
_permuted = False
_batch = None        # the last that was cut
_new = True          # nothing was cut since the last backward


def install(torch, on_cut):
    global _torch, _on_cut
    _torch, _on_cut = torch, on_cut
    for name, maker in (("randint", _randint), ("randperm", _randperm)):
        _real[name] = getattr(torch, name)
        setattr(torch, name, functools.wraps(_real[name])(maker(
            _real[name])))


def uninstall():
    global _batch, _count, _permuted, _new
    stop()
    _batch, _count, _permuted, _new = None, None, False, True


def stop():
    """Watch no longer: a DataLoader gives the batches, or all was said."""
    while _real:
        name, real = _real.popitem()
        setattr(_torch, name, real)


def batch():
    """The rows.Batch of the last draw that was cut."""
    return _batch


def backward_seen(alone):
    """The step's batch is used. alone: this is the first backward pass, and
    no DataLoader gave its batch."""
    global _new
    _new = True
    if not _real:
        return
    if alone and _batch is None:
        lines.once(_describe())
    if _job.job().batch != "split-random":
        stop()


def _describe():
    job = _job.job()
    if seed.untouched():
        return ("no DataLoader seen, and nothing drawn at random%s: all "
                "workers compute the same%s" % ((
                    " but by the script's own generators",
                    "; --batch split-random cuts the batch instead")
                    if _count is not None else ("", "")))
    if _count is not None:
        text = "global batch %d = %d x %d (per-worker)%s" % (
            job.size * _count, job.size, _count,
            "; --batch split-random cuts the batch instead")
    else:
        text = "global batch %d x the script's (per-worker)%s" % (
            job.size, "; slices of torch.randperm cannot be cut" if _permuted
            else "")
    return "no DataLoader seen: every worker draws its own batch, " + text


def _size(args, kwargs):
    """The one dimension that is asked for, None: not one, or not many."""
    size = kwargs.get("size")
    if size is None:
        sizes = [arg for arg in args if isinstance(arg, (tuple, list))]
        size = sizes[-1] if sizes else None
    if size is None or len(size) != 1 or kwargs.get("out") is not None:
        return None
    return int(size[0]) if int(size[0]) > 1 else None


def _watching():
    return bool(_real) and seed.forked() and not seed.is_common()


def _is_training():
    return _torch.is_grad_enabled() and phase.last() is not False


def _randint(real):
    def randint(*args, **kwargs):
        global _count
        if forward.is_compiling() or not _watching():
            return real(*args, **kwargs)
        count = _size(args, kwargs)
        if count is None:
            return real(*args, **kwargs)
        if _is_training():
            _count = count
        if _job.job().batch == "split-random":
            return _split(real, args, kwargs, count)
        return real(*args, **kwargs)
    return randint


def _randperm(real):
    def randperm(*args, **kwargs):
        global _permuted
        if not forward.is_compiling() and _watching():
            _permuted = True
        return real(*args, **kwargs)
    return randperm


def _is_of_batch(count):
    """Does this draw go with the rows that were cut already?"""
    return _batch is not None and count != _batch.total and (
        not _new or count == _batch.shown)


def _split(real, args, kwargs, count):
    global _batch, _new
    if _is_of_batch(count):
        return real(*args, **kwargs)
    device = kwargs.pop("device", None)  # the common stream is the CPU's
    with seed.common("torch"):
        result = real(*args, **kwargs)
    if _is_training():
        job = _job.job()
        sizes = rows.rows(count, job.size, 2 if phase.has_norm() else 1)
        result = rows.take(result, sizes, job.rank) if (
            sizes[job.rank]) else result[:2]
        _on_cut()
        first, _new = _batch is None, False
        _batch = rows.Batch("split-random", sizes, job.rank, len(result))
        if first:
            hint.cut(_batch)
            lines.empty(_batch)
            lines.batch(_batch)
    return result if device is None else result.to(device)
