"""tf.contrib.legacy_seq2seq, in 0.x tf.nn.seq2seq: losses over lists of
steps, decoders without and with attention, and buckets of lengths. A list has
one tensor a step."""
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


# ---- words by number

def _encoder(cell):
    """The encoder's cell, of the kind of the decoder's: the same one for all
    buckets."""
    if not hasattr(cell, "_psd_encoder"):
        cell._psd_encoder = copy.deepcopy(cell)
    return cell._psd_encoder


def _linear(value, size, name, bias=True):
    with tf.variable_scope(name):
        weights = tf.get_variable("weights", [value.shape[-1], size],
                                  value.dtype)
        product = tf.matmul(value, weights)
        if not bias:
            return product
        return product + tf.get_variable(
            "biases", [size], value.dtype,
            initializer=tf.zeros_initializer())


def _last_word(embedding, output_projection, update):
    """The word that the last output is most likely, as the next input."""
    def loop(previous, _):
        if output_projection is not None:
            previous = tf.nn.xw_plus_b(previous, *output_projection)
        found = tf.nn.embedding_lookup(embedding, tf.argmax(previous, 1))
        return found if update else tf.stop_gradient(found)
    return loop


def _embedded(decoder_inputs, num_symbols, embedding_size, output_projection,
              feed_previous, update):
    """(vectors of the inputs, loop function)"""
    embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
    loop = _last_word(embedding, output_projection, update) if (
        feed_previous) else None
    return [tf.nn.embedding_lookup(embedding, one)
            for one in decoder_inputs], loop


def embedding_rnn_decoder(decoder_inputs, initial_state, cell, num_symbols,
                          embedding_size, output_projection=None,
                          feed_previous=False,
                          update_embedding_for_previous=True, scope=None):
    with tf.variable_scope(scope or "embedding_rnn_decoder"):
        inputs, loop = _embedded(
            decoder_inputs, num_symbols, embedding_size, output_projection,
            feed_previous, update_embedding_for_previous)
        return rnn_decoder(inputs, initial_state, cell, loop)


def attention_decoder(decoder_inputs, initial_state, attention_states, cell,
                      output_size=None, num_heads=1, loop_function=None,
                      dtype=None, scope=None, initial_state_attention=False):
    """attention_states: [batch, steps of the encoder, size]."""
    with tf.variable_scope(scope or "attention_decoder"):
        heads = [_head(attention_states, "head_%d" % number)
                 for number in range(num_heads)]
        size = output_size or cell.output_size
        state, outputs = initial_state, []
        seen = [tf.zeros_like(attention_states[:, 0]) for _ in heads]
        if initial_state_attention:
            seen = [head(state) for head in heads]
        for at, value in enumerate(decoder_inputs):
            if at:
                tf.get_variable_scope().reuse_variables()
                if loop_function is not None:
                    value = loop_function(outputs[-1], at)
            mixed = _linear(tf.concat([value, *seen], 1), value.shape[-1],
                            "input")
            output, state = cell(mixed, state)
            if not (at == 0 and initial_state_attention):
                seen = [head(state) for head in heads]
            outputs.append(_linear(tf.concat([output, *seen], 1), size,
                                   "output"))
        return outputs, state


def _head(states, name):
    """A function that reads the encoder's states, given the decoder's."""
    size = states.shape[-1]
    with tf.variable_scope(name):
        keys = tf.tensordot(states, tf.get_variable(
            "keys", [size, size], states.dtype), 1)
        rate = tf.get_variable("rate", [size], states.dtype)

    def read(state):
        query = tf.concat(tf.nest.flatten(state), 1)
        with tf.variable_scope(name, reuse=tf.AUTO_REUSE):
            query = _linear(query, size, "query")
        scores = tf.reduce_sum(rate * tf.tanh(
            keys + tf.expand_dims(query, 1)), 2)
        return tf.reduce_sum(tf.expand_dims(tf.nn.softmax(scores), 2)
                             * states, 1)
    return read


def embedding_attention_decoder(decoder_inputs, initial_state,
                                attention_states, cell, num_symbols,
                                embedding_size, num_heads=1, output_size=None,
                                output_projection=None, feed_previous=False,
                                update_embedding_for_previous=True,
                                dtype=None, scope=None,
                                initial_state_attention=False):
    with tf.variable_scope(scope or "embedding_attention_decoder"):
        inputs, loop = _embedded(
            decoder_inputs, num_symbols, embedding_size, output_projection,
            feed_previous, update_embedding_for_previous)
        return attention_decoder(
            inputs, initial_state, attention_states, cell, output_size,
            num_heads, loop,
            initial_state_attention=initial_state_attention)


def _encoded(encoder_inputs, cell, num_symbols, embedding_size, dtype):
    """(outputs, last state)"""
    table = tf.get_variable("encoder_embedding",
                            [num_symbols, embedding_size])
    return tf.nn.static_rnn(
        _encoder(cell), [tf.nn.embedding_lookup(table, one)
                         for one in encoder_inputs], dtype=dtype)


def embedding_rnn_seq2seq(encoder_inputs, decoder_inputs, cell,
                          num_encoder_symbols, num_decoder_symbols,
                          embedding_size, output_projection=None,
                          feed_previous=False, dtype=tf.float32, scope=None):
    with tf.variable_scope(scope or "embedding_rnn_seq2seq"):
        _, state = _encoded(encoder_inputs, cell, num_encoder_symbols,
                            embedding_size, dtype)
        words = output_projection
        if words is None:
            words = (tf.get_variable("projection_weights", [
                cell.output_size, num_decoder_symbols]),
                tf.get_variable("projection_biases", [num_decoder_symbols]))
        outputs, state = embedding_rnn_decoder(
            decoder_inputs, state, cell, num_decoder_symbols, embedding_size,
            words, feed_previous)
        if output_projection is None:
            outputs = [tf.nn.xw_plus_b(one, *words) for one in outputs]
        return outputs, state


def embedding_attention_seq2seq(encoder_inputs, decoder_inputs, cell,
                                num_encoder_symbols, num_decoder_symbols,
                                embedding_size, num_heads=1,
                                output_projection=None, feed_previous=False,
                                dtype=tf.float32, scope=None,
                                initial_state_attention=False):
    with tf.variable_scope(scope or "embedding_attention_seq2seq"):
        outputs, state = _encoded(encoder_inputs, cell, num_encoder_symbols,
                                  embedding_size, dtype)
        return embedding_attention_decoder(
            decoder_inputs, state, tf.stack(outputs, 1), cell,
            num_decoder_symbols, embedding_size, num_heads,
            None if output_projection is not None else num_decoder_symbols,
            output_projection, feed_previous,
            initial_state_attention=initial_state_attention)


def model_with_buckets(encoder_inputs, decoder_inputs, targets, weights,
                       buckets, seq2seq, softmax_loss_function=None,
                       per_example_loss=False, name=None):
    """One model for several lengths, (encoder's, decoder's) each; outputs and
    loss of each."""
    outputs, losses = [], []
    loss = sequence_loss_by_example if per_example_loss else sequence_loss
    with tf.name_scope(name, "model_with_buckets"):
        for number, (sources, steps) in enumerate(buckets):
            with tf.variable_scope(tf.get_variable_scope(),
                                   reuse=True if number else None):
                found, _ = seq2seq(encoder_inputs[:sources],
                                   decoder_inputs[:steps])
            outputs.append(found)
            losses.append(loss(found, targets[:steps], weights[:steps],
                               softmax_loss_function=softmax_loss_function))
    return outputs, losses
