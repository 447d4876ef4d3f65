"""Turns `import tensorflow` of a worker into the distributed one: the parts
are installed in a fixed order, and taken out again when the script
distributes itself."""
import sys

from poseidon import _boot, _job
from poseidon.keras import backend
from poseidon.shared import everywhere, first
from poseidon.tensorflow import (
    aside, cluster, data, fetch, fields, gfiles, graph, graph_loop, hooks,
    keras, keras_calls, keras_start, models, saver, seed, tape, writer)

# Modules with install(tf) and uninstall().
PARTS = (seed, gfiles, saver, writer, models, hooks, fetch, fields, graph,
         cluster, keras, tape, keras_start, keras_calls, data,
         graph_loop, aside)
OLDEST = (2, 15)     # of TensorFlow

_applied = False
_aside = False


def apply(module):
    """Called once, right after tensorflow was imported."""
    global _applied
    if _applied:
        return
    _applied = True
    overlay = sys.modules.get("poseidon.tf1.overlay")
    tf = getattr(overlay, "real", None) or module
    first.check_version("TensorFlow", tf.__version__, OLDEST)
    first.show_stacks()
    with everywhere.gathered():
        for part in PARTS:
            part.install(tf)
        backend.catch_up()
    _boot.on_fork(_off)


def applied():
    return _applied


def is_aside():
    return _aside


def stand_aside(reason):
    """The script distributes itself: one line, and hands off."""
    global _aside
    _aside = True
    _job.say("%s; this script distributes itself, Poseidon stands aside"
             % reason)
    _off()


def _off():
    for part in reversed(PARTS):
        part.uninstall()
