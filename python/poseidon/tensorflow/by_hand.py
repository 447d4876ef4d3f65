"""Optimizers of compat.v1 outside of sessions, eagerly or in a tf.function:
there is no graph to rewire, what is given to apply_gradients is exchanged."""
from poseidon import _job
from poseidon.tensorflow import core, gradients, groups

MARK = "_psd_exchanged"    # on a tensor that is that of all workers


def apply(tf, real, optimizer, pairs, args, words):
    if _job.job().size > 1:
        pairs = exchange(tf, optimizer, pairs)
    return real(optimizer, pairs, *args, **words)


def exchange(tf, optimizer, pairs):
    given = [index for index, (grad, _) in enumerate(pairs)
             if grad is not None and not _is_marked(grad)]
    if not given:
        return pairs
    core.start(tf)
    group = groups.group_of(optimizer)
    pairs = list(pairs)
    entries = []
    for index in given:
        grad, variable = pairs[index]
        key = group.key(index)
        sparse = hasattr(grad, "indices")
        groups.titles[key] = variable.name
        shape = variable.shape[1:] if sparse else variable.shape
        entries.append((key, grad.dtype, shape.num_elements(),
                        core.SPARSE if sparse else core.DENSE,
                        len(pairs) - index))
    core.register(group.name, entries)
    _run(tf, group, pairs, given)
    return pairs


def _is_marked(grad):
    return getattr(gradients.parts(grad)[0], MARK, False)


def _run(tf, group, pairs, given):
    mode = "eager" if tf.executing_eagerly() else "graph"
    on, weight = tf.constant(True), tf.constant(-1.0, tf.float64)
    outs = {}
    for index in reversed(given):
        parts = gradients.parts(tf.convert_to_tensor(pairs[index][0])
                                if not hasattr(pairs[index][0], "indices")
                                else pairs[index][0])
        push = (core.ops.psd_push_sparse if len(parts) == 2
                else core.ops.psd_push)
        outs[index] = push(*parts, enabled=on, weight=weight,
                           key=group.key(index), op="mean", mode=mode)
    answers, _ = core.ops.psd_wait(
        [outs[index] for index in given], on, on, group=group.name,
        keys=[group.key(index) for index in given])
    for index, answer in zip(given, answers):
        grad, variable = pairs[index]
        if hasattr(grad, "indices"):
            values, indices = core.ops.psd_take_sparse(
                answer, grad.indices, on, key=group.key(index))
            answer = type(grad)(values, indices, grad.dense_shape)
        pairs[index] = (answer, variable)
