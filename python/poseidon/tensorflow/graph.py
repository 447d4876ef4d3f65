"""TensorFlow 1 style training, in sessions: what is patched.

  tf.gradients               which tensors are gradients of variables
  Optimizer.apply_gradients  of compat.v1, also of classes that a script
                             defines: the exchange is put into the graph
  apply_gradients of Keras   the same, where Keras works in a session's graph
                             (estimators); elsewhere it is not ours
  BaseSession._do_run,       same start, rows of this worker, and what a
  make_callable, ...         step has brought (run.py)

In a job of one nothing is inserted; steps are counted.
"""
from poseidon import _boot, _job
from poseidon.shared.patches import Patches
from poseidon.tensorflow import (
    book, by_hand, core, export, gradients, insert, run, statistics)

KERAS = ("keras.src.optimizers.legacy.optimizer_v2",
         "tf_keras.src.optimizers.legacy.optimizer_v2",
         "tensorflow.python.keras.optimizer_v2.optimizer_v2")

_patches = Patches()
_tf = None
_on = False


def install(tf):
    global _tf, _on
    if _patches or not _job.job().inside:
        return
    _tf, _on = tf, True
    _boot.on_fork(_off)
    from tensorflow.python.ops import gradients_util
    from tensorflow.python.training import optimizer
    _patches.wrap(gradients_util, "_GradientsHelper", _recording)
    for owner in _family(optimizer.Optimizer):
        if "apply_gradients" in owner.__dict__:
            _patches.wrap(owner, "apply_gradients", _applying)
    _watch_subclasses(optimizer.Optimizer)
    for name in KERAS:
        _boot.after_import(name, _meet_keras)
    run.install(tf, _patches.wrap)
    export.install(_patches.wrap)


def uninstall():
    _off()
    _patches.restore()


def _off():
    global _on
    _on = False
    run.off()


def _family(owner):
    """A class and all that are derived from it."""
    found = [owner]
    for child in owner.__subclasses__():
        found.extend(_family(child))
    return found


def _watch_subclasses(owner):
    """Optimizers of the script may have an apply_gradients of their own."""
    def __init_subclass__(cls, **words):
        super(owner, cls).__init_subclass__(**words)
        if _on and "apply_gradients" in cls.__dict__:
            _patches.wrap(cls, "apply_gradients", _applying)

    _patches.put(owner, "__init_subclass__", classmethod(__init_subclass__))


def _meet_keras(module):
    if _on:
        _patches.wrap(module.OptimizerV2, "apply_gradients",
                      lambda real: _applying(real, _as_it_is))


def _as_it_is(tf, real, optimizer, pairs, args, words):
    return real(optimizer, pairs, *args, **words)


def _is_plain(graph):
    """A graph for sessions, and no body of a function."""
    return not hasattr(graph, "outer_graph")


# ---- gradients

def _recording(real):
    def _GradientsHelper(ys, xs, *args, **words):
        grads = real(ys, xs, *args, **words)
        graph = _tf.compat.v1.get_default_graph()
        if _on and _job.job().size > 1 and _is_plain(graph):
            _record(graph, ys, xs, grads)
        return grads
    return _GradientsHelper


def _record(graph, ys, xs, grads):
    losses = [y for y in _as_list(ys) if isinstance(y, _tf.Tensor)]
    variables = [x if gradients.is_variable(_tf, x) else None
                 for x in _as_list(xs)]
    if len(variables) == len(grads):
        book.of(graph).record.add(grads, variables, losses,
                                  gradients.last_number(graph))


def _as_list(values):
    return list(values) if isinstance(values, (list, tuple)) else [values]


# ---- optimizers

def _applying(real, elsewhere=by_hand.apply):
    def apply_gradients(self, grads_and_vars, *args, **words):
        if not _on or not _boot.is_worker():
            return real(self, grads_and_vars, *args, **words)
        pairs = list(grads_and_vars)
        if _tf.executing_eagerly() or not _is_plain(
                _tf.compat.v1.get_default_graph()):
            return elsewhere(_tf, real, self, pairs, args, words)
        return _apply(real, self, pairs, args, words)
    return apply_gradients


def _apply(real, optimizer, pairs, args, words):
    """The outermost of nested calls exchanges: an optimizer that wraps
    another one decides by exchanged gradients."""
    graph = _tf.compat.v1.get_default_graph()
    mine = book.of(graph)
    if mine.depth:
        return real(optimizer, pairs, *args, **words)
    mine.depth = 1
    try:
        pairs, sites = exchange(graph, pairs)
        before = gradients.last_number(graph)
        result = real(optimizer, pairs, *args, **words)
        _note(graph, pairs, sites, before)
        if _job.job().size > 1:
            statistics.put(_tf, mine)
        return result
    finally:
        mine.depth = 0


def exchange(graph, pairs):
    """Put the exchange of these pairs of gradient and variable into the
    graph; (pairs to apply, sites that they come from)."""
    mine = book.of(graph)
    pairs = [(_as_grad(grad), variable) for grad, variable in pairs]
    given = [pair for pair in pairs if pair[0] is not None]
    if not given:
        return pairs, []
    if _job.job().size == 1:
        site = book.Site(None)
        mine.sites.append(site)
        return pairs, [site]
    core.load(_tf)
    raws, unknown = mine.record.behind([grad for grad, _ in given])
    loose = [pair for pair, alone in zip(given, unknown) if alone]
    site = insert.put(_tf, mine, raws, loose)
    sites = [] if site is None else [site]
    for raw in raws:
        if raw.group is not None and raw.group not in sites:
            sites.append(raw.group)
    known = raws + (site.raws if site is not None else [])
    return [(grad if grad is None else insert.replaced(grad, known), variable)
            for grad, variable in pairs], sites


def _as_grad(grad):
    if grad is None or isinstance(grad, (_tf.Tensor, _tf.IndexedSlices)):
        return grad
    return _tf.convert_to_tensor(grad)


def _note(graph, pairs, sites, before):
    """Which of the new operations apply these gradients?"""
    applied = {grad_part.op._id for grad, _ in pairs if grad is not None
               for grad_part in gradients.parts(grad)}
    applied.update(site.waited._id
                   for site in sites if site.waited is not None)
    fresh = set()
    for op in graph.get_operations():
        if op._id > before and (
                any(value.op._id in applied for value in op.inputs)
                or any(other._id in fresh for other in op.control_inputs)):
            applied.add(op._id)
            fresh.add(op._id)
    for site in sites:
        site.applying |= fresh
        site.variables.extend(variable for grad, variable in pairs
                              if grad is not None)

