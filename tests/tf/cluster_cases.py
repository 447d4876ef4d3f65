"""A script that distributes itself, in every way that it may: many claims in
one process, as importing TensorFlow takes seconds. Each prints one line of
JSON. Run by cluster_test.py with the flags of a ps or a worker."""
import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "")
flags.DEFINE_string("worker_hosts", "", "")
flags.DEFINE_string("job_name", "", "")
flags.DEFINE_integer("task_index", 0, "")
flags.DEFINE_string("cases", "", "")
flags.DEFINE_string("folder", "", "")
FLAGS = flags.FLAGS

WANTED = np.arange(10, dtype=np.float32).reshape(10, 1)


def say(case, **values):
    sys.stdout.write(json.dumps(dict(values, case=case)) + "\n")
    sys.stdout.flush()


class Line:
    """Ten weights and a worker's own stream of data for them."""

    def __init__(self, optimizer, first=None):
        self.x = tf.placeholder(tf.float32, [None, 10])
        self.y = tf.placeholder(tf.float32, [None, 1])
        if first is None:
            first = tf.random_normal([10, 1])
        self.weights = tf.Variable(first, name="weights")
        self.loss = tf.reduce_mean(
            tf.square(tf.matmul(self.x, self.weights) - self.y))
        self.step = tf.train.get_or_create_global_step()
        self.train = optimizer.minimize(self.loss, global_step=self.step)
        self.random = np.random.RandomState(FLAGS.task_index)

    def feed(self):
        x = self.random.normal(size=[16, 10]).astype(np.float32)
        return {self.x: x, self.y: x.dot(WANTED)}


def waiting_by_hand(server):
    """No supervisor: the chief initialises, the others look until it has;
    devices and the target are written out. The least error counts: whoever
    was asleep brings a gradient from far behind, in its last step, too."""
    target = "grpc://" + FLAGS.worker_hosts.split(",")[FLAGS.task_index]
    with tf.device("/job:worker/replica:0/task:%d/cpu:0" % FLAGS.task_index):
        with tf.device("/job:ps/task:0"):
            line = Line(tf.train.GradientDescentOptimizer(0.05))
        missing = tf.report_uninitialized_variables()
        init = tf.global_variables_initializer()
    device = line.weights.op.device
    mine, now, error = 0, 0, float("inf")
    with tf.Session(target) as sess:
        if FLAGS.task_index == 0:
            sess.run(init)
        while len(sess.run(missing)) > 0:
            time.sleep(0.1)
        while now < 300:
            _, now = sess.run([line.train, line.step], line.feed())
            mine += 1
            error = min(error, float(np.abs(
                sess.run(line.weights) - WANTED).max()))
    say("by hand", mine=mine, now=int(now), error=error, device=device)


def begins_with_the_chiefs_values(server):
    """Another start on every worker; the step of nothing shows it. A slot of
    the optimizer and a second session, too."""
    optimizer = tf.train.MomentumOptimizer(0.0, 0.9)
    line = Line(optimizer, tf.constant(7.0 * (1 + FLAGS.task_index),
                                       shape=[10, 1]))
    other = tf.Variable([1.0 + FLAGS.task_index], trainable=False)
    init = tf.global_variables_initializer()
    with tf.Session(server.target) as sess:
        sess.run(init)
        sess.run(line.train, line.feed())
        values = sess.run([line.weights, other])
    say("begin", weights=values[0].ravel().tolist(),
        other=values[1].tolist())
    with tf.Session(server.target) as sess:
        sess.run(init)
        sess.run(line.train, line.feed())
        say("again", weights=sess.run(line.weights).ravel().tolist())


def two_optimizers_share_a_variable(server):
    """Each worker adds 1 by one and 10 by the other, both 20 times."""
    value = tf.Variable([0.0], name="value")
    trains = [tf.train.GradientDescentOptimizer(rate).minimize(-value)
              for rate in (1.0, 10.0)]
    saver = tf.train.Saver()
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        for _ in range(20):
            for train in trains:
                sess.run(train)
        meet("two")
        path = os.path.join(FLAGS.folder, "two-%d" % FLAGS.task_index)
        saver.save(sess, path)  # asks for what all have done
        say("two", value=float(sess.run(value)[0]))
    meet("two done")


def a_factor_of_its_own(server):
    """Workers that scale their gradients differently stay equal when these
    are put together: the mean of g and 3 g is 2 g."""
    values = []
    for _ in range(2):
        value = tf.Variable([0.0])
        inner = tf.train.GradientDescentOptimizer(1.0)
        optimizer = tf.train.SyncReplicasOptimizer(inner, 2)
        step = tf.train.get_or_create_global_step()
        pairs = [(grad * (1 + 2 * FLAGS.task_index), variable) for
                 grad, variable in optimizer.compute_gradients(
                     -value, var_list=[value])]
        values.append((optimizer.apply_gradients(pairs, step), value))
    with tf.Session(server.target) as sess:
        sess.run(tf.global_variables_initializer())
        for train, _ in values:
            for _ in range(5):
                sess.run(train)
        say("factor", values=[float(sess.run(value)[0])
                              for _, value in values])


def one_ends_early(server):
    """Worker 1 leaves after five steps; the others reach the end."""
    line = Line(tf.train.AdagradOptimizer(0.5))
    hooks = [tf.train.StopAtStepHook(last_step=200)]
    mine = 0
    with tf.train.MonitoredTrainingSession(
            master=server.target, is_chief=FLAGS.task_index == 0,
            hooks=hooks) as sess:
        while not sess.should_stop():
            now = sess.run([line.train, line.step], line.feed())[1]
            mine += 1
            if mine == 5:
                meet("early")  # nobody is at the end before
                if FLAGS.task_index == 1:
                    break
    say("early", mine=mine, now=int(now))


def meet(name):
    """The workers of the test come together by files."""
    mark = os.path.join(FLAGS.folder, name.replace(" ", "-") + ".%d")
    open(mark % FLAGS.task_index, "w").close()
    end = time.time() + 60
    while time.time() < end and not all(
            os.path.exists(mark % rank)
            for rank in range(len(FLAGS.worker_hosts.split(",")))):
        time.sleep(0.02)


def tf_config(_server):
    """The script reads it, TensorFlow does not."""
    from tensorflow.python.distribute.cluster_resolver import (
        tfconfig_cluster_resolver as resolver)
    seen = resolver.TFConfigClusterResolver().cluster_spec().as_dict()
    workers = None
    try:
        workers = tf.estimator.RunConfig().num_worker_replicas
    except AttributeError:
        pass  # the newest has no estimators
    say("TF_CONFIG", script=json.loads(os.environ["TF_CONFIG"])["task"],
        there="TF_CONFIG" in os.environ, tensorflow=seen, workers=workers)


def main(_):
    cluster = tf.train.ClusterSpec({"ps": FLAGS.ps_hosts.split(","),
                                    "worker": FLAGS.worker_hosts.split(",")})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name,
                             task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        say("ps", index=FLAGS.task_index)
        return
    if FLAGS.cases == "join":
        server.join()
    for name in FLAGS.cases.split(","):
        with tf.Graph().as_default():
            globals()[name](server)


if __name__ == "__main__":
    tf.app.run()
