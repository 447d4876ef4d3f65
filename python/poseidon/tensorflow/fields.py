"""The Poseidon fields of tf.ConfigProto (poseidon/tf1/config.py), and what
they do in this job. A session tells them when it is opened.

block_size      cuts tensors into blocks of so many bytes
num_push_threads, num_pull_threads
                the larger of them, but no more than there are cores, is the
                number of I/O threads of each server
                Both are asked for when the workers open their session, which
                a session of TensorFlow comes before; of all workers the
                largest counts. What psd_run was told (--block-size,
                --threads) stays.
batch_size      rows behind a gradient whose batch no feed shows
use_sfb, peer_addresses, master_address, client_id, distributed
                accepted; the job knows better
"""
import os

from poseidon import _job, _lib
from poseidon.tf1 import config

LEAST, MOST = 4096, 64 << 20  # of --block-size
THREADS = 64  # the most of --threads

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
    wanted = min(wanted, len(os.sched_getaffinity(0)), THREADS)
    if int(os.environ.get("PSD_SERVERS") or 0) == 0:
        _without_servers(wanted)
    elif wanted > 0:
        _ask("PSD_THREADS", wanted, "%d I/O thread%s in each server"
             % (wanted, "s" * (wanted > 1)))


def _cut(size):
    fits = min(max(size, LEAST), MOST)
    if fits != size:
        _tell("block_size", "ConfigProto.block_size is %d, blocks have "
              "between %d and %d bytes: %d is taken"
              % (size, LEAST, MOST, fits))
    _ask("PSD_BLOCK_SIZE", fits, "blocks of %d bytes" % fits)


def _ask(variable, value, what):
    """A session that opens asks for what is in its environment."""
    have = os.environ.get(variable) or "auto"
    option = "--" + variable[4:].lower().replace("_", "-")
    if have == str(value):
        return
    if have == "auto" and not _lib.is_open():
        os.environ[variable] = str(value)
        _tell(variable, what + " (ConfigProto)")
        return
    _tell(option, "ConfigProto asks for %s, %s: use psd_run %s %d" % (
        what, "too late" if have == "auto" else "the job has " + have,
        option, value))


def _without_servers(wanted):
    job = _job.job()
    tcp = (job.local_size < job.size
           or os.environ.get("PSD_TRANSPORT") == "tcp")
    if wanted > 1:
        _tell("servers", "ConfigProto asks for %d I/O threads; in a job "
              "without servers (psd_run -s) %s" % (
                  wanted, "each worker has one" if tcp else
                  "on one host the workers add up without any"))


def _tell(key, text):
    """One line of the job, once."""
    if _job.job().rank == 0:
        _job.warn_once(key, text)
