"""tf.contrib.slim: layers, arg_scope, losses, variables, prefetch_queue.
slim.learning and slim.evaluation are in slim_learning.py."""
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import losses, metrics  # noqa: F401
from poseidon.tf1.contrib import slim_learning as learning  # noqa: F401
from poseidon.tf1.contrib import slim_learning as evaluation  # noqa: F401
from poseidon.tf1.contrib import slim_learning as queues  # noqa: F401
from poseidon.tf1.contrib.framework import (  # noqa: F401
    add_arg_scope, add_model_variable, arg_scope, assign_from_checkpoint,
    assign_from_checkpoint_fn, assign_from_values_fn, create_global_step,
    current_arg_scope, filter_variables, get_global_step,
    get_local_variables, get_model_variables, get_or_create_global_step,
    get_trainable_variables, get_unique_variable, get_variables,
    get_variables_by_name, get_variables_by_suffix,
    get_variables_to_restore, global_variable, has_arg_scope,
    local_variable, model_variable, variable)
from poseidon.tf1.contrib.layers import (  # noqa: F401
    apply_regularization, avg_pool2d, batch_norm, bias_add, conv2d,
    conv2d_transpose, convolution2d, dropout, flatten, fully_connected,
    l1_l2_regularizer, l1_regularizer, l2_regularizer, layer_norm,
    max_pool2d, one_hot_encoding, repeat, separable_conv2d, softmax, stack,
    summarize_activation, summarize_activations, summarize_collection,
    summarize_tensor, summarize_tensors, unit_norm,
    variance_scaling_initializer, xavier_initializer)
from poseidon.tf1.contrib.metrics import (  # noqa: F401
    aggregate_metric_map, aggregate_metrics)

convolution = conv2d
convolution2d_transpose = conv2d_transpose
separable_convolution2d = separable_conv2d


class _Queue:
    """A queue of batches: what was given, by name or by place."""

    def __init__(self, tensors, capacity, name):
        self._names = sorted(tensors) if isinstance(tensors, dict) else None
        flat = [tensors[one] for one in self._names] if self._names \
            else list(tensors)
        flat = [tf.convert_to_tensor(one) for one in flat]
        self._queue = tf.FIFOQueue(capacity, [one.dtype for one in flat],
                                   [one.get_shape() for one in flat],
                                   name=name)
        self.name = self._queue.name
        self.enqueue_op = self._queue.enqueue(flat)

    def size(self):
        return self._queue.size()

    def dequeue(self, name=None):
        flat = self._queue.dequeue(name=name)
        flat = flat if isinstance(flat, list) else [flat]
        return dict(zip(self._names, flat)) if self._names else flat


class prefetch_queue:
    """Called: a queue of `capacity` batches that a thread keeps filled. Also
    the module of that name, whose function is prefetch_queue again."""

    def __new__(cls, tensors, capacity=8, num_threads=1, shared_name=None,
                name=None, dynamic_pad=False):
        with tf.name_scope(name, "prefetch_queue"):
            queue = _Queue(tensors, capacity, "prefetch")
            tf.train.add_queue_runner(tf.train.QueueRunner(
                queue._queue, [queue.enqueue_op] * num_threads))
            tf.summary.scalar(
                "fraction_of_%d_full" % capacity,
                tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
            return queue


prefetch_queue.prefetch_queue = prefetch_queue
