"""tf.contrib.framework: global step, arg_scope, variables, checkpoints."""
import functools
import re

import tensorflow.compat.v1 as tf
from tensorflow.python.framework import tensor_util as _tensor_util
from tensorflow.python.util import nest  # noqa: F401, a name of this module

MODEL_VARIABLES = tf.GraphKeys.MODEL_VARIABLES
get_global_step = tf.train.get_global_step
create_global_step = tf.train.create_global_step
get_or_create_global_step = tf.train.get_or_create_global_step
assert_global_step = tf.train.assert_global_step
list_variables = tf.train.list_variables
load_variable = tf.train.load_variable
load_checkpoint = tf.train.load_checkpoint
init_from_checkpoint = tf.train.init_from_checkpoint
is_tensor = tf.is_tensor if hasattr(tf, "is_tensor") \
    else _tensor_util.is_tensor
is_strictly_increasing = tf.math.is_strictly_increasing
is_non_decreasing = tf.math.is_non_decreasing
assert_scalar = tf.debugging.assert_scalar
convert_to_tensor_or_sparse_tensor = tf.convert_to_tensor_or_sparse_tensor
sort = tf.sort
argsort = tf.argsort
py_func = tf.py_func

# arg_scope: defaults of the arguments of functions that were marked with
# add_arg_scope, on a stack of dictionaries {function: {argument: value}}.
_scopes = [{}]
_marked = {}


def _key(function):
    return getattr(function, "_key_op", None) or (
        function.__module__, function.__name__)


arg_scope_func_key = _key


def current_arg_scope():
    return _scopes[-1]


def has_arg_scope(function):
    return _key(function) in _marked


def arg_scoped_arguments(function):
    return _marked[_key(function)]


def add_arg_scope(function):
    """Decorator: arg_scope can give defaults to this function."""
    key = (function.__module__, function.__name__)

    @functools.wraps(function)
    def scoped(*args, **words):
        given = current_arg_scope().get(key)
        if given:
            words = dict(given, **words)
        return function(*args, **words)

    scoped._key_op = key
    code = getattr(function, "__wrapped__", function).__code__
    _marked[key] = code.co_varnames[:code.co_argcount
                                    + code.co_kwonlyargcount]
    return scoped


class arg_scope:
    """with arg_scope([function, ...], argument=default, ...) as scope, or
    with arg_scope(scope) to have an earlier one back."""

    def __init__(self, list_ops_or_scope, **words):
        if isinstance(list_ops_or_scope, dict):
            if words:
                raise ValueError("arg_scope: a scope that is used again "
                                 "takes no further arguments")
            self._scope = dict(list_ops_or_scope)
            return
        if not isinstance(list_ops_or_scope, (list, tuple)):
            raise TypeError("arg_scope takes a list of functions or a scope")
        self._scope = {key: dict(value)
                       for key, value in current_arg_scope().items()}
        for function in list_ops_or_scope:
            if not has_arg_scope(function):
                raise ValueError("arg_scope: %s is not decorated with "
                                 "@add_arg_scope" % (_key(function),))
            self._scope.setdefault(_key(function), {}).update(words)

    def __enter__(self):
        _scopes.append(self._scope)
        return self._scope

    def __exit__(self, *_):
        _scopes.pop()


@add_arg_scope
def variable(name, shape=None, dtype=None, initializer=None,
             regularizer=None, trainable=True, collections=None,
             caching_device=None, device=None, partitioner=None,
             custom_getter=None, use_resource=None, **_):
    collections = list(collections if collections is not None
                       else [tf.GraphKeys.GLOBAL_VARIABLES])
    with tf.device(device or ""):
        return tf.get_variable(
            name, shape=shape, dtype=dtype, initializer=initializer,
            regularizer=regularizer, trainable=trainable,
            collections=sorted(set(collections)),
            caching_device=caching_device, partitioner=partitioner,
            custom_getter=custom_getter, use_resource=use_resource)


@add_arg_scope
def model_variable(name, shape=None, dtype=tf.float32, collections=None,
                   **words):
    collections = list(collections or []) + [
        tf.GraphKeys.GLOBAL_VARIABLES, MODEL_VARIABLES]
    return variable(name, shape=shape, dtype=dtype, collections=collections,
                    **words)


def local_variable(initial_value, validate_shape=True, name=None):
    return tf.Variable(initial_value, trainable=False,
                       collections=[tf.GraphKeys.LOCAL_VARIABLES],
                       validate_shape=validate_shape, name=name)


def global_variable(initial_value, validate_shape=True, name=None):
    return tf.Variable(initial_value, trainable=False,
                       collections=[tf.GraphKeys.GLOBAL_VARIABLES],
                       validate_shape=validate_shape, name=name)


