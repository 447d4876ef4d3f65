"""Scripts that distribute themselves in TensorFlow's own way, with servers,
ps and workers, run through Poseidon without a changed line.

  tf.train.Server           nothing for a worker; a ps waits for the end
  targets, /job: devices    sessions of this process (local_sessions.py)
  SyncReplicasOptimizer     the synchronous exchange, mean over the workers
  any other optimizer       asynchronous (hogwild.py)
  TF_CONFIG                 for the script only (tf_config.py)

mode() tells which of the two an optimizer is, once the script has made a
server; before that, and without one, it is a script of one machine. graph.py
asks for it.
"""
import contextlib
import os
import threading

from poseidon import _boot, _job
from poseidon.shared import lines
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    hogwild, local_sessions, role, seed, stand_ins, tf_config)

_patches = Patches()
_thread = threading.local()
_tf = None
_is_distributed = False   # the script has made a server


def install(tf):
    global _tf
    if not role.is_here():
        return
    _tf = tf
    _boot.on_fork(uninstall)
    tf_config.install(tf)
    _put_names(tf)
    if not _job.job().inside:   # a ps
        local_sessions.install(tf)


def uninstall():
    global _is_distributed
    _is_distributed = False
    hogwild.uninstall()
    local_sessions.uninstall()
    tf_config.uninstall()
    _patches.restore()


def mode(optimizer=None):
    """"sync", "hogwild", or None: a script of one machine."""
    if not _is_distributed:
        return None
    is_sync = getattr(_thread, "sync", False) or getattr(
        type(optimizer), "is_poseidon_sync", False)
    return "sync" if is_sync else "hogwild"


# ---- names

def _put_names(tf):
    from tensorflow.python.training import (
        device_setter, server_lib, sync_replicas_optimizer)
    server = stand_ins.make_server(tf, _begin)
    sync = stand_ins.make_sync_replicas(tf, _synchronous)
    sync.is_poseidon_sync = True
    train = tf.compat.v1.train
    for owner, name, value in (
            (train, "Server", server), (tf.distribute, "Server", server),
            (server_lib, "Server", server),
            (train, "replica_device_setter", stand_ins.replica_device_setter),
            (device_setter, "replica_device_setter",
             stand_ins.replica_device_setter),
            (train, "SyncReplicasOptimizer", sync),
            (sync_replicas_optimizer, "SyncReplicasOptimizer", sync)):
        _patches.put(owner, name, value)


@contextlib.contextmanager
def _synchronous():
    before = getattr(_thread, "sync", False)
    _thread.sync = True
    try:
        yield
    finally:
        _thread.sync = before


def _begin(tasks):
    """A worker makes its server: the script is distributed, unless that
    server is all it has (create_local_server)."""
    global _is_distributed
    if _is_distributed or not _job.job().inside:
        return
    local_sessions.install(_tf)
    if _job.job().size == 1 or tasks == 1:
        return
    _is_distributed = True
    _job.job().batch = os.environ["PSD_BATCH"] = "per-worker"
    seed.fork()   # every worker draws batches of its own
    lines.once("the script distributes itself: its servers, ps and workers "
               "are those of this job")
    hogwild.install(_tf)
