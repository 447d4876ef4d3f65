"""Random streams: equal on all workers where they must be, different where
they should be.

The rule:
1. When torch is imported, torch, `random` and numpy get the job's seed
   (PSD_SEED), the same on all workers. A seed that the script sets by hand
   is the same on all workers too, as the script knows no rank. So models,
   random_split and everything else made before the optimizer are equal.
2. When the first optimizer is made, the streams fork. What the script draws
   itself (dropout, noise, batches by torch.randint) then differs from worker
   to worker: new seed = hash(state, rank).
3. The state of before lives on as the COMMON stream. What must stay equal is
   drawn from it: the order and the seeds of every DataLoader, its samplers,
   random_split, torch.nn.init (models that are made later), and the samples
   of an IterableDataset. It goes on as the
   single run's stream does, so the order is that of the single run, if that
   draws nothing else (no dropout, no noise) from the default stream.
4. A seed that the script sets after the fork is obeyed: from there all
   workers draw the same again, and one line says so.

Not covered: a state restored by set_rng_state after the fork, random.Random
and numpy.random.RandomState objects made without a seed. torch.Generator
objects need nothing: torch starts them all with the same seed.
"""
import contextlib
import os
import sys

from poseidon import _job
from poseidon.shared import streams
from poseidon.torch import forward

_streams = {}      # name: stream, of those that are loaded
_common = None     # name: state, after the fork
_own = {}          # name: digest of a stream of which nothing was drawn yet
_drawn = False     # something was drawn since the fork
_inside = 0        # depth of common()
_quiet = 0         # depth of torch.random.fork_rng()
_draws = [0, 0]    # seeds that were asked of the system: equal, of this rank
_on = False


class _Torch:
    def __init__(self, torch):
        self.cpu = torch.default_generator
        self.cuda = torch.cuda if torch.cuda._is_compiled() else None

    def get(self):
        return self.cpu.get_state()

    def set(self, state):
        self.cpu.set_state(state)

    def seed(self, number):
        self.cpu.manual_seed(number)
        if self.cuda is not None:
            self.cuda.manual_seed_all(number)  # waits until CUDA is there

    def digest(self):
        return bytes(self.cpu.get_state().tolist())


def install(torch):
    """Give the streams of this process the job's seed, and watch them."""
    global _on
    if _job.job().size == 1 or _on:
        return
    _on, _draws[:] = True, [0, 0]
    _arrive("torch", _Torch(torch))
    streams.watch(_fresh, _arrive, _heard)
    for owner in (torch, torch.random):
        streams.patch(owner, "manual_seed", _manual_seed)
        streams.patch(owner, "seed", _torch_seed)
    streams.patch(torch.random, "fork_rng", _fork_rng)
    data = torch.utils.data
    for owner in (data, data.dataset):
        streams.patch(owner, "random_split", _in_common)
    for owner, name in _initialisers(torch.nn.init):
        streams.patch(owner, name, _in_torch_common)
    os.register_at_fork(after_in_child=_off)


def uninstall():
    _off()
    streams.unwatch()


def fork():
    """From here on the script's own draws differ from worker to worker."""
    global _common, _drawn
    if not _on or _common is not None:
        return
    _common = {name: stream.get() for name, stream in _streams.items()}
    _drawn = False
    for name, stream in _streams.items():
        _differ(name, stream)


def forked():
    """Has the first optimizer been made?"""
    return _common is not None


@contextlib.contextmanager
def common(only=None):
    """Draw from the common stream (of all modules, or `only` of one)."""
    global _inside
    if not _on or _common is None or _inside:
        yield
        return
    streams = [(name, stream) for name, stream in _streams.items()
               if only in (None, name)]
    mine = [stream.get() for name, stream in streams]
    for name, stream in streams:
        stream.set(_common[name])
    _inside += 1
    try:
        yield
    finally:
        _inside -= 1
        for (name, stream), state in zip(streams, mine):
            _common[name] = stream.get()
            stream.set(state)


