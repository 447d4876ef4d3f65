"""tensorflow.examples.tutorials.mnist.mnist: a network with two hidden
layers, in four functions."""
import math

import tensorflow.compat.v1 as tf

NUM_CLASSES = 10
IMAGE_SIZE = 28
IMAGE_PIXELS = IMAGE_SIZE * IMAGE_SIZE


def _layer(inputs, count, scope, activation):
    width = inputs.get_shape().as_list()[1]
    with tf.name_scope(scope):
        weights = tf.Variable(tf.truncated_normal(
            [width, count], stddev=1.0 / math.sqrt(width)), name="weights")
        biases = tf.Variable(tf.zeros([count]), name="biases")
        return activation(tf.matmul(inputs, weights) + biases)


def inference(images, hidden1_units, hidden2_units):
    hidden = _layer(images, hidden1_units, "hidden1", tf.nn.relu)
    hidden = _layer(hidden, hidden2_units, "hidden2", tf.nn.relu)
    return _layer(hidden, NUM_CLASSES, "softmax_linear", tf.identity)


def loss(logits, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.cast(labels, tf.int64), logits=logits), name="xentropy")


def training(loss, learning_rate):
    tf.summary.scalar("loss", loss)
    step = tf.Variable(0, name="global_step", trainable=False)
    return tf.train.GradientDescentOptimizer(learning_rate).minimize(
        loss, global_step=step)


def evaluation(logits, labels):
    right = tf.nn.in_top_k(logits, labels, 1)
    return tf.reduce_sum(tf.cast(right, tf.int32))
