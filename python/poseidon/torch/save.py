"""torch.save writes once, and torch.load waits for it.

To a path only worker 0 saves, into a file that appears in one piece; the
others count. A file object is written by everyone: it is the script's own.
Before a worker loads what it has saved itself, as the script believes, it
waits until worker 0 has come as far: see shared/turns.py.
"""
import os
import stat
import sys

from poseidon.shared import files, host, turns
from poseidon.shared.patches import Patches

passing = turns.passing  # what the exchange calls before it waits

_patches = Patches()


def install(torch):
    """Called once, right after `import torch`."""
    if not host.start():
        return
    turns.start()
    for owner, save, load in _pairs(torch):
        _patches.wrap(owner[0], save, _saver)
        _patches.wrap(owner[1], load, _loader)
    files.install()


def uninstall():
    turns.end()
    files.uninstall()
    _patches.restore()
    host.stop()


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

        def act():
            with host.inside():
                return _write(original, args, kwargs, path)

        return turns.write([path], act)

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
            turns.read(path, "torch.load")
        return original(*args, **kwargs)

    return load
