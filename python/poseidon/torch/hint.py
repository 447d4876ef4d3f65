"""When the first step that was cut ends in an error about shapes, say after
the traceback what to try."""
import re
import sys

_SHAPES = re.compile(
    r"\bshapes?\b|\bsizes?\b|dimension|must match|broadcast|\bview\b|"
    r"reshape|expand|\bbatch|more than 1 value|out of bounds", re.I)

_batch = None        # the first that was cut
_done = 0            # backward passes
_real = None


def install():
    global _real
    if _real is None:
        _real = sys.excepthook
        sys.excepthook = _report


def uninstall():
    global _real, _batch, _done
    if _real is not None and sys.excepthook is _report:
        sys.excepthook = _real
    _real, _batch, _done = None, None, 0


def cut(batch):
    global _batch
    if _batch is None:
        _batch = batch


def backward_seen():
    global _done
    _done += 1


def text(kind, error):
    """The line for this error, None: it is not about a cut batch."""
    if _batch is None or _done > 1 or not _batch.mode.startswith("split"):
        return None
    about = issubclass(kind, AssertionError) or (
        issubclass(kind, (RuntimeError, ValueError, IndexError))
        and "OutOfMemory" not in kind.__name__
        and _SHAPES.search(str(error)))
    return None if not about else (
        "the batch was cut to %d rows of %d (%s) before this error: if the "
        "script counts on %d rows, try --batch per-worker"
        % (_batch.shown, _batch.total, _batch.mode, _batch.total))


def _report(kind, error, trace):
    (_real or sys.__excepthook__)(kind, error, trace)
    line = text(kind, error)
    if line and sys.stderr is not None:
        sys.stderr.write("poseidon: %s\n" % line)
        sys.stderr.flush()
