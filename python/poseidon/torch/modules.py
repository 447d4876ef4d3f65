"""The modules of the script, weakly, in the order in which they were made:
for the same start of their parameters and buffers, for running statistics
and for names.

Patched: Module.__init__ and Module.__setstate__ (copies and unpickled ones).
"""
import weakref

from poseidon.shared.patches import Patches

STATISTICS = ("running_mean", "running_var")

_made = weakref.WeakValueDictionary()   # number: module
_count = 0
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
        _made[_count] = self
        _count += 1
        return real(self, *args, **kwargs)
    return made


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
        for kind in ("_parameters", "_buffers"):
            for key, tensor in (module.__dict__.get(kind) or {}).items():
                if tensor is not None:
                    found.append(("%s/%s" % (name, key), tensor))
    return found


def statistics():
    """[(name, module, key)]: running statistics that are averaged."""
    found = []
    for name, module in all_made():
        buffers = module.__dict__.get("_buffers") or {}
        for key in STATISTICS:
            tensor = buffers.get(key)
            if tensor is not None and tensor.is_floating_point():
                found.append(("%s/%s" % (name, key), module, key))
    return found


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
