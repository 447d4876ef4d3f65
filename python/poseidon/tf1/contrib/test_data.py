"""tf.contrib.learn.python.learn.estimators.test_data: Iris as input."""
import numpy
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import datasets


def get_quantile_based_buckets(feature_values, num_buckets):
    quantiles = numpy.percentile(feature_values, [
        100.0 * (at + 1) / num_buckets for at in range(num_buckets - 1)])
    return sorted(set(quantiles))


def prepare_iris_data_for_logistic_regression():
    """The first two kinds of the three."""
    iris = datasets.load_iris()
    rows = iris.target < 2
    return datasets.Dataset(iris.data[rows], iris.target[rows])


def _tensors(iris):
    return ({"feature": tf.constant(iris.data, tf.float32)},
            tf.constant(iris.target, tf.int32, [len(iris.target)]))


def iris_input_multiclass_fn():
    return _tensors(datasets.load_iris())


def iris_input_logistic_fn():
    return _tensors(prepare_iris_data_for_logistic_regression())
