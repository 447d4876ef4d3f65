"""What the rows of a batch are to a loss: averaged, or summed up? Read from
the graph.

From the loss we go down to the operations that take away the rows:
  Mean                      a mean
  Sum, L2Loss               a sum, if the first dimension is the batch's
  x / d                     a mean, if d is counted from the batch
                            (tf.losses) or is the number of rows that x sums
                            up, where that is fixed; else whatever x is
Signs, casts and factors on the way change nothing. Of several losses added
all have to be of one kind; a term of variables alone (weight decay) goes with
a mean. A mean over a worker's rows is averaged over the workers, weighted by
rows; a sum is summed. "mixed": neither is right, such a batch is not cut.
What cannot be told is averaged.
"""
_PASS = frozenset(
    "Identity Neg Cast Reshape Squeeze ExpandDims CheckNumerics Print PrintV2 "
    "EnsureShape StopGradient Sum".split())
_ADD = frozenset("Add AddV2 Sub AddN Pack ConcatV2".split())
_SCALE = frozenset("Mul RealDiv Div DivNoNan TruncateDiv".split())
_BATCH = ("Dequeue", "IteratorGetNext")
_NODES = 2000    # looked at, at most
_TERMS = 8       # of a loss that are exchanged as well


class _Look:
    def __init__(self, counts):
        self.counts = counts  # a dimension of rows is one of these
        self.kinds = set()
        self.penalty = False
        self.left = _NODES
        self.memo = {}
        self.scalars = []    # on the way, of rows

    def down(self, tensor, over=()):
        """over: what it is divided by on the way; None: not known."""
        op = tensor.op
        if tensor.shape.rank == 0 and self.has_rows(tensor):
            self.scalars.append(tensor)
        self.left -= 1
        if self.left < 0:
            self.kinds.add("mean")
        elif not self.has_rows(tensor):
            self.penalty = self.penalty or op.type != "Const"
        elif op.type in _ADD:
            for value in op.inputs:
                self.down(value, over)
        elif op.type in _SCALE:
            self.scaled(op, over)
        elif op.type in ("Mean", "Sum") and self.takes_rows(op):
            self.kinds.add("mean" if _is_count(op.inputs[0].shape, over)
                           else op.type.lower())
        elif op.type == "L2Loss":
            self.kinds.add("sum")
        elif op.type in _PASS or op.type == "Mean":
            self.down(op.inputs[0], over)
        else:
            self.kinds.add("mean")

    def scaled(self, op, over):
        left, right = op.inputs
        if op.type == "Mul":
            if not self.has_rows(left):
                left, right = right, left
            factor = _number(right)
            self.down(left, over + ((1 / factor,) if factor else ()))
            if self.has_rows(right):
                self.kinds.add("mean")
        elif self.has_rows(right):
            self.kinds.add("mean")
        else:
            self.down(left, over + (_number(right),))

    def takes_rows(self, op):
        """Does a reduction take the first dimension of rows? If their number
        is fixed, the batch of a session cannot be cut and it does not
        matter."""
        value, axes = op.inputs
        if value.shape.rank == 0:
            return False
        if value.op.type in ("Pack", "ConcatV2"):
            return False
        known = _constant(axes)
        if known is None:
            return True
        rank = value.shape.rank
        if self.counts and rank and not _fits(value, self.counts):
            return False
        if rank is None:
            return 0 in known or not known or len(known) > 1
        return 0 in [axis % rank for axis in known]

    def has_rows(self, tensor):
        """Does this come from a batch?"""
        waiting, seen = [tensor], set()
        while waiting:
            op = waiting.pop().op
            number = op._id
            if number in seen:
                continue
            seen.add(number)
            if self.memo.get(number) or _is_batch(op):
                self.memo[tensor.op._id] = True
                return True
            if number not in self.memo:
                waiting.extend(op.inputs)
        for number in seen:
            self.memo[number] = False
        return False


def _is_batch(op):
    if op.type.startswith("Placeholder"):
        rank = op.outputs[0].shape.rank
        return rank is None or rank > 0
    return any(word in op.type for word in _BATCH)


def _is_count(shape, over):
    """Is one of these the number of rows, or elements, of a fixed shape?"""
    if not shape.rank or shape.as_list()[0] is None:
        return False
    counts = [shape.as_list()[0], shape.num_elements()]
    return any(number is None or any(
        count and abs(number - count) < 1e-6 * count for count in counts)
        for number in over)


def _number(tensor):
    """The value of a scalar that is fixed in the graph, else None."""
    from tensorflow.python.framework import tensor_util
    if tensor.op.type == "Cast":
        return _number(tensor.op.inputs[0])
    whole = tensor.op.type == "Prod"
    value = tensor_util.constant_value(
        tensor.op.inputs[0] if whole else tensor)
    if value is None or (value.size != 1 and not whole):
        return None
    return float(value.prod())


def _constant(tensor):
    if tensor.op.type == "Const":
        from tensorflow.python.framework import tensor_util
        value = tensor_util.constant_value(tensor)
        return None if value is None else value.reshape(-1).tolist()
    if tensor.op.type == "Range":
        bounds = [_constant(value) for value in tensor.op.inputs]
        if None in bounds:
            return None
        return list(range(*(value[0] for value in bounds)))
    return None


def _fits(value, counts):
    """Can its first dimension be that of rows? Classes and features of a
    batch that is reduced already are none."""
    first = value.shape.as_list()[0]
    return first in counts or (
        first is not None and value.op.type == "Reshape"
        and any(count and first % count == 0 for count in counts))


def _counts(loss):
    """First dimensions of the batches that a loss comes from, None where it
    is open; nothing: not known."""
    waiting, seen, found = [loss], set(), set()
    while waiting:
        op = waiting.pop().op
        if op._id in seen:
            continue
        seen.add(op._id)
        if not _is_batch(op):
            waiting.extend(op.inputs)
            continue
        for out in op.outputs:
            if out.shape.rank is None and out.dtype.name != "resource":
                return set()
            if out.shape.rank:
                found.add(out.shape.as_list()[0])
    return found


def look(loss, by_shape=False):
    """("mean", "sum" or "mixed"; the loss and the terms that it adds, as far
    as they are numbers). by_shape: only a dimension that is as long as a
    batch is one of rows."""
    found = _Look(_counts(loss) if by_shape else ())
    if loss.shape.rank != 0 and found.has_rows(loss):
        found.kinds.add("sum")    # tf.gradients adds the elements
    else:
        found.down(loss)
    scalars = list({id(one): one for one in found.scalars}.values())[:_TERMS]
    if "sum" not in found.kinds:
        return "mean", scalars
    if found.kinds == {"sum"} and not found.penalty:
        return "sum", scalars
    return "mixed", scalars
