"""tf.contrib.rnn: the cells and the static loops."""
import importlib

import tensorflow.compat.v1 as tf

static_rnn = tf.nn.static_rnn
static_bidirectional_rnn = tf.nn.static_bidirectional_rnn
static_state_saving_rnn = tf.nn.static_state_saving_rnn

_NAMES = ("RNNCell", "BasicRNNCell", "BasicLSTMCell", "LSTMCell", "GRUCell",
          "MultiRNNCell", "DropoutWrapper", "ResidualWrapper",
          "DeviceWrapper", "LSTMStateTuple")
_OURS = ("InputProjectionWrapper", "OutputProjectionWrapper",
         "EmbeddingWrapper", "LSTMBlockCell", "GRUBlockCell")


def __getattr__(name):
    if name in _NAMES:
        import tensorflow  # the overlay, which knows where the cells are
        return getattr(tensorflow.nn.rnn_cell, name)
    if name in _OURS:
        return getattr(importlib.import_module(
            "poseidon.tf1.contrib.rnn_cells"), name)
    raise AttributeError(name)


def __dir__():
    return sorted([*globals(), *_NAMES, *_OURS])


def stack_bidirectional_dynamic_rnn(
        cells_fw, cells_bw, inputs, initial_states_fw=None,
        initial_states_bw=None, dtype=None, sequence_length=None,
        parallel_iterations=None, scope=None):
    """Each layer reads what both directions of the one below have made."""
    states = [], []
    first = [each or [None] * len(cells_fw)
             for each in (initial_states_fw, initial_states_bw)]
    with tf.variable_scope(scope or "stack_bidirectional_rnn"):
        for at, cells in enumerate(zip(cells_fw, cells_bw)):
            with tf.variable_scope("cell_%d" % at):
                outputs, last = tf.nn.bidirectional_dynamic_rnn(
                    *cells, inputs, sequence_length, first[0][at],
                    first[1][at], dtype, parallel_iterations)
            inputs = tf.concat(outputs, 2)
            for kept, state in zip(states, last):
                kept.append(state)
    return inputs, tuple(states[0]), tuple(states[1])
