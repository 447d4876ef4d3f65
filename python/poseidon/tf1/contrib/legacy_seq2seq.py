"""tf.contrib.legacy_seq2seq, in 0.x tf.nn.seq2seq: losses over lists of
steps, and decoders without attention. A list has one tensor a step."""
import copy

import tensorflow.compat.v1 as tf


def sequence_loss_by_example(logits, targets, weights,
                             average_across_timesteps=True,
                             softmax_loss_function=None, name=None):
    """The weighted cross entropy of each sequence of the batch."""
    if not len(logits) == len(targets) == len(weights):
        raise ValueError(
            "logits, targets and weights have %d, %d and %d steps"
            % (len(logits), len(targets), len(weights)))
    with tf.name_scope(name, "sequence_loss_by_example",
                       [*logits, *targets, *weights]):
        terms = []
        for step, labels, weight in zip(logits, targets, weights):
            labels = tf.reshape(labels, [-1])
            if softmax_loss_function is None:
                value = tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=labels, logits=step)
            else:
                value = softmax_loss_function(labels=labels, logits=step)
            terms.append(value * weight)
        total = tf.add_n(terms)
        if average_across_timesteps:
            total /= tf.add_n(list(weights)) + 1e-12
        return total


def sequence_loss(logits, targets, weights, average_across_timesteps=True,
                  average_across_batch=True, softmax_loss_function=None,
                  name=None):
    with tf.name_scope(name, "sequence_loss",
                       [*logits, *targets, *weights]):
        values = sequence_loss_by_example(
            logits, targets, weights, average_across_timesteps,
            softmax_loss_function)
        return tf.reduce_mean(values) if average_across_batch \
            else tf.reduce_sum(values)


def rnn_decoder(decoder_inputs, initial_state, cell, loop_function=None,
                scope=None):
    """loop_function(output, i) makes the next input of the last output."""
    with tf.variable_scope(scope or "rnn_decoder"):
        state, outputs = initial_state, []
        for at, value in enumerate(decoder_inputs):
            if at:
                tf.get_variable_scope().reuse_variables()
                if loop_function is not None:
                    with tf.variable_scope("loop_function", reuse=True):
                        value = loop_function(outputs[-1], at)
            output, state = cell(value, state)
            outputs.append(output)
        return outputs, state


def basic_rnn_seq2seq(encoder_inputs, decoder_inputs, cell, dtype=tf.float32,
                      scope=None):
    """Encoder and decoder have weights of their own."""
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copy.deepcopy(cell), encoder_inputs,
                                    dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


def tied_rnn_seq2seq(encoder_inputs, decoder_inputs, cell,
                     loop_function=None, dtype=tf.float32, scope=None):
    """Encoder and decoder have the same weights."""
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype,
                                    scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function, scope)
