"""tf.contrib.deprecated: the summaries of 0.x."""
import tensorflow.compat.v1 as tf

from poseidon.tf1 import names as _names

globals().update(_names._summaries(tf))