def add_model_variable(var):
    if var not in tf.get_collection(MODEL_VARIABLES):
        tf.add_to_collection(MODEL_VARIABLES, var)


def get_variables(scope=None, suffix=None,
                  collection=tf.GraphKeys.GLOBAL_VARIABLES):
    scope = getattr(scope, "name", scope)
    if suffix is not None:
        scope = (scope or "") + ".*" + suffix
    return tf.get_collection(collection, scope)


def get_trainable_variables(scope=None, suffix=None):
    return get_variables(scope, suffix, tf.GraphKeys.TRAINABLE_VARIABLES)


def get_model_variables(scope=None, suffix=None):
    return get_variables(scope, suffix, MODEL_VARIABLES)


def get_local_variables(scope=None, suffix=None):
    return get_variables(scope, suffix, tf.GraphKeys.LOCAL_VARIABLES)


def get_variables_by_name(given_name, scope=None):
    return [one for one in get_variables(scope)
            if one.op.name.split("/")[-1] == given_name]


def get_variables_by_suffix(suffix, scope=None):
    return get_variables(scope, suffix)


def get_unique_variable(name):
    for one in get_variables(re.escape(name)):
        if one.op.name == name:
            return one
    raise ValueError("no variable is named %s" % name)


def get_variable_full_name(var):
    return var.op.name


def get_variables_to_restore(include=None, exclude=None):
    found = get_variables() if include is None else []
    for scope in include or ():
        found += get_variables(scope)
    left_out = {one for scope in exclude or () for one in
                get_variables(scope)}
    return [one for one in dict.fromkeys(found) if one not in left_out]


def filter_variables(var_list, include_patterns=None,
                     exclude_patterns=None, reg_search=True):
    look = re.search if reg_search else re.match
    return [one for one in var_list
            if (include_patterns is None
                or any(look(p, one.op.name) for p in include_patterns))
            and not any(look(p, one.op.name)
                        for p in exclude_patterns or ())]


def _named(var_list):
    if isinstance(var_list, dict):
        return var_list
    return {one.op.name: one for one in var_list}


def assign_from_checkpoint_fn(model_path, var_list,
                              ignore_missing_vars=False,
                              reshape_variables=False):
    """A function of a session that restores the variables."""
    wanted = _named(var_list)
    if ignore_missing_vars:
        reader = tf.train.load_checkpoint(model_path)
        there = reader.get_variable_to_shape_map()
        wanted = {name: one for name, one in wanted.items() if name in there}
        if not wanted:
            tf.logging.warning("%s has none of the variables", model_path)
            return None
    saver = tf.train.Saver(wanted, reshape=reshape_variables)
    return lambda session: saver.restore(session, model_path)


def assign_from_checkpoint(model_path, var_list, ignore_missing_vars=False):
    """An op and what to feed it."""
    reader = tf.train.load_checkpoint(model_path)
    ops, feed = [], {}
    for name, one in _named(var_list).items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                continue
            raise ValueError("%s has no variable %s" % (model_path, name))
        value = tf.placeholder(one.dtype.base_dtype, one.get_shape())
        ops.append(one.assign(value))
        feed[value] = reader.get_tensor(name).reshape(
            one.get_shape().as_list())
    return tf.group(*ops), feed


def assign_from_values_fn(values):
    wanted = {one.op.name: one for one in get_variables()}
    pairs = []
    for name, value in values.items():
        place = tf.placeholder(wanted[name].dtype.base_dtype, value.shape)
        pairs.append((wanted[name].assign(place), place, value))

    def restore(session):
        session.run([op for op, _, _ in pairs],
                    {place: value for _, place, value in pairs})
    return restore


def with_shape(expected_shape, tensor):
    tensor = tf.convert_to_tensor(tensor)
    if isinstance(expected_shape, tf.Tensor):
        return tf.reshape(tensor, expected_shape)
    tensor.set_shape(expected_shape)
    return tensor


def with_same_shape(expected_tensor, tensor):
    return with_shape(expected_tensor.get_shape(), tensor)


def reduce_sum_n(tensors, name=None):
    return tf.add_n([tf.reduce_sum(one) for one in tensors], name)


def zero_initializer(ref, use_locking=True, name="zero_initializer"):
    return ref.assign(tf.zeros_like(ref), use_locking=use_locking)


def _decorator(*_, **__):
    """deprecated, deprecated_args ...: the function as it is."""
    return lambda function: function


deprecated = deprecated_args = deprecated_arg_values = _decorator


def deprecated_argument_lookup(new_name, new_value, old_name, old_value):
    return new_value if old_value is None else old_value
