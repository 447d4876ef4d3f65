"""tf.contrib.losses (and slim.losses): predictions before labels, and the
collection of losses."""
import tensorflow.compat.v1 as tf

add_loss = tf.losses.add_loss
get_losses = tf.losses.get_losses
get_regularization_losses = tf.losses.get_regularization_losses
compute_weighted_loss = tf.losses.compute_weighted_loss


def get_total_loss(add_regularization_losses=True, name="total_loss"):
    losses = get_losses()
    if add_regularization_losses:
        losses = losses + get_regularization_losses()
    return tf.add_n(losses, name=name)


def softmax_cross_entropy(logits, onehot_labels, weights=1.0,
                          label_smoothing=0, scope=None, weight=None):
    return tf.losses.softmax_cross_entropy(
        onehot_labels, logits, weights if weight is None else weight,
        label_smoothing, scope)


def sparse_softmax_cross_entropy(logits, labels, weights=1.0, scope=None):
    return tf.losses.sparse_softmax_cross_entropy(labels, logits, weights,
                                                  scope)


def sigmoid_cross_entropy(logits, multi_class_labels, weights=1.0,
                          label_smoothing=0, scope=None):
    return tf.losses.sigmoid_cross_entropy(multi_class_labels, logits,
                                           weights, label_smoothing, scope)


def _swapped(function):
    def loss(predictions, labels=None, weights=1.0, scope=None, **words):
        return function(labels=labels, predictions=predictions,
                        weights=weights, scope=scope, **words)
    return loss


absolute_difference = _swapped(tf.losses.absolute_difference)
log_loss = _swapped(tf.losses.log_loss)
mean_squared_error = _swapped(tf.losses.mean_squared_error)
mean_pairwise_squared_error = _swapped(tf.losses.mean_pairwise_squared_error)
sum_of_squares = mean_squared_error


def hinge_loss(logits, labels=None, scope=None):
    return tf.losses.hinge_loss(labels, logits, scope=scope)


def cosine_distance(predictions, labels=None, axis=None, weights=1.0,
                    scope=None, dim=None):
    return tf.losses.cosine_distance(
        labels, predictions, axis if axis is not None else dim, weights,
        scope)
