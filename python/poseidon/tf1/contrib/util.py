"""tf.contrib.util."""
import tensorflow.compat.v1 as tf

make_tensor_proto = tf.make_tensor_proto
make_ndarray = tf.make_ndarray
load_op_library = tf.load_op_library


def constant_value(tensor, partial=False):
    return tf.get_static_value(tensor, partial)
