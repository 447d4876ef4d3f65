"""tf.contrib.layers: layers as functions, initializers, regularizers,
optimize_loss; the feature columns are in columns.py.
"""
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib.columns import *  # noqa: F401,F403
from poseidon.tf1.contrib.framework import add_arg_scope, model_variable

DATA_FORMAT_NHWC, DATA_FORMAT_NCHW = "NHWC", "NCHW"

# ---- initializers and regularizers


def variance_scaling_initializer(factor=2.0, mode="FAN_IN", uniform=False,
                                 seed=None, dtype=tf.float32):
    return tf.variance_scaling_initializer(
        scale=factor, mode=mode.lower(),
        distribution="uniform" if uniform else "truncated_normal",
        seed=seed, dtype=dtype)


def xavier_initializer(uniform=True, seed=None, dtype=tf.float32):
    return variance_scaling_initializer(1.0, "FAN_AVG", uniform, seed, dtype)


xavier_initializer_conv2d = xavier_initializer


def _regularizer(scale, scope, kind, term):
    if isinstance(scale, int) and not isinstance(scale, bool) and scale != 0:
        raise ValueError("%s: scale is the integer %d, it must be a float"
                         % (kind, scale))
    if scale < 0:
        raise ValueError("%s: scale is %g, it must not be negative"
                         % (kind, scale))
    if scale == 0.0:
        return lambda _: None

    def regularizer(weights, name=None):
        with tf.name_scope(scope, kind, [weights]) as inside:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype)
            return tf.multiply(factor, term(weights), name=inside)
    return regularizer


def l1_regularizer(scale, scope=None):
    return _regularizer(scale, scope, "l1_regularizer",
                        lambda w: tf.reduce_sum(tf.abs(w)))


def l2_regularizer(scale, scope=None):
    return _regularizer(scale, scope, "l2_regularizer", tf.nn.l2_loss)


def l1_l2_regularizer(scale_l1=1.0, scale_l2=1.0, scope=None):
    return sum_regularizer([l1_regularizer(scale_l1),
                            l2_regularizer(scale_l2)], scope)


def sum_regularizer(regularizer_list, scope=None):
    def regularizer(weights):
        terms = [one(weights) for one in regularizer_list if one is not None]
        terms = [one for one in terms if one is not None]
        return tf.add_n(terms, name=scope) if terms else None
    return regularizer


def apply_regularization(regularizer, weights_list=None):
    if not weights_list:
        weights_list = tf.get_collection(tf.GraphKeys.WEIGHTS)
    losses = [regularizer(one) for one in weights_list]
    losses = [tf.constant(0.0) if one is None else one for one in losses]
    for one in losses:
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, one)
    return tf.add_n(losses) if losses else tf.constant(0.0)


# ---- layers


def _collections(given, key):
    return given.get(key) if isinstance(given, dict) else given


def _out(value, collections):
    for one in ([collections] if isinstance(collections, str)
                else collections or ()):
        tf.add_to_collection(one, value)
    return value


def _pair(value):
    return (list(value) if isinstance(value, (list, tuple))
            else [value, value])


def _four(value, data_format):
    a, b = _pair(value)
    return [1, 1, a, b] if data_format == "NCHW" else [1, a, b, 1]


def _finish(outputs, normalizer_fn, normalizer_params, activation_fn, biases,
            data_format="NHWC"):
    """What follows the product: normalizer or biases, then activation."""
    if normalizer_fn is not None:
        outputs = normalizer_fn(outputs, **(normalizer_params or {}))
    elif biases is not None:
        outputs = tf.nn.bias_add(outputs, biases, data_format=data_format)
    return outputs if activation_fn is None else activation_fn(outputs)


def _biases(initializer, regularizer, count, dtype, collections, trainable,
            normalizer_fn):
    if normalizer_fn is not None or initializer is None:
        return None
    return model_variable("biases", [count], dtype, initializer=initializer,
                          regularizer=regularizer, trainable=trainable,
                          collections=_collections(collections, "biases"))


