"""torch.save writes once, and torch.load waits for it.

To a path only worker 0 saves, into a file that appears in one piece; the
others count. A file object is written by everyone: it is the script's own.
Before a worker loads what it has saved itself, as the script believes, it
waits until worker 0 has come as far: has saved that path as often, is loading
it, too, waits for the others in a later exchange, or has ended. No worker
waits for another in torch.save, and nothing here can wait for ever.
"""
import atexit
import errno
import os
import stat
import sys
import threading

from poseidon import _job
from poseidon.shared import files, host
from poseidon.shared.patches import Patches

LIMIT = 300.0  # seconds to wait for a worker 0 that is not even saving
ABROAD = 20.0  # and on another host, for a file that is not there

# Words of worker 0: who it is, how far it is. Words of a path: how many saves
# have begun and have ended, how many loads have begun.
PID, START, PASSED, ENDED = range(4)
BEGUN, DONE, LOADS = range(3)

_lock = threading.Lock()
_patches = Patches()
_mine = None     # this worker's own words; worker 0's are in a file
_others = {}     # name of a file: its words, to look at
_paths = {}      # path: its words as this worker counts them


def install(torch):
    """Called once, right after `import torch`."""
    global _mine
    if not host.start():
        return
    first = _job.job().rank == 0
    _mine = (host.words("worker-0", True) if first else None) or [0] * 8
    _mine[PID], _mine[START] = os.getpid(), host.start_time(os.getpid())
    _mine[PASSED] = _mine[ENDED] = 0
    if first:
        atexit.register(end)
    for owner, save, load in _pairs(torch):
        _patches.wrap(owner[0], save, _saver)
        _patches.wrap(owner[1], load, _loader)
    files.install(path_is_saved, path_moves)


def uninstall():
    end()
    files.uninstall()
    _patches.restore()
    host.stop()


def passing():
    """This worker is about to wait for the others, in a step or elsewhere:
    nobody may now wait for what it has not saved. Cheap: one integer."""
    if _mine is not None:
        _mine[PASSED] += 1


def end():
    """This worker will save nothing more."""
    if _mine is not None and _mine[PID] == os.getpid():
        _mine[ENDED] = 1


def path_is_saved(path):
    """Was it saved by torch.save, or meant to be, in this worker?"""
    return path in _paths and _paths[path][BEGUN] > 0


def path_moves(target, move):
    """The script renames or copies a saved file: worker 0 does it."""
    _count(target, BEGUN)
    if _job.job().rank != 0:
        return None
    try:
        return move()
    finally:
        _count(target, DONE)


def _pairs(torch):
    """Where a save and its load live; both take the file as `f`."""
    yield (torch, torch), "save", "load"
    yield (torch.serialization, torch.serialization), "save", "load"
    module = getattr(torch.jit, "RecursiveScriptModule", None)
    if module is not None:
        yield (module, torch.jit), "save", "load"
    export = sys.modules.get("torch.export")
    if export is not None:
        yield (export, export), "save", "load"


def _count(path, word):
    """Add one; how many it are now."""
    with _lock:
        if path not in _paths:
            name = host.file_name("save", path)
            _paths[path] = (host.words(name, True)
                            if _job.job().rank == 0 else None) or [0] * 8
        _paths[path][word] += 1
        return _paths[path][word]


def _find(at, args, kwargs):
    """The path among the arguments; None: no path, or no plain file."""
    name = kwargs.get("f", args[at] if len(args) > at else None)
    path = host.plain_path(name) if host.is_active() else None
    if path is None:
        return None
    try:
        return path if stat.S_ISREG(os.stat(path).st_mode) else None
    except OSError:
        return path


def _swap(at, args, kwargs, path):
    if "f" in kwargs:
        return args, dict(kwargs, f=path)
    return args[:at] + (path,) + args[at + 1:], kwargs


def _saver(original):
    """torch.save(obj, f), export.save(program, f), module.save(f): f is the
    second."""

    def save(*args, **kwargs):
        path = _find(1, args, kwargs)
        if path is None or host.is_inside():  # one may call another
            return original(*args, **kwargs)
        _count(path, BEGUN)
        if _job.job().rank != 0:
            return None
        try:
            with host.inside():
                return _write(original, args, kwargs, path)
        finally:
            _count(path, DONE)

    return save


def _write(original, args, kwargs, path):
    folder = os.path.dirname(path)
    if not os.access(folder, os.W_OK | os.X_OK):  # let torch say what is wrong
        return original(*args, **kwargs)
    with host.in_one_piece(path, lasting=True) as part:
        args, kwargs = _swap(1, args, kwargs, part)
        return original(*args, **kwargs)


def _loader(original):
    def load(*args, **kwargs):
        path = _find(0, args, kwargs)
        if path is not None:
            loads = _count(path, LOADS)
            if _job.job().rank != 0 and path_is_saved(path):
                _wait(path, _paths[path][BEGUN], loads)
        return original(*args, **kwargs)

    return load


def _look(name):
    if _others.get(name) is None:
        _others[name] = host.words(name, False)
    return _others[name]


def _is_past(path, saves, loads):
    """Has worker 0 come as far as we have? Also: is it saving?"""
    first = _look("worker-0")
    about = _look(host.file_name("save", path))
    saving = about is not None and about[BEGUN] > about[DONE]
    if about is not None and (about[DONE] >= saves or about[LOADS] >= loads):
        return True, saving
    if first is None:
        return False, saving
    gone = first[ENDED] or host.start_time(first[PID]) != first[START]
    return gone or first[PASSED] > _mine[PASSED], saving


def _wait(path, saves, loads):
    if not host.is_home():
        return _wait_abroad(path)
    waiting = host.Waiting("torch.load waits until worker 0 has saved %s"
                            % path)
    last = 0.0  # when worker 0 was last seen saving
    while True:
        past, saving = _is_past(path, saves, loads)
        if past:
            return
        if saving:
            last = waiting.seconds()
        elif waiting.seconds() - last > LIMIT:
            _job.warn_once("save " + path, "worker 0 has not saved %s in %d s;"
                           " loading what is there" % (path, LIMIT))
            return
        waiting.rest()


def _wait_abroad(path):
    """Worker 0 saves on another host: only a shared folder shows it."""
    waiting = host.Waiting(None)
    while not os.path.exists(path):
        if waiting.seconds() > ABROAD:
            raise FileNotFoundError(
                errno.ENOENT, "worker 0 saves on its own host, and the file "
                "has not come here; save into a folder that all hosts share, "
                "or let only the script's later runs load it", path)
        waiting.rest()
