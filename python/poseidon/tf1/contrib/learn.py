"""tf.contrib.learn: estimators, experiments, how to run them."""
import tensorflow.compat.v1 as tf

from poseidon.tf1.contrib import datasets  # noqa: F401
from poseidon.tf1.contrib import learn_runner  # noqa: F401
from poseidon.tf1.contrib import monitors  # noqa: F401
from poseidon.tf1.contrib import text as preprocessing  # noqa: F401
from poseidon.tf1.contrib.canned import (  # noqa: F401
    DNNClassifier, DNNLinearCombinedClassifier, DNNLinearCombinedRegressor,
    DNNRegressor, LinearClassifier, LinearRegressor, PredictionKey)
from poseidon.tf1.contrib.columns import infer_real_valued_columns
from poseidon.tf1.contrib.estimator import (  # noqa: F401
    BaseEstimator, Estimator)
from poseidon.tf1.contrib.experiment import Experiment  # noqa: F401
from poseidon.tf1.contrib.model_fn import (  # noqa: F401
    MetricSpec, ModeKeys, ModelFnOps)
from poseidon.tf1.contrib.monitors import hooks_of  # noqa: F401
from poseidon.tf1.contrib.run_config import (  # noqa: F401
    ClusterConfig, Environment, RunConfig, TaskType)

run = learn_runner.run
tune = learn_runner.tune


def infer_real_valued_columns_from_input_fn(input_fn):
    with tf.Graph().as_default():
        return infer_real_valued_columns(input_fn()[0])


def infer_real_valued_columns_from_input(x):
    import numpy
    with tf.Graph().as_default():
        if isinstance(x, dict):
            return infer_real_valued_columns({
                name: tf.constant(numpy.asarray(value)[:1])
                for name, value in x.items()})
        value = numpy.asarray(x)[:1]
        return infer_real_valued_columns(tf.constant(
            value.astype(numpy.float32) if value.dtype == numpy.float64
            else value))


class SKCompat:
    """The methods of scikit-learn: arrays in, arrays out."""

    def __init__(self, estimator):
        self._estimator = estimator

    def fit(self, x, y, batch_size=128, steps=None, max_steps=None,
            monitors=None):
        self._estimator.fit(x, y, batch_size=batch_size, steps=steps,
                            max_steps=max_steps, monitors=monitors)
        return self

    def score(self, x, y, batch_size=128, steps=None, metrics=None,
              name=None):
        return self._estimator.evaluate(
            x, y, batch_size=batch_size, steps=steps, metrics=metrics,
            name=name)

    def predict(self, x, batch_size=128, outputs=None):
        return self._estimator.predict(x, batch_size=batch_size,
                                       outputs=outputs, as_iterable=False)


def make_export_strategy(*_, **__):
    raise NotImplementedError(
        "tf.contrib.learn.make_export_strategy is not emulated: export with "
        "tf.saved_model after training")
