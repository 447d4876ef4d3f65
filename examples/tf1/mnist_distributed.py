"""Handwritten digits with a convolutional network on parameter servers and
workers, with summaries for TensorBoard; the network is that of mnist_deep.py.

    psd_run -n 2 "python mnist_distributed.py --data_dir FOLDER \
        --ps_hosts={ps_hosts} --worker_hosts={worker_hosts} \
        --job_name={job_name} --task_index={task_index}"

FOLDER has the four files of MNIST. Worker 0 writes event files and checkpoints
into --log_dir; the same folder again goes on from the newest one.
"""
import argparse
import sys
import time

import tensorflow as tf
from tensorflow.examples.tutorials.mnist import input_data

from mnist_deep import network

FLAGS = None


def build(cluster):
    with tf.device(tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index,
            cluster=cluster)):
        images = tf.placeholder(tf.float32, [None, 784], name="images")
        labels = tf.placeholder(tf.float32, [None, 10], name="labels")
        keep_prob = tf.placeholder_with_default(1.0, [], name="keep_prob")
        logits = network(images, keep_prob)
        with tf.name_scope("loss"):
            loss = tf.reduce_mean(
                tf.nn.softmax_cross_entropy_with_logits(labels=labels,
                                                        logits=logits))
        with tf.name_scope("accuracy"):
            right = tf.equal(tf.argmax(logits, 1), tf.argmax(labels, 1))
            accuracy = tf.reduce_mean(tf.cast(right, tf.float32))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(FLAGS.rate).minimize(
            loss, global_step=step)
        tf.summary.scalar("cross_entropy", loss)
        tf.summary.scalar("accuracy", accuracy)
    return images, labels, keep_prob, accuracy, loss, step, train


def work(server, cluster):
    mnist = input_data.read_data_sets(
        FLAGS.data_dir, one_hot=True, validation_size=FLAGS.validation)
    images, labels, keep_prob, accuracy, loss, step, train = build(cluster)
    tests = {images: mnist.test.images[:1000],
             labels: mnist.test.labels[:1000]}
    began, mine, now, right = time.time(), 0, 0, 0.0
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps),
             tf.train.NanTensorHook(loss)]
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=FLAGS.task_index == 0,
            checkpoint_dir=FLAGS.log_dir, save_summaries_steps=20,
            hooks=hooks) as sess:
        while not sess.should_stop():
            batch = mnist.train.next_batch(FLAGS.batch)
            _, now = sess.run([train, step], {
                images: batch[0], labels: batch[1], keep_prob: 0.5})
            mine += 1
            if mine % 20 == 0 and not sess.should_stop():
                right = sess.run(accuracy, tests)
                print("worker %d, step %d: test accuracy %.3f" % (
                    FLAGS.task_index, now, right))
    print("worker %d: %d of %d steps in %.1f s, accuracy %.3f" % (
        FLAGS.task_index, mine, now, time.time() - began, right))


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name,
                             task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
    else:
        work(server, cluster)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", default="")
    parser.add_argument("--worker_hosts", default="")
    parser.add_argument("--job_name", default="worker")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--data_dir", default="/tmp/tensorflow/mnist")
    parser.add_argument("--log_dir", default="/tmp/mnist_distributed")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--batch", type=int, default=50)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--validation", type=int, default=5000)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
