"""The modules of the script, weakly, in the order in which they were made:
for the same start of their parameters and buffers, for running statistics
and for names.

Patched: Module.__init__ and Module.__setstate__ (copies and unpickled ones).
"""
import contextlib
import weakref

from poseidon.shared.patches import Patches

STATISTICS = ("running_mean", "running_var")
KERAS = ("moving_mean", "moving_variance")  # variables of Keras' layers

_made = weakref.WeakValueDictionary()   # number: module
_count = 0
_alone = 0      # inside of alone()
_patches = Patches()


def install(torch):
    if _patches:
        return
    base = torch.nn.Module
    for name in ("__init__", "__setstate__"):
        _patches.wrap(base, name, _noting)


def uninstall():
    _patches.restore()


def _noting(real):
    def made(self, *args, **kwargs):
        global _count
        if not _alone:
            _made[_count] = self
            _count += 1
        return real(self, *args, **kwargs)
    return made


@contextlib.contextmanager
def alone():
    """What this worker makes in here, the others do not have."""
    global _alone
    _alone += 1
    try:
        yield
    finally:
        _alone -= 1


def count():
    """How many were made so far."""
    return _count


def all_made():
    """[(name, module)] of those that live, the first made first."""
    seen, found = set(), []
    for number, module in sorted(_made.items()):
        if id(module) not in seen:
            seen.add(id(module))
            found.append(("m%d.%s" % (number, type(module).__name__), module))
    return found


def values():
    """[(name, tensor)]: parameters and buffers of all modules."""
    found = []
    for name, module in all_made():
        for key in KERAS:
            tensor = statistic(module, key)
            if tensor is not None:
                found.append(("%s/%s" % (name, key), tensor))
        for kind in ("_parameters", "_buffers"):
            for key, tensor in (module.__dict__.get(kind) or {}).items():
                if tensor is not None:
                    found.append(("%s/%s" % (name, key), tensor))
    return found


def statistics():
    """[(name, module, key)]: running statistics that are averaged."""
    found = []
    for name, module in all_made():
        for key in STATISTICS + KERAS:
            tensor = statistic(module, key)
            if tensor is not None and tensor.is_floating_point():
                found.append(("%s/%s" % (name, key), module, key))
    return found


def statistic(module, key):
    """The tensor of a running statistic; None: there is none."""
    if key in KERAS:
        value = getattr(module.__dict__.get(key), "_value", None)
        return value if hasattr(value, "is_floating_point") else None
    return (module.__dict__.get("_buffers") or {}).get(key)


def path(tensor):
    """The longest dotted name that leads to a parameter, None: there is
    none."""
    best = None
    for _, module in all_made():
        for name, parameter in module.named_parameters():
            if parameter is tensor and (
                    best is None or name.count(".") > best.count(".")):
                best = name
    return best
