"""The random streams of Python and numpy: how they get a seed, a state and a
digest, and what stands for a seed that would be asked of the system.

An adapter calls watch(fresh) once. From then on random.seed() and
numpy.random.seed() without a number, and numpy.random.default_rng(), take
fresh(), which every worker can know; and `heard` is told of the numbers that
the script sets by hand.
"""
import hashlib
import random

from poseidon import _boot
from poseidon.shared.patches import Patches

_patches = Patches()
_watching = None   # fresh, arrived, heard


class Python:
    """Python's own stream."""

    def get(self):
        return random.getstate()

    def set(self, state):
        random.setstate(state)

    def seed(self, number):
        _patches.before(random, "seed")(number)

    def digest(self):
        return repr(random.getstate()).encode()


class Numpy:
    """numpy.random's."""

    def __init__(self, module):
        self.module = module

    def get(self):
        return self.module.get_state(legacy=False)

    def set(self, state):
        self.module.set_state(state)

    def seed(self, number):
        _patches.before(self.module, "seed")(number & 0xffffffff)

    def digest(self):
        state = self.get()["state"]
        key = state.get("key")
        return repr(state).encode() if key is None else (
            key.tobytes() + b"%d" % state.get("pos", 0))


def mixed(data, rank):
    """A number of 63 bits, made of bytes and a rank."""
    digest = hashlib.sha256(data + b"/%d" % rank).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def watch(fresh, arrived, heard):
    """arrived(name, stream) is called for Python's stream now and for numpy's
    as soon as it is imported; heard(name, call) after each seed by hand."""
    global _watching
    if _watching is not None:
        return False
    _watching = (fresh, arrived, heard)
    python = Python()
    arrived("random", python)
    _watch_seed(random, "random.seed", "random", python)
    _boot.after_import("numpy.random", _numpy)
    return True


def unwatch():
    global _watching
    _watching = None
    _patches.restore()


def pause():
    """In a forked child the patches stay and do nothing."""
    global _watching
    _watching = None


def patch(owner, name, make):
    """owner.name = make(what it was), until unwatch()."""
    _patches.wrap(owner, name, make)


def _numpy(module):
    if _watching is None:
        return
    stream = Numpy(module)
    _watching[1]("numpy", stream)
    _watch_seed(module, "numpy.random.seed", "numpy", stream)
    patch(module, "default_rng", _default_rng)


def _default_rng(make):
    def default_rng(seed=None):
        return make(_watching[0]() if seed is None and _watching else seed)
    return default_rng


def _watch_seed(owner, title, name, stream):
    def make(original):
        def seed(*args, **kwargs):
            given = (args or tuple(kwargs.values()) or (None,))[0]
            if _watching is None:
                return original(*args, **kwargs)
            fresh, _, heard = _watching
            if given is None:
                return stream.seed(fresh())
            result = original(*args, **kwargs)
            heard(name, "%s(%s)" % (title, given))
            return result
        return seed

    patch(owner, "seed", make)
