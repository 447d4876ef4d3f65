"""The network of the CIFAR-10 tutorial: two convolutions, two local layers
with weight decay, softmax; trained with a falling rate and moving averages.

Flags: batch_size, data_dir, use_fp16. The files of the data set are expected
in data_dir/cifar-10-batches-bin and fetched when they are not there.
"""
import os
import tarfile

import tensorflow as tf1
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib.datasets import maybe_download
from poseidon.tf1.models import cifar10_input

FLAGS = tf1.app.flags.FLAGS
tf1.app.flags.DEFINE_integer("batch_size", 128, "Images in one batch.")
tf1.app.flags.DEFINE_string("data_dir", "/tmp/cifar10_data",
                            "Folder of the CIFAR-10 data.")
tf1.app.flags.DEFINE_boolean("use_fp16", False, "Train with half floats.")

IMAGE_SIZE = cifar10_input.IMAGE_SIZE
NUM_CLASSES = cifar10_input.NUM_CLASSES
NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN = \
    cifar10_input.NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN
NUM_EXAMPLES_PER_EPOCH_FOR_EVAL = \
    cifar10_input.NUM_EXAMPLES_PER_EPOCH_FOR_EVAL
MOVING_AVERAGE_DECAY = 0.9999
NUM_EPOCHS_PER_DECAY = 350.0
LEARNING_RATE_DECAY_FACTOR = 0.1
INITIAL_LEARNING_RATE = 0.1
TOWER_NAME = "tower"
DATA_URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"


def _dtype():
    return tf.float16 if FLAGS.use_fp16 else tf.float32


def _weights(shape, stddev, decay):
    value = tf.get_variable(
        "weights", shape, _dtype(),
        tf.truncated_normal_initializer(stddev=stddev, dtype=_dtype()))
    if decay:
        tf.add_to_collection("losses", tf.multiply(
            tf.nn.l2_loss(value), decay, name="weight_loss"))
    return value


def _biases(count, start):
    return tf.get_variable("biases", [count], _dtype(),
                           tf.constant_initializer(start))


def _watched(value):
    name = value.op.name
    tf.summary.histogram(name + "/activations", value)
    tf.summary.scalar(name + "/sparsity", tf.nn.zero_fraction(value))
    return value


def _convolved(inputs, count, start, scope):
    with tf.variable_scope(scope) as inside:
        depth = inputs.get_shape()[3].value
        kernel = _weights([5, 5, depth, count], 5e-2, None)
        value = tf.nn.conv2d(inputs, kernel, [1, 1, 1, 1], padding="SAME")
        value = tf.nn.bias_add(value, _biases(count, start))
        return _watched(tf.nn.relu(value, name=inside.name))


def _local(inputs, count, scope):
    with tf.variable_scope(scope) as inside:
        width = inputs.get_shape()[1].value
        weights = _weights([width, count], 0.04, 0.004)
        return _watched(tf.nn.relu(tf.matmul(inputs, weights)
                                   + _biases(count, 0.1), name=inside.name))


def _pooled(inputs, name):
    return tf.nn.max_pool(inputs, ksize=[1, 3, 3, 1], strides=[1, 2, 2, 1],
                          padding="SAME", name=name)


def _normed(inputs, name):
    return tf.nn.lrn(inputs, 4, bias=1.0, alpha=0.001 / 9.0, beta=0.75,
                     name=name)


def _folder():
    return os.path.join(FLAGS.data_dir, "cifar-10-batches-bin")


def distorted_inputs():
    images, labels = cifar10_input.distorted_inputs(_folder(),
                                                    FLAGS.batch_size)
    return tf.cast(images, _dtype()), labels


def inputs(eval_data):
    images, labels = cifar10_input.inputs(eval_data, _folder(),
                                          FLAGS.batch_size)
    return tf.cast(images, _dtype()), labels


def inference(images):
    """The logits, not yet through softmax."""
    net = _convolved(images, 64, 0.0, "conv1")
    net = _normed(_pooled(net, "pool1"), "norm1")
    net = _convolved(net, 64, 0.1, "conv2")
    net = _pooled(_normed(net, "norm2"), "pool2")
    sizes = net.get_shape().as_list()[1:]
    net = tf.reshape(net, [-1, sizes[0] * sizes[1] * sizes[2]])
    net = _local(_local(net, 384, "local3"), 192, "local4")
    with tf.variable_scope("softmax_linear") as scope:
        weights = _weights([192, NUM_CLASSES], 1 / 192.0, None)
        return _watched(tf.add(tf.matmul(net, weights),
                               _biases(NUM_CLASSES, 0.0), name=scope.name))


def loss(logits, labels):
    """Cross entropy and weight decay."""
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.cast(labels, tf.int64), logits=logits)
    tf.add_to_collection("losses", tf.reduce_mean(
        tf.cast(each, tf.float32), name="cross_entropy"))
    return tf.add_n([tf.cast(one, tf.float32)
                     for one in tf.get_collection("losses")],
                    name="total_loss")


def _averaged_losses(total_loss):
    average = tf.train.ExponentialMovingAverage(0.9, name="avg")
    losses = tf.get_collection("losses") + [total_loss]
    done = average.apply([tf.cast(one, tf.float32) for one in losses]
                         if FLAGS.use_fp16 else losses)
    for one in losses:
        tf.summary.scalar(one.op.name + " (raw)", one)
        if not FLAGS.use_fp16:
            tf.summary.scalar(one.op.name, average.average(one))
    return done


def train(total_loss, global_step):
    """One op: gradients, the step, the averages of the weights."""
    steps = int(NUM_EXAMPLES_PER_EPOCH_FOR_TRAIN / FLAGS.batch_size
                * NUM_EPOCHS_PER_DECAY)
    rate = tf.train.exponential_decay(
        INITIAL_LEARNING_RATE, global_step, steps,
        LEARNING_RATE_DECAY_FACTOR, staircase=True)
    tf.summary.scalar("learning_rate", rate)
    with tf.control_dependencies([_averaged_losses(total_loss)]):
        optimizer = tf.train.GradientDescentOptimizer(rate)
        pairs = optimizer.compute_gradients(total_loss)
    applied = optimizer.apply_gradients(pairs, global_step=global_step)
    for one in tf.trainable_variables():
        tf.summary.histogram(one.op.name, one)
    for gradient, one in pairs:
        if gradient is not None:
            tf.summary.histogram(one.op.name + "/gradients", gradient)
    average = tf.train.ExponentialMovingAverage(MOVING_AVERAGE_DECAY,
                                                global_step)
    with tf.control_dependencies([applied]):
        averaged = average.apply(tf.trainable_variables())
    with tf.control_dependencies([averaged]):
        return tf.no_op(name="train")


def maybe_download_and_extract():
    """Nothing, when the files are there."""
    if os.path.exists(os.path.join(_folder(), "test_batch.bin")):
        return
    path = maybe_download(DATA_URL.rpartition("/")[2], FLAGS.data_dir,
                          DATA_URL)
    with tarfile.open(path, "r:gz") as archive:
        archive.extractall(FLAGS.data_dir)
