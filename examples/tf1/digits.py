"""Handwritten digits with a network of two layers, in TensorFlow 1 style.

    python -m poseidon.tf1 digits.py [--epochs N] [--batch N]
    psd_run -n 2 "python digits.py"

The data is examples/data/digits.csv of this repository: images of 8 x 8 in 16
grays. The script knows nothing of other workers. It has no dropout, so with
any number of workers it prints what it prints alone, but for rounding.
"""
import os

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_integer("epochs", 5, "Passes over the images.")
flags.DEFINE_integer("batch", 64, "Images of a step.")
flags.DEFINE_float("rate", 0.1, "Learning rate.")
flags.DEFINE_string("data", os.path.join(
    os.path.dirname(os.path.abspath(__file__)), "..", "data", "digits.csv"),
    "64 pixels and the digit in each line.")
FLAGS = flags.FLAGS
TEST = 297  # the last images


def load():
    table = np.loadtxt(FLAGS.data, delimiter=",", dtype=np.float32)
    images, digits = table[:, :64] / 16, table[:, 64].astype(np.int64)
    return images[:-TEST], digits[:-TEST], images[-TEST:], digits[-TEST:]


def layer(inputs, count, name):
    with tf.variable_scope(name):
        rows = inputs.get_shape()[1].value
        weights = tf.get_variable(
            "weights", [rows, count],
            initializer=tf.truncated_normal_initializer(stddev=0.1))
        biases = tf.get_variable("biases", [count],
                                 initializer=tf.zeros_initializer())
        return tf.matmul(inputs, weights) + biases


def main(_):
    np.random.seed(1)
    tf.set_random_seed(1)
    images, digits, test_images, test_digits = load()
    x = tf.placeholder(tf.float32, [None, 64])
    y = tf.placeholder(tf.int64, [None])
    logits = layer(tf.nn.relu(layer(x, 128, "hidden")), 10, "output")
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=y, logits=logits))
    right = tf.reduce_mean(tf.to_float(tf.equal(tf.argmax(logits, 1), y)))
    train = tf.train.MomentumOptimizer(FLAGS.rate, 0.9).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for epoch in range(FLAGS.epochs):
            order = np.random.permutation(len(images))
            for at in range(0, len(order), FLAGS.batch):
                rows = order[at:at + FLAGS.batch]
                session.run(train, {x: images[rows], y: digits[rows]})
            print("epoch %d: test loss %.6f, accuracy %.2f %%" % (
                (epoch + 1,) + tuple(
                    value * scale for value, scale in zip(session.run(
                        [loss, right], {x: test_images, y: test_digits}),
                        (1, 100)))), flush=True)


if __name__ == "__main__":
    tf.app.run()
