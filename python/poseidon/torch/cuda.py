"""Gradients on a CUDA device: copied to pinned host memory on a stream of
their own while backward goes on, pushed from there as soon as the copy is
done, and copied back at the end of the pass.

A slot's pinned memory (slot.host) is used again in every pass. That is safe
without waiting: the copy out is queued behind the copies in of the pass
before, and libposeidon writes only after the copy out.

Large ones lie in the arena that the workers of a host share, pinned there, so
that the answer is made in place; small ones in torch's own pinned memory.
"""
import atexit
import collections
import ctypes

from poseidon import _lib

PAGE = 4096
LARGE = 64 * 1024  # bytes; below, a copy costs less than pages of its own


class Stage:
    def __init__(self, torch, push):
        self.torch = torch
        self.push = push          # push(slot, address)
        self.streams = {}         # device: the stream of copies
        self.returned = {}        # device: event after the last copies in
        self.under_way = collections.deque()  # (event, slot), oldest first
        self.pinned = []          # addresses in the arena

    def out(self, slot, value, like):
        """Begin to copy `value`, whose layout shall be that of `like`, and
        push it as soon as it has arrived."""
        torch, device = self.torch, value.device
        stream = self.streams.get(device)
        if stream is None:
            stream = self.streams[device] = torch.cuda.Stream(device)
        host = self.host(slot, like)
        value = value.detach()
        stream.wait_stream(torch.cuda.current_stream(device))
        if device in self.returned:
            stream.wait_event(self.returned[device])
        with torch.cuda.stream(stream):
            host.copy_(value, non_blocking=True)
            event = torch.cuda.Event()
            event.record(stream)
        value.record_stream(stream)  # its memory stays until it was read
        self.under_way.append((event, slot))
        self.poll()

    def poll(self):
        """Push what has arrived."""
        queue = self.under_way
        while queue and queue[0][0].query():
            slot = queue.popleft()[1]
            self.push(slot, slot.host.data_ptr())

    def drain(self):
        """Wait for the rest and push it."""
        queue = self.under_way
        while queue:
            event, slot = queue.popleft()
            event.synchronize()
            self.push(slot, slot.host.data_ptr())

    def forget(self):
        """A pass was given up: nothing more is pushed in it."""
        self.under_way.clear()

    def back(self, slot, value):
        """Copy the answer into `value`; what is queued behind sees it."""
        value.detach().copy_(slot.host, non_blocking=True)
        self.returned[value.device] = None

    def returns(self):
        """All answers of a pass are on their way back."""
        for device in self.returned:
            event = self.torch.cuda.Event()
            event.record(self.torch.cuda.current_stream(device))
            self.returned[device] = event

    def room(self, slot, like):
        """Pinned memory that may be written at once."""
        event = self.returned.get(like.device)
        if event is not None:
            event.synchronize()
        return self.host(slot, like)

    def host(self, slot, like):
        """Pinned memory with the layout of a tensor on a device."""
        host = slot.host
        if host is None or host.stride() != like.stride() or (
                host.shape != like.shape or host.dtype != like.dtype):
            host = slot.host = self._pin(like.detach())
        return host

    def _pin(self, like):
        torch = self.torch
        bare = torch.empty_like(like, device="meta")
        address = self._pages(bare.nbytes) if bare.nbytes >= LARGE else None
        if address is None:
            return torch.empty_like(like, device="cpu", pin_memory=True)
        memory = (ctypes.c_char * bare.nbytes).from_address(address)
        return torch.frombuffer(memory, dtype=like.dtype).as_strided(
            bare.shape, bare.stride())

    def _pages(self, size):
        """Pages of the arena, pinned; None where that cannot be."""
        size = (size + PAGE - 1) // PAGE * PAGE
        address = _lib.library().psd_alloc(_lib.session(), size + PAGE)
        if not address:
            return None
        address = (address + PAGE - 1) // PAGE * PAGE
        if int(self.torch.cuda.cudart().cudaHostRegister(
                address, size, 0)) != 0:
            return None
        if not self.pinned:
            atexit.register(self.release)  # before the session is closed
        self.pinned.append(address)
        return address

    def release(self):
        """The arena is about to go: nothing of it stays pinned."""
        if self.pinned:
            self.torch.cuda.synchronize()
        while self.pinned:
            self.torch.cuda.cudart().cudaHostUnregister(self.pinned.pop())
