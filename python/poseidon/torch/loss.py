"""Is a loss the mean over its rows or their sum? Read from the graph.

A mean over a worker's rows is averaged over the workers, weighted by rows; a
sum is summed. From the root of backward() we go down to the operation that
took away the rows:
  *_loss(reduction=...)      says it itself
  .mean() / .sum()           where they take the first dimension
  .sum() / d                 a mean, if d counts this worker's rows or
                             elements; a sum, if d counts those of the whole
                             batch (a constant of the script)
Casts, views, signs and factors (loss weights, GradScaler's, accumulation) on
the way change nothing. Of several losses added all have to be of one kind; a
term of parameters alone (a penalty on weights) goes with a mean. What cannot
be told is averaged, and one line says so.
"""
import contextlib

from poseidon import _job
from poseidon.torch import data, seed

_NODES = 200         # looked at, at most
_PASS = frozenset(
    "Alias Clone Contiguous Copy Expand Mul Neg Permute Reshape ReshapeAlias "
    "Select Squeeze ToCopy Transpose T Unsafe_view UnsafeView Unsqueeze View "
    "Slice Index Unbind Split".split())
_ADD = frozenset("Add Sub Rsub Stack Cat AddN".split())
_BEND = frozenset(
    "Sqrt Exp Log Log1P Pow Abs Clamp ClampMin ClampMax Relu Where Maximum "
    "Minimum Softplus Tanh Sigmoid MaskedFill".split())
_NORM = frozenset("LinalgVectorNorm Norm Dot Mv Mm Trace".split())
_NAMES = {}          # name of a node: its operation

_constants = set()   # divisors that were the size of a whole batch
_told = None         # the kind, where Keras knows it


class _Found:
    """What the way down met: kinds of all parts, and what is worth saying."""

    def __init__(self, rows, total):
        self.rows = rows
        self.total = total
        self.kinds = set()
        self.notes = []
        self.weights = []    # of means that know their own
        self.parts = 0
        self.left = _NODES
        self.inner = False   # a look further down

    def fork(self):
        """For a look further down, that may come to nothing."""
        other = _Found(self.rows, self.total)
        other.left, other.inner = min(self.left, 40), True
        return other

    def join(self, other):
        self.kinds |= other.kinds
        self.notes += other.notes
        self.weights += other.weights
        self.parts += other.parts
        self.left -= 40 - other.left


def kind(tensors, mine, total):
    """"mean" or "sum" of what is given to backward(). mine, total: what
    data.samples() says, None where it says nothing."""
    return look(tensors, mine, total)[0]


@contextlib.contextmanager
def telling(what):
    """The losses of backward passes in here are of this kind."""
    global _told
    before, _told = _told, what
    try:
        yield
    finally:
        _told = before


def look(tensors, mine, total):
    """The kind, and how much this worker counts in a mean: its rows; for one
    loss that counts other things (targets without ignore_index, weights of
    classes) those, where they can be read without waiting for a device."""
    rows = 1.0 if mine is None else float(mine)
    if _told is not None:
        return "mean" if data.whole() or _is_same(mine) else _told, rows
    found = _walk(tensors, mine, total)
    if _judge(found) == "sum":
        return "mean" if _is_same(mine) else "sum", rows
    if mine and found.kinds == {"mean"} and found.parts == 1 and (
            found.weights):
        rows = found.weights[0]
    return "mean", rows


def _is_same(mine):
    """Does every worker compute the same, as nothing was cut or drawn? Then
    a sum is that of the single run already."""
    return mine is None and seed.untouched()


def _judge(found):
    kinds = found.kinds - {"free"}
    if data.whole() or not kinds:
        return "mean"
    if kinds == {"sum"}:
        if "free" in found.kinds:
            _note("a sum over rows plus a term of parameters alone: the term "
                  "counts once for every worker")
        return "sum"
    if "unknown" in kinds:
        _note("%s: taken for a mean over rows" % found.notes[0])
    elif "sum" in kinds:
        _note("a mean and a sum over rows are added in one loss: taken for "
              "means, so the sum counts 1/%d" % _job.job().size)
    elif found.notes:
        _note(found.notes[0])
    return "mean"


def _note(text):
    if _job.job().rank == 0:
        _job.warn_once("loss " + text, "loss: " + text)


def _list(tensors):
    return list(tensors) if isinstance(tensors, (list, tuple)) else [tensors]


def _walk(tensors, mine, total):
    rows = mine if mine else data.shown()
    found = _Found(rows, total)
    for tensor in _list(tensors):
        if tensor.grad_fn is None:
            found.kinds.add("free")
        elif tensor.numel() > 1:
            found.kinds.add("unknown")
            found.notes.append("backward() of a tensor of many elements")
        else:
            _down(tensor.grad_fn, found, [])
    return found


def _operation(node):
    """`Sum` of SumBackward1."""
    name = node.name()
    known = _NAMES.get(name)
    if known is None:
        known = _NAMES[name] = name.partition("Backward")[0]
    return known


def _children(node):
    return [child for child, _ in node.next_functions if child is not None]


