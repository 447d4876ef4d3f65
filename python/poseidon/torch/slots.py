"""Parameters and their slots.

Every parameter of every optimizer gets a slot in libposeidon, named by where
it was first met: o0/g1/p3 is parameter 3 in group 1 of the first optimizer.
A parameter keeps its slot as long as it lives, whatever becomes of its
optimizer, so that all workers announce the same slots in the same order. When
its type or its size changes (model.double()), it gets another.
"""
import ctypes
import weakref

from poseidon import _lib
from poseidon.torch import modules


class Slot:
    """One slot: the C side's id and what the pass at hand knows about it."""

    __slots__ = ("id", "name", "kind", "ref", "dtype", "count", "shape",
                 "hook", "old", "sent", "room", "host", "state")

    def __init__(self, name, kind, tensor):
        self.id = None       # given by Table.announce
        self.name = name
        self.kind = kind
        self.ref = weakref.ref(tensor)
        self.dtype = tensor.dtype
        self.count = tensor.numel()
        self.shape = tensor.shape
        self.hook = None     # id of our hook in the parameter
        self.old = None      # gradient of earlier passes, set aside
        self.sent = None     # what was pushed in this pass
        self.room = None     # for the answer when we push nothing; kept
        self.host = None     # cuda.py: pinned memory
        self.state = None    # of buffers: version that was exchanged last


class Table:
    """All slots of the process, and the hooks on their parameters."""

    def __init__(self, torch, step, make_hook):
        self.torch = torch
        self.step = step
        self.make_hook = make_hook
        self.slots = []        # by id
        self.live = []         # parameters that may get a gradient
        self.waiting = []      # made, not announced yet
        self.unstarted = False  # some never had rank 0's value
        self.known = {}        # id of a tensor: slot
        self.optimizers = weakref.WeakKeyDictionary()  # optimizer: number
        self.count = 0         # of optimizers so far
        self.ids = None
        self.types = {
            torch.float32: _lib.FLOAT32, torch.float64: _lib.FLOAT64,
            torch.float16: _lib.FLOAT16, torch.bfloat16: _lib.BFLOAT16,
            torch.complex64: _lib.FLOAT32, torch.complex128: _lib.FLOAT64}
        self.is_lazy = torch.nn.parameter.is_lazy

    # ---- making slots

    def add_optimizer(self, optimizer):
        """Make slots for those parameters of `optimizer` that have none."""
        number = self.optimizers.get(optimizer)
        if number is None:
            number = self.optimizers[optimizer] = self.count
            self.count += 1
        for g, group in enumerate(optimizer.param_groups):
            for p, parameter in enumerate(group["params"]):
                slot = self.of(parameter)
                if slot is None or slot.kind != _lib.GRADIENT:
                    self._make("o%d/g%d/p%d" % (number, g, p), parameter)

    def of(self, tensor):
        """The slot of a tensor, None if it has none."""
        slot = self.known.get(id(tensor))
        return slot if slot is not None and slot.ref() is tensor else None

    def add_value(self, name, tensor):
        """A slot for a tensor that is no optimizer's parameter."""
        slot = self.of(tensor)
        if slot is None or slot.count != tensor.numel() or (
                slot.dtype != tensor.dtype):
            slot = Slot(name, _lib.BUFFER, tensor)
            self.known[id(tensor)] = slot
            self.waiting.append(slot)
        return slot

    def _make(self, name, parameter):
        if self.is_lazy(parameter) or parameter.numel() == 0 or (
                parameter.dtype not in self.types):
            return
        slot = Slot(name, _lib.GRADIENT, parameter)
        self.known[id(parameter)] = slot
        self.waiting.append(slot)
        self.live.append(slot)
        self.unstarted = True

    def announce(self):
        """Tell the C side about new slots. No communication."""
        new, self.waiting = self.waiting, []
        if not new:
            return
        rows = (_lib.Slot * len(new))()
        for row, slot in zip(rows, new):
            row.name = slot.name.encode()
            row.kind = slot.kind
            row.dtype = self.types.get(slot.dtype, _lib.FLOAT32)
            row.count = slot.count * (2 if slot.dtype.is_complex else 1)
            if slot.dtype not in self.types:  # sent as bytes, never averaged
                row.count = -(-slot.count * slot.dtype.itemsize // 4)
        first = ctypes.c_uint32()
        _lib.check(_lib.library().psd_step_add(self.step, rows, len(new),
                                               ctypes.byref(first)))
        for number, slot in enumerate(new, first.value):
            slot.id = number
            self.slots.append(slot)
        self.ids = (ctypes.c_uint32 * len(self.slots))()

    # ---- each backward pass

    def changed(self, slot, parameter):
        """Another type or size: the parameter gets a new slot."""
        at = self.live.index(slot)
        name = "%s:%s" % (slot.name.partition(":")[0],
                          str(parameter.dtype).partition(".")[2])
        other = Slot(name, _lib.GRADIENT, parameter)
        other.hook, other.old = slot.hook, slot.old
        slot.old = slot.room = None
        self.known[id(parameter)] = other
        self.waiting.append(other)
        self.live[at] = other
        self.unstarted = True
        if other.hook is not None:
            parameter._post_accumulate_grad_hooks.pop(other.hook, None)
            other.hook = None
        return other

    def arm(self, slot, parameter):
        """Our hook is (again) on the parameter."""
        handle = parameter.register_post_accumulate_grad_hook(
            self.make_hook(slot))
        slot.hook = handle.id

    def drop_dead(self):
        """Parameters that are no more."""
        for slot in self.live:
            if slot.ref() is None:
                slot.room = slot.old = slot.host = None
        self.live = [slot for slot in self.live if slot.ref() is not None]
        self.known = {key: slot for key, slot in self.known.items()
                      if slot.ref() is not None}

    def disarm(self):
        for slot in self.live:
            parameter = slot.ref()
            hooks = None if parameter is None else (
                parameter._post_accumulate_grad_hooks)
            if hooks:
                hooks.pop(slot.hook, None)
            slot.hook = None

    def title(self, slot):
        """How the script calls it: net.fc1.weight, or the slot's name."""
        return modules.path(slot.ref()) or slot.name
