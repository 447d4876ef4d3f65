"""What a model function of tf.contrib.learn gets and gives."""
import collections
import inspect


class ModeKeys:
    TRAIN, EVAL, INFER = "train", "eval", "infer"

    @classmethod
    def validate(cls, key):
        if key not in (cls.TRAIN, cls.EVAL, cls.INFER):
            raise ValueError("no mode is named %r" % (key,))


_FIELDS = ("predictions loss train_op eval_metric_ops output_alternatives "
           "training_chief_hooks training_hooks scaffold mode")


class ModelFnOps(collections.namedtuple("ModelFnOps", _FIELDS)):
    def __new__(cls, mode, predictions=None, loss=None, train_op=None,
                eval_metric_ops=None, output_alternatives=None,
                training_chief_hooks=None, training_hooks=None,
                scaffold=None):
        ModeKeys.validate(mode)
        if mode == ModeKeys.TRAIN and train_op is None:
            raise ValueError("the model function gives no train_op")
        if mode in (ModeKeys.TRAIN, ModeKeys.EVAL) and loss is None:
            raise ValueError("the model function gives no loss")
        return super().__new__(
            cls, predictions, loss, train_op, eval_metric_ops or {},
            output_alternatives, tuple(training_chief_hooks or ()),
            tuple(training_hooks or ()), scaffold, mode)


def call(function, features, labels, mode, params, config, model_dir):
    """Call it with those of params, config, model_dir that it takes; what
    comes back is a ModelFnOps, an EstimatorSpec or a triple."""
    names = inspect.signature(function).parameters
    words = {}
    for name, value in (("mode", mode), ("params", params),
                        ("config", config), ("model_dir", model_dir)):
        if name in names:
            words[name] = value
    result = function(features, labels, **words)
    if isinstance(result, ModelFnOps):
        return result
    if isinstance(result, tuple) and len(result) == 3 and not hasattr(
            result, "_fields"):
        predictions, loss, train_op = result
        return ModelFnOps(mode, predictions, loss, train_op)
    if hasattr(result, "predictions"):  # an EstimatorSpec
        return ModelFnOps(
            mode, result.predictions, result.loss, result.train_op,
            getattr(result, "eval_metric_ops", None), None,
            getattr(result, "training_chief_hooks", None),
            getattr(result, "training_hooks", None),
            getattr(result, "scaffold", None))
    raise ValueError("the model function must give ModelFnOps or "
                     "(predictions, loss, train_op), not %s"
                     % type(result).__name__)


class MetricSpec:
    """A metric, and which prediction and label it is of."""

    def __init__(self, metric_fn, prediction_key=None, label_key=None,
                 weight_key=None):
        self.metric_fn = metric_fn
        self.prediction_key = prediction_key
        self.label_key = label_key
        self.weight_key = weight_key

    def create_metric_ops(self, inputs, labels, predictions):
        words = {}
        if self.weight_key is not None:
            words["weights"] = inputs[self.weight_key]
        value = _chosen(predictions, self.prediction_key, "prediction_key")
        label = _chosen(labels, self.label_key, "label_key")
        names = inspect.signature(self.metric_fn).parameters
        if "predictions" in names and "labels" in names:
            return self.metric_fn(predictions=value, labels=label, **words)
        return self.metric_fn(value, label, **words)


def _chosen(values, key, name):
    if not isinstance(values, dict):
        return values
    if key is None and len(values) == 1:
        return next(iter(values.values()))
    if key not in values:
        raise ValueError("MetricSpec: %s is %r; there are %s"
                         % (name, key, ", ".join(sorted(values))))
    return values[key]
