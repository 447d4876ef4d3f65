"""tf.contrib.metrics: streaming_X is X of tf.metrics, with its arguments in
the order of their time: predictions first."""
import tensorflow.compat.v1 as tf


def _streaming(name):
    function = getattr(tf.metrics, name)

    def metric(predictions, labels, weights=None, metrics_collections=None,
               updates_collections=None, name=None, **words):
        return function(labels=labels, predictions=predictions,
                        weights=weights,
                        metrics_collections=metrics_collections,
                        updates_collections=updates_collections, name=name,
                        **words)
    metric.__name__ = "streaming_" + name
    return metric


streaming_accuracy = _streaming("accuracy")
streaming_auc = _streaming("auc")
streaming_precision = _streaming("precision")
streaming_recall = _streaming("recall")
streaming_mean_absolute_error = _streaming("mean_absolute_error")
streaming_mean_squared_error = _streaming("mean_squared_error")
streaming_root_mean_squared_error = _streaming("root_mean_squared_error")
streaming_true_positives = _streaming("true_positives")
streaming_false_positives = _streaming("false_positives")
streaming_true_negatives = _streaming("true_negatives")
streaming_false_negatives = _streaming("false_negatives")
streaming_mean = tf.metrics.mean
streaming_mean_tensor = tf.metrics.mean_tensor
streaming_percentage_less = tf.metrics.percentage_below


def streaming_mean_iou(predictions, labels, num_classes, weights=None,
                       metrics_collections=None, updates_collections=None,
                       name=None):
    return tf.metrics.mean_iou(labels, predictions, num_classes, weights,
                               metrics_collections, updates_collections,
                               name)


def streaming_recall_at_k(predictions, labels, k, weights=None,
                          metrics_collections=None, updates_collections=None,
                          name=None):
    hit = tf.cast(tf.nn.in_top_k(predictions, labels, k), tf.float32)
    return tf.metrics.mean(hit, weights, metrics_collections,
                           updates_collections, name or "recall_at_%d" % k)


def streaming_sparse_recall_at_k(predictions, labels, k, **words):
    return tf.metrics.recall_at_k(labels, predictions, k, **words)


def streaming_sparse_precision_at_k(predictions, labels, k, **words):
    return tf.metrics.precision_at_k(labels, predictions, k, **words)


def accuracy(predictions, labels, weights=None, name=None):
    right = tf.cast(tf.equal(predictions, labels), tf.float32)
    if weights is None:
        return tf.reduce_mean(right, name=name)
    weights = tf.cast(weights, tf.float32)
    return tf.divide(tf.reduce_sum(right * weights), tf.reduce_sum(weights),
                     name=name)


def confusion_matrix(predictions, labels, num_classes=None, dtype=tf.int32,
                     name=None, weights=None):
    return tf.confusion_matrix(labels, predictions, num_classes, dtype, name,
                               weights)


def set_size(a, validate_indices=True):
    return tf.sets.size(a, validate_indices)


set_intersection = tf.sets.intersection
set_difference = tf.sets.difference
set_union = tf.sets.union


def aggregate_metrics(*pairs):
    return tuple(list(one) for one in zip(*pairs))


def aggregate_metric_map(names_to_tuples):
    return ({name: one[0] for name, one in names_to_tuples.items()},
            {name: one[1] for name, one in names_to_tuples.items()})
