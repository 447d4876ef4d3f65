"""tf.layers.batch_normalization and flatten for a TensorFlow whose Keras is 3
(the other layers are still in TensorFlow itself)."""
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import layers


def batch_normalization(inputs, axis=-1, momentum=0.99, epsilon=1e-3,
                        center=True, scale=True, training=False,
                        trainable=True, name=None, reuse=None, **words):
    unknown = set(words) - {"beta_initializer", "gamma_initializer", "fused"}
    if unknown:
        raise TypeError("tf.layers.batch_normalization: %s: not emulated "
                        "with Keras 3" % ", ".join(sorted(unknown)))
    start = {key: words[key + "_initializer"] for key in ("beta", "gamma")
             if words.get(key + "_initializer") is not None}
    with tf.variable_scope(name, "batch_normalization", [inputs],
                           reuse=reuse) as scope:
        return layers.batch_norm(
            inputs, decay=momentum, center=center, scale=scale,
            epsilon=epsilon, is_training=training, trainable=trainable,
            param_initializers=start, scope=scope,
            data_format="NCHW" if axis == 1 else "NHWC")


def flatten(inputs, name=None):
    return layers.flatten(inputs, scope=name)
