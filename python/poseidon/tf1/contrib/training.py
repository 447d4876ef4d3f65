"""tf.contrib.training: HParams, train ops, checkpoints as they come."""
import json
import time

import tensorflow.compat.v1 as tf


class HParams:
    """Named values with a type each, set from "name=value,..."."""

    def __init__(self, **words):
        self.__dict__["_types"] = {}
        for name, value in words.items():
            self.add_hparam(name, value)

    def add_hparam(self, name, value):
        if name in self._types:
            raise ValueError("HParams has %r already" % name)
        many = isinstance(value, (list, tuple))
        kind = type(value[0]) if many and value else type(value)
        self._types[name] = (kind, many)
        self.__dict__[name] = value

    def set_hparam(self, name, value):
        kind, many = self._kind(name)
        if many:
            value = [_cast(kind, one) for one in (
                value if isinstance(value, (list, tuple)) else [value])]
        else:
            value = _cast(kind, value)
        self.__dict__[name] = value

    def _kind(self, name):
        if name not in self._types:
            raise ValueError("HParams has no %r: it has %s" % (
                name, ", ".join(sorted(self._types)) or "nothing"))
        return self._types[name]

    def __setattr__(self, name, value):
        if name in self._types:
            self.set_hparam(name, value)
        else:
            self.__dict__[name] = value

    def parse(self, text):
        """a=1,b=[1,2],c=x"""
        for name, value in _assignments(text):
            _, many = self._kind(name)
            if many and value[:1] == "[":
                value = [one for one in value[1:-1].split(",") if one]
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values):
        for name, value in values.items():
            self.set_hparam(name, value)
        return self

    set_from_map = override_from_dict

    def parse_json(self, text):
        return self.override_from_dict(json.loads(text))

    def to_json(self, **words):
        return json.dumps(self.values(), **words)

    def values(self):
        return {name: getattr(self, name) for name in self._types}

    def get(self, name, default=None):
        return getattr(self, name) if name in self._types else default

    def del_hparam(self, name):
        self._kind(name)
        del self._types[name], self.__dict__[name]

    def __contains__(self, name):
        return name in self._types

    def __repr__(self):
        return "HParams(%s)" % sorted(self.values().items())


def _assignments(text):
    depth, start, parts = 0, 0, []
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    for part in parts:
        if part.strip():
            name, sign, value = part.partition("=")
            if not sign:
                raise ValueError("HParams: %r is not name=value" % part)
            yield name.strip(), value.strip()


def _cast(kind, value):
    if kind is bool and isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0"):
            raise ValueError("HParams: %r is no truth value" % value)
        return value.lower() in ("true", "1")
    if kind is type(None):
        return value
    return kind(value)


def create_train_op(total_loss, optimizer, global_step=0, update_ops=None,
                    variables_to_train=None, transform_grads_fn=None,
                    summarize_gradients=False, clip_gradient_norm=0,
                    gradient_multipliers=None, check_numerics=True, **_):
    """One op that updates, trains and gives the loss. global_step 0: the
    graph's own; None: none."""
    if global_step == 0 and isinstance(global_step, int):
        global_step = tf.train.get_or_create_global_step()
    if update_ops is None:
        update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    with tf.control_dependencies(list(update_ops)):
        total_loss = tf.identity(total_loss)
    pairs = optimizer.compute_gradients(
        total_loss, variables_to_train or tf.trainable_variables())
    pairs = [one for one in pairs if one[0] is not None]
    if gradient_multipliers:
        pairs = [(g * gradient_multipliers.get(
            v, gradient_multipliers.get(v.op.name, 1.0)), v)
            for g, v in pairs]
    if transform_grads_fn:
        pairs = transform_grads_fn(pairs)
    if clip_gradient_norm > 0:
        pairs = clip_gradient_norms(pairs, clip_gradient_norm)
    if summarize_gradients:
        add_gradients_summaries(pairs)
    train = optimizer.apply_gradients(pairs, global_step=global_step)
    with tf.control_dependencies([train]):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss,
                                           "LossTensor is inf or nan")
        value = tf.identity(total_loss, name="train_op")
    tf.add_to_collection(tf.GraphKeys.TRAIN_OP, value)
    return value


def clip_gradient_norms(gradients_to_variables, max_norm):
    return [(tf.clip_by_norm(g, max_norm), v)
            for g, v in gradients_to_variables]


def add_gradients_summaries(grads_and_vars):
    return [tf.summary.histogram(v.op.name + "/gradient", g)
            for g, v in grads_and_vars if g is not None]


def wait_for_new_checkpoint(checkpoint_dir, last_checkpoint=None,
                            seconds_to_sleep=1, timeout=None):
    end = None if timeout is None else time.time() + timeout
    while True:
        path = tf.train.latest_checkpoint(checkpoint_dir)
        if path is not None and path != last_checkpoint:
            return path
        if end is not None and time.time() + seconds_to_sleep > end:
            return None
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(checkpoint_dir, min_interval_secs=0, timeout=None,
                         timeout_fn=None):
    last = None
    while True:
        last = wait_for_new_checkpoint(checkpoint_dir, last, timeout=timeout)
        if last is None:
            if timeout_fn is None or timeout_fn():
                return
            continue
        begin = time.time()
        yield last
        time.sleep(max(0, begin + min_interval_secs - time.time()))


class GreedyLoadBalancingStrategy:
    """For replica_device_setter: the ps that has the least so far."""

    def __init__(self, num_tasks, load_fn):
        self._loads = [0.0] * num_tasks
        self._load = load_fn

    def __call__(self, op):
        task = self._loads.index(min(self._loads))
        self._loads[task] += self._load(op)
        return task


def byte_size_load_fn(op):
    """Bytes of the tensor that a variable's operation has."""
    shape = op.outputs[0].shape
    if op.type == "VarHandleOp":
        shape = tf.TensorShape(op.get_attr("shape"))
        return op.get_attr("dtype").size * shape.num_elements()
    return op.outputs[0].dtype.size * shape.num_elements()