def _down(node, found, divisors):
    """From a scalar to where its rows went."""
    while found.left > 0:
        found.left -= 1
        what = _operation(node)
        reduction = getattr(node, "_saved_reduction", None)
        if reduction in (1, 2):
            return _loss_node(node, reduction, found, divisors)
        if what in ("Sum", "Mean", "Nansum"):
            if _shape(node) != [] and not _is_listing(node):
                return _reduction(node, what, found, divisors)
        elif what == "Div":
            divisors = divisors + [_number(node)]
        elif what in _BEND:
            _note_bend(node, what, found)
        elif what not in _PASS and what not in _ADD:
            break
        children = _children(node)
        if len(children) != 1:
            for child in children:
                if _is_free(child):
                    found.kinds.add("free")
                else:
                    _down(child, found, divisors)
            return None
        node = children[0]
    found.kinds.add("unknown")
    found.notes.append("a loss that ends in %s" % _operation(node))
    return None


def _note_bend(node, what, found):
    """Not of a quotient that is 0 where its divisor is, as Keras takes
    means."""
    children = _children(node)
    if what != "Where" or len(children) != 1 or (
            _operation(children[0]) != "Div"):
        found.notes.append("%s() of a mean or sum over rows: it is averaged, "
                           "which is not quite what one worker alone "
                           "computes" % what.lower())


def _reduction(node, what, found, divisors):
    """A .sum() or .mean(). If it is not for sure the one that takes the
    rows, that may be further down, as in x.mean(0).sum()."""
    if _is_free(node):
        return found.kinds.add("free")
    sizes = _shape(node)
    if not (_takes_rows(node) and sizes and sizes[0] == found.rows
            and _product(sizes) > 1):
        below = found.fork()
        for child in _children(node):
            _down(child, below, divisors)
        if below.kinds and "unknown" not in below.kinds:
            return found.join(below)
        if found.inner and not _takes_rows(node):
            found.notes.append("a loss that ends in %s" % what)
            return found.kinds.add("unknown")
    found.parts += 1
    return found.kinds.add("mean" if what == "Mean" else
                           _divided(sizes, found, divisors))


def _loss_node(node, reduction, found, divisors):
    found.parts += 1
    if reduction == 2:
        found.kinds.add(_divided(None, found, divisors))
        return
    found.kinds.add("mean")
    own = getattr(node, "_saved_total_weight", None)
    if own is not None and not own.is_cuda and not own.is_meta:
        found.weights.append(float(own))


def _shape(node):
    sizes = getattr(node, "_saved_self_sym_sizes", None)
    return None if sizes is None else [int(size) for size in sizes]


def _product(sizes):
    count = 1
    for size in sizes:
        count *= size
    return count


def forget():
    _constants.clear()


def _is_listing(node):
    """A sum or mean over a list of losses, put together by the script."""
    child = _children(node)[0]
    if _operation(child) not in ("Stack", "Cat"):
        return False
    sizes = _shape(node)
    return sizes is not None and len(sizes) == 1 and (
        sizes[0] == len(child.next_functions))


def _takes_rows(node):
    """Does a reduction take the first dimension?"""
    dims = getattr(node, "_saved_dim", None)
    if dims is None or dims == ():
        return True
    sizes = _shape(node)
    rank = len(sizes) if sizes is not None else 0
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    dims = [dim - (1 << 64) if dim >= 1 << 63 else dim for dim in dims]
    return any(dim in (0, -rank) for dim in dims)


def _number(node):
    """The divisor: a number, None where it is not one number."""
    other = getattr(node, "_saved_other", None)
    if isinstance(other, (int, float)):
        return float(other)
    if other is None or other.numel() != 1 or other.is_cuda or (
            other.is_meta):
        return None
    return float(other)


def _divided(sizes, found, divisors):
    """The kind of a sum over `sizes` that is divided."""
    count = _product(sizes) if sizes else None
    own = {found.rows, count, sizes[0] if sizes else None} - {None}
    of_all = {found.total} - {None}
    if count and found.rows and found.total:
        of_all.add(count * found.total / found.rows)
    if any(divisor in _constants for divisor in divisors):
        return "sum"
    if any(divisor in own for divisor in divisors):
        return "mean"
    fixed = {divisor for divisor in divisors
             if divisor in of_all or divisor is not None and divisor <= 2}
    _constants.update(fixed)
    others = [divisor for divisor in divisors if divisor not in fixed]
    if not others or fixed & of_all:
        return "sum"
    found.notes.append("a sum divided by %s" % (
        "a tensor" if others[0] is None else "%g" % others[0]))
    return "unknown"


def _is_free(node):
    """Does a term come from parameters alone, through a few operations that
    work element by element?"""
    todo, count = [node], 0
    while todo:
        each = todo.pop()
        what = _operation(each)
        count += 1
        if what.endswith("AccumulateGrad"):
            continue
        if count > 24 or not (what in _PASS or what in _ADD or what in _BEND
                              or what in _NORM
                              or what in ("Sum", "Mean", "Div")):
            return False
        if getattr(each, "_saved_reduction", None) is not None:
            return False
        todo.extend(_children(each))
    return True
