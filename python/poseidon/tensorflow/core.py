"""libposeidon_tf by TensorFlow and ctypes: the ops, the groups of keys that
optimizers exchange, and parameters for the digest.

load() loads the plug-in, start() opens the session. That is collective, and
bound to the thread that did it, so everything here is called on that thread,
in the same order on every worker.
"""
import atexit
import ctypes
import os
import sys

from poseidon import _job, _lib
from poseidon.shared import alike, lines, turns
from poseidon.tensorflow import groups, versions

DENSE, SPARSE, VALUE, SHARED = 0, 1, 2, 3           # enum psd_tf_kind
FLOATS = ("float32", "float64", "float16", "bfloat16")  # can be averaged

_P, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_U32, _U64, _I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32


class Spec(ctypes.Structure):
    """struct psd_tf_spec"""
    _fields_ = [("key", _TEXT), ("dtype", _I32), ("kind", _I32),
                ("count", _U64), ("rows", _U64), ("priority", _I32),
                ("reserved", _I32)]


CALLS = {  # name: result, arguments
    "psd_tf_ready": (_TEXT,),
    "psd_tf_attach": (_INT, _P, _P),
    "psd_tf_detach": (None,),
    "psd_tf_register": (_INT, _TEXT, ctypes.POINTER(Spec), _U32),
    "psd_tf_step": (_INT, ctypes.c_double, _INT),
    "psd_tf_stop_at_nan": (None, _INT),
    "psd_tf_bad": (_INT, _TEXT, ctypes.POINTER(_TEXT), ctypes.POINTER(_U32)),
    "psd_tf_steps": (_U64, _TEXT),
    "psd_tf_spoil": (None, _TEXT, _U64),
    "psd_tf_settle": (_INT,),
    "psd_tf_error": (_TEXT,),
}

tf = None        # the real tensorflow, not an overlay of it
ops = None       # ops.psd_push and so on
_plug = None
_started = False
_announced = []  # (group, entries) to register at the start
_known = set()   # keys that are registered
_told = None     # by step


def started():
    return _started


def load(tensorflow):
    """Load the ops, which a graph may have before anybody joins."""
    global tf, ops, _plug
    if _plug is not None:
        return
    tf = tensorflow
    _lib.library()
    path = _path()
    loaded = tensorflow.load_op_library(path)
    plug = ctypes.CDLL(path)
    for name, (result, *arguments) in CALLS.items():
        call = getattr(plug, name)
        call.restype, call.argtypes = result, arguments
    why = plug.psd_tf_ready()
    if why is not None:
        raise _lib.Error(-1, "poseidon: " + why.decode())
    ops, _plug = loaded, plug


def start(tensorflow):
    """Join the job, with the ops; collective the first time."""
    global _started
    if _started:
        return
    load(tensorflow)
    witness = ctypes.cast(_lib.library().psd_open, _P)
    check(_plug.psd_tf_attach(_lib.session(), witness))
    _lib.at_close(_plug.psd_tf_detach)
    _plug.psd_tf_stop_at_nan(int(_job.job().nan == "stop"))
    _started = True
    versions.compare(tensorflow.__version__)
    atexit.register(_join, os.getpid())
    for group, entries in _announced:
        _register(group, entries)
    _announced.clear()


def _join(pid):
    """The script has ended well, perhaps before those of other workers: they
    go on without this one. Runs before the session is closed."""
    if pid != os.getpid() or getattr(sys, "last_value", None) is not None:
        return
    turns.end()
    status = _plug.psd_tf_settle()
    if status >= 0 and _job.job().size > 1:
        _lib.library().psd_join(_lib.session())


def check(status):
    """Raise what a negative status of a psd_tf call means."""
    if status < 0:
        raise _lib.Error(status, "poseidon: " + _plug.psd_tf_error().decode(
            errors="replace"))


def plug():
    """The calls of plugin.h."""
    return _plug


def register(group, entries):
    """Announce keys of a group: (key, dtype, count, kind, priority) each;
    those known already are passed over. Before the start they are kept for
    it: a script may still say how tensors are to be cut. Collective."""
    entries = [entry for entry in entries if entry[0] not in _known]
    if not entries:
        return
    _known.update(entry[0] for entry in entries)
    if _started:
        _register(group, entries)
    else:
        _announced.append((group, entries))


def _register(group, entries):
    specs = (Spec * len(entries))()
    for spec, (key, dtype, count, kind, priority) in zip(specs, entries):
        spec.key, spec.count, spec.kind = key.encode(), count, kind
        spec.dtype = tf.as_dtype(dtype).base_dtype.as_datatype_enum
        spec.priority = priority
        if kind == SPARSE and not _is_exact():
            lines.once("a GPU adds rows of a sparse gradient (%s) in any "
                       "order: where replicas differ, set "
                       "TF_DETERMINISTIC_OPS=1" % groups.titles.get(key, key))
    try:
        check(_plug.psd_tf_register(group.encode(), specs, len(entries)))
    except _lib.Error as error:
        names = ["%s is %s" % (entry[0], groups.titles[entry[0]])
                 for entry in entries if entry[0] in groups.titles]
        if not names:
            raise
        raise _lib.Error(error.status, "%s\n(here %s)" % (
            error, ", ".join(names))) from None


def _is_exact():
    """Does the same update give the same bits on every worker?"""
    from tensorflow.python.framework import config
    return not tf.config.list_physical_devices("GPU") or (
        config.is_op_determinism_enabled() or
        os.environ.get("TF_DETERMINISTIC_OPS", "").lower() in ("1", "true"))


def step(weight, op=_lib.MEAN):
    """Samples and op of the pushes to come whose weight is negative."""
    global _told
    if (weight, op) != _told:
        check(_plug.psd_tf_step(float(weight), op))
        _told = (weight, op)


def announce_audits(values):
    """What audit() will be given: [(name, bytes)]. Collective, so that
    audit() is not."""
    _lib.tensors([alike.tensor(name, size) for name, size in values if size])


def audit(values):
    """Hand in parameters after an update, for the digest: [(name, array)]."""
    for name, array in values:
        if array.nbytes > 0:
            _lib.check(_lib.library().psd_audit(
                _lib.session(), _lib.tensor(*alike.tensor(
                    name, array.nbytes)), array.ctypes.data, array.nbytes))


def _path():
    """The plug-in lies beside the library."""
    library = _lib.path()
    folder = os.path.dirname(os.path.realpath(library))
    return os.path.join(folder, "libposeidon_tf.so")
