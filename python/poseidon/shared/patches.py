"""Attributes of modules and classes that are replaced and put back."""
import functools


class Patches:
    def __init__(self):
        self.done = []  # (owner, name, what it was, what it is)

    def __bool__(self):
        return bool(self.done)

    def wrap(self, owner, name, make):
        """owner.name = make(what it was); a missing one is left out."""
        original = getattr(owner, name, None)
        if original is not None:
            self.put(owner, name, functools.wraps(original)(make(original)))

    def put(self, owner, name, value):
        self.done.append((owner, name, _held(owner, name), value))
        setattr(owner, name, value)

    def before(self, owner, name):
        """What it was before it was replaced, or is."""
        for where, what, original, _ in self.done:
            if where is owner and what == name:
                return original
        return getattr(owner, name)

    def restore(self):
        """What somebody else has replaced since is left alone."""
        for owner, name, original, value in reversed(self.done):
            if _held(owner, name) is value:
                setattr(owner, name, original)
        self.done = []


def _held(owner, name):
    """A static method as it is, not as it is called."""
    return vars(owner).get(name, getattr(owner, name, None))
