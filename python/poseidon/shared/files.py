"""Folders made, and saved files removed, renamed or copied, by several workers
that run the same line.

- os.mkdir (and with it os.makedirs and Path.mkdir): "it exists" is no error
  when another worker of this host has made the folder at the same line.
- shutil.rmtree of such a folder: the lowest worker that made it removes it.
- os.remove, os.rename, os.replace, shutil.copy..., shutil.move of a file that
  torch.save has written: worker 0 does it, the others have no such file.
Everything else is left as it is.
"""
import os
import struct
import sys

from poseidon import _job
from poseidon.shared import host
from poseidon.shared.patches import Patches

MADE = "made"                  # the record: a folder and who has made it
_ENTRY = struct.Struct("=16sI")

_patches = Patches()
_spared = set()   # folders that this worker did not remove when it should
_is_saved = None
_moves = None


def install(is_saved, moves):
    """is_saved(path), moves(target, move): see save.py."""
    global _is_saved, _moves
    _is_saved, _moves = is_saved, moves
    _patches.wrap(os, "mkdir", _mkdir)
    for name in ("remove", "unlink"):
        _patches.wrap(os, name, _remover)
    for name in ("rename", "replace"):
        _patches.wrap(os, name, _mover)
    shutil = sys.modules.get("shutil")  # torch has imported it
    if shutil is not None:
        _patches.wrap(shutil, "rmtree", _rmtree)
        for name in ("copyfile", "copy", "copy2", "move"):
            _patches.wrap(shutil, name, _mover)


def uninstall():
    _patches.restore()
    _spared.clear()


def _is_watched():
    return host.is_active() and not host.is_inside()


def _makers(record, path):
    """How often each worker of this host has made the folder."""
    data, key, found = record.read(), host.digest(path), {}
    for maker, rank in _ENTRY.iter_unpack(
            data[:len(data) // _ENTRY.size * _ENTRY.size]):
        if maker == key:
            found[rank] = found.get(rank, 0) + 1
    return found


def _is_excused(record, path):
    """May this worker find a folder where it wants to make one?"""
    if path in _spared:
        return True
    makers, rank = _makers(record, path), _job.job().rank
    mine = makers.pop(rank, 0)
    return os.path.isdir(path) and max(makers.values(), default=0) > mine


def _mkdir(original):
    def mkdir(path, *args, **kwargs):
        name = host.plain_path(path) if _is_watched() else None
        # tempfile tries names until one is new: there it must stay an error.
        if (name is None or kwargs.get("dir_fd") is not None
                or sys._getframe(1).f_globals.get("__name__") == "tempfile"):
            return original(path, *args, **kwargs)
        with host.locked(MADE) as record:
            try:
                original(path, *args, **kwargs)
            except FileExistsError:
                if not _is_excused(record, name):
                    raise
            _spared.discard(name)
            record.append(_ENTRY.pack(host.digest(name), _job.job().rank))
        return None

    return mkdir


def _rmtree(original):
    def rmtree(path, *args, **kwargs):
        name, rank = None, _job.job().rank
        if (_is_watched() and rank != 0 and not os.path.islink(path)
                and kwargs.get("dir_fd") is None):
            name = host.plain_path(path)
        if name is not None:
            with host.locked(MADE) as record:
                if min(_makers(record, name), default=rank) < rank:
                    _spared.add(name)
                    return None
        return original(path, *args, **kwargs)

    return rmtree


def _saved(path, kwargs):
    """The saved file meant; None when it is none."""
    if not _is_watched() or any(
            kwargs.get(name) is not None
            for name in ("dir_fd", "src_dir_fd", "dst_dir_fd")):
        return None
    path = host.plain_path(path)
    return path if path is not None and _is_saved(path) else None


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
            result = _moves(target,
                            lambda: original(src, dst, *args, **kwargs))
        if _job.job().rank == 0 or original.__module__ != "shutil":
            return result
        return os.path.join(dst, os.path.basename(src)) if within else dst

    return move
