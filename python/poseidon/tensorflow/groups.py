"""Names of what is exchanged: a group is what one optimizer exchanges in one
step, a key is one tensor of it: `opt0`, `opt0/3`.

They are numbers, given in the order in which the script makes its optimizers:
that order is the same on every worker, names of variables are not always. A
group that is made again with the same tensors (a graph that is built a second
time) has the name and the keys that it had before.
"""
import weakref

_count = 0
_known = {}      # (number in its graph, signature): Group
_owners = {}     # id of an optimizer: (weak reference, Group)
titles = {}      # key: what the script calls it


class Group:
    """What an optimizer exchanges."""

    def __init__(self, number):
        self.name = "opt%d" % number

    def key(self, index):
        return "%s/%d" % (self.name, index)


def _new():
    global _count
    _count += 1
    return Group(_count - 1)


def group_of(owner):
    """The group of an optimizer, made at the first call."""
    held = _owners.get(id(owner))
    if held is not None and held[0]() is owner:
        return held[1]
    group = _new()
    try:
        reference = weakref.ref(owner)
    except TypeError:
        def reference():
            return owner
    _owners[id(owner)] = (reference, group)
    return group


def like(number, signature):
    """The group that is the `number`-th of its graph and has these tensors;
    a graph that is made again exchanges under the same names."""
    if (number, signature) not in _known:
        _known[number, signature] = _new()
    return _known[number, signature]


def title(key):
    """The variable behind a key, for messages."""
    return titles.get(key, key)
