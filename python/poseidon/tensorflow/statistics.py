"""Statistics that training keeps beside the gradients, such as the moving
means of batch normalisation: every worker updates them from its own rows, all
go on with the mean of all.

What a script has put into UPDATE_OPS is looked at when it makes an optimizer.
Each variable that is assigned to there is read after its update, exchanged,
and assigned again, in runs that train and that make these updates. They are a
group of their own: gradients may wait for the updates, so the updates cannot
wait for gradients.
"""
from poseidon.tensorflow import core, groups
from poseidon.tensorflow.book import Site

_ASSIGN = frozenset(
    "Assign AssignSub AssignAdd AssignVariableOp AssignSubVariableOp "
    "AssignAddVariableOp".split())
_PASS = frozenset("Identity ReadVariableOp NoOp".split())


def put(tf, book):
    """Insert the exchange of statistics that have none yet."""
    found = _updates(tf, book)
    if not found:
        return
    signature = tuple((variable.op.name, variable.dtype.base_dtype.name,
                       variable.shape.num_elements())
                      for _, variable in found)
    group = groups.like(len(book.sites), signature)
    for index, (_, variable) in enumerate(found):
        groups.titles[group.key(index)] = variable.op.name
    core.register(group.name, [
        (group.key(index), variable.dtype, variable.shape.num_elements(),
         core.DENSE, -len(found)) for index, (_, variable) in
        enumerate(found)])
    book.sites.append(_build(tf, book, Site(group), found))


def _updates(tf, book):
    """[(operation, variable)]: floating variables that are no parameters."""
    v1, graph = tf.compat.v1, book.graph
    known = {variable.op._id: variable for variable in
             graph.get_collection(v1.GraphKeys.GLOBAL_VARIABLES)}
    trained = {variable.op._id for variable in
               graph.get_collection(v1.GraphKeys.TRAINABLE_VARIABLES)}
    done = {number for site in book.sites for number in site.updates}
    found = {}
    for value in graph.get_collection(v1.GraphKeys.UPDATE_OPS):
        for op in _assigns(getattr(value, "op", value)):
            variable = known.get(op.inputs[0].op._id)
            if variable is not None and op._id not in done and (
                    variable.op._id not in trained
                    and variable.op._id not in found
                    and variable.dtype.base_dtype.name in core.FLOATS
                    and variable.shape.num_elements()):
                found[variable.op._id] = (op, variable)
    return list(found.values())


def _assigns(op):
    """The assignments that an operation of UPDATE_OPS stands for."""
    waiting, seen, found = [op], set(), []
    while waiting:
        op = waiting.pop()
        if op._id in seen:
            continue
        seen.add(op._id)
        if op.type in _ASSIGN:
            found.append(op)
        elif op.type in _PASS:
            waiting.extend(tensor.op for tensor in op.inputs)
            waiting.extend(op.control_inputs)
    return sorted(found, key=lambda op: op._id)


def _build(tf, book, site, found):
    v1, group = tf.compat.v1, site.group
    with v1.name_scope(None), tf.control_dependencies(None), v1.device(None), \
            book.graph.colocate_with(None, ignore_existing=True), \
            v1.name_scope("poseidon/%s/" % group.name):
        site.enabled = v1.placeholder_with_default(True, [], name="enabled")
        weight = tf.constant(-1.0, tf.float64)
        for source in book.sources.values():
            weight = source.weight
        turn = tf.stack([other.between for other in book.sites])
        keys = [group.key(index) for index in range(len(found))]
        outs = []
        for key, (op, variable) in zip(keys, found):
            with tf.control_dependencies([op]):
                value = tf.identity(variable.read_value())
            outs.append(core.ops.psd_push(value, site.enabled, weight,
                                          key=key, op="mean"))
        outs, finite = core.ops.psd_wait(outs, site.enabled, turn,
                                         group=group.name, keys=keys)
        site.waited = finite.op
        site.between = tf.identity(finite, name="between")
        for (op, variable), out in zip(found, outs):
            site.updates.append(op._id)
            site.variables.append(variable)
            site.targets.append(v1.assign(variable, out).op)
    return site
