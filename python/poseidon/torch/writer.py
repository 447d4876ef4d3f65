"""TensorBoard's writers and progress bars: worker 0 has them, the others run
the same lines without a file and without a bar."""
import inspect
import os
import sys

from poseidon import _boot, _job
from poseidon.shared import host
from poseidon.shared.patches import Patches

WAIT = 20.0  # seconds until worker 0 has told where its writer writes

_patches = Patches()
_made = [0]  # writers without a folder's name, so far


def install(torch):
    """Called once, right after `import torch`. Nothing is imported."""
    if not host.start():
        return
    _boot.after_import("torch.utils.tensorboard", _install_writer)
    _boot.after_import("tensorboardX", _install_writer)
    if _job.job().rank != 0:
        _boot.after_import("tqdm.std", _install_bar)


def uninstall():
    _patches.restore()


def _install_writer(module):
    if not host.is_active():
        return
    base = module.SummaryWriter
    if _job.job().rank == 0:
        _patches.wrap(base, "__init__", _make_first)
        return
    silent = make_silent(base)
    for name, inner in list(sys.modules.items()):
        if ((name + ".").startswith(module.__name__ + ".")
                and getattr(inner, "SummaryWriter", None) is base):
            _patches.put(inner, "SummaryWriter", silent)


def _folder_given(args, kwargs):
    """Two names for it: torch's and tensorboardX's."""
    return (args[0] if args else None) or kwargs.get("log_dir") \
        or kwargs.get("logdir")


def _record(number):
    """Where the others look for the folder of the writer `number`."""
    return "writer-%d" % number


def _make_first(original):
    """Worker 0's writer is the real one. The name that it gives its folder
    has the time in it: the others are told."""

    def __init__(self, *args, **kwargs):
        original(self, *args, **kwargs)
        if not _folder_given(args, kwargs) and host.is_active():
            _made[0] += 1
            folder = getattr(self, "log_dir", None) or self.logdir
            with host.locked(_record(_made[0])) as record:
                record.store({"folder": folder})

    return __init__


class Nothing:
    """Takes every call, and returns nothing."""

    def __init__(self, writer):
        self._writer = writer

    def get_logdir(self):
        return self._writer.log_dir

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return _nothing


def _nothing(*args, **kwargs):
    return None


def _begin(self, *args, **kwargs):
    given = _folder_given(args, kwargs)
    self._folder = os.fspath(given) if given else None
    if not given:
        _made[0] += 1
        self._number = _made[0]
    self.comment = args[1] if len(args) > 1 else kwargs.get("comment", "")
    self.purge_step = kwargs.get("purge_step")
    self.file_writer = Nothing(self)
    self.all_writers = {}
    self.default_bins = []


def _get_folder(self):
    """Asked for, it is worker 0's, which may come a little later; on another
    host nobody tells."""
    if self._folder is None:
        waiting = host.Waiting(None)
        while self._folder is None and host.is_home():
            with host.locked(_record(self._number)) as record:
                self._folder = record.load().get("folder")
            if self._folder is None:
                if waiting.seconds() > WAIT:
                    break
                waiting.rest()
        if self._folder is None:
            self._folder = os.path.join("runs", os.uname().nodename +
                                        (self.comment or ""))
    return self._folder


def _set_folder(self, value):
    self._folder = value


def make_silent(base):
    """A class that is one of base's, can be derived from, and whose methods
    do nothing."""
    folder = property(_get_folder, _set_folder)
    body = {
        "__init__": _begin,
        "__enter__": lambda self: self,
        "__exit__": _nothing,
        "__doc__": base.__doc__,
        "__module__": base.__module__,
        "__qualname__": base.__qualname__,
        "log_dir": folder,
        "logdir": folder,
        "get_logdir": _get_folder,
        "_get_file_writer": lambda self: self.file_writer,
    }
    for name in dir(base):
        if not name.startswith("_") and callable(getattr(base, name)):
            body.setdefault(name, _nothing)
    return type(base.__name__, (base,), body)


def _install_bar(module):
    """All kinds of bars derive from this one."""
    if host.is_active():
        _patches.wrap(module.tqdm, "__init__", _make_bar)


def _make_bar(original):
    names = list(inspect.signature(original).parameters)[1:]
    at = names.index("disable")

    def __init__(self, *args, **kwargs):
        if len(args) > at:
            args = args[:at] + (True,) + args[at + 1:]
        else:
            kwargs["disable"] = True
        original(self, *args, **kwargs)

    return __init__
