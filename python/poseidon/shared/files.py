"""Folders made, and saved files removed, renamed or copied, by several workers
that run the same line.

- os.mkdir (and with it os.makedirs and Path.mkdir): "it exists" is no error
  when another worker of this host has made the folder at the same line.
- shutil.rmtree: worker 0 removes the folder; where it is older than the job
  nobody goes on before that is done. A worker removes by itself only what it
  alone has made. A worker that is behind may still want to make a folder in
  it: it is as if it had made it in time; one that is ahead may see it go.
- os.remove, os.rename, os.replace, shutil.copy..., shutil.move of a file that
  was saved (torch.save, a Saver): worker 0 does it, the others have no such
  file.
Everything else is left as it is.
"""
import collections
import os
import struct
import sys

from poseidon import _job
from poseidon.shared import host, turns
from poseidon.shared.patches import Patches

MADE = "made"                  # the record: a folder and who has made it
PATIENCE = 20.0                # seconds until another removes an old folder
_ENTRY = struct.Struct("=16sI")

_patches = Patches()
_spared = set()   # folders that this worker did not remove when it should
_private = set()  # folders of this worker alone, by tempfile


def install():
    """Called once by an adapter, after turns.start()."""
    if _patches.done:
        return
    _patches.wrap(os, "mkdir", _mkdir)
    for name in ("remove", "unlink"):
        _patches.wrap(os, name, _remover)
    for name in ("rename", "replace"):
        _patches.wrap(os, name, _mover)
    shutil = sys.modules.get("shutil")  # the framework has imported it
    if shutil is not None:
        _patches.wrap(shutil, "rmtree", _rmtree)
        for name in ("copyfile", "copy", "copy2", "move"):
            _patches.wrap(shutil, name, _mover)


def uninstall():
    _patches.restore()
    _spared.clear()
    _private.clear()


def _is_watched():
    return host.is_active() and not host.is_inside()


def _made(record):
    """(digest of a folder, who has made it), in order."""
    data = record.read()
    return _ENTRY.iter_unpack(data[:len(data) // _ENTRY.size * _ENTRY.size])


def _is_excused(record, path):
    """May this worker find a folder where it wants to make one?"""
    return path in _spared or (os.path.isdir(path)
                               and _is_overtaken(record, path))


def _is_overtaken(record, path):
    """Has another worker made the folder more often?"""
    key = host.digest(path)
    makers = collections.Counter(
        rank for folder, rank in _made(record) if folder == key)
    mine = makers.pop(_job.job().rank, 0)
    return max(makers.values(), default=0) > mine


def make(path, act):
    """act() makes a folder and raises FileExistsError where there is one,
    which is excused if another worker has made it at the same line, or
    FileNotFoundError, excused if worker 0 has removed what it lies in."""
    with host.locked(MADE) as record:
        try:
            result = act()
        except FileExistsError:
            if not _is_excused(record, path):
                raise
            result = None
        except FileNotFoundError:
            if not any(turns.is_behind(_tree(folder))
                       for folder in _around(path)):
                raise
            return None
        _spared.discard(path)
        note(record, path)
    return result


def note(record, path):
    """This worker has made the folder. Worker 0 then also owns those around it
    that another worker of the job was faster to make."""
    rank = _job.job().rank
    record.append(_ENTRY.pack(host.digest(path), rank))
    makers = _lowest(record) if rank == 0 else {}
    for folder in _around(path):
        if makers.get(host.digest(folder), 0) > 0:
            record.append(_ENTRY.pack(host.digest(folder), 0))


def _mkdir(original):
    def mkdir(path, *args, **kwargs):
        name = host.plain_path(path) if _is_watched() else None
        if name is None or kwargs.get("dir_fd") is not None:
            return original(path, *args, **kwargs)
        # tempfile tries names until one is new: there it must stay an error.
        if sys._getframe(1).f_globals.get("__name__") == "tempfile":
            original(path, *args, **kwargs)
            with host.locked(MADE) as record:
                note(record, name)
            _private.add(name)
            return None
        return make(name, lambda: original(path, *args, **kwargs))

    return mkdir


def is_private(path):
    """Does it lie in a temporary folder that only this worker knows?"""
    if not _private or "://" in os.fspath(path):
        return False
    path = os.path.realpath(path)
    while path != os.path.dirname(path):
        if path in _private:
            return True
        path = os.path.dirname(path)
    return False


def remove_tree(path, act):
    """act() removes the folder `path`, for this worker or for all."""
    if _job.job().rank == 0:
        return turns.write([_tree(path)], lambda: _remove_first(path, act))
    with host.locked(MADE) as record:
        owner = _owner(record, path)
        if owner == _job.job().rank:
            with host.inside():
                return act()
    _spared.add(path)
    turns.write([_tree(path)], act)  # counted
    if owner is None and host.is_home():
        turns.follow(_tree(path), "removing a folder",
                     lambda: _is_new(path), PATIENCE)
    return None


def _remove_first(path, act):
    """As worker 0, while nobody makes a folder. Another worker may have made
    the folder, found by worker 0, and removed it."""
    with host.locked(MADE) as record:
        if os.path.lexists(path) or not _is_overtaken(record, path):
            return act()
    return None


def _tree(path):
    return path + os.sep + "tree"


def _is_new(path):
    with host.locked(MADE) as record:
        return _owner(record, path) is not None


def _owner(record, path):
    """The lowest worker that has made the folder or one around it; None: it
    is older than the job."""
    makers = _lowest(record)
    found = [makers.get(host.digest(folder))
             for folder in (path, *_around(path))]
    return min((rank for rank in found if rank is not None), default=None)


def _lowest(record):
    """{digest of a folder: the lowest worker that has made it}"""
    makers = {}
    for folder, rank in _made(record):
        makers[folder] = min(rank, makers.get(folder, rank))
    return makers


def _around(path):
    """The folders that it lies in, the nearest first."""
    found = []
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        found.append(path)
    return found


def _rmtree(original):
    def rmtree(path, *args, **kwargs):
        name = None
        if (_is_watched() and not os.path.islink(path)
                and kwargs.get("dir_fd") is None):
            name = host.plain_path(path)
        if name is None:
            return original(path, *args, **kwargs)
        return remove_tree(name, lambda: original(path, *args, **kwargs))

    return rmtree


def _saved(path, kwargs):
    """The saved file meant; None when it is none."""
    if not _is_watched() or any(
            kwargs.get(name) is not None
            for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        return None
    path = host.plain_path(path)
    return path if path is not None and turns.is_written(path) else None


def _remover(original):
    def remove(path, *args, **kwargs):
        if _job.job().rank != 0 and _saved(path, kwargs) is not None:
            return None
        return original(path, *args, **kwargs)

    return remove


def _mover(original):
    """os.rename(src, dst) and its like; shutil's return where it now is."""

    def move(src, dst, *args, **kwargs):
        source = _saved(src, kwargs)
        target = host.plain_path(dst) if source is not None else None
        if target is None:
            return original(src, dst, *args, **kwargs)
        within = os.path.isdir(target)
        if within:
            target = os.path.join(target, os.path.basename(source))
        with host.inside():
            result = turns.write(
                [target], lambda: original(src, dst, *args, **kwargs))
        if _job.job().rank == 0 or original.__module__ != "shutil":
            return result
        return os.path.join(dst, os.path.basename(src)) if within else dst

    return move
