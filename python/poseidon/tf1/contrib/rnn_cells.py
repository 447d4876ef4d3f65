"""Cells of tf.contrib.rnn that compat.v1 does not have."""
import tensorflow  # the overlay, which knows where the cells are

_cells = tensorflow.nn.rnn_cell


class _Wrapper(_cells.RNNCell):
    """A cell with something before it or behind it."""

    def __init__(self, cell, reuse=None):
        super().__init__(_reuse=reuse)
        self._cell = cell

    @property
    def state_size(self):
        return self._cell.state_size

    @property
    def output_size(self):
        return self._cell.output_size

    def zero_state(self, batch_size, dtype):
        return self._cell.zero_state(batch_size, dtype)


def _linear(value, size, activation):
    kernel = tensorflow.get_variable(
        "kernel", [value.get_shape()[1].value, size], value.dtype)
    bias = tensorflow.get_variable(
        "bias", [size], value.dtype, tensorflow.zeros_initializer())
    value = tensorflow.nn.xw_plus_b(value, kernel, bias)
    return activation(value) if activation else value


class OutputProjectionWrapper(_Wrapper):
    def __init__(self, cell, output_size, activation=None, reuse=None):
        super().__init__(cell, reuse)
        self._size, self._activation = output_size, activation

    @property
    def output_size(self):
        return self._size

    def call(self, inputs, state):
        output, state = self._cell(inputs, state)
        return _linear(output, self._size, self._activation), state


class InputProjectionWrapper(_Wrapper):
    def __init__(self, cell, num_proj, activation=None, input_size=None,
                 reuse=None):
        super().__init__(cell, reuse)
        self._size, self._activation = num_proj, activation

    def call(self, inputs, state):
        return self._cell(_linear(inputs, self._size, self._activation),
                          state)


class EmbeddingWrapper(_Wrapper):
    """Inputs are numbers of words, one a row."""

    def __init__(self, cell, embedding_classes, embedding_size,
                 initializer=None, reuse=None):
        super().__init__(cell, reuse)
        self._shape = [embedding_classes, embedding_size]
        self._initializer = initializer

    def call(self, inputs, state):
        table = tensorflow.get_variable("embedding", self._shape,
                                        initializer=self._initializer)
        return self._cell(tensorflow.nn.embedding_lookup(
            table, tensorflow.reshape(inputs, [-1])), state)


def LSTMBlockCell(num_units, forget_bias=1.0, cell_clip=None,
                  use_peephole=False, reuse=None, name="lstm_cell", **_):
    """The same arithmetic in one kernel; here it is LSTMCell's."""
    return _cells.LSTMCell(num_units, use_peephole, cell_clip,
                           forget_bias=forget_bias, reuse=reuse, name=name)


def GRUBlockCell(num_units=None, cell_size=None, reuse=None,
                 name="gru_cell"):
    return _cells.GRUCell(num_units or cell_size, reuse=reuse, name=name)
