"""Checkpoints: worker 0 writes them, all restore the same.

Saver.save, tf.train.Checkpoint and CheckpointManager, the file "checkpoint"
with the list of them, and the removal of old ones happen on worker 0. The
others name the same path, remember it, and go on. Before one of them restores
it, or asks for the latest, it waits until worker 0 has written as often (see
shared/turns.py). A worker of another host, to which no file has come, leaves
the restoring out: what worker 0 has restored is sent to all before the next
step.
"""
import numbers
import os

from poseidon import _job
from poseidon.shared import everywhere, files, host, turns
from poseidon.tensorflow import run_start

STATE = "checkpoint"  # the file with the list of checkpoints

_patches = everywhere.Patches()
_latest = {}   # list of checkpoints: which one this worker saved last
_paths = None  # tensorflow's checkpoint_management
_errors = None


def install(tf):
    global _paths, _errors
    if not host.start():
        return
    from tensorflow.python.checkpoint import checkpoint
    from tensorflow.python.checkpoint import checkpoint_management
    from tensorflow.python.framework import graph_io, meta_graph
    from tensorflow.python.training import py_checkpoint_reader, saver
    _paths, _errors = checkpoint_management, tf.errors
    turns.start()
    _patches.wrap(saver.Saver, "save", _saver)
    _patches.wrap(saver.Saver, "restore", _restorer)
    _patches.wrap(checkpoint.TrackableSaver, "save", _track)
    _patches.wrap(checkpoint.TrackableSaver, "restore", _track_back)
    writers = [(checkpoint_management, "update_checkpoint_state_internal",
                _lister),
               (checkpoint_management, "remove_checkpoint", _only_first),
               (checkpoint_management, "_delete_file_if_exists", _only_first),
               (graph_io, "write_graph", _write_graph)]
    readers = [(checkpoint_management, name, _finder)
               for name in ("latest_checkpoint", "get_checkpoint_state")]
    readers += [(meta_graph, "read_meta_graph_file", _reader),
                (py_checkpoint_reader, "NewCheckpointReader", _reader),
                (checkpoint_management, "checkpoint_exists", _reader)]
    _patches.replace(writers + readers)


def uninstall():
    _patches.restore()
    turns.end()


def is_first():
    return _job.job().rank == 0


def _key(prefix):
    """What the workers of this host count a checkpoint by."""
    text = os.fsdecode(prefix)
    return text if "://" in text else os.path.realpath(text)


def _state_of(folder, name=None):
    return os.path.join(_key(folder or os.curdir), name or STATE)


def _write(paths, act):
    """Worker 0 calls act(); the others only count."""

    def inside():
        with host.inside():
            return act()

    return turns.write(paths, inside)


def _is_own(path):
    """Is this worker alone with it: in a temporary folder of its own, within
    something that is done once anyway, in a child?"""
    return (not host.is_active() or host.is_inside()
            or files.is_private(os.fsdecode(path)))


def _saver(original):
    def save(self, sess, save_path, global_step=None, latest_filename=None,
             *args, **kwargs):
        if _is_own(save_path):
            return original(self, sess, save_path, global_step,
                            latest_filename, *args, **kwargs)
        prefix, step = _named(self, sess, save_path, global_step)
        paths = [_key(prefix)]
        # write_state is the third after latest_filename.
        if kwargs.get("write_state", args[2] if len(args) > 2 else True):
            paths.append(_state_of(os.path.dirname(prefix), latest_filename))
            _latest[paths[1]] = prefix
        result = _write(paths, lambda: original(
            self, sess, save_path, step, latest_filename, *args, **kwargs))
        if is_first():
            return result
        if len(paths) > 1:
            self._RecordLastCheckpoint(prefix)
            self._MaybeDeleteOldCheckpoints()
        return None if self._is_empty else prefix

    return save


def _named(saver, sess, save_path, step):
    """The path that Saver.save would give, and the step as a number."""
    path = os.fspath(save_path)
    path = os.fsdecode(path) if isinstance(path, bytes) else path
    if step is None:
        return path, None
    if not isinstance(step, numbers.Integral):
        from tensorflow.python.training import training_util
        step = int(training_util.global_step(sess, step))
    form = "%s-%08d" if saver._pad_step_number else "%s-%d"
    return form % (path, step), int(step)


def _restorer(original):
    def restore(self, sess, save_path):
        if save_path is not None and not _is_own(save_path):
            if not _await(save_path, "Saver.restore"):
                return _forget_start(sess)
        try:
            return original(self, sess, save_path)
        except (_errors.NotFoundError, _errors.InvalidArgumentError,
                ValueError) as error:
            _tell(save_path, error)
            raise

    return restore


