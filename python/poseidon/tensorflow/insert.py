"""Puts the exchange of an optimizer's gradients into its graph.

One PsdPush per raw gradient, in the reverse order of the variables so that
late layers leave first, one PsdWait for all, and a rewiring: whoever has read
a raw gradient after tf.gradients had returned reads the answer of the wait.
Consumers inside tf.gradients keep the raw one: a tensor may be the gradient
of a variable and on its way to the layers below at the same time.
"""
from poseidon import _job, _lib
from poseidon.tensorflow import core, gradients, groups, losses, source
from poseidon.tensorflow.book import Site

TOLD = 16    # numbers, at most


class Sent:
    """One gradient on its way: what is pushed, and what takes its place."""

    def __init__(self, tf, raw, variable):
        self.raw = raw
        self.sparse = hasattr(raw.grad, "indices")
        self.values = gradients.parts(raw.grad)[0]
        self.name = _title(raw.variable if variable is None else variable)
        self.dtype = self.values.dtype.base_dtype
        if self.dtype.name not in core.FLOATS:
            raise _lib.Error(-10, "poseidon: the gradient of %s is of type "
                             "%s; gradients of floating types can be "
                             "exchanged" % (self.name, self.dtype.name))
        self.count = self._count(tf, raw, variable)

    def _count(self, tf, raw, variable):
        shape = _shape(tf, raw.variable if variable is None else variable)
        if shape is None or shape.num_elements() is None:
            shape = None if self.sparse else self.values.shape
        if shape is None or shape.num_elements() is None:
            raise _lib.Error(-2, "poseidon: the shape of %s is not known "
                             "when its optimizer is made; give the variable "
                             "a shape" % self.name)
        if not self.sparse:
            return shape.num_elements()
        return shape[1:].num_elements()

    def entry(self, key, priority):
        return (key, self.dtype, self.count,
                core.SPARSE if self.sparse else core.DENSE, priority)


def put(tf, book, raws, by_hand):
    """Insert what is new of `raws` and `by_hand` (pairs of gradient and
    variable); the Site, or None where everything is exchanged already."""
    sent = [Sent(tf, raw, None) for raw in raws if raw.group is None]
    last = gradients.last_number(book.graph)
    for grad, variable in by_hand:
        sent.append(Sent(tf, gradients.Raw(grad, variable, None, last),
                         variable))
    if not sent:
        return None
    told, kind = _losses(sent)
    signature = tuple((one.name, one.dtype.name, one.count, one.sparse)
                      for one in sent) + (len(told),)
    group = groups.like(len(book.sites), signature)
    site = Site(group)
    site.kind, site.told = kind, told
    site.loss = told[0] if told else None
    site.source = _source(tf, book, site, sent[0].raw.loss)
    if site.source is not None and site.source.dealt:   # and other towers'
        for loss in {id(one.raw.loss): one.raw.loss for one in sent}.values():
            site.towers.append(_source(tf, book, site, loss))
    _register(site, sent)
    _build(tf, book, site, sent)
    for one in sent:
        one.raw.group = site
        site.raws.append(one.raw)
        values = gradients.parts(one.raw.grad)[0]
        book.record.by_tensor.setdefault(id(values), one.raw)
        if one.raw not in book.record.raws:
            book.record.raws.append(one.raw)
    book.sites.append(site)
    rewire(book)
    return site


def _losses(sent):
    """Numbers that are told to all workers with the gradients (the loss and
    its terms), and what their rows are to the losses."""
    found = {id(one.raw.loss): one.raw.loss for one in sent
             if one.raw.loss is not None}
    kinds, scalars = set(), []
    for loss in found.values():
        kind, terms = losses.look(loss)
        kinds.add(kind)
        scalars.extend(term for term in terms
                       if term.dtype.base_dtype.name in core.FLOATS)
    if len(kinds) > 1:
        return [], "mixed"
    return scalars[:TOLD], kinds.pop() if kinds else "mean"


def _source(tf, book, site, loss):
    """Where the batches come from, if that can be cut or dealt in the
    graph."""
    op = None if loss is None else source.find(loss)
    if op is None or source.is_sharded(book.graph):
        return None
    if op._id not in book.sources:
        whole = _job.job().batch == "per-worker" or not source.is_open(op)
        if site.kind == "mixed" and not whole:
            return None
        make = source.deal if whole else source.put
        book.sources[op._id] = make(tf, book.graph, op)
    return book.sources[op._id]


def _register(site, sent):
    """Collective. A higher priority overtakes: the front layers are needed
    first."""
    group = site.group
    entries = [one.entry(group.key(index), -index)
               for index, one in enumerate(sent)]
    for index, one in enumerate(sent):
        groups.titles[group.key(index)] = one.name
    for index, loss in enumerate(site.told):
        key = "%s/loss%d" % (group.name, index)
        groups.titles[key] = "the loss " + loss.op.name
        entries.append((key, loss.dtype, 1, core.DENSE, -len(sent)))
    core.register(group.name, entries)


