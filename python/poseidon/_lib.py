"""libposeidon by ctypes: the calls of poseidon.h and poseidon_step.h that the
adapters make, and the one session of this process.

session() opens it on demand. It is closed in good order when the interpreter
ends well; after an exception it is left to the launcher, which knows the exit
code. A forked child has no session.
"""
import atexit
import ctypes
import os
import sys

OK, AGAIN = 0, 1
FLOAT32, FLOAT64, FLOAT16, BFLOAT16, INT32, INT64 = 1, 2, 3, 4, 5, 6
MEAN, SUM, MAX = 1, 2, 3
GRADIENT, BUFFER = 0, 1               # kinds of slots
NOBODY, DENSE, SPARSE = 0, 1, 2       # outcomes of slots

_U32, _U64, _I32 = ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int32
_P, _TEXT, _INT = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
_REAL = ctypes.c_double


class Error(RuntimeError):
    """A call of libposeidon failed; the text is the library's sentence."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Slot(ctypes.Structure):
    """struct psd_slot"""
    _fields_ = [("name", _TEXT), ("dtype", _INT), ("kind", _INT),
                ("count", _U64), ("priority", _I32)]


class Spec(ctypes.Structure):
    """struct psd_spec"""
    _fields_ = [("name", _TEXT), ("dtype", _INT), ("kind", _INT),
                ("count", _U64), ("priority", _I32), ("optim", _TEXT),
                ("rate", _REAL), ("momentum", _REAL)]


class Tensor(ctypes.Structure):
    """psd_tensor"""
    _fields_ = [("id", _U32)]


CALLS = {  # name: result, arguments
    "psd_open": (_INT, ctypes.POINTER(_P)),
    "psd_close": (None, _P),
    "psd_abort": (None, _P, _INT, _TEXT),
    "psd_error": (_TEXT, _P),
    "psd_register": (_INT, _P, ctypes.POINTER(Spec), _U32,
                     ctypes.POINTER(Tensor)),
    "psd_push_pull": (_INT, _P, Tensor, _P, _REAL, _INT, _P),
    "psd_broadcast": (_INT, _P, Tensor, _P, _U32),
    "psd_barrier": (_INT, _P),
    "psd_join": (_INT, _P),
    "psd_audit": (_INT, _P, Tensor, _P, ctypes.c_size_t),
    "psd_alloc": (_P, _P, ctypes.c_size_t),
    "psd_mark": (None, _P, _TEXT, _INT),
    "psd_metrics": (_INT, _P, _U64, _REAL, _U64),
    "psd_step_open": (_INT, _P, ctypes.POINTER(_P)),
    "psd_step_close": (None, _P),
    "psd_step_add": (_INT, _P, ctypes.POINTER(Slot), _U32,
                     ctypes.POINTER(_U32)),
    "psd_step_start": (_INT, _P, _P, _P, _U32),
    "psd_step_begin": (_INT, _P, _REAL, _INT),
    "psd_step_push": (_INT, _P, _U32, _P),
    "psd_step_push_sparse": (_INT, _P, _U32, _P, _U64, _U64, _P, _U64),
    "psd_step_missing": (_U32, _P, _P),
    "psd_step_room": (_INT, _P, _U32, _P),
    "psd_step_finish": (_INT, _P, _U64, ctypes.POINTER(_U64)),
    "psd_step_outcome": (_INT, _P, _U32),
    "psd_step_sparse_result": (_INT, _P, _U32, ctypes.POINTER(_P),
                               ctypes.POINTER(_P), ctypes.POINTER(_U64)),
    "psd_step_now": (_INT, _P, _U32, _P, _REAL, _INT),
    "psd_step_audit": (_INT, _P, _P, _P, _U32),
    "psd_step_bad": (_INT, _P, ctypes.POINTER(_U32), ctypes.POINTER(_U32)),
    "psd_redirect_install": (_INT, _P, _TEXT),
    "psd_redirect_on": (None, _P),
    "psd_redirect_off": (None, _P),
}

_library = None
_session = None
_step = None
_owner = None    # pid of the process that opened the session
_lost = False    # this is a fork of it
_tensors = {}    # (name, type, elements): handle
_closing = []    # functions to call when the session is closed


def library():
    """The library, loaded once, its calls declared."""
    global _library
    if _library is None:
        loaded = ctypes.CDLL(path())
        for name, (result, *arguments) in CALLS.items():
            call = getattr(loaded, name)
            call.restype, call.argtypes = result, arguments
        _library = loaded
    return _library


def session():
    """The session of this process. The first call waits until every worker
    of the job has come."""
    global _session, _owner
    if _lost:
        raise Error(-2, "poseidon: a forked child is no worker of the job")
    if _session is None:
        handle = _P()
        status = library().psd_open(ctypes.byref(handle))
        if status != OK:
            raise Error(status, "poseidon: " + _sentence(None))
        _session, _owner = handle, os.getpid()
        atexit.register(_at_exit)
        os.register_at_fork(after_in_child=_forget)
    return _session


def is_open():
    return _session is not None


def step():
    """The exchanges of that session, one backward pass after another."""
    global _step
    if _step is None:
        handle = _P()
        check(library().psd_step_open(session(), ctypes.byref(handle)))
        _step = handle
    return _step


def tensor(name, dtype, count):
    """The handle of a tensor of our own, known again later; collective the
    first time."""
    return tensors([(name, dtype, count)])[0]


def tensors(keys):
    """The same for several at once."""
    new = [key for key in dict.fromkeys(keys) if key not in _tensors]
    if new:
        specs = (Spec * len(new))(*(
            Spec(name=name.encode(), dtype=dtype, count=count)
            for name, dtype, count in new))
        handles = (Tensor * len(new))()
        check(library().psd_register(session(), specs, len(new), handles))
        _tensors.update(zip(new, handles))
    return [_tensors[key] for key in keys]


def check(status):
    """Raise what a negative status means; other statuses pass."""
    if status < 0:
        raise Error(status, "poseidon: " + _sentence(_session))
    return status


def abort(code, text):
    """End the whole job with a reason that everybody shows."""
    library().psd_abort(session(), code, text.encode())


def close():
    """Leave the job in good order."""
    global _session, _step
    if _session is None or _owner != os.getpid():
        return
    if _step is not None:
        library().psd_step_close(_step)
    library().psd_close(_session)
    _session = _step = None
    _tensors.clear()
    while _closing:
        _closing.pop()()


def at_close(function):
    """Call function() once the session is closed."""
    _closing.append(function)


def _sentence(handle):
    return library().psd_error(handle).decode(errors="replace")


def path():
    """Where the launcher says, or beside the tree this file lies in."""
    told = os.environ.get("PSD_LIBRARY")
    if told:
        return told
    name = "libposeidon.so.0"
    tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder in (os.path.dirname(tree),
                   os.path.dirname(os.path.dirname(tree))):
        path = os.path.join(folder, name)
        if os.path.exists(path):
            return path
    return name


def _at_exit():
    # Set when an exception has ended the script: others may still wait for
    # us, and it is the exit code that tells the launcher.
    if getattr(sys, "last_value", None) is None:
        close()


def _forget():
    global _session, _step, _lost
    _session, _step, _lost = None, None, True
    _tensors.clear()
    _closing.clear()
