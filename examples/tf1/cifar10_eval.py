"""Evaluates what cifar10_train.py has saved, with the moving averages.

    python -m poseidon.tf1 cifar10_eval.py --run_once
"""
from datetime import datetime
import math
import time

import numpy as np
import tensorflow as tf
from tensorflow.models.image.cifar10 import cifar10

FLAGS = tf.app.flags.FLAGS

tf.app.flags.DEFINE_string("eval_dir", "/tmp/cifar10_eval",
                           "Folder of the event files.")
tf.app.flags.DEFINE_string("eval_data", "test", "test or train_eval.")
tf.app.flags.DEFINE_string("checkpoint_dir", "/tmp/cifar10_train",
                           "Folder of the checkpoints.")
tf.app.flags.DEFINE_integer("eval_interval_secs", 300,
                            "Seconds between two evaluations.")
tf.app.flags.DEFINE_integer("num_examples", 10000, "Images to look at.")
tf.app.flags.DEFINE_boolean("run_once", False, "Evaluate once.")


def eval_once(saver, summary_writer, top_k_op, summary_op):
    with tf.Session() as sess:
        state = tf.train.get_checkpoint_state(FLAGS.checkpoint_dir)
        if not state or not state.model_checkpoint_path:
            print("No checkpoint file found")
            return
        saver.restore(sess, state.model_checkpoint_path)
        step = state.model_checkpoint_path.split("-")[-1]
        coord = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(sess=sess, coord=coord)
        try:
            rounds = int(math.ceil(FLAGS.num_examples
                                   / float(FLAGS.batch_size)))
            right = 0
            for _ in range(rounds):
                if coord.should_stop():
                    break
                right += np.sum(sess.run(top_k_op))
            precision = right / float(rounds * FLAGS.batch_size)
            print("%s: precision @ 1 = %.3f" % (datetime.now(), precision))
            summary = tf.Summary()
            summary.ParseFromString(sess.run(summary_op))
            summary.value.add(tag="Precision @ 1", simple_value=precision)
            summary_writer.add_summary(summary, int(step))
        except Exception as error:
            coord.request_stop(error)
        coord.request_stop()
        coord.join(threads, stop_grace_period_secs=10)


def evaluate():
    with tf.Graph().as_default() as graph:
        images, labels = cifar10.inputs(eval_data=FLAGS.eval_data == "test")
        logits = cifar10.inference(images)
        top_k_op = tf.nn.in_top_k(logits, labels, 1)
        average = tf.train.ExponentialMovingAverage(
            cifar10.MOVING_AVERAGE_DECAY)
        saver = tf.train.Saver(average.variables_to_restore())
        summary_op = tf.summary.merge_all()
        writer = tf.summary.FileWriter(FLAGS.eval_dir, graph)
        while True:
            eval_once(saver, writer, top_k_op, summary_op)
            if FLAGS.run_once:
                break
            time.sleep(FLAGS.eval_interval_secs)
        writer.close()


def main(argv=None):
    cifar10.maybe_download_and_extract()
    if tf.gfile.Exists(FLAGS.eval_dir):
        tf.gfile.DeleteRecursively(FLAGS.eval_dir)
    tf.gfile.MakeDirs(FLAGS.eval_dir)
    evaluate()


if __name__ == "__main__":
    tf.app.run()