@add_arg_scope
def fully_connected(inputs, num_outputs, activation_fn=tf.nn.relu,
                    normalizer_fn=None, normalizer_params=None,
                    weights_initializer=xavier_initializer(),
                    weights_regularizer=None,
                    biases_initializer=tf.zeros_initializer(),
                    biases_regularizer=None, reuse=None,
                    variables_collections=None, outputs_collections=None,
                    trainable=True, scope=None):
    with tf.variable_scope(scope, "fully_connected", [inputs],
                           reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.get_shape()
        count = shape.as_list()[-1]
        dtype = inputs.dtype.base_dtype
        weights = model_variable(
            "weights", [count, num_outputs], dtype,
            initializer=weights_initializer, regularizer=weights_regularizer,
            collections=_collections(variables_collections, "weights"),
            trainable=trainable)
        biases = _biases(biases_initializer, biases_regularizer, num_outputs,
                         dtype, variables_collections, trainable,
                         normalizer_fn)
        if shape.ndims > 2:
            outputs = tf.tensordot(inputs, weights, [[shape.ndims - 1], [0]])
            outputs.set_shape(shape.as_list()[:-1] + [num_outputs])
        else:
            outputs = tf.matmul(inputs, weights)
        outputs = _finish(outputs, normalizer_fn, normalizer_params,
                          activation_fn, biases)
        return _out(outputs, outputs_collections)


@add_arg_scope
def convolution2d(inputs, num_outputs, kernel_size, stride=1, padding="SAME",
                  data_format=None, rate=1, activation_fn=tf.nn.relu,
                  normalizer_fn=None, normalizer_params=None,
                  weights_initializer=xavier_initializer(),
                  weights_regularizer=None,
                  biases_initializer=tf.zeros_initializer(),
                  biases_regularizer=None, reuse=None,
                  variables_collections=None, outputs_collections=None,
                  trainable=True, scope=None):
    form = data_format or "NHWC"
    with tf.variable_scope(scope, "Conv", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        count = inputs.get_shape().as_list()[1 if form == "NCHW" else 3]
        weights = model_variable(
            "weights", _pair(kernel_size) + [count, num_outputs], dtype,
            initializer=weights_initializer, regularizer=weights_regularizer,
            collections=_collections(variables_collections, "weights"),
            trainable=trainable)
        biases = _biases(biases_initializer, biases_regularizer, num_outputs,
                         dtype, variables_collections, trainable,
                         normalizer_fn)
        outputs = tf.nn.conv2d(
            inputs, weights, strides=_four(stride, form), padding=padding,
            data_format=form, dilations=_four(rate, form))
        outputs = _finish(outputs, normalizer_fn, normalizer_params,
                          activation_fn, biases, form)
        return _out(outputs, outputs_collections)


@add_arg_scope
def convolution2d_transpose(inputs, num_outputs, kernel_size, stride=1,
                            padding="SAME", activation_fn=tf.nn.relu,
                            normalizer_fn=None, normalizer_params=None,
                            weights_initializer=xavier_initializer(),
                            weights_regularizer=None,
                            biases_initializer=tf.zeros_initializer(),
                            biases_regularizer=None, reuse=None,
                            variables_collections=None,
                            outputs_collections=None, trainable=True,
                            scope=None):
    with tf.variable_scope(scope, "Conv2d_transpose", [inputs],
                           reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        dtype, shape = inputs.dtype.base_dtype, tf.shape(inputs)
        known = inputs.get_shape().as_list()
        kernel, strides = _pair(kernel_size), _pair(stride)
        weights = model_variable(
            "weights", kernel + [num_outputs, known[3]], dtype,
            initializer=weights_initializer, regularizer=weights_regularizer,
            collections=_collections(variables_collections, "weights"),
            trainable=trainable)
        biases = _biases(biases_initializer, biases_regularizer, num_outputs,
                         dtype, variables_collections, trainable,
                         normalizer_fn)

        def length(size, at):
            if size is None:
                return None
            more = max(kernel[at] - strides[at], 0) if padding == "VALID" \
                else 0
            return size * strides[at] + more
        sizes = [length(shape[1], 0), length(shape[2], 1)]
        outputs = tf.nn.conv2d_transpose(
            inputs, weights, tf.stack([shape[0], *sizes, num_outputs]),
            [1, *strides, 1], padding)
        outputs.set_shape([known[0], length(known[1], 0),
                           length(known[2], 1), num_outputs])
        outputs = _finish(outputs, normalizer_fn, normalizer_params,
                          activation_fn, biases)
        return _out(outputs, outputs_collections)


@add_arg_scope
def separable_convolution2d(inputs, num_outputs, kernel_size,
                            depth_multiplier=1, stride=1, padding="SAME",
                            rate=1, activation_fn=tf.nn.relu,
                            normalizer_fn=None, normalizer_params=None,
                            weights_initializer=xavier_initializer(),
                            weights_regularizer=None,
                            biases_initializer=tf.zeros_initializer(),
                            biases_regularizer=None, reuse=None,
                            variables_collections=None,
                            outputs_collections=None, trainable=True,
                            scope=None):
    with tf.variable_scope(scope, "SeparableConv2d", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        dtype = inputs.dtype.base_dtype
        count = inputs.get_shape().as_list()[3]
        depth = model_variable(
            "depthwise_weights",
            _pair(kernel_size) + [count, depth_multiplier], dtype,
            initializer=weights_initializer, regularizer=weights_regularizer,
            trainable=trainable)
        outputs = tf.nn.depthwise_conv2d(
            inputs, depth, _four(stride, "NHWC"), padding,
            rate=_pair(rate))
        if num_outputs is not None:
            point = model_variable(
                "pointwise_weights",
                [1, 1, count * depth_multiplier, num_outputs], dtype,
                initializer=weights_initializer,
                regularizer=weights_regularizer, trainable=trainable)
            outputs = tf.nn.conv2d(outputs, point, [1, 1, 1, 1], "VALID")
        biases = _biases(biases_initializer, biases_regularizer,
                         num_outputs or count * depth_multiplier, dtype,
                         variables_collections, trainable, normalizer_fn)
        outputs = _finish(outputs, normalizer_fn, normalizer_params,
                          activation_fn, biases)
        return _out(outputs, outputs_collections)


def _pool(function, name):
    def pool(inputs, kernel_size, stride=2, padding="VALID",
             data_format="NHWC", outputs_collections=None, scope=None):
        with tf.name_scope(scope, name, [inputs]) as inside:
            return _out(function(
                inputs, ksize=_four(kernel_size, data_format),
                strides=_four(stride, data_format), padding=padding,
                data_format=data_format, name=inside), outputs_collections)
    pool.__name__ = name
    return add_arg_scope(pool)


max_pool2d = _pool(tf.nn.max_pool, "MaxPool2D")
avg_pool2d = _pool(tf.nn.avg_pool, "AvgPool2D")


@add_arg_scope
def batch_norm(inputs, decay=0.999, center=True, scale=False, epsilon=0.001,
               activation_fn=None, param_initializers=None,
               param_regularizers=None,
               updates_collections=tf.GraphKeys.UPDATE_OPS, is_training=True,
               reuse=None, variables_collections=None,
               outputs_collections=None, trainable=True,
               batch_weights=None, fused=None, data_format="NHWC",
               zero_debias_moving_mean=False, scope=None, **_):
    """updates_collections=None: the averages are updated in place."""
    if batch_weights is not None:
        raise ValueError("tf.contrib.layers.batch_norm: batch_weights is "
                         "not emulated")
    start, regular = param_initializers or {}, param_regularizers or {}
    with tf.variable_scope(scope, "BatchNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        rank = inputs.get_shape().ndims
        channel = 1 if data_format == "NCHW" else rank - 1
        count = inputs.get_shape().as_list()[channel]
        axes = [at for at in range(rank) if at != channel]
        flat = [1] * rank
        flat[channel] = count

        def make(name, value, learned):
            return model_variable(
                name, [count], tf.float32,
                initializer=start.get(name, value),
                regularizer=regular.get(name) if learned else None,
                collections=_collections(variables_collections, name),
                trainable=trainable and learned)
        zeros, ones = tf.zeros_initializer(), tf.ones_initializer()
        beta = make("beta", zeros, True) if center else None
        gamma = make("gamma", ones, True) if scale else None
        moving_mean = make("moving_mean", zeros, False)
        moving_variance = make("moving_variance", ones, False)

        def in_training():
            mean, variance = tf.nn.moments(inputs, axes)
            updates = [tf.assign_sub(average, (average - now) * (1.0 - decay))
                       for average, now in ((moving_mean, mean),
                                            (moving_variance, variance))]
            if updates_collections is None:
                with tf.control_dependencies(updates):
                    return tf.identity(mean), tf.identity(variance)
            for one in updates:
                tf.add_to_collections(updates_collections, one)
            return mean, variance

        def kept():
            return moving_mean, moving_variance
        if isinstance(is_training, (bool, int)):
            mean, variance = in_training() if is_training else kept()
        else:
            chosen = tf.cast(is_training, tf.bool)
            mean, variance = _chosen_moments(
                chosen, inputs, axes, moving_mean, moving_variance, decay,
                updates_collections)
        values = [None if one is None else tf.reshape(one, flat)
                  for one in (mean, variance, beta, gamma)]
        outputs = tf.nn.batch_normalization(inputs, *values, epsilon)
        outputs.set_shape(inputs.get_shape())
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _out(outputs, outputs_collections)


def _chosen_moments(chosen, inputs, axes, moving_mean, moving_variance,
                    decay, collections):
    """is_training is a tensor: both are computed, one is taken; the averages
    move by nothing where it is false."""
    mean, variance = tf.nn.moments(inputs, axes)
    share = tf.where(chosen, 1.0 - decay, 0.0)
    updates = [tf.assign_sub(average, (average - now) * share)
               for average, now in ((moving_mean, mean),
                                    (moving_variance, variance))]
    if collections is not None:
        for one in updates:
            tf.add_to_collections(collections, one)
        updates = []
    with tf.control_dependencies(updates):
        return (tf.cond(chosen, lambda: mean, lambda: moving_mean),
                tf.cond(chosen, lambda: variance, lambda: moving_variance))


@add_arg_scope
def layer_norm(inputs, center=True, scale=True, activation_fn=None,
               reuse=None, variables_collections=None,
               outputs_collections=None, trainable=True,
               begin_norm_axis=1, begin_params_axis=-1, scope=None):
    with tf.variable_scope(scope, "LayerNorm", [inputs], reuse=reuse):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.get_shape()
        rank = shape.ndims
        sizes = shape.as_list()[begin_params_axis % rank:]
        beta = gamma = None
        if center:
            beta = model_variable("beta", sizes,
                                  initializer=tf.zeros_initializer(),
                                  trainable=trainable)
        if scale:
            gamma = model_variable("gamma", sizes,
                                   initializer=tf.ones_initializer(),
                                   trainable=trainable)
        mean, variance = tf.nn.moments(
            inputs, list(range(begin_norm_axis % rank, rank)),
            keep_dims=True)
        outputs = tf.nn.batch_normalization(inputs, mean, variance, beta,
                                            gamma, 1e-12)
        outputs.set_shape(shape)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        return _out(outputs, outputs_collections)


@add_arg_scope
def dropout(inputs, keep_prob=0.5, noise_shape=None, is_training=True,
            outputs_collections=None, scope=None, seed=None):
    with tf.name_scope(scope, "Dropout", [inputs]):
        def dropped():
            return tf.nn.dropout(inputs, keep_prob=keep_prob,
                                 noise_shape=noise_shape, seed=seed)
        if isinstance(is_training, (bool, int)):
            outputs = dropped() if is_training else tf.identity(inputs)
        else:
            outputs = tf.cond(tf.cast(is_training, tf.bool), dropped,
                              lambda: tf.identity(inputs))
        return _out(outputs, outputs_collections)


@add_arg_scope
def flatten(inputs, outputs_collections=None, scope=None):
    with tf.name_scope(scope, "Flatten", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        sizes = inputs.get_shape().as_list()[1:]
        if None in sizes:
            outputs = tf.reshape(inputs, tf.stack([tf.shape(inputs)[0], -1]))
        else:
            count = 1
            for one in sizes:
                count *= one
            outputs = tf.reshape(inputs, [-1, count])
        return _out(outputs, outputs_collections)


@add_arg_scope
def bias_add(inputs, activation_fn=None, initializer=tf.zeros_initializer(),
             regularizer=None, reuse=None, variables_collections=None,
             outputs_collections=None, trainable=True, data_format="NHWC",
             scope=None):
    with tf.variable_scope(scope, "BiasAdd", [inputs], reuse=reuse):
        count = inputs.get_shape().as_list()[
            1 if data_format == "NCHW" else -1]
        biases = _biases(initializer, regularizer, count,
                         inputs.dtype.base_dtype, variables_collections,
                         trainable, None)
        return _out(_finish(inputs, None, None, activation_fn, biases,
                            data_format), outputs_collections)


@add_arg_scope
def one_hot_encoding(labels, num_classes, on_value=1.0, off_value=0.0,
                     outputs_collections=None, scope=None):
    with tf.name_scope(scope, "OneHotEncoding", [labels]):
        return _out(tf.one_hot(tf.cast(labels, tf.int64), num_classes,
                               on_value=on_value, off_value=off_value),
                    outputs_collections)


@add_arg_scope
def softmax(logits, scope=None):
    with tf.variable_scope(scope, "softmax", [logits]):
        return tf.nn.softmax(logits)


def repeat(inputs, repetitions, layer, *args, **words):
    scope = words.pop("scope", None)
    name = getattr(layer, "__name__", "repeat")
    with tf.variable_scope(scope, "Repeat", [inputs]):
        for at in range(repetitions):
            words["scope"] = "%s_%d" % (scope or name, at + 1)
            inputs = layer(inputs, *args, **words)
        return inputs


def stack(inputs, layer, stack_args, **words):
    scope = words.pop("scope", None)
    name = getattr(layer, "__name__", "stack")
    with tf.variable_scope(scope, "Stack", [inputs]):
        for at, args in enumerate(stack_args):
            words["scope"] = "%s_%d" % (scope or name, at + 1)
            args = args if isinstance(args, (list, tuple)) else [args]
            inputs = layer(inputs, *args, **words)
        return inputs


def unit_norm(inputs, dim, epsilon=1e-7, scope=None):
    with tf.name_scope(scope, "UnitNorm", [inputs]):
        return tf.divide(inputs, tf.sqrt(epsilon + tf.reduce_sum(
            tf.square(inputs), dim, keepdims=True)))


def embed_sequence(ids, vocab_size=None, embed_dim=None, unique=False,
                   initializer=None, regularizer=None, trainable=True,
                   scope=None, reuse=None):
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        table = model_variable("embeddings", [vocab_size, embed_dim],
                               initializer=initializer,
                               regularizer=regularizer, trainable=trainable)
        return tf.nn.embedding_lookup(table, ids)


def _activated(function):
    def layer(inputs, num_outputs, **words):
        words.setdefault("activation_fn", function)
        return fully_connected(inputs, num_outputs, **words)
    return layer


relu = _activated(tf.nn.relu)
relu6 = _activated(tf.nn.relu6)
linear = _activated(None)
conv2d = convolution = convolution2d
conv2d_transpose = convolution2d_transpose
separable_conv2d = separable_convolution2d

# ---- summaries


def summarize_activation(op):
    tf.summary.scalar("%s/fraction_of_zero_values" % op.op.name,
                      tf.nn.zero_fraction(op))
    return summarize_tensor(op, "activation")


def summarize_tensor(tensor, tag=None):
    name = tag or tensor.op.name
    if tensor.get_shape().ndims == 0:
        return tf.summary.scalar(name, tensor)
    return tf.summary.histogram(name, tensor)


def summarize_tensors(tensors, summarizer=summarize_tensor):
    return [summarizer(one) for one in tensors]


def summarize_collection(collection, name_filter=None,
                         summarizer=summarize_tensor):
    return summarize_tensors(tf.get_collection(collection, name_filter),
                             summarizer)


def summarize_activations(name_filter=None, summarizer=summarize_activation):
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter,
                                summarizer)


# ---- optimize_loss

OPTIMIZER_CLS_NAMES = {
    "Adagrad": tf.train.AdagradOptimizer, "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda rate: tf.train.MomentumOptimizer(rate, 0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm"]


def _optimizer(optimizer, rate):
    if isinstance(optimizer, str):
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError("no optimizer is named %r: one of %s" % (
                optimizer, ", ".join(sorted(OPTIMIZER_CLS_NAMES))))
        return OPTIMIZER_CLS_NAMES[optimizer](rate)
    if isinstance(optimizer, type):
        return optimizer(learning_rate=rate)
    if isinstance(optimizer, tf.train.Optimizer):
        return optimizer
    return optimizer(rate) if rate is not None else optimizer()


def optimize_loss(loss, global_step, learning_rate, optimizer,
                  gradient_noise_scale=None, gradient_multipliers=None,
                  clip_gradients=None, learning_rate_decay_fn=None,
                  update_ops=None, variables=None, name=None, summaries=None,
                  colocate_gradients_with_ops=False,
                  increment_global_step=True):
    """One op that trains and gives the loss."""
    loss = tf.convert_to_tensor(loss)
    step = global_step if global_step is not None else \
        tf.train.get_or_create_global_step()
    wanted = ["loss", "learning_rate"] if summaries is None else summaries
    with tf.variable_scope(name, "OptimizeLoss", [loss, step]):
        if update_ops is None:
            update_ops = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
        with tf.control_dependencies(list(update_ops)):
            loss = tf.identity(loss)
        rate = learning_rate
        if rate is not None and learning_rate_decay_fn is not None:
            rate = learning_rate_decay_fn(rate, step)
        if rate is not None and "learning_rate" in wanted:
            tf.summary.scalar("learning_rate", rate)
        trainer = _optimizer(optimizer, rate)
        pairs = trainer.compute_gradients(
            loss, variables or tf.trainable_variables(),
            colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = [(g if g is None else g + tf.truncated_normal(
                tf.shape(g)) * gradient_noise_scale, v) for g, v in pairs]
        if gradient_multipliers:
            pairs = [(g * gradient_multipliers.get(
                v, gradient_multipliers.get(v.name, 1.0)), v)
                for g, v in pairs if g is not None]
        if callable(clip_gradients):
            pairs = clip_gradients(pairs)
        elif clip_gradients is not None:
            pairs = [one for one in pairs if one[0] is not None]
            clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs],
                                                clip_gradients)
            pairs = list(zip(clipped, [v for _, v in pairs]))
        if "loss" in wanted:
            tf.summary.scalar("loss", loss)
        for gradient, one in pairs:
            if gradient is not None and "gradients" in wanted:
                tf.summary.histogram("gradients/" + one.op.name, gradient)
        train = trainer.apply_gradients(
            pairs, global_step=step if increment_global_step else None,
            name="train")
        with tf.control_dependencies([train]):
            return tf.identity(loss)