def untouched():
    """Has the script drawn nothing yet in which workers differ? Then all of
    them compute the same, unless a DataLoader's batch was cut."""
    global _drawn
    _drawn = _drawn or any(_streams[name].digest() != digest
                           for name, digest in _own.items())
    return _common is not None and not _drawn


def is_common():
    """Do draws come from the common stream just now, or are all equal yet?"""
    return _common is None or _inside > 0


def inside():
    """Is something being drawn from the common stream just now?"""
    return _inside > 0


def of_rank(number):
    """A seed of this worker, made of one that is equal on all; rank 0 keeps
    it."""
    rank = _job.job().rank
    return number if rank == 0 else streams.mixed(b"%d" % number, rank) >> 2


def _off():
    """Nothing of this in a forked child: it is not the worker."""
    global _on, _common
    _on, _common = False, None
    _own.clear()
    streams.pause()


def _arrive(name, stream):
    """A module that draws is there: now, or imported later."""
    _streams[name] = stream
    stream.seed(_job.job().seed)
    if _common is not None:
        _common[name] = stream.get()
        _differ(name, stream)


def _differ(name, stream):
    stream.seed(streams.mixed(stream.digest(), _job.job().rank))
    _own[name] = stream.digest()


def _fresh():
    """In place of a seed from the system: equal where draws are equal."""
    which = 0 if is_common() else 1
    _draws[which] += 1
    data = b"fresh %d %d" % (_job.job().seed, _draws[which])
    return streams.mixed(data, _job.job().rank + 1 if which else 0)


def _heard(stream, call):
    """The script has set a seed: after the fork all draw the same again."""
    if not is_common():
        _common[stream] = _streams[stream].get()
        _own.pop(stream, None)
        if not _quiet:
            _equal_again(call)


def _manual_seed(real):
    def manual_seed(seed):
        result = real(seed)
        if _on:
            _heard("torch", "torch.manual_seed(%s)" % seed)
        return result
    return manual_seed


def _equal_again(call):
    """Told once, by one worker, as all of them do it."""
    if _job.job().rank == 0:
        _job.warn_once("seed", "%s after the optimizer was made: from here "
                       "all workers draw the same random numbers (set seeds "
                       "before the optimizer)" % call)


def _torch_seed(real):
    def seed():
        if not _on:
            return real()
        number = _fresh()
        _streams["torch"].seed(number)
        return number
    return seed


def _fork_rng(real):
    @contextlib.contextmanager
    def fork_rng(*args, **kwargs):
        global _quiet
        enabled = kwargs.get("enabled", args[1] if len(args) > 1 else True)
        before = _common["torch"] if enabled and _common else None
        with real(*args, **kwargs) as value:
            _quiet += 1
            try:
                yield value
            finally:
                _quiet -= 1
                if before is not None and _common:
                    _common["torch"] = before
    return fork_rng


def _initialisers(init):
    """[(module, name)]: functions that fill a tensor with random numbers, and
    the modules of torch that have taken them by name."""
    names = [name for name in dir(init)
             if name.endswith(("normal_", "uniform_", "orthogonal_",
                               "sparse_")) and name[0] != "_"]
    owners = [init] + [module for key, module in sys.modules.items()
                       if key.startswith("torch.nn.modules.")]
    return [(owner, name) for owner in owners for name in names
            if vars(owner).get(name) is getattr(init, name)]


def _in_torch_common(real):
    """Models made after the first optimizer begin as those before it."""
    def fill(*args, **kwargs):
        if "torch" not in _own or forward.is_compiling():
            return real(*args, **kwargs)  # equal yet, or again by a seed
        with common("torch"):
            return real(*args, **kwargs)
    return fill


def _in_common(real):
    def random_split(*args, **kwargs):
        with common():
            return real(*args, **kwargs)
    return random_split