def _build(tf, book, site, sent):
    v1, name = tf.compat.v1, site.group.name
    with v1.name_scope(None), tf.control_dependencies(None), v1.device(None), \
            book.graph.colocate_with(None, ignore_existing=True), \
            v1.name_scope("poseidon/%s/" % name):
        site.enabled = v1.placeholder_with_default(True, [], name="enabled")
        weight = tf.constant(-1.0, tf.float64, name="weight") if (
            site.source is None) else site.source.weight
        turn = _turn(tf, book)
        keys, outs, gates = _pushes(tf, site, sent, weight)
        with tf.control_dependencies(gates):
            outs, finite = core.ops.psd_wait(
                outs, site.enabled, turn, group=name, keys=keys, name="wait")
        site.waited = finite.op
        site.between = tf.identity(finite, name="between")
        site.answers = outs[len(sent):]
        for index, one in enumerate(sent):
            _take(tf, site, one, keys[index], outs[index], finite)


def _turn(tf, book):
    """Waits of one run come in the order of their optimizers: each takes
    something of all those before it, which a run without them feeds."""
    before = [site.between for site in book.sites]
    return tf.stack(before) if before else tf.constant(True)


def _pushes(tf, site, sent, weight):
    group, outs, gates = site.group, [None] * len(sent), []
    op = "step" if site.kind == "sum" else "mean"
    for index in reversed(range(len(sent))):
        one, key = sent[index], group.key(index)
        words = dict(enabled=site.enabled, weight=weight, key=key, op=op,
                     name="push%d" % index)
        values, held = gradients.peel(one.values)
        if one.sparse:
            outs[index] = core.ops.psd_push_sparse(
                values, gradients.parts(one.raw.grad)[1], **words)
        else:
            outs[index] = core.ops.psd_push(values, **words)
        gates.extend(held)
    keys = [group.key(index) for index in range(len(sent))]
    for index, loss in enumerate(site.told):
        keys.append("%s/loss%d" % (group.name, index))
        outs.append(core.ops.psd_push(
            loss, enabled=site.enabled, weight=weight, key=keys[-1], op=op,
            name="push_loss%d" % index))
    return keys, outs, gates


def _take(tf, site, one, key, out, finite):
    raw = one.raw
    tensors = raw.tensors()
    if one.sparse:
        answers = list(core.ops.psd_take_sparse(out, tensors[1], site.enabled,
                                                key=key))
        answers[0].set_shape([None] + tensors[0].shape[1:].as_list()
                             if tensors[0].shape.rank else None)
        answers[1].set_shape([None])
    else:
        answers = [out]
    if _job.job().nan == "skip":
        answers[0] = tf.where(finite, answers[0],
                              tf.zeros_like(answers[0]))
    for tensor, answer in zip(tensors, answers):
        raw.done[id(tensor)] = answer


def rewire(book):
    """Whoever reads a raw gradient from outside tf.gradients reads the
    answer. Also what the script has added since: operations that no session
    has seen can still be changed."""
    for one in book.sources.values():
        source.rewire(one)
    for site in book.sites:
        for raw in site.raws:
            for tensor in raw.tensors():
                answer = raw.done[id(tensor)]
                for op in tensor.consumers():
                    if op._id > raw.last and not op.type.startswith("Psd"):
                        _replace(op, tensor, answer)


def _replace(op, tensor, answer):
    for index, given in enumerate(op.inputs):
        if given is tensor:
            op._update_input(index, answer)


def replaced(grad, raws):
    """A gradient that is about to be applied, with answers in the place of
    raw tensors."""
    done = {}
    for raw in raws:
        done.update(raw.done)
    tensors = gradients.parts(grad)
    if not any(id(tensor) in done for tensor in tensors):
        return grad
    fresh = [done.get(id(tensor), tensor) for tensor in tensors]
    if len(fresh) == 1:
        return fresh[0]
    return type(grad)(fresh[0], fresh[1], grad.dense_shape)


def _variable_op(value):
    """The operation that a variable is, behind handles and reads."""
    op = value.op
    while op.type in ("Identity", "ReadVariableOp"):
        op = op.inputs[0].op
    return op


def _title(value):
    return _variable_op(value).name


def _shape(tf, value):
    op = _variable_op(value)
    if op.type in ("VariableV2", "Variable", "VarHandleOp"):
        return tf.TensorShape(op.get_attr("shape"))
    shape = getattr(value, "shape", None)
    return None if shape is None else tf.TensorShape(shape)
