"""What the workers of one host tell each other without a connection: small
files in the private folder of the job's agent, which whoever ends the job
removes with all that is in it.

Also what the parts beside it share: files that appear in one piece.
"""
import contextlib
import fcntl
import hashlib
import json
import mmap
import os
import shutil
import tempfile
import threading
import time

from poseidon import _job

# As they are before anything is replaced.
_mkdtemp, _rmtree, replace = tempfile.mkdtemp, shutil.rmtree, os.replace

PATIENCE = 5.0  # seconds of waiting for another worker until it is said
_PAUSE = 0.05   # the longest between two looks

_pid = None     # of the process whose effects are watched
_thread = threading.local()


def start():
    """Is there anything to do? In a job of one there is not."""
    global _pid
    if _job.job().size > 1:
        _pid = os.getpid()
    return is_active()


def stop():
    global _pid
    _pid = None


def is_active():
    """In the worker itself; in a forked child everything is as without us."""
    return _pid is not None and _pid == os.getpid()


@contextlib.contextmanager
def inside():
    """Within a call that is done once anyway."""
    _thread.inside = True
    try:
        yield
    finally:
        _thread.inside = False


def is_inside():
    return getattr(_thread, "inside", False)


def is_home():
    """Does worker 0 run on this host? PSD_MASTER is its host and port."""
    job = _job.job()
    master = os.environ.get("PSD_MASTER", "").rpartition(":")[0].strip("[]")
    if master and os.environ.get("PSD_HOST"):
        return job.rank == 0 or master == os.environ["PSD_HOST"].strip("[]")
    return job.rank == job.local_rank


def plain_path(name):
    """The one name of a file, if `name` is a path at all."""
    if isinstance(name, (str, os.PathLike)):
        path = os.fspath(name)
        if isinstance(path, str):
            return os.path.realpath(path)
    return None


def digest(path):
    return hashlib.blake2b(os.fsencode(path), digest_size=16).digest()


def file_name(kind, path):
    """The file of this host that speaks about `path`."""
    return "%s-%s" % (kind, digest(path).hex())


def place(name):
    return os.path.join(os.path.dirname(_job.job().agent), name)


class Waiting:
    """Looks that come slower and slower; says once what it waits for."""

    def __init__(self, text):
        self.text, self.pause = text, 0.001
        self.began = time.monotonic()

    def seconds(self):
        return time.monotonic() - self.began

    def rest(self):
        if self.text and self.seconds() > PATIENCE:
            _job.warn_once(self.text, self.text)
            self.text = None
        time.sleep(self.pause)
        self.pause = min(2 * self.pause, _PAUSE)


class Record:
    """A file that one worker at a time holds: bytes, or JSON."""

    def __init__(self, fd):
        self.fd = fd

    def read(self):
        size = os.fstat(self.fd).st_size if self.fd is not None else 0
        return os.pread(self.fd, size, 0) if size else b""

    def append(self, data):
        if self.fd is not None:
            os.pwrite(self.fd, data, os.fstat(self.fd).st_size)

    def load(self):
        try:
            return json.loads(self.read() or b"{}")
        except ValueError:  # its writer was killed in the middle
            return {}

    def store(self, value):
        if self.fd is not None:
            os.ftruncate(self.fd, 0)
            os.pwrite(self.fd, json.dumps(value).encode(), 0)


@contextlib.contextmanager
def locked(name, text=""):
    """Hold the record `name`; `text` says what a long wait is for. When the
    folder is gone so is the job: then everyone acts for itself."""
    try:
        fd = os.open(place(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield Record(None)
        return
    waiting = Waiting(text)
    try:
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                waiting.rest()
        try:
            yield Record(fd)
        finally:  # a child forked meanwhile has the descriptor, too
            fcntl.flock(fd, fcntl.LOCK_UN)
    finally:
        os.close(fd)


@contextlib.contextmanager
def one_at_a_time(path):
    """The workers of this host, one after another; alone it is nothing."""
    if not is_active():
        yield
        return
    with locked(file_name("turn", path),
                "waiting for another worker of this host: %s" % path):
        yield


def words(name, write):
    """A file of eight integers that one worker writes and others look at;
    None when it is not there."""
    size = 64
    try:
        fd = os.open(place(name), (os.O_RDWR | os.O_CREAT if write
                                   else os.O_RDONLY) | os.O_CLOEXEC, 0o600)
    except OSError:
        return None
    try:
        if write:
            os.ftruncate(fd, size)
        elif os.fstat(fd).st_size < size:
            return None
        access = mmap.ACCESS_WRITE if write else mmap.ACCESS_READ
        return memoryview(mmap.mmap(fd, size, access=access)).cast("q")
    finally:
        os.close(fd)


def start_time(pid):
    """Field 22 of /proc/PID/stat; 0 when the process has ended."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[0] in (b"Z", b"X") else int(fields[19])


@contextlib.contextmanager
def scratch(folder):
    """A new folder in `folder`; what is left in it at the end is removed."""
    path = _mkdtemp(prefix=".psd-", dir=folder)
    try:
        yield path
    finally:
        _rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def in_one_piece(target, lasting=False):
    """A path to write `target` at: it gets its name when it is complete, so
    nobody ever sees a half file. The last part of the name is the same, as
    torch.save writes that into the file. `lasting`: on the disk, too."""
    folder, name = os.path.split(target)
    with scratch(folder) as beside:
        part = os.path.join(beside, name)
        yield part
        _keep_mode(target, part)
        if lasting:
            _sync(part)
        replace(part, target)
        if lasting:
            _sync(folder)


def _keep_mode(target, part):
    try:
        os.chmod(part, os.stat(target).st_mode & 0o7777)
    except OSError:  # a new file
        pass


def _sync(path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    except OSError as error:
        if os.path.isdir(path):  # not every file system does folders
            return
        raise error
    finally:
        os.close(fd)
