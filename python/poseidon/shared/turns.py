"""What worker 0 writes for all, and how the others know that it is there.

Each path has a count of what was begun and done with it. Worker 0 writes; the
others only count. Before one of them reads what it has written itself, as the
script believes, it waits until worker 0 has come as far: has written that
path as often, is reading it, too, waits for the others in a later exchange,
or has ended. Nobody waits for another in a write, and nothing here can wait
for ever.
"""
import atexit
import errno
import os
import threading

from poseidon import _job
from poseidon.shared import host

LIMIT = 300.0  # seconds to wait for a worker 0 that is not even writing
ABROAD = 20.0  # and on another host, for a file that is not there

# Words of worker 0: who it is, how far it is. Words of a path: how many writes
# have begun and have ended, how many reads have begun.
PID, START, PASSED, ENDED = range(4)
BEGUN, DONE, READS = range(3)

_lock = threading.Lock()
_mine = None     # this worker's own words; worker 0's are in a file
_others = {}     # name of a file: its words, to look at
_paths = {}      # path: its words as this worker counts them


def start():
    """Called by every adapter; the first call counts."""
    global _mine
    if _mine is not None and _mine[PID] == os.getpid():
        return
    first = _job.job().rank == 0
    _mine = (host.words("worker-0", True) if first else None) or [0] * 8
    _mine[PID], _mine[START] = os.getpid(), host.start_time(os.getpid())
    _mine[PASSED] = _mine[ENDED] = 0
    if first:
        atexit.register(end)


def passing():
    """This worker is about to wait for the others, in a step or elsewhere:
    nobody may now wait for what it has not written. Cheap: one integer."""
    if _mine is not None:
        _mine[PASSED] += 1


def end():
    """This worker will write nothing more."""
    if _mine is not None and _mine[PID] == os.getpid():
        _mine[ENDED] = 1


def is_written(path):
    """Was it written by worker 0, or meant to be, as this worker knows?"""
    return path in _paths and _paths[path][BEGUN] > 0


def is_behind(path):
    """Has worker 0 begun more writes of the path than this worker?"""
    about = _look(host.file_name("save", path))
    mine = _paths[path][BEGUN] if path in _paths else 0
    return about is not None and about[BEGUN] > mine


def write(paths, act):
    """Worker 0 does it; the others count it. What act() returned, or None."""
    for path in paths:
        _count(path, BEGUN)
    if _job.job().rank != 0:
        return None
    try:
        return act()
    finally:
        for path in paths:
            _count(path, DONE)


def read(path, who, exists=os.path.exists):
    """Before `who` reads what may have been written: wait for it."""
    reads = _count(path, READS)
    if _job.job().rank == 0 or not is_written(path):
        return
    if host.is_home():
        _wait(path, who, _paths[path][BEGUN], reads)
    else:
        _wait_abroad(path, exists)


def follow(path, who, is_over, limit):
    """Wait until worker 0 has been through write([path], ...) as often as
    this worker has, or is_over(), or it is clear that it does not come."""
    waiting = host.Waiting("%s waits for worker 0: %s" % (who, path))
    while waiting.seconds() < limit and not is_over():
        if _is_past(path, _paths[path][BEGUN], 1 << 62)[0]:
            return
        waiting.rest()


def _count(path, word):
    """Add one; how many it are now."""
    with _lock:
        if path not in _paths:
            name = host.file_name("save", path)
            _paths[path] = (host.words(name, True)
                            if _job.job().rank == 0 else None) or [0] * 8
        _paths[path][word] += 1
        return _paths[path][word]


def _look(name):
    if _others.get(name) is None:
        _others[name] = host.words(name, False)
    return _others[name]


def _is_past(path, writes, reads):
    """Has worker 0 come as far as we have? Also: is it writing?"""
    first = _look("worker-0")
    about = _look(host.file_name("save", path))
    writing = about is not None and about[BEGUN] > about[DONE]
    if about is not None and (about[DONE] >= writes or about[READS] >= reads):
        return True, writing
    if first is None:
        return False, writing
    gone = first[ENDED] or host.start_time(first[PID]) != first[START]
    return gone or first[PASSED] > _mine[PASSED], writing


def _wait(path, who, writes, reads):
    waiting = host.Waiting("%s waits until worker 0 has saved %s"
                           % (who, path))
    last = 0.0  # when worker 0 was last seen writing
    while True:
        past, writing = _is_past(path, writes, reads)
        if past:
            return
        if writing:
            last = waiting.seconds()
        elif waiting.seconds() - last > LIMIT:
            _job.warn_once("save " + path, "worker 0 has not saved %s in %d s;"
                           " loading what is there" % (path, LIMIT))
            return
        waiting.rest()


def _wait_abroad(path, exists):
    """Worker 0 writes on another host: only a shared folder shows it."""
    waiting = host.Waiting(None)
    while not exists(path):
        if waiting.seconds() > ABROAD:
            raise FileNotFoundError(
                errno.ENOENT, "worker 0 saves on its own host, and the file "
                "has not come here; save into a folder that all hosts share, "
                "or let only the script's later runs load it", path)
        waiting.rest()
