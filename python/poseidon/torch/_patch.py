"""Turns `import torch` of a worker into the distributed one: the parts are
installed in a fixed order, and taken out again when the script distributes
itself."""
from poseidon import _job
from poseidon.shared import download, first
from poseidon.torch import aside, data, exchange, keras, save, seed, writer

PARTS = (seed, data, exchange, save, download, writer, keras, aside)
OLDEST = (2, 1)      # of torch

_applied = False


def apply(torch):
    """Called once, right after torch was imported."""
    global _applied
    if _applied:
        return
    _applied = True
    first.check_version("torch", torch.__version__, OLDEST)
    first.show_stacks()
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
