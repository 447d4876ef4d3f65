"""The Poseidon fields of tf.ConfigProto (poseidon/tf1/config.py), and what
they do in this job. A session tells them when it is opened.

block_size      cuts tensors, if the job has no servers of its own, which cut
                with psd_run's --block-size, and if the workers have not
                opened their session yet
num_push_threads, num_pull_threads
                the larger of them is the number of I/O threads, which each
                server has from its start: --threads of psd_run; compared, and
                told when it is another
batch_size      rows behind a gradient whose batch no feed shows
use_sfb, peer_addresses, master_address, client_id, distributed
                accepted; the job knows better
"""
import os

from poseidon import _job, _lib
from poseidon.tf1 import config

LEAST, MOST = 4096, 64 << 20  # of --block-size

_on = False
_listens = False


def install(tf):
    """Only a script of TensorFlow 1 has these fields."""
    global _on, _listens
    _on = _job.job().size > 1
    if _on and not _listens:
        config.on_session(_opened)
        _listens = True


def uninstall():
    global _on
    _on = False


def batch_size():
    """Rows of a worker's batch, as the script says; 0: it does not."""
    return config.current().get("batch_size", 0) if _on else 0


def _opened(fields):
    if not _on:
        return
    size = fields.get("block_size", 0)
    if size > 0:
        _cut(size)
    wanted = max(fields.get("num_push_threads", 0),
                 fields.get("num_pull_threads", 0))
    if wanted > 0:
        _compare(min(wanted, len(os.sched_getaffinity(0))))


def _servers():
    return int(os.environ.get("PSD_SERVERS") or 0)


def _cut(size):
    fits = min(max(size, LEAST), MOST)
    if str(fits) == os.environ.get("PSD_BLOCK_SIZE"):
        return
    if fits != size:
        _job.warn_once("block_size", "ConfigProto.block_size is %d, blocks "
                       "have between %d and %d bytes: %d is taken"
                       % (size, LEAST, MOST, fits))
    if _servers() or _lib.is_open():
        _job.warn_once("late", "ConfigProto.block_size comes after %s: use "
                       "psd_run --block-size %d" % (
                           "the servers have started" if _servers() else
                           "the tensors were cut", fits))
        return
    os.environ["PSD_BLOCK_SIZE"] = str(fits)
    _job.say("blocks of %d bytes (ConfigProto.block_size)" % fits)


def _compare(wanted):
    """I/O threads belong to servers, which run before any script does."""
    have = int(os.environ.get("PSD_THREADS") or 1)
    if _servers() and wanted != have:
        _job.say("ConfigProto asks for %d I/O threads and each server has "
                 "%d: psd_run --threads %d sets them" % (wanted, have,
                                                         wanted))
