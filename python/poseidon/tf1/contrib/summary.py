"""tf.contrib.summary."""
import tensorflow.compat.v1 as tf

scalar = tf.summary.scalar
histogram = tf.summary.histogram
image = tf.summary.image
FileWriter = tf.summary.FileWriter
