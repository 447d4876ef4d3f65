"""tf.contrib.rnn: the cells and the static loops."""
import tensorflow.compat.v1 as tf

static_rnn = tf.nn.static_rnn
static_bidirectional_rnn = tf.nn.static_bidirectional_rnn
static_state_saving_rnn = tf.nn.static_state_saving_rnn

_NAMES = ("RNNCell", "BasicRNNCell", "BasicLSTMCell", "LSTMCell", "GRUCell",
          "MultiRNNCell", "DropoutWrapper", "ResidualWrapper",
          "DeviceWrapper", "LSTMStateTuple")


def __getattr__(name):
    if name in _NAMES:
        import tensorflow  # the overlay, which knows where the cells are
        return getattr(tensorflow.nn.rnn_cell, name)
    raise AttributeError(name)


def __dir__():
    return sorted([*globals(), *_NAMES])
