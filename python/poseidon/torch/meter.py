"""What the launcher is told: step, loss and samples with each optimizer step,
and the bits of the parameters for the digest."""
import ctypes
import math
import os
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
        self.lists = {}      # optimizer: arrays for the audit
        self.digest = os.environ.get("PSD_DIGEST") or "rotate"

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
        self.loss = float(loss.detach())

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
        table = self.table
        count = len(table.slots)
        addresses = (ctypes.c_void_p * count)()
        sizes = (ctypes.c_uint64 * count)()
        kept = []
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                slot = table.of(parameter)
                if slot is None or slot.id is None:
                    continue
                value = parameter
                if not value.is_cpu:
                    if self.digest != "step":
                        continue
                    value = parameter.detach().cpu()
                    kept.append(value)
                addresses[slot.id] = value.data_ptr()
                sizes[slot.id] = slot.count * slot.dtype.itemsize
        _lib.check(_lib.library().psd_step_audit(table.step, addresses, sizes,
                                                 count))
