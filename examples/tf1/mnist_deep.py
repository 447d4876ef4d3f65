"""Handwritten digits with a convolutional network, in TensorFlow 1 style.

    python -m poseidon.tf1 mnist_deep.py --data_dir FOLDER [--steps N]

FOLDER has the four files of MNIST. Writes event files for TensorBoard and a
checkpoint into --log_dir.
"""
import argparse
import os
import sys

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

FLAGS = None


def weights(shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1),
                       name="weights")


def biases(count):
    return tf.Variable(tf.constant(0.1, shape=[count]), name="biases")


def conv(inputs, count, name):
    depth = inputs.get_shape()[3].value
    with tf.name_scope(name):
        net = tf.nn.conv2d(inputs, weights([5, 5, depth, count]),
                           strides=[1, 1, 1, 1], padding="SAME")
        net = tf.nn.relu(net + biases(count))
        return tf.nn.max_pool(net, ksize=[1, 2, 2, 1],
                              strides=[1, 2, 2, 1], padding="SAME")


def network(images, keep_prob):
    net = conv(tf.reshape(images, [-1, 28, 28, 1]), 32, "conv1")
    net = conv(net, 64, "conv2")
    with tf.name_scope("fc1"):
        net = tf.reshape(net, [-1, 7 * 7 * 64])
        net = tf.nn.relu(tf.matmul(net, weights([7 * 7 * 64, 1024]))
                         + biases(1024))
        net = tf.nn.dropout(net, keep_prob)
    with tf.name_scope("fc2"):
        return tf.matmul(net, weights([1024, 10])) + biases(10)


def main(_):
    mnist = input_data.read_data_sets(
        FLAGS.data_dir, one_hot=True, validation_size=FLAGS.validation)
    images = tf.placeholder(tf.float32, [None, 784], name="images")
    labels = tf.placeholder(tf.float32, [None, 10], name="labels")
    keep_prob = tf.placeholder(tf.float32, name="keep_prob")
    logits = network(images, keep_prob)
    cross_entropy = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(labels=labels,
                                                logits=logits))
    train_step = tf.train.AdamOptimizer(1e-4).minimize(cross_entropy)
    correct = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
    accuracy = tf.reduce_mean(tf.cast(correct, tf.float32))
    tf.summary.scalar("cross_entropy", cross_entropy)
    tf.summary.scalar("accuracy", accuracy)
    merged = tf.summary.merge_all()
    saver = tf.train.Saver()

    with tf.Session() as sess:
        writer = tf.summary.FileWriter(FLAGS.log_dir, sess.graph)
        sess.run(tf.global_variables_initializer())
        for step in range(FLAGS.steps):
            batch = mnist.train.next_batch(FLAGS.batch)
            if step % 20 == 0:
                text, right = sess.run(
                    [merged, accuracy],
                    {images: batch[0], labels: batch[1], keep_prob: 1.0})
                writer.add_summary(text, step)
                print("step %d, training accuracy %g" % (step, right))
            sess.run(train_step, {images: batch[0], labels: batch[1],
                                  keep_prob: 0.5})
        print("test accuracy %g" % sess.run(
            accuracy, {images: mnist.test.images[:1000],
                       labels: mnist.test.labels[:1000], keep_prob: 1.0}))
        saver.save(sess, os.path.join(FLAGS.log_dir, "model.ckpt"),
                   global_step=FLAGS.steps)
        writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--data_dir", default="/tmp/tensorflow/mnist")
    parser.add_argument("--log_dir", default="/tmp/mnist_deep")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--validation", type=int, default=5000)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
