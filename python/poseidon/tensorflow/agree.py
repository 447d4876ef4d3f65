"""Small questions to all workers at once."""
import ctypes

from poseidon import _job, _lib


def on(number):
    """Has every worker the same number (below 2^62)? Collective."""
    least, most = _extremes(number)
    return least == most


def any_true(mine):
    """Is it so on any worker? Collective."""
    return bool(_extremes(bool(mine))[1])


def _extremes(number):
    """The least and the most of all workers' numbers."""
    words = (ctypes.c_int64 * 2)(-number, number)
    if _job.job().size > 1:
        _lib.check(_lib.library().psd_push_pull(
            _lib.session(), _lib.tensor("agree", _lib.INT64, 2), words, 1.0,
            _lib.MAX, None))
    return -words[0], words[1]
