"""Is the script training or evaluating? Seen by what it tells its modules.

`last()` is what the last Module.train() or eval() said, leaving out those
that say nothing about the run: parts of a model that is itself training
(frozen BatchNorm), and models without a parameter to train (a teacher).
Keras knows what it reads a loader for, and says it: within `telling`.
"""
import contextlib
import weakref

from poseidon.shared.patches import Patches

_last = None      # True: train(), False: eval(), None: neither was called
_trains = None    # weak reference to what train() was last called on
_depth = 0        # train() calls itself for every child
_has_norm = False
_told = None      # by telling()
_whole = False    # the same: batches must not be cut
_patches = Patches()


def install(torch):
    if _patches:
        return
    _patches.wrap(torch.nn.Module, "train", _watched)
    _patches.wrap(torch.nn.modules.batchnorm._BatchNorm, "__init__", _made)


def _watched(train):
    def watched(self, mode=True):
        global _depth
        if _depth == 0:
            _note(self, mode)
        _depth += 1
        try:
            return train(self, mode)
        finally:
            _depth -= 1
    return watched


def _made(init):
    def made(self, *args, **kwargs):
        global _has_norm
        _has_norm = True
        init(self, *args, **kwargs)
    return made


def uninstall():
    global _last, _trains, _has_norm
    _patches.restore()
    _last, _trains, _has_norm = None, None, False


def last():
    return _last


@contextlib.contextmanager
def telling(kind, whole=False):
    """Loaders are read for "train" or "eval" in here; "open": to look at
    them; None: nothing is known. whole: no batch may be cut."""
    global _told, _whole
    before, _told, _whole = (_told, _whole), kind, whole
    try:
        yield
    finally:
        _told, _whole = before


def told():
    return _told


def is_whole():
    """Does training take whole batches, whatever --batch says?"""
    return _whole


def has_norm():
    """Has a BatchNorm module been made? It needs two rows to work."""
    return _has_norm


def _note(module, mode):
    global _last, _trains
    if mode:
        _last, _trains = True, weakref.ref(module)
        return
    if not any(p.requires_grad for p in module.parameters()):
        return
    whole = _trains and _trains()
    if whole is not None and whole is not module and whole.training and (
            any(part is module for part in whole.modules())):
        return
    _last = False