def _await(path, who):
    """Wait for a checkpoint that is meant to be there; False: it is one of
    this job, written on another host, and does not come here."""
    path = os.fsdecode(path)
    key = _key(path)
    if not turns.is_written(key) or is_first():
        return True
    try:
        turns.read(key, who, lambda _: _paths.checkpoint_exists_internal(path))
    except FileNotFoundError:
        _job.warn_once("abroad", "%s is on the host of worker 0 alone: its "
                       "values come from there" % path)
        return False
    return True


def _reader(original):
    """Calls that are given a checkpoint, or the graph that lies beside it."""

    def read(*args, **kwargs):
        path = os.fsdecode([*args, *kwargs.values()][0])
        if not _is_own(path):
            name, kind = os.path.splitext(path)
            _await(name if kind == ".meta" else path, original.__name__)
        return original(*args, **kwargs)

    return read


def _forget_start(session):
    """The values of worker 0 are sent again before the next step."""
    run_start.state(getattr(session, "_sess", session)).clear()


def _tell(path, error):
    """In one sentence what TensorFlow tells in many."""
    reason = str(getattr(error, "message", error)).strip().split("\n")
    reason = next((line for line in reason if "Key " in line
                   or "mismatch" in line or "hape" in line), reason[0])
    _job.warn_once("restore %s" % path, "the checkpoint %s does not fit this "
                   "graph, or is not one: %s; train into another folder, or "
                   "restore with a Saver of the variables it has"
                   % (path, reason.strip()[:300]))


def _track(original):
    """TrackableSaver.save(file_prefix, checkpoint_number=None, ...)"""

    def save(self, file_prefix, checkpoint_number=None, *args, **kwargs):
        if (not isinstance(file_prefix, (str, os.PathLike))
                or _is_own(file_prefix)):
            return original(self, file_prefix, checkpoint_number, *args,
                            **kwargs)
        prefix = os.fspath(file_prefix)
        if checkpoint_number is not None:
            prefix = "%s-%d" % (prefix, checkpoint_number)
        result = _write([_key(prefix)], lambda: original(
            self, file_prefix, checkpoint_number, *args, **kwargs))
        return result if is_first() else prefix

    return save


def _track_back(original):
    def restore(self, save_path, *args, **kwargs):
        if save_path is not None and not _is_own(save_path):
            _await(save_path, "Checkpoint.restore")
        return original(self, save_path, *args, **kwargs)

    return restore


def _only_first(original):
    def act(path, *args, **kwargs):
        if is_first() or _is_own(path):
            return original(path, *args, **kwargs)
        return None

    return act


def _write_graph(original):
    def write_graph(graph_or_graph_def, logdir, name, *args, **kwargs):
        if is_first() or _is_own(logdir):
            return original(graph_or_graph_def, logdir, name, *args, **kwargs)
        return os.path.join(logdir, name)

    return write_graph


def _lister(original):
    """update_checkpoint_state_internal: the list of checkpoints."""

    def update(save_dir, model_checkpoint_path, *args, **kwargs):
        if _is_own(save_dir):
            return original(save_dir, model_checkpoint_path, *args, **kwargs)
        # latest_filename is the second after the path.
        state = _state_of(save_dir, kwargs.get(
            "latest_filename", args[1] if len(args) > 1 else None))
        _latest[state] = os.fsdecode(model_checkpoint_path)
        return _write([state], lambda: original(
            save_dir, model_checkpoint_path, *args, **kwargs))

    return update


def _finder(original):
    """latest_checkpoint and get_checkpoint_state (folder, name). Worker 0 may
    be ahead: the latest is the one that this worker has saved last."""
    is_state = original.__name__ == "get_checkpoint_state"

    def find(checkpoint_dir, latest_filename=None):
        if checkpoint_dir is None or _is_own(checkpoint_dir):
            return original(checkpoint_dir, latest_filename)
        folder = os.fsdecode(checkpoint_dir)
        state = _state_of(folder, latest_filename)
        latest = None if is_first() else _latest.get(state)
        if latest is not None and not _await(latest, original.__name__):
            return _state(folder, latest) if is_state else latest
        turns.read(state, original.__name__)
        with host.inside():  # one calls the other
            found = original(checkpoint_dir, latest_filename)
        if latest is not None and _paths.checkpoint_exists_internal(latest):
            return _state(folder, latest, found) if is_state else latest
        return found

    return find


def _state(folder, latest, found=None):
    if found is None:
        found = _paths.generate_checkpoint_state_proto(folder, latest)
    found.model_checkpoint_path = latest
    return found
