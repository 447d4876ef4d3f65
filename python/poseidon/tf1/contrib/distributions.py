"""tf.contrib.distributions: what tf.distributions has."""
from tensorflow.compat.v1.distributions import *  # noqa: F401,F403
