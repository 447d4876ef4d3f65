"""Gradients out, means in: the ops for one call of tape.gradient or of an
optimizer.

The pushes are made in reverse order of the variables: TensorFlow runs ops
with side effects in the order in which they were made, so the last layer's
gradient leaves while the first layers still compute. One wait follows. An
IndexedSlices stays one.
"""
import contextlib
import weakref

from poseidon import _job
from poseidon.shared import lines
from poseidon.tensorflow import bad, core, groups, losses

_tf = None
_known = {}        # what is exchanged: its Sources
_order = []        # the same, in order of first use
_step = None       # the Step that is being traced
_made = 0          # exchanges that were written into a graph, or run
_listeners = []    # called with the variables before their first exchange
watch = bad.Watch()


class Sources:
    """Variables whose gradients travel together, in the script's order."""

    def __init__(self, variables):
        self.variables = [weakref.ref(variable) for variable in variables]
        self.group = groups.group_of(self)
        self.name = self.group.name.encode()
        self.looks = 0

    def look(self, whole):
        """[(key, variable)] to compare after a step: all, or, once the first
        steps have shown all of them, one after another. Which it is depends
        on steps alone: garbage may live longer on another worker."""
        chosen = range(len(self.variables))
        if not whole and self.looks >= 3:
            chosen = [self.looks % len(chosen)]
        self.looks += 1
        found = [(self.group.key(index), self.variables[index]())
                 for index in chosen]
        return [pair for pair in found if pair[1] is not None]


def install(tf):
    global _tf
    _tf = tf


def uninstall():
    _known.clear()
    del _order[:], _listeners[:]


def before_first(function):
    _listeners.append(function)


def sources():
    return list(_order)


def made():
    """How often gradients were exchanged; in a tf.function: traced."""
    return _made


def counts():
    """[(group, steps that have ended)]"""
    return [(each.name, core.plug().psd_tf_steps(each.name))
            for each in _order]


def total():
    """Steps of all groups."""
    return sum(count for _, count in counts())


class Step:
    """What is known of a training step that is being traced."""

    def __init__(self, rows, op):
        self.rows = rows        # a tensor; None: the plug-in was told
        self.op = op            # sum, mean, or look, which asks the loss
        self.summed = op == "sum"


@contextlib.contextmanager
def training_step(rows, op="mean"):
    """Gradients that are made inside come from so many rows."""
    global _step
    before, _step = _step, Step(rows, op)
    try:
        yield _step
    finally:
        _step = before


def raw(variable):
    """TensorFlow's variable of a variable of Keras; None: it is none."""
    if isinstance(variable, _tf.Variable):
        return variable
    inner = getattr(variable, "_value", None)
    return inner if isinstance(inner, _tf.Variable) else None


def is_possible():
    """Eagerly or in a tf.function; a Session's graph is not ours."""
    if _job.job().size == 1:
        return False
    return _tf.executing_eagerly() or hasattr(
        _tf.compat.v1.get_default_graph(), "outer_graph")


def exchange(grads, variables, loss=None):
    """The means of all workers in place of the gradients; None stays."""
    global _made
    core.start(_tf)
    _made += 1
    chosen = [(grad, raw(variable), index) for index, (grad, variable)
              in enumerate(zip(grads, variables))
              if grad is not None and grad.dtype.base_dtype.name in core.FLOATS]
    if not chosen:
        return list(grads)
    mine = _sources_of(chosen)
    try:
        answers = _ops(mine, [grad for grad, _, _ in chosen], loss)
    except _tf.errors.OpError:    # eagerly
        watch.failed([mine.name], total() + 1)
        raise
    result = list(grads)
    for (_, _, index), answer in zip(chosen, answers):
        result[index] = answer
    return result


def _sources_of(chosen):
    pattern = tuple((variable._unique_id, _is_sparse(grad), grad.dtype.name)
                    for grad, variable, _ in chosen)
    mine = _known.get(pattern)
    if mine is None:
        variables = [variable for _, variable, _ in chosen]
        for listener in _listeners:
            listener(variables)
        mine = _known[pattern] = Sources(variables)
        _order.append(mine)
        _register(mine, chosen)
    return mine


