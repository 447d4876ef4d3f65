"""The model of the benchmark with TensorFlow, and the loop that times a step.

The convolutional network of the deep-MNIST tutorial: 3,274,634 parameters,
Adam, dropout, batches by feed_dict. Used by tf_plain.py, a script for one
machine, and tf_ps.py, the same for parameter servers. BENCH_MEET=FOLDER:COUNT
lets COUNT processes begin the measured steps together, and end together,
whether they communicate or not.
"""
import json
import os
import resource
import time

import numpy
import tensorflow.compat.v1 as tf

PARAMETERS = 3274634
RATE = 1e-4


def weights(*shape):
    return tf.Variable(tf.truncated_normal(shape, stddev=0.1))


def biases(count):
    return tf.Variable(tf.constant(0.1, shape=[count]))


def conv(images, filters):
    net = tf.nn.conv2d(images, filters, strides=[1, 1, 1, 1], padding="SAME")
    net = tf.nn.relu(net + biases(int(filters.shape[3])))
    return tf.nn.max_pool(net, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1],
                          padding="SAME")


class Network:
    """The loss, and what to feed for one batch of random digits."""

    def __init__(self, batch):
        images = tf.placeholder(tf.float32, [None, 784])
        labels = tf.placeholder(tf.float32, [None, 10])
        keep = tf.placeholder(tf.float32)
        net = conv(tf.reshape(images, [-1, 28, 28, 1]), weights(5, 5, 1, 32))
        net = tf.reshape(conv(net, weights(5, 5, 32, 64)), [-1, 7 * 7 * 64])
        net = tf.nn.relu(tf.matmul(net, weights(7 * 7 * 64, 1024)) +
                         biases(1024))
        net = tf.nn.dropout(net, rate=1 - keep)
        self.logits = tf.matmul(net, weights(1024, 10)) + biases(10)
        self.loss = tf.reduce_mean(
            tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels,
                                                       logits=self.logits))
        self.variables = tf.trainable_variables()
        draw = numpy.random.RandomState(1)
        self.feed = {
            images: draw.rand(batch, 784).astype(numpy.float32),
            labels: numpy.eye(10, dtype=numpy.float32)[
                draw.randint(10, size=batch)],
            keep: 0.5}


def meet(place, wanted=None, come=True):
    """Wait until all processes of this run, or `wanted`, are here."""
    where = os.environ.get("BENCH_MEET")
    if where is None:
        return
    folder, count = where.rsplit(":", 1)
    folder = os.path.join(folder, place)
    os.makedirs(folder, exist_ok=True)
    if come:
        open(os.path.join(folder, "here.%d" % os.getpid()), "w",
             encoding="ascii").close()
    while len(os.listdir(folder)) < (wanted or int(count)):
        time.sleep(0.002)


class Clock:
    """Time and page faults of this process since it was made."""

    def __init__(self):
        self.begin = self.now()

    @staticmethod
    def now():
        return (time.perf_counter(), time.process_time(),
                resource.getrusage(resource.RUSAGE_SELF).ru_minflt)

    def stop(self):
        self.end = self.now()

    def tell(self, steps, total, equal):
        """A line of JSON; `equal` has to be the same on all workers."""
        wall, cpu, faults = (b - a for a, b in zip(self.begin, self.end))
        print(json.dumps({
            "wall_ms": 1e3 * wall / steps, "cpu_ms": 1e3 * cpu / steps,
            "faults": faults / steps, "steps": total,
            "bytes": 4 * PARAMETERS, "sum": equal}), flush=True)


def train(session, network, step, steps, warm):
    """Train, and print what a step cost this process."""
    for number in range(warm + steps):
        if number == warm:
            meet("begin")
            clock = Clock()
        session.run(step, network.feed)
    clock.stop()
    meet("end")
    values = session.run(network.variables)
    count = sum(one.size for one in values)
    if count != PARAMETERS:
        raise SystemExit("the network has %d parameters" % count)
    clock.tell(steps, warm + steps,
               float(sum(one.astype("f8").sum() for one in values)))
