"""Running statistics of BatchNorm and its relatives: averaged with each
exchange in which they have changed, so that all workers evaluate and save the
same."""
import weakref

from poseidon import _lib
from poseidon.torch import modules
from poseidon.torch.slots import Slot


class Statistics:
    def __init__(self, table, stage):
        self.table = table
        self.stage = stage
        self.seen = -1      # modules.count() when `rows` was made
        self.rows = []      # (weak module, key, name)
        self.known = {}     # (number of the row's name): slot

    def announce(self):
        """Slots for the statistics of all modules that live."""
        for reference, key, name in self._rows():
            module = reference()
            if module is not None:
                self._slot(name, modules.statistic(module, key))

    def push(self, lib, step):
        """Hand over what has changed since the last exchange; those slots."""
        pushed = []
        for reference, key, name in self._rows():
            module = reference()
            value = modules.statistic(module, key) if (
                module is not None) else None
            if value is None:
                continue
            slot = self._slot(name, value)
            now = _state(module, key, value)
            if slot is None or (slot.state == now and now is not None) or (
                    now is None and not module.training):
                continue
            slot.state = now
            if slot.id is None:
                self.table.announce()
            slot.ref = weakref.ref(value)
            pushed.append(slot)
            if value.is_cuda:
                self.stage.out(slot, value, value)
            else:
                _lib.check(lib.psd_step_push(step, slot.id,
                                             value.data_ptr()))
        return pushed

    def settle(self, slots, lib, step):
        """The pass is over."""
        for slot in slots:
            value = slot.ref()
            if value is None:
                continue
            if value.is_cuda and (
                    lib.psd_step_outcome(step, slot.id) == _lib.DENSE):
                self.stage.back(slot, value)

    def freeze(self):
        """All workers have the same values now."""
        for reference, key, name in self._rows():
            module, slot = reference(), self.known.get(name)
            value = modules.statistic(module, key) if (
                module is not None) else None
            if slot is not None and value is not None:
                slot.ref = weakref.ref(value)
                slot.state = _state(module, key, value)

    def _rows(self):
        if self.seen != modules.count():
            self.seen = modules.count()
            self.rows = [(weakref.ref(module), key, name)
                         for name, module, key in modules.statistics()]
        return self.rows

    def _slot(self, name, value):
        """The slot of a statistic; a new one when its type or size is
        another."""
        if value is None or value.numel() == 0 or (
                value.dtype not in self.table.types
                or not value.is_contiguous()):
            return None
        slot = self.known.get(name)
        if slot is None or slot.dtype != value.dtype or (
                slot.count != value.numel()):
            slot = Slot(name, _lib.BUFFER, value)
            slot.shape = value.shape
            self.known[name] = slot
            self.table.waiting.append(slot)
        return slot


def _state(module, key, value):
    """Changes whenever the statistic may have changed; None: not known.
    Kernels write it behind the version counter's back, so the number of
    batches tells; Keras assigns."""
    if key in modules.KERAS:
        return id(value), value._version
    batches = module._buffers.get("num_batches_tracked")
    if batches is None or "InstanceNorm" in type(module).__name__:
        return None  # the latter counts no batches
    return id(value), value._version, id(batches), batches._version
