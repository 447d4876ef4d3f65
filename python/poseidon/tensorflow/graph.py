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
    book, cluster, core, export, gradients, hogwild, insert, run, statistics,
    tape)

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
                      _applying_keras)


def _is_plain(graph):
    """A graph for sessions, and no body of a function."""
    return not hasattr(graph, "outer_graph")


# ---- gradients

def _recording(real):
    def _GradientsHelper(ys, xs, *args, **words):
        grads = real(ys, xs, *args, **words)
        graph = _tf.compat.v1.get_default_graph()
        # Where a script distributes itself, what it makes of its gradients
        # is its own and comes first: they are taken as they are given.
        if _on and _job.job().size > 1 and _is_plain(graph) and (
                cluster.mode() is None):
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

def _applying(real):
    def apply_gradients(self, grads_and_vars, *args, **words):
        if not _on or not _boot.is_worker():
            return real(self, grads_and_vars, *args, **words)
        pairs = list(grads_and_vars)
        graph = _tf.compat.v1.get_default_graph()
        if _tf.executing_eagerly() or not _is_plain(graph):
            return real(self, _exchanged(pairs), *args, **words)
        if book.of(graph).depth:
            return real(self, pairs, *args, **words)
        if cluster.mode(self) == "hogwild":
            return hogwild.apply(real, self, pairs, *args, **words)
        return _apply(real, self, pairs, args, words)
    return apply_gradients


def _applying_keras(real):
    """In a session's graph; elsewhere keras.py sees to it."""
    def apply_gradients(self, grads_and_vars, *args, **words):
        pairs = list(grads_and_vars)
        graph = _tf.compat.v1.get_default_graph()
        if not _on or not _boot.is_worker() or _tf.executing_eagerly() or (
                not _is_plain(graph) or book.of(graph).depth):
            return real(self, pairs, *args, **words)
        return _apply(real, self, pairs, args, words)
    return apply_gradients


def _exchanged(pairs):
    """There is no graph to rewire: what is given is exchanged."""
    pairs = [(_as_grad(grad), variable) for grad, variable in pairs]
    variables = [variable for _, variable in pairs]
    return list(zip(tape.exchanged([grad for grad, _ in pairs], variables),
                    variables))


def _apply(real, optimizer, pairs, args, words):
    """The outermost of nested calls exchanges: an optimizer that wraps
    another one decides by exchanged gradients."""
    graph = _tf.compat.v1.get_default_graph()
    mine = book.of(graph)
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

