"""A plain training script, for one process: tf_plain.py STEPS WARM BATCH

What psd_run runs, as it is; bench/tf_ps.py is the same for parameter servers.
"""
import sys

import tensorflow.compat.v1 as tf
from tf_model import RATE, Network, train

steps, warm, batch = map(int, sys.argv[1:4])
tf.disable_v2_behavior()
tf.set_random_seed(1)
network = Network(batch)
step = tf.train.AdamOptimizer(RATE).minimize(network.loss)
with tf.Session() as session:
    session.run(tf.global_variables_initializer())
    train(session, network, step, steps, warm)
