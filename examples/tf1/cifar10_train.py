"""Trains the network of the CIFAR-10 tutorial.

    python -m poseidon.tf1 cifar10_train.py --max_steps 1000

The network and its input are tensorflow.models.image.cifar10: queue runners
read the binary files below --data_dir, weights decay and have moving
averages. Checkpoints and event files go to --train_dir.
"""
from datetime import datetime
import time

import tensorflow as tf
from tensorflow.models.image.cifar10 import cifar10

FLAGS = tf.app.flags.FLAGS

tf.app.flags.DEFINE_string("train_dir", "/tmp/cifar10_train",
                           "Folder of checkpoints and event files.")
tf.app.flags.DEFINE_integer("max_steps", 100000, "Batches to train.")
tf.app.flags.DEFINE_boolean("log_device_placement", False,
                            "Tell where each operation runs.")
tf.app.flags.DEFINE_integer("log_frequency", 10,
                            "Steps between two lines.")


class ProgressHook(tf.train.SessionRunHook):
    """A line now and then: step, loss, images a second."""

    def __init__(self, loss):
        self._loss = loss

    def begin(self):
        self._step = -1
        self._start = time.time()

    def before_run(self, run_context):
        self._step += 1
        return tf.train.SessionRunArgs(self._loss)

    def after_run(self, run_context, run_values):
        if self._step % FLAGS.log_frequency:
            return
        now = time.time()
        passed, self._start = now - self._start, now
        speed = FLAGS.log_frequency * FLAGS.batch_size / max(passed, 1e-9)
        print("%s: step %d, loss = %.2f (%.1f examples/sec)" % (
            datetime.now(), self._step, run_values.results, speed))


def train():
    with tf.Graph().as_default():
        global_step = tf.contrib.framework.get_or_create_global_step()
        with tf.device("/cpu:0"):
            images, labels = cifar10.distorted_inputs()
        logits = cifar10.inference(images)
        loss = cifar10.loss(logits, labels)
        train_op = cifar10.train(loss, global_step)
        with tf.train.MonitoredTrainingSession(
                checkpoint_dir=FLAGS.train_dir,
                hooks=[tf.train.StopAtStepHook(last_step=FLAGS.max_steps),
                       tf.train.NanTensorHook(loss), ProgressHook(loss)],
                config=tf.ConfigProto(
                    log_device_placement=FLAGS.log_device_placement)
                ) as session:
            while not session.should_stop():
                session.run(train_op)


def main(argv=None):
    cifar10.maybe_download_and_extract()
    if tf.gfile.Exists(FLAGS.train_dir):
        tf.gfile.DeleteRecursively(FLAGS.train_dir)
    tf.gfile.MakeDirs(FLAGS.train_dir)
    train()


if __name__ == "__main__":
    tf.app.run()
