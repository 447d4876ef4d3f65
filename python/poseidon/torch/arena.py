"""Gradients in shared memory: while a backward pass runs, the large blocks
that torch's CPU allocator takes lie in the session's arena, where the other
workers read and write them. Nothing is copied, and the kernel has no new
pages to clear in each step.

The library does it (psd_redirect_install in poseidon_step.h): it changes the
calls of libc10.so alone. Where that is not possible gradients are staged, as
all other memory is; torch never notices.
"""
import logging
import os

from poseidon import _lib

LIBRARY = b"libc10.so"

_log = logging.getLogger("poseidon")
_on = _off = None


def install(session):
    """Once, when the session of a job of several workers is open and torch is
    imported. True: gradients will lie in the arena."""
    global _on, _off
    library = _lib.library()
    status = library.psd_redirect_install(session, LIBRARY)
    if status != _lib.OK:
        _log.debug("gradients are staged: %s",
                   library.psd_error(session).decode(errors="replace"))
        return False
    # Bound here, as they are called in each pass.
    _on = lambda: library.psd_redirect_on(session)  # noqa: E731
    _off = lambda: library.psd_redirect_off(session)  # noqa: E731
    os.register_at_fork(after_in_child=uninstall)
    _log.debug("gradients lie in the arena")
    return True


def uninstall():
    """No more; what lies in the arena stays valid."""
    global _on, _off
    _on = _off = None


def on():
    """The outermost backward begins."""
    if _on is not None:
        _on()


def off():
    """It has ended, in whatever way."""
    if _off is not None:
        _off()