def _register(mine, chosen):
    entries = []
    for index, (grad, variable, _) in enumerate(chosen):
        groups.titles[mine.group.key(index)] = variable.name
        shape = variable.shape[1:] if _is_sparse(grad) else variable.shape
        entries.append((mine.group.key(index), grad.dtype,
                        shape.num_elements(),
                        core.SPARSE if _is_sparse(grad) else core.DENSE,
                        len(chosen) - index))
    core.register(mine.group.name, entries)
    if _job.job().digest != "off":
        core.announce_audits([
            (mine.group.key(index),
             (variable.shape.num_elements() or 0) * variable.dtype.size)
            for index, (_, variable, _) in enumerate(chosen)])


def _is_sparse(grad):
    return isinstance(grad, _tf.IndexedSlices)


def _op_of(loss):
    """(rows, op) of a step. Sums are summed, where the workers have parts of
    one batch: what is said before the step tells."""
    step = _step or Step(None, "look")
    if step.op != "look":
        return step.rows, step.op
    kind = _kind(loss)
    if kind == "mixed" and step.rows is not None:
        lines.once("the loss has a part that is a sum over the batch and "
                   "one that is not: parts of a batch are averaged, which "
                   "makes the sum smaller; --batch per-worker does not cut")
    if kind != "sum":
        return step.rows, "mean"
    step.summed = True
    return step.rows, "step" if step.rows is None else "sum"


def _kind(loss):
    """Eagerly only a loss that is not reduced shows that it is a sum; what
    cannot be told is averaged."""
    found = set()
    for each in _tf.nest.flatten(loss):
        if not _tf.is_tensor(each):
            found.add("mean")
        elif hasattr(each, "numpy"):
            found.add("sum" if each.shape.rank else "mean")
        else:
            found.add(losses.look(each, by_shape=True)[0])
    return found.pop() if len(found) == 1 else (
        "mixed" if "mixed" in found else "mean")


def _ops(mine, grads, loss):
    tf, ops = _tf, core.ops
    with tf.name_scope("poseidon"):
        rows, op = _op_of(loss)
        weight = (tf.constant(-1.0, tf.float64) if rows is None
                  else tf.cast(rows, tf.float64))
        on = tf.constant(True)
        mode = "eager" if tf.executing_eagerly() else "graph"
        keys = [mine.group.key(index) for index in range(len(grads))]
        pushed, indices = [None] * len(grads), [None] * len(grads)
        for index in reversed(range(len(grads))):
            grad, words = grads[index], dict(key=keys[index], op=op,
                                             mode=mode)
            if op == "sum":
                grad = _only_if(rows > 0, grad)  # a dummy row counts not
            if _is_sparse(grad):
                indices[index] = tf.cast(grad.indices, tf.int64)
                pushed[index] = ops.psd_push_sparse(
                    grad.values, indices[index], on, weight, **words)
            else:
                pushed[index] = ops.psd_push(grad, on, weight, **words)
        answers, finite = ops.psd_wait(pushed, on, on, keys=keys,
                                       group=mine.group.name)
        answers = [_taken(grad, answer, where, on, key) for
                   grad, answer, where, key in zip(grads, answers, indices,
                                                   keys)]
        if _job.job().nan == "skip":
            answers = [_only_if(finite, answer) for answer in answers]
        return answers


def _taken(grad, answer, indices, on, key):
    if not _is_sparse(grad):
        answer.set_shape(grad.shape)
        return answer
    values, indices = core.ops.psd_take_sparse(answer, indices, on, key=key)
    values.set_shape([None] + grad.values.shape[1:].as_list())
    indices.set_shape([None])  # its dense form has a known shape then
    return _tf.IndexedSlices(values, _tf.cast(indices, grad.indices.dtype),
                             grad.dense_shape)


def _only_if(condition, grad):
    """The gradient, or zeros."""
    if _is_sparse(grad):
        return _tf.IndexedSlices(_only_if(condition, grad.values),
                                 grad.indices, grad.dense_shape)
    return _tf.where(condition, grad, _tf.zeros_like(grad))
