"""Values that all workers take from rank 0."""
import ctypes

from poseidon import _job, _lib
from poseidon.shared import turns


def make(values):
    """Give numpy arrays the bits of rank 0, in place: [(name, array)], the
    same on every worker, each array contiguous and writable. Collective."""
    turns.passing()
    for name, array in values:
        if array.nbytes == 0 or _job.job().size == 1:
            continue
        words = (ctypes.c_uint64 * -(-array.nbytes // 8))()
        ctypes.memmove(words, array.ctypes.data, array.nbytes)
        _lib.check(_lib.library().psd_broadcast(
            _lib.session(), _lib.tensor(*tensor(name, array.nbytes)), words,
            0))
        ctypes.memmove(array.ctypes.data, words, array.nbytes)


def tensor(name, size):
    """The tensor of a value of so many bytes, for _lib.tensor()."""
    return "value/%s:%d" % (name, size), _lib.INT64, -(-size // 8)
