"""Numbers for what is exchanged together: the k-th optimizer in order of its
first use is the group `opt{k}`, the same on every worker."""

_groups = {}     # id of the owner: (owner, Group)


class Group:
    def __init__(self, number):
        self.number = number
        self.name = "opt%d" % number

    def key(self, index):
        """The key of the owner's index-th variable."""
        return "%s/%d" % (self.name, index)


def group_of(owner):
    """The group of an optimizer, or of what stands for one."""
    if id(owner) not in _groups:
        _groups[id(owner)] = (owner, Group(len(_groups)))
    return _groups[id(owner)][1]


def all_groups():
    return [group for _, group in _groups.values()]
