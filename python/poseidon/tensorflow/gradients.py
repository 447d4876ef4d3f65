"""Which tensors of a graph are gradients of variables, and which of them an
optimizer is about to apply.

tf.gradients is watched: what it returns for a variable is *raw*, of this
worker's rows only. Between that and apply_gradients a script may clip, add,
sum up, draw histograms. A walk back from the applied gradients finds the raw
ones; these are exchanged, and whatever the script has made of them sees the
exchanged ones, as on one machine. A gradient that comes from nowhere known
was made by hand, and is exchanged as it is given.
"""
_LEAVES = frozenset(
    "Const Placeholder PlaceholderWithDefault Variable VariableV2 VarHandleOp "
    "ReadVariableOp IteratorGetNext QueueDequeueV2 QueueDequeueManyV2 "
    "QueueDequeueUpToV2".split())


class Raw:
    """A gradient that tf.gradients has returned: dense, or the rows of an
    IndexedSlices."""

    def __init__(self, grad, variable, loss, last):
        self.grad = grad
        self.variable = variable
        self.loss = loss     # a tensor, or None
        self.last = last     # number of the last operation of tf.gradients
        self.done = {}       # id of a tensor of `grad`: what takes its place
        self.group = None    # that exchanges it

    def tensors(self):
        return parts(self.grad)


def parts(grad):
    """The tensors that carry a gradient: [values] or [values, indices]."""
    if hasattr(grad, "indices"):
        return [grad.values, grad.indices]
    return [grad]


class Record:
    """Raw gradients of one graph, in the order in which they were made."""

    def __init__(self):
        self.raws = []
        self.by_tensor = {}   # id of a values tensor: Raw

    def add(self, grads, variables, losses, last):
        loss = losses[0] if len(losses) == 1 else None
        for grad, variable in zip(grads, variables):
            if grad is None or variable is None:
                continue
            values = parts(grad)[0]
            if id(values) not in self.by_tensor:
                raw = Raw(grad, variable, loss, last)
                self.raws.append(raw)
                self.by_tensor[id(values)] = raw

    def behind(self, grads):
        """(raw gradients behind `grads` in their order, which of `grads`
        have none behind them)."""
        found, seen = {}, {}
        waiting = [parts(grad)[0] for grad in grads]
        while waiting:
            tensor = waiting.pop()
            if id(tensor) in self.by_tensor:
                found[id(tensor)] = self.by_tensor[id(tensor)]
                continue
            op = tensor.op
            if op._id in seen or op.type in _LEAVES:
                continue
            seen[op._id] = op
            waiting.extend(op.inputs)
        touched = self._touched(seen)
        by_hand = [id(parts(grad)[0]) not in self.by_tensor
                   and parts(grad)[0].op._id not in touched for grad in grads]
        return [raw for raw in self.raws
                if id(parts(raw.grad)[0]) in found], by_hand

    def _touched(self, seen):
        """Operations among `seen` that a raw gradient goes through."""
        touched = set()
        for number in sorted(seen):
            for tensor in seen[number].inputs:
                if id(tensor) in self.by_tensor or (
                        tensor.op._id in touched):
                    touched.add(number)
                    break
        return touched


def last_number(graph):
    """Operations that are made later have a higher number."""
    operations = graph.get_operations()
    return operations[-1]._id if operations else 0


def is_variable(tf, value):
    """Is this what tf.gradients is asked for a variable by: the variable
    itself, its handle, the reference of an old one?"""
    if isinstance(value, tf.Variable):
        return True
    op = getattr(value, "op", None)
    return op is not None and op.type in (
        "VariableV2", "Variable", "VarHandleOp", "ReadVariableOp") or (
            op is not None and op.type == "Identity"
            and op.inputs[0].op.type in ("VariableV2", "Variable",
                                         "ReadVariableOp"))


def peel(tensor):
    """(what a gated gradient is made of, the gates): TensorFlow holds a
    gradient back until its sisters are there; it may leave before."""
    gates = []
    while tensor.op.type == "Identity" and tensor.op.control_inputs:
        gates.append(tensor.op)
        tensor = tensor.op.inputs[0]
    return tensor, gates
