"""Summaries: worker 0 writes the event files. The others have the same
writers, which take every call and write nowhere: FileWriter and what is
behind it, and tf.summary.create_file_writer.

The classes themselves are made silent, so that whoever has one (a hook, a
Supervisor, an Estimator, a class that a script derives) needs no care."""
import contextlib

from poseidon import _job
from poseidon.shared import everywhere, files, host

_patches = everywhere.Patches()


def install(tf):
    if not host.start() or _job.job().rank == 0:
        return
    from tensorflow.python.ops import summary_ops_v2
    from tensorflow.python.summary.writer import (event_file_writer,
                                                  event_file_writer_v2)
    _silence(event_file_writer.EventFileWriter, ("_initialize",
                                                 "_internal_close"))
    _silence(event_file_writer_v2.EventFileWriterV2, ())
    silent = _silent(tf, summary_ops_v2.SummaryWriter)
    _patches.replace([
        (summary_ops_v2, "create_file_writer_v2", lambda _: silent),
        (summary_ops_v2, "create_file_writer", lambda _: silent)])


def uninstall():
    _patches.restore()


def _silence(owner, inner):
    """EventFileWriter(logdir, ...), EventFileWriterV2(session, logdir, ...)."""
    at = 1 if "session" in owner.__init__.__code__.co_varnames else 0

    def begin(original):
        def __init__(self, *args, **kwargs):
            folder = kwargs.get("logdir", args[at] if len(args) > at else "")
            if not host.is_active() or files.is_private(str(folder)):
                return original(self, *args, **kwargs)
            self._logdir, self._closed, self._psd = str(folder), False, True
            return None
        return __init__

    def quiet(original):
        def nothing(self, *args, **kwargs):
            if not getattr(self, "_psd", False):
                return original(self, *args, **kwargs)
            if original.__name__ in ("close", "reopen"):
                self._closed = original.__name__ == "close"
            return None
        return nothing

    _patches.wrap(owner, "__init__", begin)
    for name in ("add_event", "flush", "close", "reopen", *inner):
        _patches.wrap(owner, name, quiet)


def _silent(tf, base):
    """tf.summary.create_file_writer(...) of a worker that does not write."""

    def nothing():
        return None if tf.executing_eagerly() else tf.no_op()

    class Silent(base):
        """Not the default writer even where it is made so: what is recorded
        then goes nowhere, and nothing is computed for it."""

        def set_as_default(self, step=None):
            if step is not None:
                tf.summary.experimental.set_step(step)

        @contextlib.contextmanager
        def as_default(self, step=None):
            before = tf.summary.experimental.get_step()
            self.set_as_default(step)
            try:
                yield self
            finally:
                if step is not None:
                    tf.summary.experimental.set_step(before)

        def init(self):
            return nothing()

        def flush(self):
            return nothing()

        def close(self):
            return nothing()

        def reopen(self):
            return nothing()

    def create_file_writer(logdir, *args, **kwargs):
        return Silent()

    return create_file_writer
