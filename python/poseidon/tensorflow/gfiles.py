"""tf.gfile and tf.io.gfile, called by several workers at the same line.

Folders follow shared/files.py: worker 0 removes a folder, and the others go
on when that is done, so that none of them finds what is about to go, or
removes what worker 0 has written since. A file that another worker has
removed or renamed meanwhile is no error for any but worker 0. What worker 0
alone writes it alone renames: an estimator exports into a folder that gets
its name when all is in it."""
import os

from poseidon import _job
from poseidon.shared import everywhere, files, host, turns

_patches = everywhere.Patches()
_errors = None
_unwritten = set()   # folders that this worker left to worker 0


def install(tf):
    global _errors
    if not host.start():
        return
    from tensorflow.python.lib.io import file_io  # what all names end in
    _errors = tf.errors
    turns.start()
    files.install()
    _patches.replace([
        (file_io, "delete_recursively_v2", _deleter),
        (file_io, "create_dir_v2", _maker),
        (file_io, "recursive_create_dir_v2", _recursive_maker),
        (file_io, "delete_file_v2", _remover),
        (file_io, "rename_v2", _mover),
        (file_io, "copy_v2", _mover)])


def uninstall():
    _patches.restore()
    files.uninstall()
    _unwritten.clear()


def unwritten(folder):
    """Worker 0 writes it, perhaps under another name."""
    _unwritten.add(host.plain_path(folder))


def _local(path):
    """A folder of this host; None: of another kind of file system."""
    if not host.is_active() or host.is_inside():
        return None
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    if isinstance(path, str) and "://" in path:
        return None
    return host.plain_path(path)


def _deleter(original):
    def delete_recursively(path):
        name = _local(path)
        if name is None or os.path.islink(os.fspath(path)):
            return original(path)
        return files.remove_tree(name, lambda: original(path))

    return delete_recursively


def _maker(original):
    def create_dir(path):
        name = _local(path)
        if name is None:
            return original(path)

        def act():
            try:
                return original(path)
            except _errors.AlreadyExistsError as error:
                raise FileExistsError(path) from error
            except _errors.NotFoundError as error:
                raise FileNotFoundError(path) from error

        try:
            return files.make(name, act)
        except (FileExistsError, FileNotFoundError) as error:
            raise error.__cause__ from None

    return create_dir


def _recursive_maker(original):
    def recursive_create_dir(path):
        name = _local(path)
        if name is None or not host.is_home():
            return original(path)
        with host.locked(files.MADE) as record:
            new = _missing(name)
            original(path)
            if _job.job().rank == 0:
                new.append(name)
            for folder in new:
                files.note(record, folder)
        return None

    return recursive_create_dir


def _missing(folder):
    """This folder and those around it that are not there."""
    found = []
    while not os.path.isdir(folder) and folder != os.path.dirname(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def _is_excused(path, error):
    """Somebody else was faster."""
    return (_job.job().rank != 0 and _local(path) is not None
            and isinstance(error, _errors.NotFoundError))


def _remover(original):
    def delete_file(path):
        try:
            return original(path)
        except _errors.OpError as error:
            if not _is_excused(path, error):
                raise
        return None

    return delete_file


def _mover(original):
    def move(src, dst, overwrite=False):
        if _unwritten and _local(src) in _unwritten:
            return None    # worker 0 may still be writing there
        try:
            return original(src, dst, overwrite)
        except _errors.OpError as error:
            name = _local(dst)
            if (not _is_excused(src, error) or name is None
                    or not os.path.exists(name)):
                raise
        return None

    return move
