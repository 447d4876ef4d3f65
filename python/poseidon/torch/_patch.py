"""Turns `import torch` of a worker into the distributed one: the parts are
installed in a fixed order, and taken out again when the script distributes
itself."""
import faulthandler
import os
import sys

from poseidon import _job
from poseidon.shared import download
from poseidon.torch import aside, data, exchange, save, seed, writer

PARTS = (seed, data, exchange, save, download, writer, aside)
OLDEST = (2, 1)      # of torch
EXIT_CODE = 69       # EX_UNAVAILABLE

_applied = False


def apply(torch):
    """Called once, right after torch was imported."""
    global _applied
    if _applied:
        return
    _applied = True
    _check_version(torch)
    _show_stacks()
    for part in PARTS:
        part.install(torch)


def applied():
    return _applied


def stand_aside(reason):
    """The script distributes itself: one line, and hands off."""
    _job.say("%s; this script distributes itself, Poseidon stands aside"
             % reason)
    for part in reversed(PARTS):
        part.uninstall()


def _check_version(torch):
    words = torch.__version__.split("+")[0].split(".")
    found = tuple(int("".join(c for c in word if c.isdigit()) or 0)
                  for word in words[:2])
    if found < OLDEST:
        sys.stderr.write(
            "poseidon: torch %s is too old, %d.%d or newer is needed\n"
            % ((torch.__version__,) + OLDEST))
        sys.stderr.flush()
        os._exit(EXIT_CODE)


def _show_stacks():
    """The launcher asks for Python's stacks by a signal."""
    number = os.environ.get("PSD_STACK_SIGNAL", "")
    if number.isdigit() and sys.stderr is not None:
        try:
            faulthandler.register(int(number), all_threads=True)
        except (AttributeError, ValueError, RuntimeError, OSError):
            pass  # stderr is no file: nothing to write to
