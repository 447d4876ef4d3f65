"""Asynchronous training by TensorFlow's own means: parameter servers, workers
and a MonitoredTrainingSession. Every worker trains at its own pace; the global
step counts the steps of all of them.

    psd_run -n 2 "python async_training.py --ps_hosts={ps_hosts} \
        --worker_hosts={worker_hosts} --job_name={job_name} \
        --task_index={task_index}"

Looks for the slope and height of a line from noisy points of it.
"""
import argparse
import sys

import numpy as np
import tensorflow as tf

FLAGS = None
SLOPE, HEIGHT = 3.0, -2.0


def points(random, count):
    x = random.uniform(-1, 1, [count, 1]).astype(np.float32)
    noise = random.normal(0, 0.01, [count, 1]).astype(np.float32)
    return x, SLOPE * x + HEIGHT + noise


def build(cluster):
    setter = tf.train.replica_device_setter(
        worker_device="/job:worker/task:%d" % FLAGS.task_index,
        cluster=cluster)
    with tf.device(setter):
        x = tf.placeholder(tf.float32, [None, 1], name="x")
        y = tf.placeholder(tf.float32, [None, 1], name="y")
        slope = tf.get_variable("slope", [1, 1])
        height = tf.get_variable("height", [1],
                                 initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, slope) + height - y))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdagradOptimizer(FLAGS.rate).minimize(
            loss, global_step=step)
    return x, y, slope, height, loss, step, train


def work(server, cluster):
    x, y, slope, height, loss, step, train = build(cluster)
    random = np.random.RandomState(FLAGS.task_index)
    mine, last = 0, None
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=FLAGS.task_index == 0,
            checkpoint_dir=FLAGS.log_dir or None,
            hooks=[tf.train.StopAtStepHook(last_step=FLAGS.steps)]) as sess:
        while not sess.should_stop():
            a, b = points(random, 32)
            last = sess.run([train, loss, step, slope, height],
                            {x: a, y: b})
            mine += 1
    print("worker %d: %d of %d steps, loss %.5f, line %.3f x %+.3f" % (
        FLAGS.task_index, mine, last[2], last[1], last[3][0][0], last[4][0]))


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name,
                             task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        print("ps %d: done" % FLAGS.task_index)
    else:
        work(server, cluster)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", default="")
    parser.add_argument("--worker_hosts", default="")
    parser.add_argument("--job_name", default="worker")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--rate", type=float, default=0.5)
    parser.add_argument("--log_dir", default="")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
