"""Distributed training under a Supervisor, asynchronous or, with --sync, by
SyncReplicasOptimizer with its tokens and queue runner.

    psd_run -n 2 "python supervised_training.py --ps_hosts={ps_hosts} \
        --worker_hosts={worker_hosts} --job_name={job_name} \
        --task_index={task_index} [--sync]"

Tells points inside a circle from those outside.
"""
import argparse
import os
import sys
import tempfile

import numpy as np
import tensorflow as tf

FLAGS = None


def build(workers):
    x = tf.placeholder(tf.float32, [None, 2])
    y = tf.placeholder(tf.float32, [None, 1])
    with tf.variable_scope("hidden"):
        net = tf.nn.tanh(tf.matmul(x, tf.get_variable("w", [2, 16]))
                         + tf.get_variable("b", [16]))
    with tf.variable_scope("out"):
        logits = (tf.matmul(net, tf.get_variable("w", [16, 1]))
                  + tf.get_variable("b", [1]))
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(
        labels=y, logits=logits))
    right = tf.reduce_mean(tf.cast(
        tf.equal(logits > 0, y > 0.5), tf.float32))
    step = tf.Variable(0, name="global_step", trainable=False)
    optimizer = tf.train.AdamOptimizer(0.02)
    if FLAGS.sync:
        optimizer = tf.train.SyncReplicasOptimizer(
            optimizer, replicas_to_aggregate=workers,
            total_num_replicas=workers)
    train = optimizer.minimize(loss, global_step=step)
    return x, y, loss, right, step, train, optimizer


def make_supervisor(is_chief, optimizer, step, log_dir):
    words = {}
    if FLAGS.sync:
        words["local_init_op"] = (optimizer.chief_init_op if is_chief
                                  else optimizer.local_step_init_op)
        words["ready_for_local_init_op"] = optimizer.ready_for_local_init_op
    return tf.train.Supervisor(
        is_chief=is_chief, logdir=log_dir, recovery_wait_secs=1,
        init_op=tf.global_variables_initializer(), global_step=step,
        save_model_secs=60, **words)


def points(random, count):
    x = random.uniform(-1, 1, [count, 2]).astype(np.float32)
    inside = np.sum(np.square(x), axis=1, keepdims=True) < 0.5
    return x, inside.astype(np.float32)


def main(_):
    workers = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": workers})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name,
                             task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    with tf.device(tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index,
            ps_device="/job:ps/cpu:0", cluster=cluster)):
        x, y, loss, right, step, train, optimizer = build(len(workers))
    if FLAGS.sync:
        tokens = optimizer.get_init_tokens_op()
        runner = optimizer.get_chief_queue_runner()
    log_dir = FLAGS.log_dir or os.path.join(tempfile.mkdtemp(), "log")
    supervisor = make_supervisor(is_chief, optimizer, step, log_dir)
    config = tf.ConfigProto(
        allow_soft_placement=True,
        device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    sess = supervisor.prepare_or_wait_for_session(server.target, config=config)
    if FLAGS.sync and is_chief:
        sess.run(tokens)
        supervisor.start_queue_runners(sess, [runner])
    random = np.random.RandomState(FLAGS.task_index)
    mine, now = 0, 0
    while not supervisor.should_stop() and now < FLAGS.steps:
        a, b = points(random, 64)
        _, now = sess.run([train, step], {x: a, y: b})
        mine += 1
    a, b = points(np.random.RandomState(99), 1000)
    value, part = sess.run([loss, right], {x: a, y: b})
    print("worker %d: %d of %d steps, loss %.4f, right %.3f" % (
        FLAGS.task_index, mine, now, value, part))
    supervisor.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--ps_hosts", default="")
    parser.add_argument("--worker_hosts", default="")
    parser.add_argument("--job_name", default="worker")
    parser.add_argument("--task_index", type=int, default=0)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--log_dir", default="")
    parser.add_argument("--sync", action="store_true")
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
