"""What the launcher is told: step, loss and samples with each optimizer step,
and the bits of the parameters for the digest."""
import ctypes
import math
import time
import weakref

from poseidon import _job, _lib

CUDA_PAUSE = 0.5  # seconds between looks at a loss that lies on a device


class Meter:
    def __init__(self, torch, table=None):
        self.torch = torch
        self.table = table
        self.counts = weakref.WeakKeyDictionary()  # optimizer: steps
        self.steps = 0
        self.loss = math.nan
        self.samples = 0
        self.looked = 0.0
        self.lists = weakref.WeakKeyDictionary()  # optimizer: _Row
        self.digest = _job.job().digest

    def note(self, roots, mine):
        """A backward pass is over: what its roots say."""
        self.samples += mine
        if len(roots) != 1 or not isinstance(roots[0], self.torch.Tensor):
            return
        loss = roots[0]
        if loss.numel() != 1 or not loss.is_floating_point():
            return
        if not loss.is_cpu:
            now = time.monotonic()
            if now - self.looked < CUDA_PAUSE:
                return
            self.looked = now
        self.loss = loss.item()

    def stepped(self, optimizer):
        """An optimizer has stepped. The one that is ahead counts."""
        count = self.counts.get(optimizer, 0) + 1
        self.counts[optimizer] = count
        if count > self.steps:
            self.steps = count
            _lib.check(_lib.library().psd_metrics(
                _lib.session(), count, self.loss, self.samples))
            self.samples = 0
        if self.table is not None and self.digest != "off":
            self._audit(optimizer)

    def _audit(self, optimizer):
        """Hand in its parameters; the library decides which are looked at."""
        known = self.lists.get(optimizer)
        if known is None or known.stale(self.table, optimizer):
            known = self.lists[optimizer] = _Row(self.table, optimizer)
        values = known.values
        if known.odd or not all(value is None or value.is_cpu
                                for value in values):
            values = self._host_copies(values)
        known.addresses[:] = [
            None if value is None else value.data_ptr() for value in values]
        _lib.check(_lib.library().psd_step_audit(
            self.table.step, known.addresses, known.sizes, len(values)))

    def _host_copies(self, values):
        """Values on devices are looked at only when all of them are; those
        with holes are copied."""
        found = []
        for value in values:
            if value is not None and not value.is_cpu:
                value = value.detach().cpu() if self.digest == "step" else (
                    None)
            elif value is not None and not _is_dense(value):
                value = value.detach().contiguous()
            found.append(value)
        return found


class _Row:
    """The parameters of an optimizer, in the order of their slots."""

    def __init__(self, table, optimizer):
        self.count = len(table.slots)
        self.groups = _lengths(optimizer)
        self.values = [None] * self.count
        self.sizes = (ctypes.c_uint64 * self.count)()
        self.addresses = (ctypes.c_void_p * self.count)()
        self.odd = False
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                slot = table.of(parameter)
                if slot is None or slot.id is None:
                    continue
                self.values[slot.id] = parameter
                self.sizes[slot.id] = slot.count * slot.dtype.itemsize
                self.odd = self.odd or not _is_dense(parameter)

    def stale(self, table, optimizer):
        return self.count != len(table.slots) or (
            self.groups != _lengths(optimizer))


def _lengths(optimizer):
    return [len(group["params"]) for group in optimizer.param_groups]


def _is_dense(value):
    """Does every element lie in one piece of memory, without holes?"""
    return value.is_contiguous() or (
        value.detach().clone().stride() == value.stride())
